"""Types as features and back: `to_homogeneous` and `to_heterogeneous`.

A homogeneous graph numbers the nodes of all types one type after another, and edges likewise;
`dgl.NTYPE` and `dgl.ETYPE` are the numbers of types, `dgl.NID` and `dgl.EID` the ids within them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.graph import EID, ETYPE, NID, NTYPE, DGLGraph
from graphwright.gnn.storage import DGLError, EdgeType, FeatureMismatch, Frame, Metagraph, Relation
from graphwright.gnn.transforms.parts import count_up, ids_where, require_homogeneous


def to_homogeneous(
    G: DGLGraph,  # noqa: N803
    ndata: Sequence[str] | None = None,
    edata: Sequence[str] | None = None,
    store_type: bool = True,
    return_count: bool = False,
) -> Any:
    """The graph with one type of nodes and edges; `ndata` and `edata` name features to keep.

    With `return_count` also the number of nodes of each type, and of edges.
    """
    g = G
    counts = [frame.num_rows for frame in g._node_frames]
    starts = [sum(counts[:at]) for at in range(len(counts))]
    ends = [
        (relation.coo[0] + starts[src], relation.coo[1] + starts[dst])
        for relation, (src, dst) in zip(g._relations, g.meta.ends, strict=True)
    ]
    relation = Relation(
        num_src=sum(counts),
        num_dst=sum(counts),
        made_coo=(torch.cat([src for src, _ in ends]), torch.cat([dst for _, dst in ends])),
    )
    nodes = _joined(g._node_frames, ndata or (), g.meta.ntypes, "node")
    edges = _joined(g._edge_frames, edata or (), g.meta.etypes, "edge")
    edge_counts = [len(src) for src, _ in ends]
    for frame, sizes, kind, number in (
        (nodes, counts, NTYPE, NID),
        (edges, edge_counts, ETYPE, EID),
    ):
        if store_type:
            types = count_up(g, len(sizes))
            frame[kind] = torch.repeat_interleave(types, torch.tensor(sizes, device=g.device))
        frame[number] = torch.cat([count_up(g, size) for size in sizes])
    made = DGLGraph(Metagraph(("_N",), (("_N", "_E", "_N"),)), [relation], [nodes], [edges])
    return (made, counts, edge_counts) if return_count else made


def _joined(frames: Sequence[Frame], names: Sequence[str], kinds: Any, what: str) -> Frame:
    made = Frame(sum(frame.num_rows for frame in frames), what=what)
    for name in names:
        parts = [frame[name] for frame in frames]
        for kind, part in zip(kinds, parts, strict=True):
            if part.shape[1:] != parts[0].shape[1:] or part.dtype != parts[0].dtype:
                raise FeatureMismatch(
                    f"cannot concatenate {what} feature '{name}': rows of {kinds[0]} are "
                    f"{tuple(parts[0].shape[1:])} of {parts[0].dtype}, rows of {kind} are "
                    f"{tuple(part.shape[1:])} of {part.dtype}."
                )
        made[name] = torch.cat(parts)
    return made


def to_heterogeneous(
    G: DGLGraph,  # noqa: N803
    ntypes: Sequence[str],
    etypes: Sequence[Any],
    ntype_field: str = NTYPE,
    etype_field: str = ETYPE,
    metagraph: Any = None,
) -> DGLGraph:
    """The typed graph of a homogeneous one whose features have the number of each one's type.

    Each (source type, edge type, destination type) that occurs is an edge type, or each of
    `metagraph`, or of `etypes` where they are triplets. Nodes and edges keep their order within a
    type, and have their old ids as `dgl.NID` and `dgl.EID`.
    """
    require_homogeneous(G, "to_heterogeneous")
    kind_of_node, kind_of_edge = G.ndata[ntype_field].long(), G.edata[etype_field].long()
    for kinds, names, what in ((kind_of_node, ntypes, "node"), (kind_of_edge, etypes, "edge")):
        if len(kinds) and not 0 <= int(kinds.min()) <= int(kinds.max()) < len(names):
            raise DGLError(
                f"{what} types go from 0 to {len(names) - 1}, but there is {int(kinds.max())}."
            )
    members = [ids_where(G, kind_of_node == kind) for kind in range(len(ntypes))]
    number = torch.zeros_like(G.nodes())
    for ids in members:
        number[ids.long()] = count_up(G, len(ids))
    src, dst = G.relation().coo
    triples = torch.stack([kind_of_node[src.long()], kind_of_edge, kind_of_node[dst.long()]])
    found: list[tuple[EdgeType, Tensor]] = []
    for triple, name in _triples(triples, ntypes, etypes, metagraph):
        ids = ids_where(G, (triples == triples.new_tensor(triple)[:, None]).all(0))
        found.append((name, ids))
    if sum(len(ids) for _, ids in found) < len(src):
        raise DGLError("some edges join node types that no edge type of the metagraph joins")
    found.sort(key=lambda entry: entry[0])
    meta = Metagraph(tuple(ntypes), tuple(name for name, _ in found))
    frames = [_taken(G.node_frame(), ids, ntype_field, NID) for ids in members]
    relations = [
        Relation(
            num_src=len(members[a]),
            num_dst=len(members[b]),
            made_coo=(number[src[ids.long()].long()], number[dst[ids.long()].long()]),
        )
        for (a, b), (_, ids) in zip(meta.ends, found, strict=True)
    ]
    edge_frames = [_taken(G.edge_frame(), ids, etype_field, EID) for _, ids in found]
    return DGLGraph(meta, relations, frames, edge_frames)


def _triples(
    triples: Tensor, ntypes: Sequence[str], etypes: Sequence[Any], metagraph: Any
) -> list[tuple[tuple[int, int, int], EdgeType]]:
    """The edge types of the result, as numbers and as names."""
    place = {name: at for at, name in enumerate(ntypes)}
    if all(isinstance(etype, tuple) for etype in etypes):
        return [((place[s], at, place[d]), (s, e, d)) for at, (s, e, d) in enumerate(etypes)]
    if metagraph is not None:
        named = {name: at for at, name in enumerate(etypes)}
        edges = list(metagraph.edges(keys=True))
        return [((place[s], named[e], place[d]), (s, e, d)) for s, d, e in edges]
    seen = torch.unique(triples, dim=1).T.tolist()
    return [((s, e, d), (ntypes[s], etypes[e], ntypes[d])) for s, e, d in seen]


def _taken(frame: Frame, ids: Tensor, kind: str, number: str) -> Frame:
    made = frame.select(ids)
    made.columns.pop(kind, None)
    made[number] = ids
    return made
