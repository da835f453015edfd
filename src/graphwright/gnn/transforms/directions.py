"""Edges the other way round, and both ways: `reverse`, `add_reverse_edges`, `to_bidirected`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.storage import DGLError, Frame
from graphwright.gnn.transforms.parts import (
    count_up,
    ids_where,
    relation_of,
    require_same_ends,
)
from graphwright.gnn.transforms.simple import to_simple


def reverse(
    g: DGLGraph,
    copy_ndata: bool = True,
    copy_edata: bool = False,
    *,
    share_ndata: bool | None = None,
    share_edata: bool | None = None,
) -> DGLGraph:
    """Every edge from its destination to its source, under the same id."""
    if g.is_block:
        raise DGLError("Reversing a block graph is not allowed; reverse the graph it was made of.")
    copy_ndata = copy_ndata if share_ndata is None else share_ndata
    copy_edata = copy_edata if share_edata is None else share_edata
    return g.with_parts(
        relations=[g.relation(etype).reverse for etype in g.canonical_etypes],
        metagraph=replace(g.meta, etypes=tuple((dst, e, src) for src, e, dst in g.meta.etypes)),
        node_frames=node_frames(g, copy_ndata),
        edge_frames=None if copy_edata else _bare_edges(g),
    )


def add_reverse_edges(
    g: DGLGraph,
    readonly: bool | None = None,
    copy_ndata: bool = True,
    copy_edata: bool = False,
    ignore_bipartite: bool = False,
    exclude_self: bool = True,
) -> DGLGraph:
    """For every edge another one the other way, numbered after the edges that there are.

    Loops get none unless `exclude_self` is False. An edge type between different types of nodes is
    an error, or left as it is with `ignore_bipartite`. With `copy_edata` a new edge has the
    features of the edge that it reverses.
    """
    relations, frames = [], []
    for etype in g.canonical_etypes:
        relation, frame = g.relation(etype), g.edge_frame(etype)
        ids = count_up(g, relation.num_edges)
        if etype[0] != etype[2]:
            if not ignore_bipartite:
                require_same_ends(etype, "add_reverse_edges")
            added = ids[:0]
        else:
            src, dst = relation.coo
            added = ids_where(g, src != dst) if exclude_self else ids
            back_to, back_from = relation.find(added)
            relation = relation_of(relation, torch.cat([src, back_from]), torch.cat([dst, back_to]))
        relations.append(relation)
        chosen = torch.cat([ids, added])
        frames.append(frame.select(chosen) if copy_edata else Frame(len(chosen), what="edge"))
    return g.with_parts(
        relations=relations, node_frames=node_frames(g, copy_ndata), edge_frames=frames
    )


def to_bidirected(g: DGLGraph, copy_ndata: bool = False, readonly: bool | None = None) -> DGLGraph:
    """The simple graph with every edge both ways, in the order of sources, then destinations."""
    for etype in g.canonical_etypes:
        require_same_ends(etype, "to_bidirected")
    both = add_reverse_edges(g, copy_ndata=copy_ndata, copy_edata=False)
    simple: Any = to_simple(both, return_counts=None, copy_ndata=copy_ndata)
    made: DGLGraph = simple
    return made


def node_frames(g: DGLGraph, keep: bool) -> list[Frame]:
    """The node features of a graph, or none of them."""
    return [frame.copy() if keep else Frame(frame.num_rows) for frame in g._node_frames]


def _bare_edges(g: DGLGraph) -> list[Frame]:
    return [Frame(g.num_edges(etype), what="edge") for etype in g.canonical_etypes]
