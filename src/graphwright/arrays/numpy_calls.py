"""Calls as NumPy takes them: arguments by place, and NumPy itself for what is not here.

The functions of the namespace have the signatures of the array API standard, where most arguments
go by name. NumPy takes many of them by place: `sum(x, 0)`. `as_numpy` gives arguments beyond a
function's own the names that NumPy's function of the same name has at their places.

An argument or a name that only NumPy has is left to NumPy: arrays are computed, NumPy is called in
this process, and arrays are made of what it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, signature
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from graphwright.arrays.array import Array, asarray
from graphwright.arrays.expression import DTYPE_BYTES

PACKAGE = "graphwright.arrays"
BY_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class Namespace(SimpleNamespace):
    """Functions by their names, with the others of a module of NumPy's behind them."""

    __slots__ = ("_home", "_name")

    def __init__(self, functions: Mapping[str, Any], home: ModuleType, name: str) -> None:
        super().__init__(**as_numpy_all(functions, home, f"{name}."))
        self._home, self._name = home, name

    def __getattr__(self, name: str) -> Any:
        if name in self.__slots__:  # not there yet
            raise AttributeError(name)
        return from_numpy(name, self._home, f"{PACKAGE}.{self._name}")


def as_numpy_all(
    functions: Mapping[str, Any], home: ModuleType, prefix: str = ""
) -> dict[str, Any]:
    """Functions that can be called as those of a module of NumPy's with their names."""
    made = {}
    for name, function in functions.items():
        theirs = getattr(home, name, None)
        known = callable(theirs) and callable(function) and not isinstance(theirs, type)
        made[name] = as_numpy(function, theirs) if known else function
        if made[name] is not function:  # so that it can be pickled
            made[name].__module__, made[name].__qualname__ = PACKAGE, f"{prefix}{name}"
    return made


def as_numpy(function: Callable[..., Any], theirs: Any) -> Callable[..., Any]:
    """A function that can be called as NumPy's."""
    own = signature(function).parameters
    if any(p.kind == Parameter.VAR_KEYWORD for p in own.values()):
        return function
    places = [name for name, p in own.items() if p.kind in BY_PLACE]
    more = any(p.kind == Parameter.VAR_POSITIONAL for p in own.values())
    known = signature(theirs).parameters
    names = [name for name, p in known.items() if p.kind in BY_PLACE]
    computed = with_numpy(theirs)

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        if more or len(args) <= len(places):
            given, extra = args, {}
        else:
            given = args[: len(places)]
            extra = dict(zip(names[len(places) :], args[len(places) :], strict=False))
        fits = len(given) + len(extra) == len(args) and not extra.keys() & named.keys()
        if fits and extra.keys() | named.keys() <= own.keys():
            return function(*given, **extra, **named)
        if (len(args) > len(names) and not more) or not named.keys() <= known.keys():
            return function(*args, **named)  # which says what is wrong
        return computed(*args, **named)

    return call


def from_numpy(name: str, home: ModuleType, here: str) -> Any:
    """What a module of NumPy's has under a name; functions take and make arrays."""
    if name.startswith("_") or not hasattr(home, name):
        raise AttributeError(f"neither {here} nor {home.__name__} has {name!r}")
    found = getattr(home, name)
    return with_numpy(found) if callable(found) and not isinstance(found, type) else found


def with_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy's that is given computed arrays, and whose results are arrays."""

    def call(*args: Any, **named: Any) -> Any:
        made = function(*computed(args), **{name: computed(x) for name, x in named.items()})
        return _arrays(made)

    name = getattr(function, "__name__", type(function).__name__)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"NumPy's {name}, computed at once in this process."
    return call


def computed(value: Any) -> Any:
    """A value with NumPy arrays in the place of arrays."""
    if isinstance(value, Array):
        return value.compute()
    if type(value) in (tuple, list):
        return type(value)(computed(item) for item in value)
    return value


def _arrays(made: Any) -> Any:
    if isinstance(made, np.ndarray | np.generic):
        return asarray(made) if made.dtype.name in DTYPE_BYTES else made
    if isinstance(made, tuple) and hasattr(made, "_fields"):
        return type(made)(*map(_arrays, made))
    return type(made)(map(_arrays, made)) if type(made) in (tuple, list) else made
