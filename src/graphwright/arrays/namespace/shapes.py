"""Functions that move elements: shapes, orders of dims, joins. Most of them are views."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import prod
from operator import index
from typing import Any

import numpy as np

from graphwright.arrays.array import Array, asarray, cast, duplicate, make
from graphwright.arrays.errors import InvalidArgument, InvalidAxis, ShapeMismatch
from graphwright.arrays.namespace.elementwise import apply, broadcast_shapes
from graphwright.ir import Attr


def axis_of(axis: Any, ndim: int) -> int:
    """An axis counted from the first one."""
    given = index(axis)
    if not -ndim <= given < ndim:
        raise InvalidAxis(f"axis {given} of an array of {ndim} dims; its axes are {_range(ndim)}")
    return given % ndim


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Axes counted from the first one; all of them for None."""
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, tuple | list) else (axis,)
    axes = tuple(axis_of(a, ndim) for a in given)
    if len(set(axes)) != len(axes):
        raise InvalidAxis(f"axes {axis} name one of {ndim} dims twice")
    return axes


def _range(ndim: int) -> str:
    return f"{-ndim} to {ndim - 1}" if ndim else "none"


def reshape(x: Any, /, shape: Any, *, copy: bool | None = None, order: str = "C") -> Array:
    """The elements in row-major order under another shape; one size may be -1."""
    given = asarray(x)
    if order == "F":
        turned = reshape(permute_dims(given, tuple(range(given.ndim))[::-1]), tuple(shape)[::-1])
        return permute_dims(turned, tuple(range(turned.ndim))[::-1])
    sizes = list(map(index, shape)) if isinstance(shape, tuple | list) else [index(shape)]
    if sizes.count(-1) == 1:
        rest = prod(n for n in sizes if n != -1)
        sizes[sizes.index(-1)] = given.size // rest if rest else 0
    if prod(sizes) != given.size or any(n < 0 for n in sizes):
        raise ShapeMismatch(f"{given.shape} has {given.size} elements, {tuple(shape)} has not")
    if tuple(sizes) == given.shape:
        return given
    return make("aten.reshape", [given], {"shape": tuple(sizes)}, sizes, given.dtype)


def permute_dims(x: Any, /, axes: Sequence[int]) -> Array:
    """The dims in another order."""
    given = asarray(x)
    order = axes_of(tuple(axes), given.ndim)
    if len(order) != given.ndim:
        raise InvalidAxis(f"{tuple(axes)} does not name each of {given.ndim} dims once")
    if order == tuple(range(given.ndim)):
        return given
    shape = [given.shape[a] for a in order]
    return make("aten.permute", [given], {"dims": order}, shape, given.dtype)


def transpose(x: Any, axes: Sequence[int] | None = None) -> Array:
    """The dims in another order; in reverse if none is given."""
    given = asarray(x)
    return permute_dims(given, tuple(range(given.ndim))[::-1] if axes is None else axes)


def matrix_transpose(x: Any, /) -> Array:
    """The last two dims exchanged."""
    given = asarray(x)
    if given.ndim < 2:
        raise ShapeMismatch(f"a matrix has two dims at least, {given.shape} has {given.ndim}")
    return swapaxes(given, -1, -2)


def swapaxes(x: Any, axis1: int, axis2: int) -> Array:
    """Two dims exchanged."""
    given = asarray(x)
    order = list(range(given.ndim))
    a, b = axis_of(axis1, given.ndim), axis_of(axis2, given.ndim)
    order[a], order[b] = b, a
    return permute_dims(given, order)


def moveaxis(x: Any, source: Any, destination: Any, /) -> Array:
    """Some dims at other places, the rest in their order."""
    given = asarray(x)
    old, new = axes_of(source, given.ndim), axes_of(destination, given.ndim)
    if len(old) != len(new):
        raise InvalidAxis(f"{len(old)} dims cannot go to {len(new)} places")
    order = [d for d in range(given.ndim) if d not in old]
    for place, dim in sorted(zip(new, old, strict=True)):
        order.insert(place, dim)
    return permute_dims(given, order)


def expand_dims(x: Any, /, axis: Any = 0) -> Array:
    """New dims of size 1, at these places of the result."""
    given = asarray(x)
    count = len(axis) if isinstance(axis, tuple | list) else 1
    new = axes_of(axis, given.ndim + count)
    sizes = iter(given.shape)
    return reshape(given, tuple(1 if d in new else next(sizes) for d in range(given.ndim + count)))


def squeeze(x: Any, /, axis: Any = None) -> Array:
    """Without some dims of size 1; without all of them for None."""
    given = asarray(x)
    if axis is None:
        return reshape(given, tuple(n for n in given.shape if n != 1))
    dropped = axes_of(axis, given.ndim)
    for d in dropped:
        if given.shape[d] != 1:
            raise ShapeMismatch(f"dim {d} of {given.shape} is not of size 1 and cannot be dropped")
    return reshape(given, tuple(n for d, n in enumerate(given.shape) if d not in dropped))


def broadcast_to(x: Any, /, shape: Sequence[int]) -> Array:
    """The array, repeated along dims of size 1 and new ones before it."""
    given, wanted = asarray(x), tuple(map(index, shape))
    if given.shape == wanted:
        return given
    if broadcast_shapes(given.shape, wanted) != wanted:
        raise ShapeMismatch(f"{given.shape} does not broadcast to {wanted}")
    return make("aten.expand", [given], {"size": wanted}, wanted, given.dtype)


def broadcast_arrays(*arrays: Any) -> list[Array]:
    """All arrays in their common shape."""
    given = [asarray(x) for x in arrays]
    shape = broadcast_shapes(*(x.shape for x in given))
    return [broadcast_to(x, shape) for x in given]


def flip(x: Any, /, *, axis: Any = None) -> Array:
    """The elements in reverse along some dims, or all."""
    given = asarray(x)
    dims = axes_of(axis, given.ndim)
    return make("aten.flip", [given], {"dims": dims}, given.shape, given.dtype) if dims else given


def roll(x: Any, /, shift: Any, *, axis: Any = None) -> Array:
    """The elements moved along some dims; those beyond the end come in at the start."""
    given = asarray(x)
    if axis is None:
        return reshape(roll(reshape(given, (-1,)), shift, axis=0), given.shape)
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    shifts = tuple(shift) if isinstance(shift, tuple | list) else (shift,) * len(axes)
    made = given
    for a, by in zip(axes, shifts, strict=True):
        d = axis_of(a, given.ndim)
        size = given.shape[d]
        steps = index(by) % size if size else 0
        if steps:
            parts = [take_slice(made, d, size - steps, size), take_slice(made, d, 0, size - steps)]
            made = concat(parts, axis=d)
    return duplicate(made)


def take_slice(x: Array, dim: int, start: int, end: int, step: int = 1) -> Array:
    """Elements start, start + step, ... below end of a dim."""
    length = max(0, -(-(end - start) // step))
    if (start, length, step) == (0, x.shape[dim], 1):
        return x
    attrs = {"dim": dim, "start": start, "end": start + length * step, "step": step}
    shape = (*x.shape[:dim], length, *x.shape[dim + 1 :])
    return make("aten.slice.Tensor", [x], attrs, shape, x.dtype)


def concat(arrays: Sequence[Any], /, *, axis: int | None = 0) -> Array:
    """Arrays one after the other along a dim; flattened for None."""
    given = [asarray(x) for x in arrays]
    if not given:
        raise ShapeMismatch("nothing to join: give one array at least")
    if axis is None:
        given, axis = [reshape(x, (-1,)) for x in given], 0
    d = axis_of(axis, given[0].ndim)
    others = {(*x.shape[:d], *x.shape[d + 1 :]) for x in given}
    if len(others) != 1 or len({x.ndim for x in given}) != 1:
        raise ShapeMismatch(f"{[x.shape for x in given]} differ in other dims than {d}")
    dtype = np.result_type(*(x.dtype for x in given))
    given = [cast(x, dtype) for x in given]
    given = [x for x in given if x.shape[d]] or given[:1]
    if len(given) == 1:
        return duplicate(given[0])
    edges = tuple(accumulate(x.shape[d] for x in given))
    shape = (*given[0].shape[:d], edges[-1], *given[0].shape[d + 1 :])
    uncut = [_uncut(x, d) for x in given]
    starts = tuple(edge - first for edge, (_, first) in zip((0, *edges), uncut, strict=False))
    attrs: dict[str, Attr] = {"dim": d, "starts": starts, "edges": edges[:-1], "size": edges[-1]}
    return make("array.join", [x for x, _ in uncut], attrs, shape, dtype)


def _uncut(x: Array, dim: int) -> tuple[Array, int]:
    """The array of which one is a slice along a dim, and where it begins: a row at the edge of a
    grid then stays where the grid is."""
    expression = x._output.expression
    how = expression.attrs
    if expression.op != "aten.slice.Tensor" or how["dim"] != dim or how["step"] != 1:
        return x, 0
    (source,) = expression.inputs
    assert source is not None
    start = how["start"]
    assert isinstance(start, int)
    return Array(*source), start


def stack(arrays: Sequence[Any], /, *, axis: int = 0) -> Array:
    """Arrays of one shape side by side along a new dim."""
    given = [asarray(x) for x in arrays]
    if len({x.shape for x in given}) != 1:
        raise ShapeMismatch(f"arrays of one shape can be stacked, not {[x.shape for x in given]}")
    return concat([expand_dims(x, axis) for x in given], axis=axis_of(axis, given[0].ndim + 1))


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The arrays that lie side by side along a dim."""
    given = asarray(x)
    d = axis_of(axis, given.ndim)
    return tuple(select(given, d, n) for n in range(given.shape[d]))


def select(x: Array, dim: int, place: int) -> Array:
    """What is at one place of a dim, without the dim."""
    shape = (*x.shape[:dim], *x.shape[dim + 1 :])
    return make("aten.select.int", [x], {"dim": dim, "index": place}, shape, x.dtype)


def tile(x: Any, repetitions: Any, /) -> Array:
    """The array, repeated along its dims and new ones before them."""
    given = asarray(x)
    times = tuple(repetitions) if isinstance(repetitions, tuple | list) else (repetitions,)
    times = (1,) * (given.ndim - len(times)) + tuple(map(index, times))
    given = reshape(given, (1,) * (len(times) - given.ndim) + given.shape)
    pairs = [n for t, size in zip(times, given.shape, strict=True) for n in (t, size)]
    apart = reshape(given, tuple(n for size in given.shape for n in (1, size)))
    shape = tuple(t * size for t, size in zip(times, given.shape, strict=True))
    return duplicate(reshape(broadcast_to(apart, pairs), shape))


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Array:
    """Each element so many times, one copy after the other."""
    given = asarray(x)
    if axis is None:
        given, axis = reshape(given, (-1,)), 0
    d = axis_of(axis, given.ndim)
    if isinstance(repeats, int | np.integer) or asarray(repeats).size == 1:
        times = int(np.asarray(repeats).item())
        apart = expand_dims(given, d + 1)
        shape = (*given.shape[: d + 1], times, *given.shape[d + 1 :])
        merged = (*given.shape[:d], given.shape[d] * times, *given.shape[d + 1 :])
        return duplicate(reshape(broadcast_to(apart, shape), merged))
    counts = np.asarray(repeats)
    if counts.shape != (given.shape[d],):
        raise ShapeMismatch(f"{counts.shape} counts for {given.shape[d]} elements of dim {d}")
    places = asarray(np.repeat(np.arange(given.shape[d]), counts))
    shape = (*given.shape[:d], places.size, *given.shape[d + 1 :])
    return make("aten.index_select", [given, places], {"dim": d}, shape, given.dtype)


def pad(x: Any, pad_width: Any, *, constant_values: Any = 0) -> Array:
    """The array with so many elements of one value around it."""
    given = asarray(x)
    pairs = np.broadcast_to(np.asarray(pad_width), (given.ndim, 2)).tolist()
    if not given.ndim:
        return duplicate(given)
    if any(n < 0 for pair in pairs for n in pair):
        raise InvalidArgument(f"pad_width {pad_width!r} has negative numbers; slice x to crop it")
    value = np.asarray(constant_values, dtype=given.dtype).item()
    if isinstance(value, complex):
        raise ShapeMismatch("complex arrays are padded by concat with full(), not by pad")
    attrs = {"pad": tuple(n for pair in reversed(pairs) for n in pair), "value": value}
    shape = [low + size + high for (low, high), size in zip(pairs, given.shape, strict=True)]
    return make("aten.constant_pad_nd", [given], attrs, shape, given.dtype)


def tril(x: Any, /, *, k: int = 0) -> Array:
    """The elements on and below a diagonal, 0 elsewhere."""
    return _triangle(asarray(x), "less_equal", k)


def triu(x: Any, /, *, k: int = 0) -> Array:
    """The elements on and above a diagonal, 0 elsewhere."""
    return _triangle(asarray(x), "greater_equal", k)


def _triangle(x: Array, relation: str, k: int) -> Array:
    if x.ndim < 2:
        raise ShapeMismatch(f"a matrix has two dims at least, {x.shape} has {x.ndim}")
    rows, columns = (count_up(n) for n in x.shape[-2:])
    kept = apply(relation, apply("subtract", columns, expand_dims(rows, 1)), int(k))
    zero = asarray(np.zeros((), x.dtype))
    return make("aten.where.self", [kept, x, zero], {}, x.shape, x.dtype)


def count_up(size: int) -> Array:
    """0, 1, 2, ..., in int64."""
    return make("aten.arange.start", [], {"start": 0, "end": size}, (size,), np.int64)


def ravel(x: Any, /) -> Array:
    """The elements in row-major order, in one dim."""
    return reshape(x, (-1,))


def atleast_1d(x: Any, /) -> Array:
    """The array with one dim at least."""
    given = asarray(x)
    return given if given.ndim else reshape(given, (1,))


def atleast_2d(x: Any, /) -> Array:
    """The array with two dims at least, new ones first."""
    given = atleast_1d(x)
    return given if given.ndim > 1 else expand_dims(given, 0)


def vstack(arrays: Sequence[Any], /) -> Array:
    """Arrays below each other."""
    return concat([atleast_2d(x) for x in arrays], axis=0)


def hstack(arrays: Sequence[Any], /) -> Array:
    """Arrays beside each other."""
    given = [atleast_1d(x) for x in arrays]
    return concat(given, axis=0 if given[0].ndim == 1 else 1)


def column_stack(arrays: Sequence[Any], /) -> Array:
    """Columns beside each other; an array of one dim is a column."""
    given = [asarray(x) for x in arrays]
    return concat([expand_dims(x, 1) if x.ndim == 1 else x for x in given], axis=1)


def split(x: Any, parts: Any, /, *, axis: int = 0) -> list[Array]:
    """The array in parts along a dim: so many equal ones, or cut at these places."""
    given = asarray(x)
    d = axis_of(axis, given.ndim)
    size = given.shape[d]
    if isinstance(parts, int | np.integer):
        if size % int(parts):
            raise ShapeMismatch(f"dim {d} of {given.shape} does not split into {parts} equal parts")
        cuts = [size // int(parts) * n for n in range(1, int(parts))]
    else:
        cuts = [min(int(c) if c >= 0 else max(0, size + int(c)), size) for c in parts]
    bounds = [0, *cuts, size]
    return [take_slice(given, d, a, max(a, b)) for a, b in pairwise(bounds)]


def diagonal(x: Any, /, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The elements on a diagonal of two dims, along a new last dim."""
    given = moveaxis(x, (axis1, axis2), (-2, -1))
    rows, columns = given.shape[-2:]
    length = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    steps = count_up(length)
    places = [apply("add", steps, max(-offset, 0)), apply("add", steps, max(offset, 0))]
    inputs = [given, *[None] * (given.ndim - 2), *places]
    return make("aten.index.Tensor", inputs, {}, (*given.shape[:-2], length), given.dtype)


FUNCTIONS = {
    name: function
    for name, function in globals().items()
    if callable(function)
    and getattr(function, "__module__", "") == __name__
    and not name.startswith("_")
    and name not in ("axis_of", "axes_of", "take_slice", "select", "count_up")
}
FUNCTIONS |= {"concatenate": concat}
