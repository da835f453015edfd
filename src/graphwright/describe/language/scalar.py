"""The scalar functions and reducers of descriptions, implemented in NumPy.

The operators themselves are described in `library`. A reducer must be commutative and associative;
`define_reducer` adds one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def _special(name: str) -> Callable[..., Array]:
    def run(*args: Array) -> Array:
        import scipy.special

        function: Callable[..., Array] = getattr(scipy.special, name)
        return function(*args)

    return run


def _integer(x: Array) -> Array:
    return np.trunc(x) if np.issubdtype(np.asarray(x).dtype, np.floating) else x


def _quiet(function: Callable[..., Array]) -> Callable[..., Array]:
    def run(*args: Array) -> Array:
        with np.errstate(all="ignore"):
            made = function(*args)
            if np.asarray(made).dtype == np.float16:  # NumPy has it for functions of truth values
                made = function(*(np.asarray(a, dtype=float) for a in args))
            return made

    return run


_SAME_NAME = """
    abs cos cosh ceil exp expm1 floor fmax fmin fmod hypot isinf isnan log log10 log1p log2
    logaddexp maximum minimum round signbit sin sinh sqrt tan tanh trunc copysign where
"""
"""Functions that have the same name in NumPy."""

_NUMPY: dict[str, Callable[..., Array]] = {
    **{name: getattr(np, name) for name in _SAME_NAME.split()},
    "add": np.add,
    "sub": lambda a, b: np.subtract(*_arithmetic(a, b)),
    "mul": np.multiply,
    "div": np.true_divide,
    "pow": lambda a, b: np.power(*_powers(a, b)),
    "neg": lambda a: np.negative(_number(a)),
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
    "not": np.logical_not,
    "bitand": np.bitwise_and,
    "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor,
    "bitnot": np.invert,
    "cast": lambda a: a,
    "ignored": lambda a: np.zeros((), np.asarray(a).dtype),
    "floordiv": np.floor_divide,
    "truncdiv": lambda a, b: np.trunc(np.true_divide(a, b)),
    "remainder": np.mod,
    "shiftleft": np.left_shift,
    "shiftright": np.right_shift,
    "sign": lambda a: np.nan_to_num(np.sign(_number(a)), nan=0),
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": _special("erf"),
    "erfinv": _special("erfinv"),
    "lgamma": _special("gammaln"),
    "digamma": _special("psi"),
    "int": _integer,
    "index": lambda a: np.floor(a).astype(np.int64),
}

FUNCTIONS = {name: _quiet(function) for name, function in _NUMPY.items()}
"""All functions that a `Call` may name."""


def _arithmetic(a: Array, b: Array) -> tuple[Array, Array]:
    """Booleans as 0 and 1, as in PyTorch."""
    return (_number(a), _number(b)) if _boolean(a) and _boolean(b) else (a, b)


def _number(a: Array) -> Array:
    """A boolean as 0 or 1."""
    return np.asarray(a) + 0 if _boolean(a) else np.asarray(a)


def _boolean(a: Array) -> bool:
    return np.asarray(a).dtype == np.bool_


def _powers(a: Array, b: Array) -> tuple[Array, Array]:
    if np.issubdtype(np.asarray(a).dtype, np.integer) and np.any(np.asarray(b) < 0):
        return np.asarray(a, dtype=float), b
    return a, b


@dataclass(frozen=True, slots=True)
class Reducer:
    """A reduction: `fold` reduces given axes and keeps them, `join` combines two results."""

    fold: Callable[..., Array]
    join: Callable[[Array, Array], Array] | None


def _position(find: Callable[..., Array]) -> Callable[..., Array]:
    def fold(values: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
        rest = [d for d in range(values.ndim) if d not in axis]
        flat = values.transpose(*rest, *axis).reshape(*(values.shape[d] for d in rest), -1)
        return np.expand_dims(find(flat, axis=-1), axis)

    return fold


REDUCERS: dict[str, Reducer] = {
    "sum": Reducer(np.sum, np.add),
    "prod": Reducer(np.prod, np.multiply),
    "max": Reducer(np.max, np.maximum),
    "min": Reducer(np.min, np.minimum),
    "any": Reducer(np.any, np.logical_or),
    "all": Reducer(np.all, np.logical_and),
    "argmax": Reducer(_position(np.argmax), None),
    "argmin": Reducer(_position(np.argmin), None),
}
"""All reducers that a `Reduce` may name."""


def define_reducer(
    name: str, fold: Callable[..., Array], join: Callable[[Array, Array], Array]
) -> None:
    """Add a commutative, associative reducer: `fold(values, axis=, keepdims=)`, `join(a, b)`."""
    REDUCERS[name] = Reducer(fold, join)
