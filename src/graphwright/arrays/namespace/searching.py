"""Order, search and sets. Lines are sorted whole; what has as many elements as it finds is computed
at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from graphwright.arrays.array import Array, asarray, cast, make, wrap
from graphwright.arrays.errors import InvalidArgument, ShapeMismatch
from graphwright.arrays.namespace.elementwise import apply, isclose
from graphwright.arrays.namespace.elementwise import where as choose
from graphwright.arrays.namespace.reductions import all as all_of
from graphwright.arrays.namespace.reductions import any as any_of
from graphwright.arrays.namespace.reductions import max as greatest
from graphwright.arrays.namespace.reductions import min as least
from graphwright.arrays.namespace.reductions import reduced_shape
from graphwright.arrays.namespace.reductions import sum as sum_of
from graphwright.arrays.namespace.shapes import (
    axis_of,
    broadcast_to,
    expand_dims,
    moveaxis,
    reshape,
)
from graphwright.ir import Attr

SPECIAL = "graphwright.arrays.operators.special"


def along(
    function: str, x: Array, axis: int, dtype: Any, size: int | None = None, **options: Attr
) -> Array:
    """A function of each line along a dim, that gives lines of `size`."""
    d = axis_of(axis, x.ndim)
    lines = moveaxis(x, d, -1)
    length = lines.shape[-1] if size is None else size
    made = batch(function, [lines], lines.ndim - 1, (*lines.shape[:-1], length), dtype, **options)
    return moveaxis(made, -1, d)


def batch(
    function: str, inputs: list[Array], dims: int, shape: Any, dtype: Any, **options: Attr
) -> Array:
    """A function of everything behind the first `dims` dims, by its name in `special`."""
    attrs: dict[str, Attr] = {"function": f"{SPECIAL}.{function}", "dims": dims}
    attrs["options"] = tuple(options.items())
    return make("array.batch", inputs, attrs, shape, dtype)


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Each line along a dim in order."""
    given = asarray(x)
    return along("sort", given, axis, given.dtype, descending=descending, stable=stable)


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Where the elements of each sorted line come from."""
    return along("argsort", asarray(x), axis, np.int64, descending=descending, stable=stable)


def nonzero(x: Any, /) -> tuple[Array, ...]:
    """The indices of the elements that are not zero, dim by dim; computed at once."""
    given = asarray(x)
    if not given.ndim:
        raise ShapeMismatch("an array without dims has no indices to list")
    return tuple(wrap(found) for found in np.nonzero(given.compute()))


def where(condition: Any, x1: Any = None, x2: Any = None, /) -> Any:
    """The elements of `x1` where the condition holds, else of `x2`; with neither, where it does."""
    if x1 is None and x2 is None:
        return nonzero(condition)
    if x1 is None or x2 is None:
        raise InvalidArgument("where takes both arrays to choose from, or neither")
    return choose(condition, x1, x2)


def argwhere(x: Any, /) -> Array:
    """The indices of the elements that are not zero, one by one; computed at once."""
    return wrap(np.argwhere(asarray(x).compute()))


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Array:
    """Where each element of `x2` would go in the sorted line `x1`."""
    line, values = asarray(x1), asarray(x2)
    if sorter is not None:
        order = cast(asarray(sorter), np.int64)
        line = make("aten.index_select", [line, order], {"dim": 0}, line.shape, line.dtype)
    if not values.ndim:
        return batch("searchsorted", [line, values], 0, (), np.int64, side=side)
    spread = reshape(values, (*values.shape, 1))
    lines = broadcast_to(line, (*values.shape, line.size))
    shape = (*values.shape, 1)
    made = batch("searchsorted_lines", [lines, spread], values.ndim, shape, np.int64, side=side)
    return reshape(made, values.shape)


class UniqueAll(NamedTuple):
    """Distinct elements, where they come first, where each is among them, how many of each."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """Distinct elements, and how many of each."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """Distinct elements, and where each element is among them."""

    values: Array
    inverse_indices: Array


def unique_all(x: Any, /) -> UniqueAll:
    """Distinct elements in order, with everything about them; computed at once."""
    return UniqueAll(*map(wrap, np.unique_all(asarray(x).compute())))


def unique_counts(x: Any, /) -> UniqueCounts:
    """Distinct elements in order, and how many of each; computed at once."""
    return UniqueCounts(*map(wrap, np.unique_counts(asarray(x).compute())))


def unique_inverse(x: Any, /) -> UniqueInverse:
    """Distinct elements in order, and where each is among them; computed at once."""
    return UniqueInverse(*map(wrap, np.unique_inverse(asarray(x).compute())))


def unique_values(x: Any, /) -> Array:
    """Distinct elements in order; computed at once."""
    return wrap(np.sort(np.unique_values(asarray(x).compute())))


def unique(x: Any, /, **how: Any) -> Any:
    """NumPy's name for distinct elements; computed at once."""
    made = np.unique(asarray(x).compute(), **how)
    return tuple(map(wrap, made)) if isinstance(made, tuple) else wrap(made)


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Array:
    """Whether each element is among those of `x2`."""
    given, others = asarray(x1), reshape(x2, (-1,))
    if others.size > 32:
        values = wrap(np.unique(others.compute()))
        kind = np.result_type(given.dtype, values.dtype)
        place = searchsorted(cast(values, kind), cast(given, kind))
        near = apply("minimum", place, values.size - 1)
        shape = near.shape
        flat = reshape(near, (-1,))
        match = make("aten.index_select", [values, flat], {"dim": 0}, flat.shape, values.dtype)
        made = apply("equal", reshape(match, shape), given)
    else:
        made = any_of(apply("equal", expand_dims(given, given.ndim), others), axis=-1)
    return apply("logical_not", made) if invert else made


def quantile(
    x: Any, q: Any, /, *, axis: int | None = None, method: str = "linear", keepdims: bool = False
) -> Array:
    """Quantiles along a dim, of each line as a whole."""
    return _quantile(x, q, axis, method, keepdims, False)


def nanquantile(
    x: Any, q: Any, /, *, axis: int | None = None, method: str = "linear", keepdims: bool = False
) -> Array:
    """Quantiles of what is not NaN."""
    return _quantile(x, q, axis, method, keepdims, True)


def percentile(x: Any, q: Any, /, *, axis: int | None = None, method: str = "linear") -> Array:
    """Quantiles in per cent."""
    given = asarray(x)
    hundred = given.dtype.type(100) if given.dtype.kind == "f" else 100
    return quantile(given, np.asarray(np.true_divide(q, hundred)), axis=axis, method=method)


def median(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The middle element along a dim, or the mean of the two in the middle."""
    given, d, lines = _lines(x, axis)
    dtype = np.float64 if lines.dtype.kind in "iub" else lines.dtype
    made = batch("median", [lines], lines.ndim - 1, lines.shape[:-1], dtype)
    return reshape(made, reduced_shape(given.shape, d, True)) if keepdims else made


def _lines(x: Any, axis: int | None) -> tuple[Array, tuple[int, ...], Array]:
    """The array, the dims that a statistic is taken along, and these as lines, in the last dim."""
    given = asarray(x)
    if axis is None:
        return given, tuple(range(given.ndim)), reshape(given, (-1,))
    d = axis_of(axis, given.ndim)
    return given, (d,), moveaxis(given, d, -1)


def _quantile(
    x: Any, q: Any, axis: int | None, method: str, keepdims: bool, ignore_nan: bool
) -> Array:
    given, dims, lines = _lines(x, axis)
    weak = type(q) in (int, float) and lines.dtype.kind == "f"
    levels = np.asarray(q, dtype=lines.dtype if weak else None)
    levels = levels if levels.dtype.kind == "f" else levels.astype(np.float64)
    if lines.dtype.kind in "iub":
        lines = cast(lines, np.float64)
    names: dict[str, Attr] = {"method": method, "ignore_nan": ignore_nan}
    spread = np.broadcast_to(levels.reshape(-1), (*lines.shape[:-1], levels.size))
    shape = (*lines.shape[:-1], levels.size)
    dtype = np.quantile(np.ones(1, lines.dtype), levels.reshape(-1), method=method).dtype  # type: ignore[call-overload]
    names["wanted"] = dtype.name
    made = batch("quantile_lines", [lines, wrap(spread)], lines.ndim - 1, shape, dtype, **names)
    made = reshape(moveaxis(made, -1, 0), (*levels.shape, *lines.shape[:-1]))
    if keepdims:
        made = reshape(made, (*levels.shape, *reduced_shape(given.shape, dims, True)))
    return made


def histogram(x: Any, /, bins: Any = 10, *, range: Any = None) -> tuple[Array, Array]:
    """How many elements are in each of some intervals, and the intervals' edges."""
    given = reshape(x, (-1,))
    if isinstance(bins, str):  # rules of NumPy's, which look at all elements
        edges = np.histogram_bin_edges(given.compute(), bins, range)
    else:
        ends = range
        if ends is None and given.size and not np.ndim(bins):
            ends = (float(least(given)), float(greatest(given)))
        edges = np.histogram_bin_edges(np.zeros(0), bins, ends or (0.0, 1.0))
    lows, highs = wrap(edges[:-1]), wrap(edges[1:])
    column = expand_dims(given, 1)
    below = apply("less", column, highs)
    top = apply("logical_and", apply("equal", column, highs), wrap(highs.compute() == edges[-1]))
    inside = apply("greater_equal", column, lows)
    counted = apply("logical_and", inside, apply("logical_or", below, top))
    return sum_of(counted, axis=0, dtype=np.int64), wrap(edges)


def bincount(x: Any, /, minlength: int = 0) -> Array:
    """How often each whole number from 0 on occurs; computed at once."""
    return wrap(np.bincount(asarray(x).compute(), minlength=minlength))


def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8) -> bool:
    """Whether all elements are close; computed at once."""
    return bool(all_of(isclose(a, b, rtol, atol)))


def array_equal(a: Any, b: Any) -> bool:
    """Whether two arrays have one shape and equal elements; computed at once."""
    x, y = asarray(a), asarray(b)
    return x.shape == y.shape and bool(all_of(apply("equal", x, y)))


FUNCTIONS = {
    name: function
    for name, function in globals().items()
    if callable(function)
    and getattr(function, "__module__", "") == __name__
    and not name.startswith(("_", "Unique"))
    and name not in ("along", "batch", "all_of", "any_of", "sum_of")
}
