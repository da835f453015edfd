"""From expressions to values: here, or on workers.

In: the outputs that are asked for. Everything that they need and that has no value yet becomes one
graph; what users' arrays show of it is kept, the rest goes as soon as it is read.

    small    in this process, operator by operator
    large    planned (`tiling.plan_tilings`), lowered to tasks and run by the workers (`session`)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from graphwright.arrays.expression import SOURCE, VIEWS, Expression, Output, Value, needed
from graphwright.arrays.operators import run_kernel

T = TypeVar("T")
Distribute = Callable[[Sequence[Output], Sequence[Expression]], None]


@dataclass(slots=True)
class Settings:
    """When workers compute: `distribute` does it, for programs that hold `least_bytes` or more."""

    distribute: Distribute | None = None
    least_bytes: float = 8 << 20
    gather: Callable[[Sequence[Value]], list[NDArray[Any]]] | None = None
    mend: Callable[[Output], Value | None] | None = None
    recover: Callable[[Exception, int], None] | None = None


SETTINGS = Settings()


def evaluate(outputs: Sequence[Output]) -> None:
    """Compute outputs, and leave their values with their expressions."""
    _again(lambda: _evaluate_once(outputs))


def to_numpy(output: Output) -> NDArray[Any]:
    """The value of an output as a NumPy array that cannot be written to."""

    def fetch() -> NDArray[Any]:
        _evaluate_once([output])
        value = output.value
        if not isinstance(value, np.ndarray):
            assert SETTINGS.gather is not None
            value = SETTINGS.gather([value])[0]
            value.flags.writeable = False
        made: NDArray[Any] = value
        return made

    return _again(fetch)


def _again(what: Callable[[], T]) -> T:
    """Do something, and again if workers were lost meanwhile."""
    for attempt in count(1):
        try:
            return what()
        except Exception as error:
            if SETTINGS.recover is None:
                raise
            SETTINGS.recover(error, attempt)
    raise AssertionError("not reached")


def _evaluate_once(outputs: Sequence[Output]) -> None:
    missing = [output for output in dict.fromkeys(outputs) if not _has_value(output)]
    if not missing:
        return
    order = needed(missing, _has_value)
    if _is_large(order):
        assert SETTINGS.distribute is not None
        SETTINGS.distribute([*missing, *_worth_keeping(order, missing)], order)
    else:
        _evaluate_here(missing, order)
    for expression in order:
        expression.has_read()


def _has_value(output: Output) -> bool:
    """Whether a value is there; what of it was lost is made again, or else it is forgotten."""
    if output.value is None or SETTINGS.mend is None:
        return output.value is not None
    value = SETTINGS.mend(output)
    if value is None:
        del output.expression.values[output.number]
    else:
        output.expression.values[output.number] = value
    return value is not None


def _is_large(order: Sequence[Expression]) -> bool:
    if SETTINGS.distribute is None:
        return False
    for expression in order:
        if any(t.nbytes >= SETTINGS.least_bytes for t in expression.types):
            return True
        for given in expression.inputs:
            if given is not None and given.type.nbytes >= SETTINGS.least_bytes:
                return True
            if given and given.value is not None and not isinstance(given.value, np.ndarray):
                return True
    return False


def _worth_keeping(order: Sequence[Expression], missing: Sequence[Output]) -> list[Output]:
    """What arrays of the user's show besides, so that it is not computed twice."""
    asked = set(missing)
    shown = (Output(e, n) for e in order for n, times in e.shown.items() if times)
    return [o for o in shown if o not in asked and o.expression.op not in VIEWS]


def _evaluate_here(missing: Sequence[Output], order: Sequence[Expression]) -> None:
    blocks: dict[Output, NDArray[Any]] = {}
    readers = Counter(given for e in order for given in e.inputs if given is not None)
    kept = {Output(e, n) for e in order for n, times in e.shown.items() if times}
    kept.update(missing)
    for expression in order:
        inputs = [None if g is None else _block(g, blocks) for g in expression.inputs]
        made = run_kernel(expression.op, inputs, expression.attrs, expression.functions)  # type: ignore[arg-type]
        for number, (block, type) in enumerate(zip(made, expression.types, strict=True)):
            assert block.shape == type.shape, (expression, block.shape, type)
            assert block.dtype == type.dtype, (expression, block.dtype, type)
            block.flags.writeable = False
            output = Output(expression, number)
            blocks[output] = block
            if output in kept:
                expression.values[number] = block
        for given in expression.inputs:
            if given is not None:
                readers[given] -= 1
                if not readers[given]:
                    blocks.pop(given, None)


def _block(output: Output, blocks: dict[Output, NDArray[Any]]) -> NDArray[Any]:
    block = blocks.get(output)
    if block is None:
        block = output.value
        assert isinstance(block, np.ndarray), output.expression.op == SOURCE
    return block
