"""Products of the rows of one matrix with one matrix per group of rows: experts and their tokens.

    bounds = [0, 2, 5, 8]        rows 0, 1 belong to group 0; 2 to 4 to group 1; 5 to 7 to group 2

    grouped_mm[m]                a[m] @ b[e]                               row m is one of group e
    grouped_mm_grad_weight[e]    sum of outer(a[m], g[m]) over the rows m of group e

`aten._grouped_mm` says the same by the ends of the groups, of which the first begins at row 0: a
part of the groups cannot say where its own begin. Here a part of the groups has its own bounds, and
a part of the rows counts from `row` on. Rows that belong to no group are 0. Groups may be empty.
"""

from __future__ import annotations

import torch
from torch import Tensor

from graphwright.aten.operators import aten

_LIBRARY = torch.library.Library("graphwright", "FRAGMENT")  # type: ignore[no-untyped-call]


def grouped_mm(a: Tensor, b: Tensor, bounds: Tensor, row: int = 0) -> Tensor:
    """Return, for each row of `a`, its product with the matrix of its group."""
    ends = (bounds - row).clamp(0, a.shape[0])
    if a.is_cuda and can_fuse(a, b):
        return fused_grouped_mm(a, b, ends)
    out = a.new_zeros(a.shape[0], b.shape[2])
    places = ends.tolist()
    for matrix, low, high in zip(b, places[:-1], places[1:], strict=True):
        torch.mm(a[low:high], matrix, out=out[low:high])
    return out


def grouped_mm_grad_weight(a: Tensor, g: Tensor, bounds: Tensor, row: int = 0) -> Tensor:
    """Return, for each group, the sum of the outer products of its rows."""
    ends = (bounds - row).clamp(0, a.shape[0])
    if a.is_cuda and can_fuse(a, g):
        return fused_grouped_mm_grad_weight(a, g, ends)
    places = ends.tolist()
    out = a.new_zeros(bounds.shape[0] - 1, a.shape[1], g.shape[1])
    for matrix, low, high in zip(out, places[:-1], places[1:], strict=True):
        torch.mm(a[low:high].T, g[low:high], out=matrix)
    return out


# -- PyTorch's kernel for all groups at once, which needs not know on the host where they lie -----


def can_fuse(a: Tensor, b: Tensor) -> bool:
    """Whether PyTorch's kernel takes them: bfloat16, with rows of whole 16 bytes."""
    return a.dtype == torch.bfloat16 and a.shape[-1] % 8 == 0 and b.shape[-1] % 8 == 0


def fused_grouped_mm(a: Tensor, b: Tensor, ends: Tensor) -> Tensor:
    """The same with the bounds within the rows: those of the first group come to the front."""
    rows = torch.arange(a.shape[0], device=a.device)
    order = (rows + ends[0]) % max(a.shape[0], 1)
    made = aten._grouped_mm(a[order].contiguous(), b, (ends[1:] - ends[0]).to(torch.int32))
    back = (rows - ends[0]) % max(a.shape[0], 1)
    held = (rows >= ends[0]) & (rows < ends[-1])
    return torch.where(held[:, None], made[back], 0)


def fused_grouped_mm_grad_weight(a: Tensor, g: Tensor, ends: Tensor) -> Tensor:
    """The same with the bounds within the rows: those before the first group count as 0."""
    held = torch.arange(a.shape[0], device=a.device) >= ends[0]
    rows = torch.where(held[:, None], a, 0)
    return aten._grouped_mm(rows.T, g.contiguous(), ends[1:].to(torch.int32))


def _like_mm(a: Tensor, b: Tensor, bounds: Tensor, row: int = 0) -> Tensor:
    return a.new_empty(a.shape[0], b.shape[2])


def _like_grad_weight(a: Tensor, g: Tensor, bounds: Tensor, row: int = 0) -> Tensor:
    return a.new_empty(bounds.shape[0] - 1, a.shape[1], g.shape[1])


for _kernel, _like in ((grouped_mm, _like_mm), (grouped_mm_grad_weight, _like_grad_weight)):
    _name = _kernel.__name__
    _second = "b" if _kernel is grouped_mm else "g"
    _LIBRARY.define(f"{_name}(Tensor a, Tensor {_second}, Tensor bounds, int row=0) -> Tensor")  # type: ignore[no-untyped-call]
    _LIBRARY.impl(_name, _kernel, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]
    torch.library.register_fake(f"graphwright::{_name}", _like, lib=_LIBRARY)
