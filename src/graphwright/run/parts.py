"""Run an operator part by part, as one of its splits says, and put the results together.

This is what a device does for its share of an operator: cut the regions out of the inputs (a halo included, and a fill
value beyond the edges), call the kernel with the part's own attributes, and join.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import torch

from graphwright.capture.invoke import call_kernel
from graphwright.describe import Combine, Concat, Mask, Part, Region, Same, Split
from graphwright.describe.scalar import REDUCERS, Array

Inputs = Sequence[torch.Tensor | None]
Kernel = Callable[[Split, Part, Inputs], tuple[torch.Tensor, ...]]


def call_part(split: Split, part: Part, local: Inputs) -> tuple[torch.Tensor, ...]:
    """The kernel that PyTorch runs for the operator, on one part's regions."""
    return call_kernel(split.call.op, local, part.attrs)


def run_split(
    split: Split, inputs: Inputs, cuts: Sequence[int], kernel: Kernel = call_part
) -> tuple[torch.Tensor, ...]:
    """Run the kernel part by part and join the results."""
    results: list[tuple[torch.Tensor, ...]] = []
    for lo, end in pairwise(cuts):
        results.append(run_part(split, split.part(lo, end), inputs, kernel))
    joined: list[torch.Tensor] = []
    for join, pieces in zip(split.joins, zip(*results, strict=True), strict=True):
        match join:
            case Concat(dim):
                joined.append(torch.cat(pieces, dim))
            case Combine(reducer):
                joined.append(_combine(reducer, pieces))
            case Same():
                if not all(_identical(piece, pieces[0]) for piece in pieces):
                    raise RuntimeError("an output said to be the same in every part is not")
                joined.append(pieces[0])
    return tuple(joined)


def run_part(
    split: Split, part: Part, inputs: Inputs, kernel: Kernel = call_part
) -> tuple[torch.Tensor, ...]:
    """Run the kernel on one part's regions."""
    local = [
        None if tensor is None or region is None else cut_region(tensor, region)
        for tensor, region in zip(inputs, part.inputs, strict=True)
    ]
    if part.mask is None:
        return kernel(split, part, local)
    return _run_masked(split, part, part.mask, local, kernel)


def cut_region(tensor: torch.Tensor, region: Region) -> torch.Tensor:
    """The region of `tensor`; what lies beyond its edges holds the fill value."""
    for dim, piece in enumerate(region):
        size = tensor.shape[dim]
        start, stop = max(0, piece.start), min(size, piece.stop)
        inner = tensor.narrow(dim, min(start, size), max(0, stop - start))
        before = min(max(0, -piece.start), piece.size)
        after = piece.size - before - inner.shape[dim]
        if before or after:
            pads = [_fill(inner, dim, n, piece.fill) for n in (before, after)]
            inner = torch.cat([pads[0], inner, pads[1]], dim)
        tensor = inner
    return tensor.contiguous()


def _fill(like: torch.Tensor, dim: int, count: int, value: float | None) -> torch.Tensor:
    shape = list(like.shape)
    shape[dim] = count
    return like.new_full(shape, 0 if value is None else value)


def _run_masked(
    split: Split, part: Part, mask: Mask, local: list[torch.Tensor | None], kernel: Kernel
) -> tuple[torch.Tensor, ...]:
    index = local[mask.index]
    assert index is not None
    held = (index >= part.lo) & (index < part.end)
    local[mask.index] = torch.where(held, index - part.lo, torch.zeros_like(index))
    if mask.scattered is not None:
        source = local[mask.scattered]
        assert source is not None
        local[mask.scattered] = torch.where(
            _spread(held, mask.dims, source.dim()), source, torch.zeros_like(source)
        )
        return kernel(split, part, local)
    return tuple(
        torch.where(_spread(held, mask.dims, out.dim()), out, torch.zeros_like(out))
        for out in kernel(split, part, local)
    )


def _spread(mask: torch.Tensor, dims: tuple[int, ...], rank: int) -> torch.Tensor:
    order = sorted(range(len(dims)), key=lambda d: dims[d])
    shape = [1] * rank
    for d in order:
        shape[dims[d]] = mask.shape[d]
    return mask.permute(order).reshape(shape)


def _identical(a: torch.Tensor, b: torch.Tensor) -> bool:
    near = tolerance_of(a)
    return a.shape == b.shape and torch.allclose(a, b, rtol=near, atol=near, equal_nan=True)


def _combine(reducer: str, pieces: Sequence[torch.Tensor]) -> torch.Tensor:
    join = REDUCERS[reducer].join
    assert join is not None
    total = to_numpy(pieces[0])
    for piece in pieces[1:]:
        total = join(total, to_numpy(piece))
    return torch.from_numpy(np.asarray(total)).to(pieces[0])


HALF = frozenset({"bfloat16", "float16"})
"""The dtypes in which kernels store, but do not add up."""


def to_numpy(tensor: torch.Tensor) -> Array:
    """The values of a tensor; those of half precision in single, as NumPy has no bfloat16."""
    half = str(tensor.dtype).removeprefix("torch.") in HALF
    return (tensor.detach().float() if half else tensor.detach()).cpu().numpy()


def tolerance_of(*tensors: torch.Tensor) -> float:
    """How far two ways to compute the same may differ, by the least precise dtype that takes part."""
    rounded = [t.dtype for t in tensors if t.is_floating_point() or t.is_complex()]
    coarse = max((torch.finfo(dtype).eps for dtype in rounded), default=0.0)
    return 2e-2 if coarse > 1e-6 else 1e-4 if coarse > 1e-12 else 1e-9
