"""Run an operator part by part, as one of its splits says, and put the results together.

This is what a device does for its share of an operator: cut the regions out of the inputs (a halo included, and a fill
value beyond the edges), call the kernel with the part's own attributes, and join.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch

from graphwright.capture.invoke import call_kernel
from graphwright.describe import Combine, Concat, Mask, Part, Region, Same, Split
from graphwright.describe.scalar import REDUCERS

Inputs = Sequence[torch.Tensor | None]


def run_split(split: Split, inputs: Inputs, cuts: Sequence[int]) -> tuple[torch.Tensor, ...]:
    """Run the kernel part by part and join the results."""
    results: list[tuple[torch.Tensor, ...]] = []
    for lo, end in pairwise(cuts):
        results.append(run_part(split, split.part(lo, end), inputs))
    joined: list[torch.Tensor] = []
    for join, pieces in zip(split.joins, zip(*results, strict=True), strict=True):
        match join:
            case Concat(dim):
                joined.append(torch.cat(pieces, dim))
            case Combine(reducer):
                joined.append(_combine(reducer, pieces))
            case Same():
                joined.append(pieces[-1])
    return tuple(joined)


def run_part(split: Split, part: Part, inputs: Inputs) -> tuple[torch.Tensor, ...]:
    """Run the kernel on one part's regions."""
    local = [
        None if tensor is None or region is None else cut_region(tensor, region)
        for tensor, region in zip(inputs, part.inputs, strict=True)
    ]
    if part.mask is None:
        return call_kernel(split.call.op, local, part.attrs)
    return _run_masked(split, part, part.mask, local)


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
    split: Split, part: Part, mask: Mask, local: list[torch.Tensor | None]
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
        return call_kernel(split.call.op, local, part.attrs)
    return tuple(
        torch.where(_spread(held, mask.dims, out.dim()), out, torch.zeros_like(out))
        for out in call_kernel(split.call.op, local, part.attrs)
    )


def _spread(mask: torch.Tensor, dims: tuple[int, ...], rank: int) -> torch.Tensor:
    order = sorted(range(len(dims)), key=lambda d: dims[d])
    shape = [1] * rank
    for d in order:
        shape[dims[d]] = mask.shape[d]
    return mask.permute(order).reshape(shape)


def _combine(reducer: str, pieces: Sequence[torch.Tensor]) -> torch.Tensor:
    join = REDUCERS[reducer].join
    assert join is not None
    total = pieces[0].numpy()
    for piece in pieces[1:]:
        total = join(total, piece.numpy())
    return torch.from_numpy(np.asarray(total))
