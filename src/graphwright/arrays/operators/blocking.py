"""Runs of element-wise calls, block by block: temporaries stay in the cache and take no memory.

    t = x * x;  u = t + y;  v = sum(u, 0)    box by box: t and u of some thousand elements, which
                                             are added to what v is so far

NumPy would write each temporary to memory and read it again, and ask the system for pages that it
gives back at once; what is slow about an element-wise program is that, not its arithmetic. So boxes
are small enough for their temporaries to stay in the cache, and their memory is used again. A
reduction of what a run makes is part of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphwright.arrays.operators.functions import ELEMENTWISE, Functions, find_function
from graphwright.arrays.operators.kernels import REDUCTIONS, UFUNCS, run_kernel
from graphwright.plans import Call, Ref, SegmentStep

Block = NDArray[Any]

BLOCK_ELEMENTS = 1 << 14
"""So many elements at a time: some temporaries of 8 bytes each fit into a core's own cache."""
LEAST_ELEMENTS = 1 << 17
"""Smaller arrays fit into it anyway."""

_OPERATORS = {op for op, _ in ELEMENTWISE.values()} | {"aten._to_copy"}


def runs(steps: Sequence[SegmentStep]) -> Iterator[list[SegmentStep]]:
    """Steps in their order: those of a run together, each other one by itself."""
    run: list[SegmentStep] = []
    made: set[int] = set()
    reduced: set[int] = set()
    for step in steps:
        if run and _is_reduction(step, made):
            run.append(step)
            reduced.update(step.outputs)  # type: ignore[union-attr]
            continue
        if run and not (
            _is_elementwise(step)
            and _shape(step) == _shape(run[0])
            and reduced.isdisjoint(_values_read(step))
        ):
            yield run
            run, made, reduced = [], set(), set()
        if _is_elementwise(step):
            run.append(step)
            made.update(step.outputs)  # type: ignore[union-attr]
        else:
            yield [step]
    if run:
        yield run


def _values_read(step: SegmentStep) -> list[int]:
    return [o.value for o in step.inputs if o is not None] if isinstance(step, Call) else []


def _is_reduction(step: SegmentStep, made: Collection[int]) -> bool:
    """Whether a step reduces a whole value of a run."""
    if not isinstance(step, Call) or step.rows or step.op not in REDUCTIONS:
        return False
    (given,) = step.inputs
    return given is not None and given.region is None and given.value in made


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """A call of a run: what it reads and makes, how it writes into given memory, if it can, and
    the values whose memory is free behind it."""

    call: Call
    reads: tuple[Ref, ...]
    makes: Ref
    into: Callable[..., object] | None
    frees: tuple[Ref, ...] = ()

    @property
    def dims(self) -> tuple[int, ...]:
        """The dims that a reduction reduces."""
        return tuple(self.call.attrs["dim"]) if self.call.op in REDUCTIONS else ()  # type: ignore[arg-type]

    def reduced(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the result, with a 1 for each dim that is reduced."""
        return tuple(1 if d in self.dims else size for d, size in enumerate(shape))

    def reduce(self, block: Block, box: tuple[slice, ...], result: Block) -> None:
        """Join what a box reduces to with what is there from those before it."""
        function = REDUCTIONS[self.call.op]
        terms = function.reduce(block, axis=self.dims, dtype=result.dtype, keepdims=True)
        place = tuple(slice(0, 1) if d in self.dims else part for d, part in enumerate(box))
        if any(box[d].start for d in self.dims):
            terms = function(result[place], terms)
        result[place] = terms


def run_in_blocks(
    run: Sequence[SegmentStep],
    rank: int,
    blocks: Mapping[Ref, Block],
    functions: Functions,
    kept: Collection[Ref],
) -> dict[Ref, Block]:
    """The values of a run that are `kept`.

    The first element of all shows the dtypes. Each call then writes into memory that is there
    already: that of a value which nobody reads any more, or a part of a result.
    """
    calls = _prepare(run, rank, functions, kept)
    shape = _shape(run[0])
    spare: dict[object, list[Block]] = defaultdict(list)
    with np.errstate(all="ignore"):
        dtypes = _dtypes(calls, blocks, shape, functions)
        results = {
            one.makes: np.empty(one.reduced(shape), dtypes[one.makes])
            for one in calls
            if one.makes in kept
        }
        for box in _boxes(shape):
            size = tuple(part.stop - part.start for part in box)
            local: dict[Ref, Block] = {}
            for one in calls:
                ref, dtype = one.makes, dtypes[one.makes]
                given = [
                    local[r] if r in local else _part(blocks[r], shape, box) for r in one.reads
                ]
                if one.dims:
                    if ref in results:
                        one.reduce(given[0], box, results[ref])
                elif one.into is None:
                    (local[ref],) = run_kernel(one.call.op, given, one.call.attrs, functions)
                    if ref in results:
                        results[ref][box] = local[ref]
                else:
                    if ref in results:
                        local[ref] = results[ref][box]
                    else:
                        left = spare[dtype, size]
                        local[ref] = left.pop() if left else np.empty(size, dtype)
                    one.into(*given, out=local[ref])
                for read in one.frees:
                    spare[dtypes[read], size].append(local.pop(read))
    return {
        one.makes: results[one.makes].reshape(_shape(one.call)) if one.dims else results[one.makes]
        for one in calls
        if one.makes in results
    }


def _dtypes(
    calls: Sequence[_Prepared],
    blocks: Mapping[Ref, Block],
    shape: tuple[int, ...],
    functions: Functions,
) -> dict[Ref, np.dtype[Any]]:
    """The dtypes of all values, from their first elements."""
    corner = tuple(slice(0, 1) for _ in shape)
    local: dict[Ref, Block] = {}
    for one in calls:
        given = [local[r] if r in local else _part(blocks[r], shape, corner) for r in one.reads]
        (local[one.makes],) = run_kernel(one.call.op, given, one.call.attrs, functions)
    return {ref: block.dtype for ref, block in local.items()}


def _prepare(
    run: Sequence[SegmentStep], rank: int, functions: Functions, kept: Collection[Ref]
) -> list[_Prepared]:
    prepared = [
        _Prepared(
            call=call,
            reads=tuple((rank, o.value) for o in call.inputs if o is not None),
            makes=(rank, call.outputs[0]),
            into=_into(call, functions),
        )
        for call in run
        if isinstance(call, Call)
    ]
    last = {ref: number for number, one in enumerate(prepared) for ref in one.reads}
    own = {one.makes for one in prepared if one.into is not None} - set(kept)
    for one in prepared:
        if one.into is None and not one.dims:  # it may return a view of what it reads
            own.difference_update(one.reads)
    return [
        replace(one, frees=tuple(ref for ref in set(one.reads) & own if last[ref] == number))
        for number, one in enumerate(prepared)
    ]


def _into(call: Call, functions: Functions) -> Callable[..., object] | None:
    """The function of a call with an argument `out`."""
    if call.op == "aten.where.self":
        return _choose_into
    if call.op == "aten._to_copy":
        return _cast_into
    name = call.attrs.get("function")
    own = UFUNCS.get(call.op) if name is None else find_function(str(name), functions)
    return own if isinstance(own, np.ufunc) and "dtype" not in call.attrs else None


def _choose_into(condition: Block, x: Block, y: Block, out: Block) -> None:
    np.copyto(out, y)
    np.copyto(out, x, where=condition)


def _cast_into(x: Block, out: Block) -> None:
    np.copyto(out, x, casting="unsafe")


def _boxes(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """The shape in boxes of about `BLOCK_ELEMENTS`, the last dims as whole as they can be."""
    sizes: list[int] = []
    room = BLOCK_ELEMENTS
    for length in reversed(shape):
        sizes.append(max(1, min(length, room)))
        room //= sizes[-1]
    cuts = [
        [slice(first, min(first + size, length)) for first in range(0, length, size)]
        for length, size in zip(shape, reversed(sizes), strict=True)
    ]
    return product(*cuts)


def _part(block: Block, shape: tuple[int, ...], box: tuple[slice, ...]) -> Block:
    """What a box reads of an operand, which may be broadcast along some dims."""
    lead = len(shape) - block.ndim
    return block[
        tuple(
            part if size == whole else slice(None)
            for part, size, whole in zip(box[lead:], block.shape, shape[lead:], strict=True)
        )
    ]
