"""What a worker does with a segment: run its steps on blocks of NumPy, and forget what is read.

This runs in the workers' processes, which import nothing of the planner's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphwright.arrays.operators.blocking import is_worth_it, run_in_blocks, runs
from graphwright.arrays.operators.functions import Functions, find_function, user_function
from graphwright.arrays.operators.kernels import run_kernel
from graphwright.plans import (
    Assemble,
    Call,
    Concat,
    Constant,
    Cut,
    Fetch,
    Operand,
    Piece,
    Reduce,
    Ref,
    Rows,
    Segment,
    SegmentStep,
    Share,
    refs_made,
    refs_read,
)

Block = NDArray[Any]

REDUCERS = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
    "any": np.logical_or, "all": np.logical_and,
}  # fmt: skip


def run_segment(segment: Segment, functions: Functions, *given: Block) -> Any:
    """The values that a segment makes: one, or a tuple of several."""
    rank = segment.rank
    blocks: dict[Ref, Block] = dict(zip(segment.reads, given, strict=True))
    left = Counter(ref for step in segment.steps for ref in refs_read(step, rank))
    left.update(segment.makes)
    for run in runs(segment.steps):
        read = [ref for step in run for ref in refs_read(step, rank)]
        if is_worth_it(run):
            inside = Counter(read)
            made = [ref for step in run for ref in refs_made(step, rank)]
            kept = [ref for ref in made if left[ref] > inside[ref]]
            blocks.update(run_in_blocks(run, rank, blocks, functions, kept))
        else:
            for step in run:
                values = _run(step, rank, blocks, functions)
                blocks.update(zip(refs_made(step, rank), values, strict=True))
        for ref in read:
            left[ref] -= 1
            if not left[ref]:
                blocks.pop(ref, None)
    results = tuple(_of_own(blocks[ref]) for ref in segment.makes)
    return results[0] if len(results) == 1 else results


def take_item(values: tuple[Block, ...], number: int) -> Block:
    """One of several values that a segment has made."""
    return values[number]


def _of_own(block: Block) -> Block:
    """A block that does not hold on to a much larger one that it shows."""
    base = block.base
    if isinstance(base, np.ndarray) and base.nbytes > 2 * block.nbytes:
        return block.copy()
    return block


def _run(
    step: SegmentStep, rank: int, blocks: Mapping[Ref, Block], functions: Functions
) -> Sequence[Block]:
    match step:
        case Call():
            return _call(step, rank, blocks, functions)
        case Cut():
            block = blocks[rank, step.value][_slices(step.region)]
            return [np.zeros_like(block) if step.zero else block]
        case Constant():
            return [np.asarray(step.value, dtype=step.type.dtype)]
        case Piece():
            index = [slice(None)] * blocks[rank, step.value].ndim
            for dim, start, stop in step.region:
                index[dim] = slice(start, stop)
            return [np.ascontiguousarray(blocks[rank, step.value][tuple(index)])]
        case Share():
            line = blocks[rank, step.value].reshape(-1)
            first, end = (line.size * n // step.count for n in (step.number, step.number + 1))
            return [np.ascontiguousarray(line[first:end])]
        case Assemble():
            made = np.empty(step.type.shape, dtype=step.type.dtype)
            for ref, box in step.parts:
                made[_slices(box)] = blocks[ref]
            return [made]
        case Concat():
            joined = np.concatenate([blocks[ref] for ref in step.parts], axis=step.dim)
            return [joined if step.like is None else joined.reshape(blocks[rank, step.like].shape)]
        case Reduce():
            return [_reduce(step, blocks, functions)]
        case Fetch():
            return [blocks[step.source]]


def _reduce(step: Reduce, blocks: Mapping[Ref, Block], functions: Functions) -> Block:
    own = user_function(step.reducer)
    join = find_function(step.reducer, functions) if own else REDUCERS[step.reducer]
    first, *rest = (blocks[ref] for ref in step.terms)
    made = first
    for term in rest:
        made = np.asarray(join(made, term), dtype=first.dtype)
    return made


def _slices(region: Sequence[tuple[int, int]]) -> tuple[slice, ...]:
    return tuple(slice(start, stop) for start, stop in region)


# -- calls -----------------------------------------------------------------------------------------


def _call(
    call: Call, rank: int, blocks: Mapping[Ref, Block], functions: Functions
) -> Sequence[Block]:
    inputs = [None if o is None else cut(blocks[rank, o.value], o) for o in call.inputs]
    masks = [_mask_rows(rows, inputs) for rows in call.rows]
    attrs: Mapping[str, Any] = call.attrs
    if call.is_random:
        attrs = {**attrs, "box": call.box}
    made: Sequence[Block] = run_kernel(call.op, inputs, attrs, functions)  # type: ignore[arg-type]
    for rows, held in zip(call.rows, masks, strict=True):
        if rows.scattered is None:
            made = [hide_rows(block, held, rows.dims) for block in made]
    return made


def cut(block: Block, operand: Operand) -> Block:
    """The region of a block that an operand names, filled up beyond its edges."""
    if operand.region is None:
        return block
    inner: list[slice] = []
    pads: list[tuple[int, int]] = []
    for (start, stop), size in zip(operand.region, block.shape, strict=True):
        low, high = min(max(start, 0), size), max(min(stop, size), 0)
        inner.append(slice(low, max(low, high)))
        before = min(max(0, -start), stop - start)
        pads.append((before, stop - start - before - max(0, high - low)))
    made = block[tuple(inner)]
    for dim, pad in enumerate(pads):
        if pad != (0, 0):
            widths = [(0, 0)] * block.ndim
            widths[dim] = pad
            fill = (operand.fills[dim] if operand.fills else None) or 0
            made = np.pad(made, widths, constant_values=fill)
    return made


def _mask_rows(rows: Rows, inputs: list[Block | None]) -> Block:
    """Move an index to the rows that are here; which of its elements those are."""
    index = inputs[rows.index]
    assert index is not None
    if index.size and not (index.min() >= 0 and index.max() < rows.size):
        raise IndexError(f"index out of range: dim of size {rows.size}")
    held: Block = (index >= rows.low) & (index < rows.end)
    inputs[rows.index] = np.where(held, index - rows.low, 0)
    if rows.scattered is not None:
        source = inputs[rows.scattered]
        assert source is not None
        inputs[rows.scattered] = hide_rows(source, held, rows.dims)
    return held


def hide_rows(block: Block, held: Block, dims: tuple[int, ...]) -> Block:
    """The block where rows are held, else 0; `dims` are those of its dims that the index has."""
    order = sorted(range(len(dims)), key=lambda d: dims[d])
    shape = [1] * block.ndim
    for d in order:
        shape[dims[d]] = held.shape[d]
    mask = held.transpose(order).reshape(shape)
    return np.where(mask, block, np.zeros((), block.dtype))
