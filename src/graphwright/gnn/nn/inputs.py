"""What layers have in common: two sides, degrees, projections, residuals, first weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.storage import ZeroInDegree

Feature = Any
"""A tensor, or a pair of them for sources and destinations."""


def expand_as_pair(input_: Feature, g: DGLGraph | None = None) -> tuple[Any, Any]:
    """Features of sources and destinations; the first sources of a block are its destinations."""
    if isinstance(input_, tuple):
        return input_[0], input_[1]
    if g is not None and g.is_block:
        if isinstance(input_, dict):
            return input_, {
                k: x[: g.num_dst_nodes(k)] for k, x in input_.items() if k in g.dsttypes
            }
        return input_, input_[: g.num_dst_nodes()]
    return input_, input_


def require_in_edges(graph: DGLGraph, allowed: bool) -> None:
    """Refuse nodes without in-edges, whose output would be invalid, unless told otherwise."""
    if allowed:
        return
    empty = int((graph.relation().in_degrees()[: graph.num_expanded] == 0).sum())
    if empty:
        raise ZeroInDegree(
            f"There are 0-in-degree nodes in the graph ({empty} of {graph.num_dst_nodes()}); "
            "output for those nodes will be invalid. Add self-loops with "
            "`g = dgl.add_self_loop(g)`, or pass allow_zero_in_degree=True to the layer if zeros "
            "are right for them."
        )


def degree_power(degrees: Tensor, exponent: float, like: Tensor) -> Tensor:
    """Powers of degrees, of at least 1, in the type of a feature and ready to scale it."""
    made = degrees.clamp(min=1).to(like.dtype).pow(exponent)
    return made.reshape(-1, *[1] * (like.dim() - 1))


def zeros_if(bias: bool, size: int) -> nn.Parameter | None:
    """A bias that begins with zeros, or none."""
    return nn.Parameter(torch.zeros(size)) if bias else None


def add_projections(layer: nn.Module, in_feats: Any, width: int) -> None:
    """Give a layer `fc`, or `fc_src` and `fc_dst` where both sides have sizes of their own."""
    src_feats, dst_feats = expand_as_pair(in_feats)
    if isinstance(in_feats, tuple):
        layer.fc_src = nn.Linear(src_feats, width, bias=False)
        layer.fc_dst = nn.Linear(dst_feats, width, bias=False)
    else:
        layer.fc = nn.Linear(src_feats, width, bias=False)


def residual_if(wanted: bool, size: int, width: int, bias: bool = False) -> nn.Module | None:
    """What a node's own features pass before they are added; nothing where they fit."""
    if not wanted:
        return None
    return nn.Identity() if size == width else nn.Linear(size, width, bias=bias)


def draw_weights(layer: nn.Module) -> None:
    """Draw all weights of a layer anew, and set its bias to zero."""
    gain = nn.init.calculate_gain("relu")
    for name, parameter in layer.named_parameters():
        if name == "bias":
            nn.init.zeros_(parameter)
        else:
            nn.init.xavier_normal_(parameter, gain=gain)
