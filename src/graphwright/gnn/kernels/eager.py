"""The same results from PyTorch's general operators, for devices without a kernel of their own.

Messages are stored, in parts of bounded size where they are summed.
"""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from graphwright.gnn.kernels.broadcast import Shape
from graphwright.gnn.storage import Relation

PART_NUMBERS = 1 << 26
"""Messages are summed in parts of this many numbers."""


def contract(
    relation: Relation, op: str, a: Tensor, a_end: str, b: Tensor | None, b_end: str,
    out_end: str, out_shape: Shape,
) -> Tensor:  # fmt: skip
    """Sum over edges at a node, or one result for each edge."""
    rows = {"u": relation.num_src, "v": relation.num_dst, "e": relation.num_edges}[out_end]
    out = a.new_zeros((rows, *out_shape))
    wide = max(prod(out_shape), prod(a.shape[1:]), 1)
    size = max(1, PART_NUMBERS // wide)
    for first in range(0, relation.num_edges, size):
        part = slice(first, min(first + size, relation.num_edges))
        message = _messages(relation, op, a, a_end, b, b_end, part)
        message = message.sum_to_size((message.shape[0], *_padded(out_shape, message.dim() - 1)))
        message = message.reshape(-1, *out_shape)
        if out_end == "e":
            out[part] = message
        else:
            out.index_add_(0, _ends(relation, out_end, part), message)
    return out


def extreme(
    relation: Relation, op: str, a: Tensor, a_end: str, b: Tensor | None, b_end: str,
    least: bool, out_shape: Shape,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The largest or least message into each destination, and its edge; 0 and -1 without edges."""
    whole = slice(0, relation.num_edges)
    message = _messages(relation, op, a, a_end, b, b_end, whole)
    if op == "dot" and out_shape:
        message = message.sum(-1, keepdim=True)
    index = _ends(relation, "v", whole)
    spread = index.reshape(-1, *[1] * len(out_shape)).expand(-1, *out_shape)
    out = a.new_zeros((relation.num_dst, *out_shape))
    out.scatter_reduce_(0, spread, message, "amin" if least else "amax", include_self=False)
    none = relation.num_edges
    edges = torch.arange(none, device=a.device).reshape(-1, *[1] * len(out_shape))
    winner = message == out[index]
    numbers = torch.where(winner | message.isnan(), edges, none)
    chosen = torch.full_like(out, none, dtype=torch.int64)
    chosen.scatter_reduce_(0, spread, numbers, "amin")
    return out, torch.where(chosen == none, -1, chosen)


def _messages(
    relation: Relation, op: str, a: Tensor, a_end: str, b: Tensor | None, b_end: str, part: slice
) -> Tensor:
    x = _rows(relation, a, a_end, part)
    if b is None or op == "copy":
        return x
    y = _rows(relation, b, b_end, part)
    rank = max(x.dim(), y.dim())
    x = x.reshape(-1, *_padded(x.shape[1:], rank - 1))
    y = y.reshape(-1, *_padded(y.shape[1:], rank - 1))
    match op:
        case "add":
            return x + y
        case "sub":
            return x - y
        case "div":
            return x / y
        case _:
            return x * y


def _rows(relation: Relation, x: Tensor, end: str, part: slice) -> Tensor:
    return x[part] if end == "e" else x[_ends(relation, end, part)]


def _ends(relation: Relation, end: str, part: slice) -> Tensor:
    return relation.coo[0 if end == "u" else 1][part].long()


def _padded(shape: Shape, rank: int) -> Shape:
    return (*(1,) * (rank - len(shape)), *shape)
