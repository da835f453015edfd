"""One value for each graph of a batch, of its nodes or edges: sums, softmax, the top ones.

Segments of nodes lie one after another in a batch, so everything here is a segment reduction.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.graph.graph import DGLGraph
from graphwright.gnn.kernels import segment_reduce
from graphwright.gnn.storage import DGLError


def readout_nodes(
    graph: DGLGraph, feat: str, weight: str | None = None, *, op: str = "sum",
    ntype: str | None = None,
) -> Tensor:  # fmt: skip
    """Reduce a node feature over each graph: sum, mean, max or min; times a weight if given."""
    frame = graph.node_frame(ntype)
    values = frame[feat] if weight is None else frame[feat] * frame[weight]
    return segment_reduce(graph.batch_num_nodes(ntype), values, op)


def readout_edges(
    graph: DGLGraph, feat: str, weight: str | None = None, *, op: str = "sum", etype: Any = None
) -> Tensor:
    """Reduce an edge feature over each graph."""
    frame = graph.edge_frame(etype)
    values = frame[feat] if weight is None else frame[feat] * frame[weight]
    return segment_reduce(graph.batch_num_edges(etype), values, op)


def sum_nodes(
    graph: DGLGraph, feat: str, weight: str | None = None, *, ntype: Any = None
) -> Tensor:
    """The sum over the nodes of each graph."""
    return readout_nodes(graph, feat, weight, op="sum", ntype=ntype)


def mean_nodes(
    graph: DGLGraph, feat: str, weight: str | None = None, *, ntype: Any = None
) -> Tensor:
    """The mean over the nodes of each graph."""
    return readout_nodes(graph, feat, weight, op="mean", ntype=ntype)


def max_nodes(
    graph: DGLGraph, feat: str, weight: str | None = None, *, ntype: Any = None
) -> Tensor:
    """The maximum over the nodes of each graph."""
    return readout_nodes(graph, feat, weight, op="max", ntype=ntype)


def sum_edges(
    graph: DGLGraph, feat: str, weight: str | None = None, *, etype: Any = None
) -> Tensor:
    """The sum over the edges of each graph."""
    return readout_edges(graph, feat, weight, op="sum", etype=etype)


def mean_edges(
    graph: DGLGraph, feat: str, weight: str | None = None, *, etype: Any = None
) -> Tensor:
    """The mean over the edges of each graph."""
    return readout_edges(graph, feat, weight, op="mean", etype=etype)


def max_edges(
    graph: DGLGraph, feat: str, weight: str | None = None, *, etype: Any = None
) -> Tensor:
    """The maximum over the edges of each graph."""
    return readout_edges(graph, feat, weight, op="max", etype=etype)


def broadcast_nodes(graph: DGLGraph, graph_feat: Tensor, *, ntype: Any = None) -> Tensor:
    """A feature of each graph, for each of its nodes."""
    return _spread(graph_feat, graph.batch_num_nodes(ntype))


def broadcast_edges(graph: DGLGraph, graph_feat: Tensor, *, etype: Any = None) -> Tensor:
    """A feature of each graph, for each of its edges."""
    return _spread(graph_feat, graph.batch_num_edges(etype))


def softmax_nodes(graph: DGLGraph, feat: str, *, ntype: Any = None) -> Tensor:
    """Softmax over the nodes of each graph."""
    return _softmax(graph.node_frame(ntype)[feat], graph.batch_num_nodes(ntype))


def softmax_edges(graph: DGLGraph, feat: str, *, etype: Any = None) -> Tensor:
    """Softmax over the edges of each graph."""
    return _softmax(graph.edge_frame(etype)[feat], graph.batch_num_edges(etype))


def topk_nodes(
    graph: DGLGraph, feat: str, k: int, *, descending: bool = True, sortby: int | None = None,
    ntype: Any = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The k largest of each column of each graph's nodes, or the nodes by one column."""
    values, sizes = graph.node_frame(ntype)[feat], graph.batch_num_nodes(ntype)
    return _topk(values, sizes, k, descending, sortby)


def topk_edges(
    graph: DGLGraph, feat: str, k: int, *, descending: bool = True, sortby: int | None = None,
    etype: Any = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The k largest of each column of each graph's edges, or the edges by one column."""
    values, sizes = graph.edge_frame(etype)[feat], graph.batch_num_edges(etype)
    return _topk(values, sizes, k, descending, sortby)


def _spread(values: Tensor, sizes: Tensor) -> Tensor:
    if len(values) != len(sizes):
        raise DGLError(f"Expect one feature for each of {len(sizes)} graphs. Got {len(values)}.")
    rows = torch.arange(len(sizes), device=values.device)
    return values[torch.repeat_interleave(rows, sizes.long())]


def _softmax(values: Tensor, sizes: Tensor) -> Tensor:
    shifted = (values - _spread(segment_reduce(sizes, values, "max"), sizes)).exp()
    return shifted / _spread(segment_reduce(sizes, shifted, "sum"), sizes)


def _topk(
    values: Tensor, sizes: Tensor, k: int, descending: bool, sortby: int | None
) -> tuple[Tensor, Tensor]:
    lowest = -torch.inf if descending else torch.inf
    longest = max([k, *sizes.tolist()])
    padded = values.new_full((len(sizes), longest, *values.shape[1:]), lowest)
    rows = torch.repeat_interleave(torch.arange(len(sizes)), sizes.long())
    columns = torch.cat([torch.arange(size) for size in sizes.tolist()] or [rows])
    padded[rows, columns] = values
    if sortby is None:
        top = torch.topk(padded, k, 1, descending)
        order = top.indices
        chosen = top.values
    else:
        order = torch.argsort(padded[..., sortby], dim=1, descending=descending, stable=True)[:, :k]
        chosen = padded[torch.arange(len(sizes))[:, None], order]
    return torch.where(torch.isinf(chosen), 0, chosen), order
