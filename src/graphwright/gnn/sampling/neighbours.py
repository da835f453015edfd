"""Some edges of some nodes: drawn at random (`sample_neighbors`), or the heaviest (`select_topk`).

The result has all nodes and only the chosen edges, whose old ids are `dgl.EID`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphwright.gnn.graph import EID, DGLGraph, row_entries
from graphwright.gnn.sampling.generator import next_seed
from graphwright.gnn.sampling.rows import choose_entries
from graphwright.gnn.storage import Compressed, DGLError, EdgeType, FeatureMismatch, Frame, Relation
from graphwright.gnn.transforms import nodes_by_type

_NOTHING = np.empty(0, np.int64)


def sample_neighbors(
    g: DGLGraph,
    nodes: Any,
    fanout: Any,
    edge_dir: str = "in",
    prob: str | None = None,
    replace: bool = False,
    copy_ndata: bool = True,
    copy_edata: bool = True,
    exclude_edges: Any = None,
    output_device: Any = None,
) -> DGLGraph:
    """At most `fanout` edges into (or out of) each node, drawn evenly or by an edge feature `prob`.

    A fan-out of -1 takes all edges with a positive weight; a dictionary gives one for each edge
    type. Without `replace` a node with fewer edges keeps them all. Edge types without the feature
    are drawn from evenly; a feature of truth values is a mask. `exclude_edges` are never drawn.
    """
    fanouts = _by_edge_type(g, fanout, "Fan-out")
    banned = _excluded(g, exclude_edges)

    def choose(etype: EdgeType, form: Compressed, rows: Tensor) -> tuple[Tensor, Tensor]:
        chosen = choose_entries(
            form.indptr.numpy(),
            _NOTHING if form.edge_ids is None else form.edge_ids.numpy(),
            rows.numpy(),
            fanouts[etype],
            replace,
            edge_weights(g, prob, etype),
            banned.get(etype, _NOTHING),
            next_seed(),
        )
        if chosen is None:
            raise DGLError(f"'{prob}' of {etype} has weights that are negative or not finite.")
        entries, counts = map(torch.from_numpy, chosen)
        return entries, torch.repeat_interleave(torch.arange(len(rows)), counts)

    made = _choose_edges(g, nodes, edge_dir, choose, copy_ndata, copy_edata)
    return made if output_device is None else made.to(output_device)


def select_topk(
    g: DGLGraph,
    k: Any,
    weight: str,
    nodes: Any = None,
    edge_dir: str = "in",
    ascending: bool = False,
    copy_ndata: bool = True,
    copy_edata: bool = True,
    output_device: Any = None,
) -> DGLGraph:
    """The k edges of largest weight into (or out of) each node, or of smallest if `ascending`."""
    counts = _by_edge_type(g, k, "K")
    if nodes is None:
        nodes = {ntype: g.nodes(ntype) for ntype in g.ntypes}

    def choose(etype: EdgeType, form: Compressed, rows: Tensor) -> tuple[Tensor, Tensor]:
        entries, place = row_entries(form.indptr, rows)
        values = g.edge_frame(etype)[weight].reshape(-1).cpu()
        if len(values) != g.num_edges(etype):
            raise FeatureMismatch(
                f"weight '{weight}' of {etype} has to be one number for each edge"
            )
        order = torch.argsort(
            values[form.numbered()[entries].long()], descending=not ascending, stable=True
        )
        order = order[torch.argsort(place[order], stable=True)]
        entries, place = entries[order], place[order]
        if counts[etype] < 0:
            return entries, place
        starts = torch.searchsorted(place, torch.arange(len(rows)))
        rank = torch.arange(len(place)) - starts[place]
        kept = rank < counts[etype]
        return entries[kept], place[kept]

    made = _choose_edges(g, nodes, edge_dir, choose, copy_ndata, copy_edata)
    return made if output_device is None else made.to(output_device)


def _choose_edges(
    g: DGLGraph,
    nodes: Any,
    edge_dir: str,
    choose: Callable[[EdgeType, Compressed, Tensor], tuple[Tensor, Tensor]],
    copy_ndata: bool,
    copy_edata: bool,
) -> DGLGraph:
    """A graph of the edges that `choose` finds in the rows of the nodes given, type by type.

    It returns entries of the rows, and the place of each one's row.
    """
    if g.is_block:
        raise DGLError(
            "Sampling from a block is not allowed; sample from the graph it was made of."
        )
    if edge_dir not in ("in", "out"):
        raise DGLError(f'edge_dir has to be "in" or "out". Got {edge_dir!r}.')
    wanted = nodes_by_type(g, nodes)
    relations, frames = [], []
    for etype in g.canonical_etypes:
        relation = g.relation(etype)
        rows = wanted.get(etype[2] if edge_dir == "in" else etype[0])
        if rows is None or len(rows) == 0:
            edges = others = own = relation.any_ids[:0]
        else:
            form = (relation.csc if edge_dir == "in" else relation.csr).convert(device="cpu")
            entries, place = choose(etype, form, rows.cpu())
            edges = entries.to(g.idtype) if form.edge_ids is None else form.edge_ids[entries]
            others, own = form.indices[entries], rows.cpu()[place]
        src, dst = (others, own) if edge_dir == "in" else (own, others)
        ends = src.to(g.device), dst.to(g.device)
        relations.append(
            Relation(num_src=relation.num_src, num_dst=relation.num_dst, made_coo=ends)
        )
        edges = edges.to(g.device)
        old = g.edge_frame(etype)
        frames.append(old.select(edges) if copy_edata else Frame(len(edges), what="edge"))
        frames[-1][EID] = edges
    bare = None if copy_ndata else [Frame(g.num_nodes(ntype)) for ntype in g.ntypes]
    return DGLGraph(
        g.meta,
        relations,
        [frame.copy() for frame in g._node_frames] if bare is None else bare,
        frames,
    )


def _by_edge_type(g: DGLGraph, given: Any, what: str) -> dict[EdgeType, int]:
    if not isinstance(given, Mapping):
        return dict.fromkeys(g.canonical_etypes, int(given))
    made = {g.to_canonical_etype(etype): int(count) for etype, count in given.items()}
    missing = [etype for etype in g.canonical_etypes if etype not in made]
    if missing:
        raise DGLError(
            f"{what} must be specified for each edge type if a dict is provided: {missing} missing."
        )
    return made


def _excluded(g: DGLGraph, given: Any) -> dict[EdgeType, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        given = {g.meta.etypes[g.meta.edge(None)]: given}
    made = {}
    for etype, edges in given.items():
        ids = g.edge_id_tensor(edges, etype, "exclude_edges")
        made[g.to_canonical_etype(etype)] = ids.cpu().sort()[0].long().numpy()
    return made


def edge_weights(g: DGLGraph, prob: str | None, etype: EdgeType) -> Any:
    """The weights by which edges of a type are drawn; an empty array where all are the same."""
    frame = g.edge_frame(etype)
    if prob is None or prob not in frame:
        return np.empty(0, np.float32)
    values = frame[prob]
    if values.dim() > 1 and values.shape[1:].numel() != 1:
        raise FeatureMismatch(
            f"'{prob}' of {etype} has to be one number for each edge. Got rows of shape "
            f"{tuple(values.shape[1:])}."
        )
    weights = values.detach().reshape(-1).cpu().contiguous()
    if weights.dtype == torch.bool:
        return weights.numpy().view(np.uint8)
    return (
        weights if weights.dtype in (torch.float32, torch.float64) else weights.double()
    ).numpy()
