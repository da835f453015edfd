"""The five operators that everything is made of (Spartan section 2.2), with users' own functions.

    map          a function of the elements at the same place
    filter       the elements that a function says to keep
    fold         an associative function of two rows, applied until one is left
    scan         the same, with every result on the way
    join_update  rows of one array joined to rows of another, found by their places

A function of `map` and `filter` is given blocks, NumPy arrays of whatever part of the operands a
worker has, and returns a block of the same shape: write it with NumPy as for whole arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from graphwright.arrays.array import Array, asarray, cast, make
from graphwright.arrays.errors import FunctionFailed, InvalidIndex, ShapeMismatch
from graphwright.arrays.expression import name_function
from graphwright.arrays.namespace.elementwise import broadcast_shapes, lift
from graphwright.arrays.namespace.indexing import counted_from_start, getitem
from graphwright.arrays.namespace.shapes import axis_of, broadcast_to, moveaxis
from graphwright.arrays.operators import special
from graphwright.describe import define_reducer

Function = Callable[..., Any]


def map(function: Function, /, *arrays: Any, dtype: Any = None) -> Array:
    """A function of the elements at the same place; arrays broadcast.

    Without a `dtype` the function is tried on blocks of one element, to see what it makes.
    """
    given = lift(*arrays)
    name = name_function(function)
    wanted = _tried(function, given) if dtype is None else np.dtype(dtype)
    shape = broadcast_shapes(*(x.shape for x in given))
    attrs = {"function": name, "dtype": wanted.name}
    return make("array.map", given, attrs, shape, wanted, {name: function})


def _tried(function: Function, given: list[Array]) -> np.dtype[Any]:
    try:
        return np.asarray(function(*(np.ones((1,) * x.ndim, x.dtype) for x in given))).dtype
    except Exception as error:
        raise FunctionFailed(
            f"{function!r} failed on blocks of one element, tried to see its dtype: {error}; give "
            "dtype= if it cannot work on these"
        ) from error


def filter(function: Function, x: Any, /) -> Array:
    """The elements, in row-major order, for which a function is true; computed at once."""
    given = asarray(x)
    return getitem(given, map(function, given, dtype=np.bool_))


def fold(function: Function, x: Any, /, *, axis: int = 0) -> Array:
    """An associative, commutative function of two rows, applied until one is left."""
    given = asarray(x)
    d = axis_of(axis, given.ndim)
    if not given.shape[d]:
        raise ShapeMismatch(f"dim {d} of {given.shape} is empty: there is nothing to fold")
    name = name_function(function)
    define_reducer(name, partial(_fold_all, function), function)
    rows = moveaxis(given, d, 0)
    attrs = {"reducer_name": name}
    return make("array.fold", [rows], attrs, rows.shape[1:], given.dtype, {name: function})


def _fold_all(function: Function, values: Any, axis: Any = 0, keepdims: bool = False) -> Any:
    """What a reducer of a description does with all values at once."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    for a in sorted((a % values.ndim for a in axes), reverse=True):
        rows = list(np.moveaxis(values, a, 0))
        made = rows[0]
        for row in rows[1:]:
            made = function(made, row)
        values = np.expand_dims(made, a) if keepdims else np.asarray(made)
    return values


def scan(function: Function, x: Any, /, *, axis: int = 0) -> Array:
    """For every place of a dim what `fold` makes of all up to it."""
    given = asarray(x)
    lines = moveaxis(given, axis_of(axis, given.ndim), -1)
    name = name_function(function)
    run = partial(special.running, function=function)
    attrs: dict[str, Any] = {"function": name, "dims": lines.ndim - 1, "options": ()}
    made = make("array.batch", [lines], attrs, lines.shape, lines.dtype, {name: run})
    return moveaxis(made, -1, axis)


def join_update(
    x: Any, places: Any, values: Any, /, function: Function | np.ufunc = np.add
) -> Array:
    """Rows of `x` with rows of `values` joined to them, each to the one at its place.

    `x[places[n]] = function(x[places[n]], values[n])` for every n, places may repeat.
    """
    given, rows = asarray(x), asarray(places)
    if rows.ndim != 1 or not given.ndim:
        raise ShapeMismatch(f"places are one line, not {rows.shape}; x has one dim at least")
    if rows.dtype.kind not in "iu" and rows.size:
        raise InvalidIndex(f"places are integers, not {rows.dtype}")
    rows = counted_from_start(cast(rows, np.int64), given.shape[0], 0)
    new = broadcast_to(cast(lift(values, given)[0], given.dtype), (rows.size, *given.shape[1:]))
    if function is np.add:
        attrs: dict[str, Any] = {"dim": 0, "alpha": 1}
        return make("aten.index_add", [given, rows, new], attrs, given.shape, given.dtype)
    name = name_function(function)
    run = partial(special.scatter, function=function)
    attrs = {"function": name, "dims": 0, "options": ()}
    return make("array.batch", [given, rows, new], attrs, given.shape, given.dtype, {name: run})


FUNCTIONS: dict[str, Any] = {
    "map": map, "filter": filter, "fold": fold, "scan": scan, "join_update": join_update,
}  # fmt: skip
