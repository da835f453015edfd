"""Many small graphs as one large one, and back: numbers of nodes and edges are shifted.

A batched graph is a graph like any other, in which no edge leads from one of its graphs to another,
and which knows how many nodes and edges each has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.graph.base import ALL, EID, NID
from graphwright.gnn.graph.graph import DGLGraph
from graphwright.gnn.storage import Column, DGLError, Frame, Relation

Counts = dict[int, list[int]]
"""For each type, a number for each graph."""


def batch(graphs: Iterable[DGLGraph], ndata: Any = ALL, edata: Any = ALL) -> DGLGraph:
    """One graph of many with the same types and features; `ndata`, `edata` name those to keep."""
    graphs = list(graphs)
    if not graphs:
        raise DGLError("The input list of graphs cannot be empty.")
    first = graphs[0]
    for graph in graphs:
        if not isinstance(graph, DGLGraph):
            raise DGLError(f"Expect graphs. Got {type(graph).__name__} in the list.")
        if graph.is_block:
            raise DGLError("Batching a block is not supported.")
        if graph.meta != first.meta:
            raise DGLError(
                f"Expect all graphs to have the same types. Got {first.meta.etypes} and "
                f"{graph.meta.etypes}."
            )
        if (graph.idtype, graph.device) != (first.idtype, first.device):
            raise DGLError(
                f"Expect all graphs to have one id type and device. Got {first.idtype} on "
                f"{first.device} and {graph.idtype} on {graph.device}."
            )
    relations = []
    for at, places in enumerate(first.meta.ends):
        parts = [g._relations[at].coo for g in graphs]
        ends, counts = [], []
        for end, place in enumerate(places):
            *starts, count = _starts([g._node_frames[place].num_rows for g in graphs])
            shifted = [part[end] + start for part, start in zip(parts, starts, strict=True)]
            ends.append(torch.cat(shifted))
            counts.append(count)
        pair = (ends[0], ends[1])
        relations.append(Relation(num_src=counts[0], num_dst=counts[1], made_coo=pair))
    nodes = [
        _joined([g._node_frames[at] for g in graphs], ndata) for at in range(len(first.ntypes))
    ]
    edges = [
        _joined([g._edge_frames[at] for g in graphs], edata) for at in range(len(first.etypes))
    ]
    made = first.with_parts(relations, nodes, edges)
    made._batch_num_nodes = {
        at: torch.cat([g.batch_num_nodes(ntype) for g in graphs])
        for at, ntype in enumerate(first.ntypes)
    }
    made._batch_num_edges = {
        at: torch.cat([g.batch_num_edges(etype) for g in graphs])
        for at, etype in enumerate(first.canonical_etypes)
    }
    return made


def unbatch(g: DGLGraph, node_split: Any = None, edge_split: Any = None) -> list[DGLGraph]:
    """The graphs that one was batched from, or parts of given sizes."""
    nodes = _sizes(node_split, g.ntypes, g.batch_num_nodes, lambda t: g.meta.node("any", t))
    edges = _sizes(edge_split, g.canonical_etypes, g.batch_num_edges, g.meta.edge)
    for what, sizes, totals in (
        ("nodes", nodes, [frame.num_rows for frame in g._node_frames]),
        ("edges", edges, [relation.num_edges for relation in g._relations]),
    ):
        for at, counts in sizes.items():
            if sum(counts) != totals[at]:
                raise DGLError(
                    f"Expect the numbers of {what} to sum up to {totals[at]}. Got {sum(counts)}."
                )
    starts = _all_starts(nodes), _all_starts(edges)
    return [_cut(g, nodes, edges, starts, number) for number in range(len(nodes[0]))]


def slice_batch(g: DGLGraph, gid: int, store_ids: bool = False) -> DGLGraph:
    """One graph of a batch."""
    nodes = _sizes(None, g.ntypes, g.batch_num_nodes, lambda t: g.meta.node("any", t))
    edges = _sizes(None, g.canonical_etypes, g.batch_num_edges, g.meta.edge)
    part = _cut(g, nodes, edges, (_all_starts(nodes), _all_starts(edges)), gid)
    if store_ids:
        for frames, sizes, name in (
            (part._node_frames, nodes, NID),
            (part._edge_frames, edges, EID),
        ):
            for at, frame in enumerate(frames):
                first = sum(sizes[at][:gid])
                frame[name] = torch.arange(first, first + frame.num_rows, dtype=g.idtype)
    return part


def _cut(
    g: DGLGraph, nodes: Counts, edges: Counts, starts: tuple[Counts, Counts], number: int
) -> DGLGraph:
    first_node = {at: places[number] for at, places in starts[0].items()}
    first_edge = {at: places[number] for at, places in starts[1].items()}
    relations = []
    for at, (src_place, dst_place) in enumerate(g.meta.ends):
        part = slice(first_edge[at], first_edge[at] + edges[at][number])
        src, dst = g._relations[at].coo
        relations.append(
            Relation(
                num_src=nodes[src_place][number],
                num_dst=nodes[dst_place][number],
                made_coo=(src[part] - first_node[src_place], dst[part] - first_node[dst_place]),
            )
        )
    return g.with_parts(
        relations,
        [_rows(f, first_node[at], nodes[at][number]) for at, f in enumerate(g._node_frames)],
        [_rows(f, first_edge[at], edges[at][number]) for at, f in enumerate(g._edge_frames)],
    )


def _rows(frame: Frame, first: int, count: int) -> Frame:
    columns = {name: Column(frame[name][first : first + count]) for name in frame}
    return frame._with(count, columns)


def _joined(frames: Sequence[Frame], wanted: Any) -> Frame:
    """Features side by side, of those that all have; graphs without any rows may lack them."""
    rows = sum(frame.num_rows for frame in frames)
    if wanted is None:
        return Frame(rows, what=frames[0].what)
    full = [frame for frame in frames if frame.num_rows] or list(frames[:1])
    names = list(full[0]) if isinstance(wanted, str) and wanted == ALL else list(wanted)
    columns = {}
    for name in names:
        for frame in full:
            if name not in frame:
                raise DGLError(
                    f"Expect all graphs to have the {frame.what} feature '{name}'; one has "
                    f"{sorted(frame)}. Name those to keep with ndata=[...] and edata=[...]."
                )
        kinds = {(f[name].dtype, tuple(f[name].shape[1:])) for f in full}
        if len(kinds) > 1:
            raise DGLError(
                f"Expect the {frames[0].what} feature '{name}' to have one type and shape in all "
                f"graphs. Got {sorted(map(str, kinds))}."
            )
        columns[name] = Column(torch.cat([frame[name] for frame in full]))
    made = Frame(rows, columns, frames[0].what)
    made.initializers = dict(frames[0].initializers)
    return made


def _sizes(
    given: Any, kinds: Sequence[Any], known: Callable[[Any], Tensor], find: Callable[[Any], int]
) -> Counts:
    if given is None:
        return {find(kind): known(kind).tolist() for kind in kinds}
    if isinstance(given, dict):
        return {find(kind): torch.as_tensor(counts).tolist() for kind, counts in given.items()}
    return {0: torch.as_tensor(given).tolist()}


def _all_starts(sizes: Counts) -> Counts:
    return {at: _starts(counts) for at, counts in sizes.items()}


def _starts(counts: list[int]) -> list[int]:
    starts = [0]
    for count in counts:
        starts.append(starts[-1] + count)
    return starts
