"""Functions by their names: those of NumPy and SciPy, our own, and users'.

A graph is data, so a node names its function: ``numpy.arctan2``, ``scipy.special.ndtri``,
``user.3fd2``. A user's function travels beside the graph, under its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from graphwright.ir import Attr

Function = Callable[..., Any]
Functions = Mapping[str, Function]

_ATEN: dict[str, str] = {
    "add": "add.Tensor", "subtract": "sub.Tensor", "multiply": "mul.Tensor", "divide": "div.Tensor",
    "floor_divide": "floor_divide", "remainder": "remainder.Tensor", "power": "pow.Tensor_Tensor",
    "negative": "neg", "positive": "positive", "absolute": "abs", "square": "square",
    "sqrt": "sqrt", "exp": "exp", "expm1": "expm1", "log": "log", "log1p": "log1p", "log2": "log2",
    "log10": "log10", "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "asin", "arccos": "acos",
    "arctan": "atan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "arcsinh": "asinh",
    "arccosh": "acosh", "arctanh": "atanh", "arctan2": "atan2", "hypot": "hypot",
    "logaddexp": "logaddexp", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "round",
    "sign": "sgn", "signbit": "signbit", "reciprocal": "reciprocal", "isnan": "isnan",
    "isinf": "isinf", "isfinite": "isfinite", "invert": "bitwise_not",
    "logical_not": "logical_not", "bitwise_and": "bitwise_and.Tensor",
    "bitwise_or": "bitwise_or.Tensor", "bitwise_xor": "bitwise_xor.Tensor",
    "left_shift": "bitwise_left_shift.Tensor", "right_shift": "bitwise_right_shift.Tensor",
    "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor",
    "equal": "eq.Tensor", "not_equal": "ne.Tensor", "less": "lt.Tensor", "less_equal": "le.Tensor",
    "greater": "gt.Tensor", "greater_equal": "ge.Tensor", "maximum": "maximum",
    "minimum": "minimum", "fmax": "fmax", "fmin": "fmin", "copysign": "copysign.Tensor",
    "heaviside": "heaviside", "where": "where.self",
}  # fmt: skip

ELEMENTWISE: dict[str, tuple[str, dict[str, Attr]]] = {
    name: (f"aten.{op}", {"alpha": 1} if op in ("add.Tensor", "sub.Tensor") else {})
    for name, op in _ATEN.items()
}
"""The operator, with its attributes, of each function of NumPy that ATen has as well."""


def user_function(name: str) -> bool:
    """Whether a name is that of a user's function."""
    return name.startswith("user.")


def find_function(name: str, functions: Functions) -> Function:
    """The function of a name; `functions` are the users'."""
    return functions[name] if user_function(name) else _import(name)


@cache
def _import(name: str) -> Function:
    module, _, attribute = name.rpartition(".")
    function: Function = getattr(import_module(module), attribute)
    return function
