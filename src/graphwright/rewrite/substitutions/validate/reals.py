"""Values of terms as real expressions of Z3: symbolic execution of the descriptions.

Arrays hold Python objects, numbers or expressions; the reference evaluator does the rest. ReLU and
the maximum of a window are exact. Products with 0 and 1 are folded, so that padding costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np

from graphwright.describe import Array, NumberSystem
from graphwright.rewrite.substitutions.graphs import Expression, Input, Substitution, sizes_of
from graphwright.rewrite.substitutions.values import Given, evaluate, shapes_of
from graphwright.symbolic import prove as logic

Binary = Callable[[Any, Any], Any]


def _multiply(a: Any, b: Any) -> Any:
    if isinstance(a, int) and a in (0, 1):
        return b if a else 0
    if isinstance(b, int) and b in (0, 1):
        return a if b else 0
    return a * b


def _add(a: Any, b: Any) -> Any:
    if isinstance(a, int) and a == 0:
        return b
    return a if isinstance(b, int) and b == 0 else a + b


def _each(function: Binary) -> np.ufunc:
    """The function of every pair of elements; NumPy's numbers become Python's, which Z3 takes."""

    def plain(value: Any) -> Any:
        return value.item() if isinstance(value, np.generic) else value

    made: np.ufunc = np.frompyfunc(lambda a, b: function(plain(a), plain(b)), 2, 1)
    return made


def _lifted(function: Binary) -> Callable[..., Array]:
    each = _each(function)
    return lambda a, b: np.asarray(each(np.asarray(a, object), np.asarray(b, object)), object)


def _folded(function: Binary) -> Callable[..., Array]:
    each = _each(function)

    def fold(values: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
        made = np.asarray(values, object)
        for d in axis:
            made = np.asarray(each.reduce(made, axis=d, keepdims=True), object)
        return made

    return fold


REALS = NumberSystem(
    functions={
        "add": _lifted(_add),
        "mul": _lifted(_multiply),
        "div": _lifted(logic.divide),
        "maximum": _lifted(logic.maximum),
    },
    folds={"sum": _folded(_add), "max": _folded(logic.maximum)},
    constant=lambda value: value if value == -inf else int(value),
)
"""Real expressions of Z3."""


def check(item: Substitution, given: Given, seconds: float) -> logic.Answer:
    """Whether both graphs are equal for all real values of inputs of these shapes."""
    shapes = shapes_of([*item.source, *item.target], given)
    assert shapes is not None
    values: dict[Expression, Array] = {}
    for e, shape in given.items():
        if isinstance(e, Input):
            array = np.empty(sizes_of(shape), object)
            for at in np.ndindex(array.shape):
                array[at] = logic.real(f"{e.name}{list(at)}")
            values[e] = array
    sides = evaluate([*item.source, *item.target], values, shapes, REALS)
    count = len(item.source)
    pairs = zip(sides[:count], sides[count:], strict=True)
    return logic.prove_equal(
        ((a, b) for x, y in pairs for a, b in zip(x.flat, y.flat, strict=True)), seconds
    )
