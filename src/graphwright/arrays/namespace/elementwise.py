"""Functions of elements: those of the array API standard, and NumPy's others under their names.

Each is one operator, `array.map` where ATen has none. Operands broadcast; Python numbers take the
dtype of the array beside them where that can hold their kind.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from graphwright.arrays.array import Array, asarray, cast, duplicate, make
from graphwright.arrays.errors import NumberTooLarge, ShapeMismatch
from graphwright.arrays.operators import ELEMENTWISE

STANDARD_NAMES = {
    "abs": "absolute", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh",
    "atan": "arctan", "atan2": "arctan2", "atanh": "arctanh", "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift", "pow": "power",
    "round": "rint", "mod": "remainder", "true_divide": "divide", "bitwise_not": "invert",
    "conj": "conjugate",
}  # fmt: skip
"""Names that NumPy's own functions go by here besides their first one."""

ONE = (
    "absolute", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "invert", "ceil",
    "conjugate", "cos", "cosh", "exp", "expm1", "floor", "imag", "isfinite", "isinf", "isnan",
    "log", "log1p", "log2", "log10", "logical_not", "negative", "positive", "real", "reciprocal",
    "rint", "sign", "signbit", "sin", "sinh", "square", "sqrt", "tan", "tanh", "trunc", "cbrt",
    "exp2", "fabs", "deg2rad", "rad2deg", "degrees", "radians", "spacing", "sinc", "angle", "i0",
    "isposinf", "isneginf",
)  # fmt: skip
TWO = (
    "add", "arctan2", "bitwise_and", "left_shift", "bitwise_or", "right_shift", "bitwise_xor",
    "copysign", "divide", "equal", "floor_divide", "greater", "greater_equal", "hypot", "less",
    "less_equal", "logaddexp", "logical_and", "logical_or", "logical_xor", "maximum", "minimum",
    "multiply", "nextafter", "not_equal", "power", "remainder", "subtract", "fmod", "fmax", "fmin",
    "heaviside", "logaddexp2", "float_power", "ldexp", "gcd", "lcm",
)  # fmt: skip

WITHIN_DTYPE = {
    "add", "subtract", "multiply", "floor_divide", "remainder", "fmod", "power", "maximum",
    "minimum", "fmax", "fmin", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift",
    "right_shift", "gcd", "lcm",
}  # fmt: skip
"""Functions that make integers of integers, of the same dtype."""


def apply(name: str, *operands: Any) -> Array:
    """A function of NumPy of the elements of arrays and numbers."""
    given = lift(*operands, has_to_fit=name in WITHIN_DTYPE)
    dtype = _result_dtype(name, *(x.dtype for x in given))
    op, attrs = ELEMENTWISE.get(name, ("array.map", {"function": f"numpy.{name}"}))
    return make(op, given, attrs, broadcast_shapes(*(x.shape for x in given)), dtype)


def lift(*operands: Any, has_to_fit: bool = False) -> list[Array]:
    """Arrays of all operands; numbers in the dtype that they have beside the arrays.

    An integer that does not fit it gets a larger one, or is refused if it `has_to_fit`.
    """
    weak = [isinstance(x, bool | int | float | complex) for x in operands]
    arrays = [None if w else asarray(x) for x, w in zip(operands, weak, strict=True)]
    known = [x.dtype for x in arrays if x is not None]
    return [
        _number(x, known, has_to_fit) if a is None else a
        for x, a in zip(operands, arrays, strict=True)
    ]


def _number(number: Any, beside: list[np.dtype[Any]], has_to_fit: bool) -> Array:
    if isinstance(number, np.generic) or not beside:
        return asarray(np.asarray(number))
    try:
        return asarray(np.asarray(number, dtype=np.result_type(*beside, number)))
    except OverflowError:
        if not has_to_fit and all(dtype.kind in "iub" for dtype in beside):
            return asarray(np.asarray(number))
        dtype = np.result_type(*beside)
        raise NumberTooLarge(f"{number} does not fit {dtype}; cast the array first") from None


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that arrays of these shapes have together."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        shown = " and ".join(map(str, shapes))
        raise ShapeMismatch(
            f"shapes {shown} do not broadcast: aligned at their last dims, sizes must be equal or 1"
        ) from None


@cache
def _result_dtype(name: str, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
    function = getattr(np, name)
    with np.errstate(all="ignore"):
        return np.asarray(function(*(np.ones(1, dtype=d) for d in dtypes))).dtype


def _one(name: str) -> Callable[..., Array]:
    def function(x: Any, /) -> Array:
        return apply(name, x)

    return _named(function, name, "x")


def _two(name: str) -> Callable[..., Array]:
    def function(x1: Any, x2: Any, /) -> Array:
        return apply(name, x1, x2)

    return _named(function, name, "x1, x2")


def _named(function: Callable[..., Array], name: str, arguments: str) -> Callable[..., Array]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"numpy.{name}({arguments}) of every element."
    return function


FUNCTIONS: dict[str, Callable[..., Array]] = {
    **{name: _one(name) for name in ONE},
    **{name: _two(name) for name in TWO},
}
FUNCTIONS |= {alias: FUNCTIONS[name] for alias, name in STANDARD_NAMES.items()}


def _same(x: Any, name: str) -> Array:
    """Integers are their own floor, ceiling and whole part."""
    given = asarray(x)
    return duplicate(given) if given.dtype.kind in "iu" else apply(name, given)


def ceil(x: Any, /) -> Array:
    """The least whole number that is not below each element."""
    return _same(x, "ceil")


def floor(x: Any, /) -> Array:
    """The greatest whole number that is not above each element."""
    return _same(x, "floor")


def trunc(x: Any, /) -> Array:
    """Each element without its fraction."""
    return _same(x, "trunc")


def round(x: Any, /, decimals: int = 0) -> Array:
    """The nearest number of so many decimals, the even one of two."""
    given = asarray(x)
    if decimals:
        scale = 10.0 ** abs(decimals)
        way = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
        return cast(apply(way[1], apply("rint", apply(way[0], given, scale)), scale), given.dtype)
    return duplicate(given) if given.dtype.kind in "iu" else apply("rint", given)


def clip(x: Any, /, min: Any = None, max: Any = None) -> Array:
    """Each element, but no less than `min` and no more than `max`."""
    given = duplicate(asarray(x))
    kept = given.dtype
    for bound, name in ((min, "maximum"), (max, "minimum")):
        if bound is not None:
            given = apply(name, given, bound)
    return given if given.dtype == kept or kept.kind == "f" else _back(given, kept, min, max)


def _back(clipped: Array, kept: np.dtype[Any], *bounds: Any) -> Array:
    """Bounds that are Python numbers do not change the dtype."""
    weak = all(b is None or isinstance(b, bool | int | float) for b in bounds)
    return cast(clipped, kept) if weak else clipped


def where(condition: Any, x1: Any, x2: Any, /) -> Array:
    """The elements of `x1` where the condition holds, else of `x2`."""
    chosen, (first, second) = asarray(condition), lift(x1, x2)
    if chosen.dtype != np.bool_:
        chosen = apply("not_equal", chosen, 0)
    dtype = np.result_type(first.dtype, second.dtype)
    given = [chosen, cast(first, dtype), cast(second, dtype)]
    return make("aten.where.self", given, {}, broadcast_shapes(*(x.shape for x in given)), dtype)


def nan_to_num(x: Any, /, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Array:
    """Each element, but numbers in the place of NaN and infinities."""
    given = asarray(x)
    if given.dtype.kind != "f":
        return duplicate(given)
    limits = np.finfo(given.dtype)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    made = where(apply("isnan", given), nan, given)
    made = where(apply("equal", made, np.inf), high, made)
    return where(apply("equal", made, -np.inf), low, made)


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8) -> Array:
    """Whether elements differ by no more than `atol + rtol * |b|`."""
    x, y = lift(a, b)
    near = apply(
        "less_equal",
        apply("absolute", apply("subtract", x, y)),
        apply("add", atol, apply("multiply", rtol, apply("absolute", y))),
    )
    finite = apply("logical_and", apply("isfinite", x), apply("isfinite", y))
    return where(finite, near, apply("equal", x, y))


FUNCTIONS |= {
    "ceil": ceil, "floor": floor, "trunc": trunc, "round": round, "around": round, "clip": clip,
    "where": where, "nan_to_num": nan_to_num, "isclose": isclose,
}  # fmt: skip
