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
            return function(*args)

    return run


_NUMPY: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": lambda a, b: np.subtract(*_arithmetic(a, b)),
    "mul": np.multiply,
    "div": np.true_divide,
    "pow": lambda a, b: np.power(*_powers(a, b)),
    "neg": np.negative,
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
    "where": np.where,
    "cast": lambda a: a,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "floordiv": np.floor_divide,
    "truncdiv": lambda a, b: np.trunc(np.true_divide(a, b)),
    "remainder": np.mod,
    "fmod": np.fmod,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "copysign": np.copysign,
    "logaddexp": np.logaddexp,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "shiftleft": np.left_shift,
    "shiftright": np.right_shift,
    "abs": np.abs,
    "sign": np.sign,
    "signbit": np.signbit,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "log10": np.log10,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": _special("erf"),
    "erfinv": _special("erfinv"),
    "lgamma": _special("gammaln"),
    "digamma": _special("psi"),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.round,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "int": _integer,
    "index": lambda a: np.floor(a).astype(np.int64),
}

FUNCTIONS = {name: _quiet(function) for name, function in _NUMPY.items()}
"""All functions that a `Call` may name."""


def _arithmetic(a: Array, b: Array) -> tuple[Array, Array]:
    """Booleans as 0 and 1, as in PyTorch."""
    return (np.asarray(a) + 0, np.asarray(b) + 0) if _boolean(a) and _boolean(b) else (a, b)


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
