"""Graphs of fewer nodes: `to_block` for one step of message passing, `compact_graphs` for several.

A block has the edges into some destinations. Its sources begin with those very destinations, then
come the other sources, in the order in which edges name them; `dgl.NID` and `dgl.EID` lead back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.graph import EID, NID, DGLBlock, DGLGraph
from graphwright.gnn.storage import (
    DGLError,
    Frame,
    InvalidIds,
    Metagraph,
    Relation,
    number_in_order,
)
from graphwright.gnn.transforms.parts import count_up, nodes_by_type


def to_block(
    g: DGLGraph,
    dst_nodes: Any = None,
    include_dst_in_src: bool = True,
    src_nodes: Any = None,
) -> DGLBlock:
    """The edges of a graph as a block whose destinations are `dst_nodes`, by default all there are.

    Every node that an edge leads to has to be one of them. Features come along.
    """
    if dst_nodes is None:
        dst_nodes = _all_destinations(g)
    destinations = {ntype: torch.empty_like(count_up(g, 0)) for ntype in g.ntypes}
    destinations |= nodes_by_type(g, dst_nodes, "dst_nodes")
    first = nodes_by_type(g, src_nodes, "src_nodes") if src_nodes is not None else {}
    sources, src_number = _number_sources(g, destinations if include_dst_in_src else {}, first)
    dst_number = {ntype: _number_destinations(g, ntype, ids) for ntype, ids in destinations.items()}
    relations = [
        Relation(
            num_src=len(sources[src]),
            num_dst=len(destinations[dst]),
            made_coo=(src_number[(src, e, dst)], dst_number[dst][(src, e, dst)]),
        )
        for src, e, dst in g.canonical_etypes
    ]
    frames = [_taken(g.node_frame(ntype), sources[ntype], NID) for ntype in g.ntypes]
    frames += [_taken(g.node_frame(ntype), destinations[ntype], NID) for ntype in g.ntypes]
    edges = []
    for etype in g.canonical_etypes:
        frame = g.edge_frame(etype).copy()
        frame[EID] = count_up(g, frame.num_rows)
        edges.append(frame)
    meta = Metagraph((*g.meta.ntypes, *g.meta.ntypes), g.meta.etypes, len(g.meta.ntypes))
    return DGLBlock(meta, relations, frames, edges)


def _all_destinations(g: DGLGraph) -> dict[str, Tensor]:
    """The nodes of each type that have an edge into them, in ascending order."""
    found: dict[str, Tensor] = {}
    for etype in g.canonical_etypes:
        ends = g.relation(etype).coo[1]
        found[etype[2]] = torch.cat([found[etype[2]], ends]) if etype[2] in found else ends
    return {ntype: torch.unique(ids) for ntype, ids in found.items()}


def _number_sources(
    g: DGLGraph, destinations: dict[str, Tensor], first: dict[str, Tensor]
) -> tuple[dict[str, Tensor], dict[Any, Tensor]]:
    """The sources of each type, and for each edge type the number of each edge's source."""
    sources, number = {}, dict[Any, Tensor]()
    for ntype in g.ntypes:
        etypes = [etype for etype in g.canonical_etypes if etype[0] == ntype]
        parts = [g.relation(etype).coo[0] for etype in etypes]
        leading = [given[ntype] for given in (destinations, first) if ntype in given]
        none = count_up(g, 0)
        sources[ntype], numbers = number_in_order(torch.cat([none, *leading, *parts]))
        kept = numbers[sum(map(len, leading)) :]
        number |= dict(zip(etypes, torch.split(kept, list(map(len, parts))), strict=True))
    return sources, number


def _number_destinations(g: DGLGraph, ntype: str, ids: Tensor) -> dict[Any, Tensor]:
    """For each edge type into a node type, the place of each edge's destination among `ids`."""
    etypes = [etype for etype in g.canonical_etypes if etype[2] == ntype]
    parts = [g.relation(etype).coo[1] for etype in etypes]
    distinct, numbers = number_in_order(torch.cat([ids, *parts]))
    if len(distinct) > len(ids):
        raise DGLError(
            f"dst_nodes has to include every node that an edge leads to, but node "
            f"{int(distinct[len(ids)])} of type '{ntype}' is missing."
        )
    if len(torch.unique(ids)) < len(ids):
        raise InvalidIds(f"dst_nodes has nodes of type '{ntype}' several times; give each once.")
    split = torch.split(numbers[len(ids) :], list(map(len, parts)))
    return dict(zip(etypes, split, strict=True))


def block_to_graph(block: DGLBlock) -> DGLGraph:
    """A block as a graph of its own: node type `x` becomes `x_src` and `x_dst`."""
    src, dst = ([f"{ntype}_{side}" for ntype in types] for side, types in
                (("src", block.srctypes), ("dst", block.dsttypes)))  # fmt: skip
    etypes = tuple((f"{s}_src", name, f"{d}_dst") for s, name, d in block.canonical_etypes)
    return DGLGraph(
        Metagraph((*src, *dst), etypes),
        block._relations,
        [frame.copy() for frame in block._node_frames],
        [frame.copy() for frame in block._edge_frames],
    )


def compact_graphs(
    graphs: Any, always_preserve: Any = None, copy_ndata: bool = True, copy_edata: bool = True
) -> Any:
    """Graphs of the same nodes without those that have no edge in any of them.

    Nodes are numbered anew in the order in which `always_preserve` and the edges name them.
    """
    single = isinstance(graphs, DGLGraph)
    listed: Sequence[DGLGraph] = [graphs] if single else list(graphs)
    if not listed:
        return []
    lead = listed[0]
    for other in listed:
        counts = [frame.num_rows for frame in other._node_frames]
        if other.ntypes != lead.ntypes or counts != [f.num_rows for f in lead._node_frames]:
            raise DGLError("all graphs should have the same node types and numbers of nodes")
    kept = (
        nodes_by_type(lead, always_preserve, "always_preserve")
        if always_preserve is not None
        else {}
    )
    made: list[dict[Any, tuple[Tensor, Tensor]]] = [{} for _ in listed]
    nodes = {}
    for ntype in lead.ntypes:
        parts, owners = [kept.get(ntype, count_up(lead, 0))], []
        for at, other in enumerate(listed):
            for etype in other.canonical_etypes:
                for side, end in ((0, etype[0]), (1, etype[2])):
                    if end == ntype:
                        parts.append(other.relation(etype).coo[side])
                        owners.append((at, etype, side))
        nodes[ntype], numbers = number_in_order(torch.cat(parts))
        split = torch.split(numbers, list(map(len, parts)))[1:]
        for (at, etype, side), ends in zip(owners, split, strict=True):
            pair = list(made[at].get(etype, (ends, ends)))
            pair[side] = ends
            made[at][etype] = (pair[0], pair[1])
    results = [
        _compacted(other, nodes, ends, copy_ndata, copy_edata)
        for other, ends in zip(listed, made, strict=True)
    ]
    return results[0] if single else results


def _compacted(
    g: DGLGraph, nodes: dict[str, Tensor], ends: Any, copy_ndata: bool, copy_edata: bool
) -> DGLGraph:
    node_frames = []
    for ntype in g.ntypes:
        old = g.node_frame(ntype) if copy_ndata else Frame(g.num_nodes(ntype))
        node_frames.append(_taken(old, nodes[ntype], NID))
    edge_frames = []
    for etype in g.canonical_etypes:
        frame = g.edge_frame(etype).copy() if copy_edata else Frame(g.num_edges(etype), what="edge")
        if EID not in frame:
            frame[EID] = count_up(g, frame.num_rows)
        edge_frames.append(frame)
    relations = [
        Relation(num_src=len(nodes[src]), num_dst=len(nodes[dst]), made_coo=ends[(src, e, dst)])
        for src, e, dst in g.canonical_etypes
    ]
    return g.with_parts(relations=relations, node_frames=node_frames, edge_frames=edge_frames)


def _taken(frame: Frame, ids: Tensor, number: str) -> Frame:
    made = frame.select(ids)
    made[number] = ids
    return made
