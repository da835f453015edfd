"""Run an operator part by part, as a split or a tiling by several says, and join the results.

This is what a device does for its share of an operator: cut the regions out of the inputs (a halo
included, and a fill value beyond the edges), call the kernel with the part's own attributes, join.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import torch

from graphwright.aten import call_kernel
from graphwright.describe import (
    REDUCERS,
    Array,
    Combine,
    Concat,
    Join,
    Mask,
    Part,
    Region,
    Regions,
    Same,
    Slice,
    Split,
    Tiling,
)
from graphwright.errors import WrongDescription
from graphwright.run.program import cut, find_rows, hide_rows, move_rows

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
    return join_parts(split.joins, results)


def join_parts(
    joins: Sequence[Join], results: Sequence[tuple[torch.Tensor, ...]]
) -> tuple[torch.Tensor, ...]:
    """The outputs of all parts, in their order, put together."""
    joined: list[torch.Tensor] = []
    for join, pieces in zip(joins, zip(*results, strict=True), strict=True):
        match join:
            case Concat(dim):
                joined.append(torch.cat(pieces, dim))
            case Combine(reducer):
                joined.append(combine(reducer, pieces))
            case Same():
                if not all(_identical(piece, pieces[0]) for piece in pieces):
                    raise WrongDescription("an output said to be the same in every part is not")
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
    held = _mask_rows(part.mask, part.lo, part.end, local)
    return _hide(part.mask, held, kernel(split, part, local))


def run_tiling(op: str, tiling: Tiling, inputs: Inputs) -> tuple[torch.Tensor, ...]:
    """Run the kernel tile by tile and join the results, the innermost way first."""
    results = [run_tile(op, tiling, number, inputs) for number in range(tiling.num_parts)]
    for (_, count), joins in zip(reversed(tiling.ways), reversed(tiling.joins), strict=True):
        results = [
            join_parts(joins, results[first : first + count])
            for first in range(0, len(results), count)
        ]
    return results[0]


def run_tile(op: str, tiling: Tiling, number: int, inputs: Inputs) -> tuple[torch.Tensor, ...]:
    """Run the kernel on the regions of one part of a tiling."""
    local = [
        None
        if t is None or regions is None
        else cut_region(t, _region(tiling, arg, regions[number]))
        for arg, (t, regions) in enumerate(zip(inputs, tiling.inputs, strict=True))
    ]
    masks = []
    for mask, bounds in zip(tiling.masks, tiling.bounds, strict=True):
        if mask is not None:
            lo, end = bounds[number].tolist()
            masks.append((mask, _mask_rows(mask, lo, end, local)))
    outputs = call_kernel(op, local, tiling.classes[tiling.class_of[number]].attrs)
    for mask, held in masks:
        outputs = _hide(mask, held, outputs)
    return outputs


def _region(tiling: Tiling, arg: int, bounds: Regions) -> Region:
    return tuple(
        Slice(start, stop, tiling.fills.get((arg, dim)))
        for dim, (start, stop) in enumerate(bounds.tolist())
    )


def cut_region(tensor: torch.Tensor, region: Region) -> torch.Tensor:
    """The region of `tensor`; what lies beyond its edges holds the fill value."""
    return cut(tensor, [(s.start, s.stop) for s in region], [s.fill for s in region])


def _mask_rows(mask: Mask, lo: int, end: int, local: list[torch.Tensor | None]) -> torch.Tensor:
    """Move an index to the rows [lo, end); which of its elements those are, else a source is 0."""
    index = local[mask.index]
    assert index is not None
    held = find_rows(index, lo, end)
    local[mask.index] = move_rows(index, held, lo)
    if mask.scattered is not None:
        source = local[mask.scattered]
        assert source is not None
        local[mask.scattered] = hide_rows(source, held, mask.dims)
    return held


def _hide(
    mask: Mask, held: torch.Tensor, outputs: tuple[torch.Tensor, ...]
) -> tuple[torch.Tensor, ...]:
    """A lookup's result, 0 for rows that another part holds."""
    if mask.scattered is not None:
        return outputs
    return tuple(hide_rows(out, held, mask.dims) for out in outputs)


def _identical(a: torch.Tensor, b: torch.Tensor) -> bool:
    near = tolerance_of(a)
    return a.shape == b.shape and torch.allclose(a, b, rtol=near, atol=near, equal_nan=True)


def combine(reducer: str, pieces: Sequence[torch.Tensor]) -> torch.Tensor:
    """Terms put together, element by element."""
    join = REDUCERS[reducer].join
    assert join is not None
    total = to_numpy(pieces[0])
    for piece in pieces[1:]:
        total = join(total, to_numpy(piece))
    return torch.from_numpy(np.asarray(total)).to(pieces[0])


def is_small(dtype: str) -> bool:
    """Whether kernels store floats in a dtype, but do not add them up in it."""
    return dtype in ("bfloat16", "float16") or dtype.startswith("float8")


def to_numpy(tensor: torch.Tensor) -> Array:
    """The values of a tensor; those of small floats in single, as NumPy does not have them all."""
    small = is_small(str(tensor.dtype).removeprefix("torch."))
    return (tensor.detach().float() if small else tensor.detach()).cpu().numpy()


def tolerance_of(*tensors: torch.Tensor) -> float:
    """How far two ways to compute the same may differ, by the least precise dtype involved."""
    rounded = [t.dtype for t in tensors if t.is_floating_point() or t.is_complex()]
    coarse = max((torch.finfo(dtype).eps for dtype in rounded), default=0.0)
    if coarse > 1e-2:  # 8 bits: one step
        return coarse
    return 2e-2 if coarse > 1e-6 else 1e-4 if coarse > 1e-12 else 1e-9
