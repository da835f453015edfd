"""x[key]: numbers, slices, new dims and the ellipsis are views; arrays of places are lookups.

A mask of truth values says how many elements the result has, so it is computed at once; everything
else stays lazy.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from graphwright.arrays.array import Array, Family, Step, asarray, cast, duplicate, make, wrap
from graphwright.arrays.errors import ImmutableArray, InvalidIndex, ShapeMismatch, UnsupportedDtype
from graphwright.arrays.namespace.elementwise import apply, broadcast_shapes, lift, where
from graphwright.arrays.namespace.shapes import (
    axis_of,
    broadcast_to,
    concat,
    count_up,
    expand_dims,
    flip,
    permute_dims,
    repeat,
    reshape,
    select,
    take_slice,
)
from graphwright.ir import Attr


def getitem(x: Array, key: Any) -> Array:
    """The elements at a key."""
    if isinstance(key, bool | np.bool_) or (
        isinstance(key, Array | np.ndarray) and key.dtype == np.bool_ and not key.ndim
    ):  # a mask without dims chooses all or nothing
        return duplicate(take_slice(expand_dims(x, 0), 0, 0, int(bool(key))))
    entries = _entries(x, key)
    new = [place for place, entry in enumerate(entries) if entry is None]
    if new:
        x = expand_dims(x, tuple(new))
        entries = [slice(None) if entry is None else entry for entry in entries]
    lookups = any(isinstance(entry, Array) for entry in entries)
    dim = 0
    for place, entry in enumerate(entries):
        if isinstance(entry, slice):
            x = _slice(x, dim, entry)
        elif isinstance(entry, int):
            number = _inside(entry, x.shape[dim], dim)
            if not lookups:
                x = select(x, dim, number)
                continue
            entries[place] = asarray(np.asarray(number))
        dim += 1
    return _look_up(x, entries) if lookups else x


def _entries(x: Array, key: Any) -> list[Any]:
    """One entry for each dim of x, and None for each new one."""
    keys: list[Any] = []
    masked: dict[int, int] = {}
    for entry in key if isinstance(key, tuple) else (key,):
        new, shape = _entry(entry)
        masked.update(enumerate(shape, len(keys)))
        keys.extend(new)
    if sum(entry is Ellipsis for entry in keys) > 1:
        raise InvalidIndex("an index can only have a single ellipsis ('...')")
    given = sum(entry is not None and entry is not Ellipsis for entry in keys)
    if given > x.ndim:
        raise InvalidIndex(f"{given} indices for an array of {x.ndim} dims, {x.shape}")
    rest = [slice(None)] * (x.ndim - given)
    where = next((n for n, entry in enumerate(keys) if entry is Ellipsis), len(keys))
    for place, size in masked.items():
        before = sum(entry is not None and entry is not Ellipsis for entry in keys[:place])
        dim = before if place < where else before + len(rest)
        if x.shape[dim] != size:
            raise InvalidIndex(
                f"a mask of {size} truth values for dim {dim} of {x.shape}, which has "
                f"{x.shape[dim]}; a mask has the sizes of the dims that it chooses from"
            )
    return [*keys[:where], *rest, *keys[where + 1 :]]


def _entry(entry: Any) -> tuple[list[Any], tuple[int, ...]]:
    """What an entry of a key is for each dim, and the shape of a mask."""
    if entry is None or entry is Ellipsis or isinstance(entry, slice):
        return [entry], ()
    if isinstance(entry, bool | np.bool_):
        raise InvalidIndex("a single truth value indexes nothing; use ga.where, or an array")
    if isinstance(entry, Array | np.ndarray | list | range):
        places = asarray(list(entry) if isinstance(entry, range) else entry)
        if places.size == 0 and not isinstance(entry, Array | np.ndarray):
            places = asarray(np.zeros(places.shape, np.int64))
        if places.dtype == np.bool_ and places.ndim:
            return [wrap(found) for found in np.nonzero(places.compute())], places.shape
        if places.dtype.kind not in "iu":
            raise InvalidIndex(f"an index is of integers or truth values, not {places.dtype}")
        return [places if places.dtype == np.int64 else cast(places, np.int64)], ()
    try:
        return [index(entry)], ()
    except TypeError:
        raise InvalidIndex(
            f"{entry!r} indexes nothing: use integers, slices, None, ... and arrays of these"
        ) from None


def _inside(number: int, size: int, dim: int) -> int:
    if not -size <= number < size:
        raise InvalidIndex(f"index {number} is out of bounds for dim {dim} of size {size}")
    return number % size


def _slice(x: Array, dim: int, entry: slice) -> Array:
    start, stop, step = entry.indices(x.shape[dim])
    if step > 0:
        return take_slice(x, dim, start, max(start, stop), step)
    count = max(0, -(-(start - stop) // -step))
    last = start + (count - 1) * step
    return flip(
        take_slice(x, dim, last if count else 0, start + 1 if count else 0, -step), axis=dim
    )


def _look_up(x: Array, entries: Sequence[Any]) -> Array:
    """Elements by arrays of their places along some dims."""
    places = [
        counted_from_start(entry, x.shape[dim], dim) if isinstance(entry, Array) else None
        for dim, entry in enumerate(entries)
    ]
    used = [dim for dim, entry in enumerate(places) if entry is not None]
    shape = broadcast_shapes(*(p.shape for p in places if p is not None))
    if len(used) == 1 and len(shape) == 1:
        d = used[0]
        made = (*x.shape[:d], shape[0], *x.shape[d + 1 :])
        return make("aten.index_select", [x, places[d]], {"dim": d}, made, x.dtype)
    others = [n for dim, n in enumerate(x.shape) if dim not in used]
    together = used == list(range(used[0], used[-1] + 1))
    first = used[0] if together else 0
    made = (*others[:first], *shape, *others[first:])
    return make("aten.index.Tensor", [x, *places[: used[-1] + 1]], {}, made, x.dtype)


def counted_from_start(places: Array, size: int, dim: int) -> Array:
    """Places along a dim, negative ones counted from its end; checked where they are known."""
    known = places._output.value
    if isinstance(known, np.ndarray):
        if known.size and not (-size <= known.min() and known.max() < size):
            raise InvalidIndex(f"an index is out of bounds for dim {dim} of size {size}")
        return places if not known.size or known.min() >= 0 else wrap(known % size)
    return where(apply("less", places, 0), apply("add", places, size), places)


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Array:
    """The elements at some places of a dim; of the flattened array for None."""
    given = asarray(x)
    if axis is None:
        given, axis = reshape(given, (-1,)), 0
    d = axis_of(axis, given.ndim)
    places = asarray(indices)
    if places.dtype.kind not in "iu":
        raise InvalidIndex(f"an index is of integers, not {places.dtype}")
    return getitem(given, (*(slice(None),) * d, places))


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Array:
    """For every line along a dim, the elements at places of its own."""
    given, places = asarray(x), asarray(indices)
    if given.ndim != places.ndim:
        raise ShapeMismatch(f"{given.shape} and {places.shape} have to have as many dims")
    d = axis_of(axis, given.ndim)
    places = counted_from_start(cast(places, np.int64), given.shape[d], d)
    lines = broadcast_shapes(
        (*given.shape[:d], 1, *given.shape[d + 1 :]), (*places.shape[:d], 1, *places.shape[d + 1 :])
    )
    given = broadcast_to(given, (*lines[:d], given.shape[d], *lines[d + 1 :]))
    places = broadcast_to(places, (*lines[:d], places.shape[d], *lines[d + 1 :]))
    return make("aten.gather", [given, places], {"dim": d}, places.shape, given.dtype)


def update(x: Any, key: Any, value: Any) -> Array:
    """The array with other elements at a key: what `x[key] = value` would make of it."""
    given = asarray(x)
    if isinstance(key, Array | np.ndarray) and key.dtype == np.bool_ and np.ndim(value) == 0:
        mask = asarray(key)
        if mask.shape and mask.shape == given.shape[: mask.ndim]:
            mask = reshape(mask, (*mask.shape, *(1,) * (given.ndim - mask.ndim)))
            return where(mask, cast(lift(value, given)[0], given.dtype), given)
    entries = _entries(given, key)
    if not any(isinstance(entry, Array) for entry in entries):
        return _update_box(given, key, [entry for entry in entries if entry is not None], value)
    numbers = reshape(count_up(given.size), given.shape)
    chosen = getitem(numbers, key)
    new = broadcast_to(cast(lift(value, given)[0], given.dtype), chosen.shape)
    attrs: dict[str, Attr] = {
        "function": "graphwright.arrays.operators.special.put",
        "dims": 0,
        "options": (),
    }
    inputs = [given, reshape(chosen, (-1,)), reshape(new, (-1,))]
    return make("array.batch", inputs, attrs, given.shape, given.dtype)


def _update_box(x: Array, key: Any, entries: Sequence[int | slice], value: Any) -> Array:
    """The array with other elements in a box: joined from what is around the box and in it."""
    ranges = [
        range(n := _inside(entry, size, dim), n + 1)
        if isinstance(entry, int)
        else range(*entry.indices(size))
        for dim, (entry, size) in enumerate(zip(entries, x.shape, strict=True))
    ]
    new = (
        asarray(value) if not isinstance(value, bool | int | float | complex) else lift(value, x)[0]
    )
    shape = getitem(x, key).shape
    while new.ndim > len(shape) and new.shape[0] == 1:  # as NumPy
        new = reshape(new, new.shape[1:])
    new = reshape(broadcast_to(cast(new, x.dtype), shape), [len(places) for places in ranges])
    if not new.size:
        return duplicate(x)
    backwards = tuple(dim for dim, places in enumerate(ranges) if places.step < 0)
    new = flip(new, axis=backwards) if backwards else new
    return _put_box(x, new, [places if places.step > 0 else places[::-1] for places in ranges], 0)


def _put_box(x: Array, new: Array, ranges: Sequence[range], dim: int) -> Array:
    if dim == x.ndim:
        return duplicate(new)
    places, size = ranges[dim], x.shape[dim]
    start, stop = places[0], places[-1] + 1
    inner = take_slice(x, dim, start, stop)
    if places.step == 1:
        inner = _put_box(inner, new, ranges, dim + 1)
    else:
        wide = take_slice(repeat(new, places.step, axis=dim), dim, 0, stop - start)
        changed = _put_box(inner, wide, ranges, dim + 1)
        steps = apply("remainder", count_up(stop - start), places.step)
        column = reshape(apply("equal", steps, 0), (-1, *(1,) * (x.ndim - dim - 1)))
        inner = where(column, changed, inner)
    around = [take_slice(x, dim, 0, start), inner, take_slice(x, dim, stop, size)]
    return concat([part for part in around if part.shape[dim]], axis=dim)


# -- x[key] = value and x += y ---------------------------------------------------------------------
#
# The arrays that share memory in NumPy get other values together:
#
#     a = x[1:];  b = x.T        a family: x, and how a and b are made of it
#     a[0] = 5                   x = update(x, ...);  a = x[1:];  b = x.T
#
# Nothing is written anywhere: each array shows another expression.


def assign_at(self: Array, key: Any, value: Any) -> None:
    """`self[key] = value`."""
    assign(self, update(self, key, value))


def take_over(self: Array, made: Array) -> Array:
    """`self += y`, where `made` is `self + y`: an array of the same shape and dtype."""
    if made.shape != self.shape:
        raise ShapeMismatch(f"a result of shape {made.shape} does not fit into {self.shape}")
    if not np.can_cast(made.dtype, self.dtype, "same_kind"):
        raise UnsupportedDtype(
            f"a result of {made.dtype} does not fit into an array of {self.dtype}; write x = x + y "
            "instead of x += y, or cast first"
        )
    assign(self, cast(made, self.dtype))
    return self


def assign(self: Array, made: Array) -> None:
    """Give an array another value, and with it all that share its memory."""
    family = self._family
    members = [] if family is None else family.members()
    if len(members) < 2:
        self._family = None
        self.show(made._output)
        return
    assert family is not None
    root = _written(Array(*family.root), family.steps_to(self), made)
    renewed = Family(root._output)
    for member, steps in members:
        value = root
        for step in steps:
            value = _made_by(step, value)
        member.show(value._output)
        renewed.add(member, steps)


def _made_by(step: Step, base: Array) -> Array:
    return make(step.op, [base], step.attrs, step.shape, base.dtype)


def _written(base: Array, steps: tuple[Step, ...], made: Array) -> Array:
    """The base of a view that has a new value."""
    if not steps:
        return made
    step, *rest = steps
    new = _written(_made_by(step, base), tuple(rest), made)
    attrs: Any = step.attrs
    match step.op:
        case "aten.slice.Tensor":
            part = slice(attrs["start"], attrs["end"], attrs["step"])
            return update(base, (*(slice(None),) * attrs["dim"], part), new)
        case "aten.select.int":
            return update(base, (*(slice(None),) * attrs["dim"], attrs["index"]), new)
        case "aten.permute":
            return permute_dims(new, tuple(np.argsort(attrs["dims"]).tolist()))
        case "aten.reshape":
            return reshape(new, base.shape)
        case "aten.flip":
            return flip(new, axis=tuple(attrs["dims"]))
    raise ImmutableArray(
        f"an array of shape {made.shape} is one of {base.shape}, broadcast: its elements are the "
        "same ones, as in NumPy, and cannot be changed one by one; change a copy, x = x.copy()"
    )


FUNCTIONS = {"take": take, "take_along_axis": take_along_axis, "update": update}
