"""Runs of element-wise calls, block by block: temporaries stay in the cache and take no memory.

    t = x * x;  u = t + y;  v = sqrt(u)      for some rows at a time: t, u and v of these rows

NumPy would write each temporary to memory and read it again; what is slow about an element-wise
program is that, not its arithmetic. Rows are those of the first dim; operands that are broadcast
along it are read whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphwright.arrays.operators.functions import ELEMENTWISE, Functions
from graphwright.arrays.operators.kernels import run_kernel
from graphwright.plans import Call, Ref, SegmentStep

Block = NDArray[Any]

BLOCK_ELEMENTS = 1 << 15
"""So many elements at a time: some temporaries of 8 bytes each fit into a core's own cache."""
LEAST_ELEMENTS = 1 << 17
"""Smaller arrays fit into it anyway."""

_OPERATORS = {op for op, _ in ELEMENTWISE.values()} | {"aten._to_copy"}


def runs(steps: Sequence[SegmentStep]) -> Iterator[list[SegmentStep]]:
    """Steps in their order: those of a run together, each other one by itself."""
    run: list[SegmentStep] = []
    for step in steps:
        if run and not (_is_elementwise(step) and _shape(step) == _shape(run[0])):
            yield run
            run = []
        if _is_elementwise(step):
            run.append(step)
        else:
            yield [step]
    if run:
        yield run


def _is_elementwise(step: SegmentStep) -> bool:
    if not isinstance(step, Call) or step.rows or not step.box:
        return False
    if any(o is not None and o.region is not None for o in step.inputs):
        return False
    named = str(step.attrs.get("function", ""))
    return step.op in _OPERATORS or (step.op == "array.map" and named.startswith("numpy."))


def _shape(step: SegmentStep) -> tuple[int, ...]:
    assert isinstance(step, Call)
    return tuple(stop - start for start, stop in step.box)


def is_worth_it(run: Sequence[SegmentStep]) -> bool:
    """Whether a run is of several calls on arrays of some size."""
    return len(run) > 1 and prod(_shape(run[0])) >= LEAST_ELEMENTS


def run_in_blocks(
    run: Sequence[SegmentStep],
    rank: int,
    blocks: Mapping[Ref, Block],
    functions: Functions,
    kept: Collection[Ref],
) -> dict[Ref, Block]:
    """The values of a run that are `kept`."""
    shape = _shape(run[0])
    rows = max(1, BLOCK_ELEMENTS * shape[0] // prod(shape))
    results: dict[Ref, Block] = {}
    for first in range(0, shape[0], rows):
        some = slice(first, min(first + rows, shape[0]))
        local: dict[Ref, Block] = {}
        for call in run:
            assert isinstance(call, Call)
            refs = [(rank, o.value) for o in call.inputs if o is not None]
            inputs = [local[r] if r in local else _rows(blocks[r], shape, some) for r in refs]
            (local[rank, call.outputs[0]],) = run_kernel(call.op, inputs, call.attrs, functions)
        for ref in kept:
            if ref not in results:
                results[ref] = np.empty(shape, local[ref].dtype)
            results[ref][some] = local[ref]
    return results


def _rows(block: Block, shape: tuple[int, ...], some: slice) -> Block:
    """The rows of an operand; all of one that is broadcast along them."""
    whole = block.ndim < len(shape) or block.shape[0] != shape[0]
    return block if whole else block[some]
