"""Self-loops; and changes of a graph as functions that return another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.storage import DGLError
from graphwright.gnn.transforms.parts import (
    count_up,
    ids_where,
    reduce_rows,
    require_same_ends,
)


def add_self_loop(
    g: DGLGraph,
    edge_feat_names: Sequence[str] | None = None,
    fill_data: float | str = 1.0,
    etype: Any = None,
) -> DGLGraph:
    """The graph with one more loop at each node, numbered after the edges that there are.

    The loops' features are `fill_data`, or with "mean", "sum", "max" or "min" what the edges into
    the node have together. Features not in `edge_feat_names`, if that is given, are zeros.
    """
    etype = g.to_canonical_etype(etype) if etype is not None else g.meta.etypes[g.meta.edge(None)]
    require_same_ends(etype, "add_self_loop")
    frame, relation = g.edge_frame(etype), g.relation(etype)
    named = list(frame) if edge_feat_names is None else list(edge_feat_names)
    data = {
        name: _fill(frame[name], relation.coo[1], relation.num_dst, fill_data) for name in named
    }
    nodes = count_up(g, relation.num_dst)
    return add_edges(g, nodes, nodes, data, etype)


def _fill(values: Tensor, ends: Tensor, count: int, fill: float | str) -> Tensor:
    if isinstance(fill, str):
        if fill not in ("mean", "sum", "max", "min"):
            raise DGLError(
                f'fill_data has to be a number, "mean", "sum", "max" or "min". Got {fill!r}.'
            )
        return reduce_rows(values, ends, count, fill)
    if not isinstance(fill, (int, float)):
        raise DGLError(
            f"Unsupported fill_data type: {type(fill).__name__}; give a number or a str."
        )
    return values.new_full((count, *values.shape[1:]), fill)


def remove_self_loop(g: DGLGraph, etype: Any = None) -> DGLGraph:
    """The graph without its loops; other edges keep their order and features."""
    etype = g.to_canonical_etype(etype) if etype is not None else g.meta.etypes[g.meta.edge(None)]
    require_same_ends(etype, "remove_self_loop")
    src, dst = g.relation(etype).coo
    return remove_edges(g, ids_where(g, src == dst), etype)


def add_nodes(
    g: DGLGraph, num: int, data: Mapping[str, Any] | None = None, ntype: str | None = None
) -> DGLGraph:
    """A copy of the graph with more nodes."""
    made = g.clone()
    made.add_nodes(num, data, ntype)
    return made


def add_edges(
    g: DGLGraph, u: Any, v: Any, data: Mapping[str, Any] | None = None, etype: Any = None
) -> DGLGraph:
    """A copy of the graph with more edges."""
    made = g.clone()
    made.add_edges(u, v, data, etype)
    return made


def remove_edges(g: DGLGraph, eids: Any, etype: Any = None, store_ids: bool = False) -> DGLGraph:
    """A copy of the graph without some edges; the batch it was made of is still known."""
    made = g.clone()
    made.remove_edges(eids, etype, store_ids)
    if g._batch_num_edges is not None:
        made._batch_num_nodes = g._batch_num_nodes
        made._batch_num_edges = dict(g._batch_num_edges)
        place = g.meta.edge(etype)
        if place in made._batch_num_edges:
            counts = g._batch_num_edges[place]
            member = torch.repeat_interleave(count_up(g, len(counts)), counts)
            removed = g.edge_id_tensor(eids, etype, "eids")
            removed = torch.unique(removed).long()
            gone = torch.bincount(member[removed], minlength=len(counts))
            made._batch_num_edges[place] = counts - gone.to(counts.dtype)
    return made


def remove_nodes(
    g: DGLGraph, nids: Any, ntype: str | None = None, store_ids: bool = False
) -> DGLGraph:
    """A copy of the graph without some nodes and their edges."""
    made = g.clone()
    made.remove_nodes(nids, ntype, store_ids)
    return made
