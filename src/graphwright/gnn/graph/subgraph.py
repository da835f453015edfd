"""Parts of a graph with their features: by nodes, by edges, by the edges into or out of nodes.

Nodes and edges of a part are numbered anew; the ids that they had are kept as `dgl.NID` and
`dgl.EID` unless `store_ids` is False. Features are taken when they are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.graph.base import EID, NID
from graphwright.gnn.graph.graph import DGLGraph
from graphwright.gnn.storage import DGLError, Frame, Relation


def node_subgraph(
    graph: DGLGraph,
    nodes: Any,
    *,
    relabel_nodes: bool = True,
    store_ids: bool = True,
    output_device: Any = None,
) -> DGLGraph:
    """The given nodes, in the order given, and the edges between them.

    `nodes` are ids or a mask; a dictionary by node type where there are several.
    """
    if graph.is_block:
        raise DGLError("node_subgraph is not for blocks; take a part of the graph it was made of")
    chosen = _by_place(graph, nodes)
    numbers = [_numbering(ids, frame.num_rows) for ids, frame in _zip(graph, chosen)]
    relations, edges = [], []
    for at, (src_place, dst_place) in enumerate(graph.meta.ends):
        src, dst = graph._relations[at].coo
        new_src, new_dst = numbers[src_place][src.long()], numbers[dst_place][dst.long()]
        kept = ((new_src >= 0) & (new_dst >= 0)).nonzero().reshape(-1)
        ends = (new_src, new_dst) if relabel_nodes else (src, dst)
        counts = chosen if relabel_nodes else [range(f.num_rows) for f in graph._node_frames]
        relations.append(
            Relation(
                num_src=len(counts[src_place]),
                num_dst=len(counts[dst_place]),
                made_coo=(ends[0][kept], ends[1][kept]),
            )
        )
        edges.append(kept.to(graph.idtype))
    part = _part(graph, relations, chosen if relabel_nodes else None, edges, store_ids)
    return part if output_device is None else part.to(output_device)


subgraph = node_subgraph


def edge_subgraph(
    graph: DGLGraph,
    edges: Any,
    *,
    relabel_nodes: bool = True,
    store_ids: bool = True,
    output_device: Any = None,
) -> DGLGraph:
    """The given edges and the nodes at their ends; without relabelling, all nodes."""
    by_type = edges if isinstance(edges, Mapping) else {None: edges}
    chosen: list[Tensor] = [
        torch.empty(0, dtype=graph.idtype, device=graph.device) for _ in graph.meta.etypes
    ]
    for etype, ids in by_type.items():
        chosen[graph.meta.edge(etype)] = graph.edge_id_tensor(ids, etype)
    relations = [r.take_edges(ids) for r, ids in zip(graph._relations, chosen, strict=True)]
    nodes = None
    if relabel_nodes:
        relations, nodes = compact(graph, relations)
    part = _part(graph, relations, nodes, chosen, store_ids)
    return part if output_device is None else part.to(output_device)


def in_subgraph(
    graph: DGLGraph,
    nodes: Any,
    *,
    relabel_nodes: bool = False,
    store_ids: bool = True,
    output_device: Any = None,
) -> DGLGraph:
    """All nodes, and the edges into the given ones."""
    return _at_nodes(graph, nodes, 1, relabel_nodes, store_ids, output_device)


def out_subgraph(
    graph: DGLGraph,
    nodes: Any,
    *,
    relabel_nodes: bool = False,
    store_ids: bool = True,
    output_device: Any = None,
) -> DGLGraph:
    """All nodes, and the edges out of the given ones."""
    return _at_nodes(graph, nodes, 0, relabel_nodes, store_ids, output_device)


def edge_type_subgraph(graph: DGLGraph, etypes: Any, output_device: Any = None) -> DGLGraph:
    """The edges of some types, and the node types at their ends, with all their nodes."""
    places = [graph.meta.edge(etype) for etype in etypes]
    kept = [graph.meta.etypes[at] for at in sorted(set(places))]
    names = {end for src, _, dst in kept for end in (src, dst)}
    return _of_types(graph, [n for n in graph.meta.ntypes if n in names], kept, output_device)


def node_type_subgraph(graph: DGLGraph, ntypes: Any, output_device: Any = None) -> DGLGraph:
    """The nodes of some types, and the edge types between them."""
    names = [graph.meta.ntypes[graph.meta.node("any", ntype)] for ntype in ntypes]
    kept = [e for e in graph.meta.etypes if e[0] in names and e[2] in names]
    return _of_types(graph, [n for n in graph.meta.ntypes if n in names], kept, output_device)


def compact(graph: DGLGraph, relations: list[Relation]) -> tuple[list[Relation], list[Tensor]]:
    """The relations between the nodes that have edges, and these nodes of each type."""
    touched: list[list[Tensor]] = [[] for _ in graph.meta.ntypes]
    for (src_place, dst_place), relation in zip(graph.meta.ends, relations, strict=True):
        touched[src_place].append(relation.coo[0])
        touched[dst_place].append(relation.coo[1])
    empty = torch.empty(0, dtype=graph.idtype, device=graph.device)
    nodes = [torch.unique(torch.cat([empty, *ids])) for ids in touched]
    numbers = [_numbering(ids, frame.num_rows) for ids, frame in _zip(graph, nodes)]
    made = [
        Relation(
            num_src=len(nodes[src_place]),
            num_dst=len(nodes[dst_place]),
            made_coo=(
                numbers[src_place][relation.coo[0].long()],
                numbers[dst_place][relation.coo[1].long()],
            ),
        )
        for (src_place, dst_place), relation in zip(graph.meta.ends, relations, strict=True)
    ]
    return made, nodes


def _at_nodes(
    graph: DGLGraph, nodes: Any, end: int, relabel: bool, store_ids: bool, device: Any
) -> DGLGraph:
    chosen = _by_place(graph, nodes)
    edges = {}
    for at, etype in enumerate(graph.meta.etypes):
        ids = chosen[graph.meta.ends[at][end]]
        edges[etype] = (graph.in_edges if end else graph.out_edges)(ids, "eid", etype)
    return edge_subgraph(
        graph, edges, relabel_nodes=relabel, store_ids=store_ids, output_device=device
    )


def _part(
    graph: DGLGraph, relations: list[Relation], nodes: list[Tensor] | None, edges: list[Tensor],
    store_ids: bool,
) -> DGLGraph:  # fmt: skip
    node_frames = [frame.copy() for frame in graph._node_frames]
    if nodes is not None:
        node_frames = [frame.select(ids) for ids, frame in _zip(graph, nodes)]
        _store(node_frames, nodes, NID, store_ids)
    edge_frames = [f.select(ids) for f, ids in zip(graph._edge_frames, edges, strict=True)]
    _store(edge_frames, edges, EID, store_ids)
    return graph.with_parts(relations, node_frames, edge_frames)


def _store(frames: list[Frame], ids: list[Tensor], name: str, store: bool) -> None:
    for frame, numbers in zip(frames, ids, strict=True):
        if store:
            frame[name] = numbers


def _of_types(graph: DGLGraph, ntypes: list[str], etypes: list[Any], device: Any) -> DGLGraph:
    from graphwright.gnn.storage import Metagraph

    if not etypes:
        raise DGLError(f"no edge types are left between node types {ntypes}")
    part = graph.with_parts(
        [graph.relation(etype) for etype in etypes],
        [graph.node_frame(ntype).copy() for ntype in ntypes],
        [graph.edge_frame(etype).copy() for etype in etypes],
        Metagraph(tuple(ntypes), tuple(etypes)),
    )
    return part if device is None else part.to(device)


def _by_place(graph: DGLGraph, nodes: Any) -> list[Tensor]:
    """The nodes given of each node type."""
    by_type = nodes if isinstance(nodes, Mapping) else {None: nodes}
    empty = torch.empty(0, dtype=graph.idtype, device=graph.device)
    chosen = [empty for _ in graph.meta.ntypes]
    for ntype, ids in by_type.items():
        chosen[graph.meta.node("any", ntype)] = graph.node_ids(ids, ntype)
    return chosen


def _numbering(ids: Tensor, count: int) -> Tensor:
    """The new number of each old id, -1 for those that are left out."""
    numbers = torch.full((count,), -1, dtype=ids.dtype, device=ids.device)
    numbers[ids.long()] = torch.arange(len(ids), dtype=ids.dtype, device=ids.device)
    return numbers


def _zip(graph: DGLGraph, per_type: list[Tensor]) -> Any:
    return zip(per_type, graph._node_frames, strict=True)
