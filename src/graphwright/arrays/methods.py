"""The operators and methods of `Array`, from the functions of the namespace."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from graphwright.arrays.array import Array, asarray, cast, duplicate
from graphwright.arrays.errors import ImmutableArray, InvalidArgument
from graphwright.arrays.namespace import (
    elementwise,
    indexing,
    linalg,
    reductions,
    searching,
    shapes,
)
from graphwright.arrays.numpy_calls import computed

OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "power", "and": "bitwise_and",
    "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip
COMPARISONS = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal",
    "ne": "not_equal",
}  # fmt: skip
UNARY = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}
OPERANDS = (Array, bool, int, float, complex, np.ndarray, np.generic, list)


def install(namespace: ModuleType) -> None:
    """Give `Array` its operators and methods, and arrays of NumPy theirs with it."""
    for name, function in (OPERATORS | COMPARISONS).items():
        setattr(Array, f"__{name}__", _binary(function))
    for name, function in OPERATORS.items():
        setattr(Array, f"__r{name}__", _reflected(function))
        setattr(Array, f"__i{name}__", _in_place(function))
    for name, function in UNARY.items():
        setattr(Array, f"__{name}__", elementwise.FUNCTIONS[function])
    methods = {name: reductions.FUNCTIONS[name] for name in _REDUCTIONS}
    methods |= {name: shapes.FUNCTIONS[name] for name in ("squeeze", "swapaxes", "ravel")}
    methods |= {"repeat": shapes.repeat, "round": elementwise.round, "clip": elementwise.clip}
    methods |= {"dot": linalg.dot, "take": indexing.take, "nonzero": searching.nonzero}
    methods |= {"argsort": searching.argsort, "trace": linalg.trace, "diagonal": shapes.diagonal}
    for name, method in methods.items():
        setattr(Array, name, _method(method))
    own: dict[str, Any] = {
        "__getitem__": indexing.getitem, "__matmul__": _product, "__rmatmul__": _reflected_product,
        "__divmod__": _divmod, "astype": _astype, "reshape": _reshape, "transpose": _transpose,
        "__setitem__": indexing.assign_at, "__imatmul__": _product_in_place,
        "flatten": lambda self: duplicate(shapes.ravel(self)), "copy": duplicate,
        "conj": elementwise.FUNCTIONS["conj"],
        "T": property(shapes.transpose), "mT": property(shapes.matrix_transpose),
        "real": property(elementwise.FUNCTIONS["real"]),
        "imag": property(elementwise.FUNCTIONS["imag"]),
        "__array_namespace__": _namespace_of(namespace),
        "__array_ufunc__": _ufunc(namespace), "__array_function__": _function(namespace),
    }  # fmt: skip
    for name, method in own.items():
        setattr(Array, name, method)


_REDUCTIONS = (
    "sum", "prod", "max", "min", "any", "all", "mean", "var", "std", "argmax", "argmin", "cumsum",
    "cumprod", "ptp",
)  # fmt: skip


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method takes an axis, or whatever comes first, without its name, as NumPy's do."""

    def method(self: Array, *args: Any, **named: Any) -> Any:
        if len(args) == 1 and function.__name__ not in _BY_PLACE:
            return function(self, axis=args[0], **named)
        return function(self, *args, **named)

    method.__name__ = method.__qualname__ = function.__name__
    method.__doc__ = function.__doc__
    return method


_BY_PLACE = ("swapaxes", "ravel", "repeat", "round", "clip", "dot", "take", "nonzero")


def _binary(name: str) -> Callable[..., Any]:
    def method(self: Array, other: Any) -> Any:
        if name in ("equal", "not_equal") and isinstance(other, str | bytes | None):
            return shapes.broadcast_to(asarray(np.asarray(name == "not_equal")), self.shape)
        if not isinstance(other, OPERANDS):
            return NotImplemented
        return elementwise.apply(name, self, other)

    return method


def _reflected(name: str) -> Callable[..., Any]:
    def method(self: Array, other: Any) -> Any:
        if not isinstance(other, OPERANDS):
            return NotImplemented
        return elementwise.apply(name, other, self)

    return method


def _in_place(name: str) -> Callable[..., Any]:
    def method(self: Array, other: Any) -> Any:
        if not isinstance(other, OPERANDS):
            return NotImplemented
        return indexing.take_over(self, elementwise.apply(name, self, other))

    return method


def _product_in_place(self: Array, other: Any) -> Any:
    return (
        indexing.take_over(self, linalg.matmul(self, other))
        if isinstance(other, OPERANDS)
        else NotImplemented
    )


def _product(self: Array, other: Any) -> Any:
    return linalg.matmul(self, other) if isinstance(other, OPERANDS) else NotImplemented


def _reflected_product(self: Array, other: Any) -> Any:
    return linalg.matmul(other, self) if isinstance(other, OPERANDS) else NotImplemented


def _divmod(self: Array, other: Any) -> Any:
    if not isinstance(other, OPERANDS):
        return NotImplemented
    return self // other, self % other  # type: ignore[operator]


def _astype(self: Array, dtype: Any, *, copy: bool = True) -> Array:
    made = cast(self, dtype)
    return duplicate(made) if copy and made is self else made


def _reshape(self: Array, *shape: Any, order: str = "C") -> Array:
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
    return shapes.reshape(self, tuple(sizes), order=order)


def _transpose(self: Array, *axes: Any) -> Array:
    if not axes or axes == (None,):
        return shapes.transpose(self)
    return shapes.permute_dims(self, axes[0] if isinstance(axes[0], tuple | list) else axes)


def _namespace_of(namespace: ModuleType) -> Callable[..., ModuleType]:
    versions = ("2021.12", "2022.12", "2023.12", "2024.12")

    def method(self: Array, /, *, api_version: str | None = None) -> ModuleType:
        if api_version is not None and api_version not in versions:
            raise InvalidArgument(f"version {api_version!r} of the standard; one of {versions}")
        return namespace

    return method


def _ufunc(namespace: ModuleType) -> Callable[..., Any]:
    """numpy.add(x, y) of an array is lazy; what has no counterpart here is NumPy's, computed."""

    def method(self: Array, ufunc: np.ufunc, how: str, *inputs: Any, **named: Any) -> Any:
        if any(isinstance(x, Array) for x in named.get("out", ())):
            raise ImmutableArray(f"out= of numpy.{ufunc.__name__} is an array; arrays are values")
        if how == "__call__" and not named and ufunc.__name__ in elementwise.FUNCTIONS:
            return elementwise.FUNCTIONS[ufunc.__name__](*inputs)
        if how == "__call__" and not named and ufunc.__name__ == "matmul":
            return linalg.matmul(*inputs)
        made = getattr(ufunc, how)(*computed(inputs), **{k: computed(v) for k, v in named.items()})
        if "out" in named:
            return made
        return tuple(map(asarray, made)) if isinstance(made, tuple) else asarray(made)

    return method


def _function(namespace: ModuleType) -> Callable[..., Any]:
    """numpy.sum(x) of an array is lazy, and so on."""

    def method(
        self: Array, func: Callable[..., Any], types: Any, args: Any, kwargs: dict[str, Any]
    ) -> Any:
        home = func.__module__.removeprefix("numpy").strip(".")
        room = getattr(namespace, home, namespace) if home in ("linalg", "fft") else namespace
        own = vars(room).get(func.__name__)
        if own is not None:
            try:
                return own(*args, **kwargs)
            except TypeError as error:
                if "argument" not in str(error):
                    raise
        return func(*computed(args), **{k: computed(v) for k, v in kwargs.items()})

    return method
