"""Views by strides, as the views that they are: a graph has no memory that strides could refer to.

    memory of x        its dims from the longest stride to the shortest, one after the other
    as_strided         a part of that line, cut into dims by their strides, longest first
    as_strided_scatter the same part of the line, written

PyTorch makes them where a layout is prescribed: adaptive pooling to one pixel in channels-last
order, and its gradient. Strides that step over each other, or leave gaps, become an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor

from graphwright.aten import aten
from graphwright.capture.decompose.composites import KEPT, decompose


@decompose(aten.as_strided.default)
def _as_strided(
    x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    held, order, start = _places(x, size, stride, storage_offset)
    if held is None:
        return KEPT
    if order is None:
        return aten.index.Tensor(_line(x, held), [_positions(x, size, stride, start)])
    part = aten.slice.Tensor(_line(x, held), 0, start, start + prod(size), 1)
    return _dims(part, size, order)


@decompose(aten.as_strided_scatter.default)
def _as_strided_scatter(
    x: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:  # fmt: skip
    held, order, start = _places(x, size, stride, storage_offset)
    if held is None:
        return KEPT
    line = _line(x, held)
    if order is None:
        places = _positions(x, size, stride, start)
        line = aten.index_put.default(line, [places], src)
    elif prod(size) == x.numel():
        line = _line(src, order)
    else:
        line = aten.slice_scatter.default(line, _line(src, order), 0, start, start + prod(size), 1)
    return _dims(line, x.shape, held)


def _places(
    x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None
) -> tuple[list[int] | None, list[int] | None, int]:
    """The order of x's dims in its memory, that of the view's, and where the view begins."""
    start = 0 if storage_offset is None else storage_offset - int(x.storage_offset())
    held, order = dense_order(x.shape, x.stride()), dense_order(size, stride)
    is_inside = start >= 0 and start + prod(size) <= x.numel()
    return held, order if is_inside else None, start


def _line(x: Tensor, order: Sequence[int]) -> Tensor:
    """The elements of x one after the other, in the order of memory."""
    return aten.reshape.default(aten.permute.default(x, order), [x.numel()])


def _positions(x: Tensor, size: Sequence[int], stride: Sequence[int], start: int) -> Tensor:
    """Where each element of a view lies in the line."""
    place = torch.full([], start, device=x.device)
    for n, step in zip(size, stride, strict=True):
        steps = torch.arange(n, device=x.device) * step
        place = place.unsqueeze(-1) + steps
    return place


def _dims(line: Tensor, size: Sequence[int], order: Sequence[int]) -> Tensor:
    """A line cut into dims that lie in it in an order."""
    return aten.permute.default(aten.view.default(line, [size[d] for d in order]), inverse(order))


def dense_order(size: Sequence[int], stride: Sequence[int]) -> list[int] | None:
    """The dims from the outermost in memory to the innermost; None with gaps or overlaps."""
    order = sorted(range(len(size)), key=lambda d: (-stride[d] if size[d] != 1 else 0, d))
    step = 1
    for d in reversed(order):
        if size[d] != 1 and stride[d] != step:
            return None
        step *= size[d]
    return order


def inverse(order: Sequence[int]) -> list[int]:
    """The permutation that undoes another."""
    return sorted(range(len(order)), key=lambda place: order[place])
