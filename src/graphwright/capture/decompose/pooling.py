"""The maximum over windows, written so that it can be split in space (see `aten.kernels`).

    largest, places = max_pool(x)          places in the window: the same in a part as in the whole
    indices = row * width + column         what ATen returns; dropped where nothing reads it
    gradient = max_pool_grad_input(g, places)

The gradient's kernel is given the indices; it finds the places where the forward left them, on the
indices themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from graphwright.aten import aten, ours
from graphwright.capture.decompose.composites import KEPT, decompose

_PLACES = "_graphwright_places"


def _for_each(values: Sequence[int], rank: int) -> list[int]:
    return list(values) if len(values) == rank else [values[0]] * rank


def _window(
    rank: int,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> list[list[int]]:
    return [_for_each(v, rank) for v in (kernel_size, stride or kernel_size, padding, dilation)]


def _pool(
    rank: int,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    window = _window(rank, kernel_size, stride, padding, dilation)
    largest, places = ours.max_pool.default(x, *window, ceil_mode)
    indices, left, factor = None, places, 1
    for axis in reversed(range(rank)):
        kernel, step, pad, gap = (values[axis] for values in window)
        shape = [1] * rank
        shape[axis] = places.shape[axis - rank]
        starts = aten.view.default(
            aten.arange.start_step(-pad, shape[axis] * step - pad, step), shape
        )
        tap = aten.remainder.Scalar(left, kernel)
        row = aten.add.Tensor(starts, aten.mul.Scalar(tap, gap))
        left = aten.div.Scalar_mode(left, kernel, rounding_mode="floor")
        share = aten.mul.Scalar(row, factor)
        indices = share if indices is None else aten.add.Tensor(indices, share)
        factor *= x.shape[axis - rank]
    assert indices is not None
    setattr(indices, _PLACES, places)
    return largest, indices


def _pool_backward(
    rank: int,
    grad: Tensor,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: Tensor,
) -> Tensor:
    places: Tensor | None = getattr(indices, _PLACES, None)
    if places is None:
        return KEPT
    window = _window(rank, kernel_size, stride, padding, dilation)
    return ours.max_pool_grad_input.default(grad, places, list(x.shape), *window)


@decompose(aten.max_pool2d_with_indices.default)
def _pool2d(x: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    return _pool(2, x, *args, **kwargs)


@decompose(aten.max_pool3d_with_indices.default)
def _pool3d(x: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    return _pool(3, x, *args, **kwargs)


@decompose(aten.max_pool2d_with_indices_backward.default)
def _pool2d_backward(*args: Any) -> Tensor:
    return _pool_backward(2, *args)


@decompose(aten.max_pool3d_with_indices_backward.default)
def _pool3d_backward(*args: Any) -> Tensor:
    return _pool_backward(3, *args)
