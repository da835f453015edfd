"""Reductions along dims, and running ones. Means and variances are sums, so that they split."""

from __future__ import annotations

from math import prod as product
from typing import Any

import numpy as np

from graphwright.arrays.array import Array, asarray, cast, make
from graphwright.arrays.errors import InvalidArgument, ShapeMismatch
from graphwright.arrays.namespace.elementwise import apply, where
from graphwright.arrays.namespace.shapes import (
    axes_of,
    axis_of,
    broadcast_to,
    concat,
    reshape,
    take_slice,
)

Axis = Any


def reduce(op: str, x: Array, axis: Axis, keepdims: bool, dtype: Any = None) -> Array:
    """A reduction along some dims, all for None."""
    dims = axes_of(axis, x.ndim)
    shape = reduced_shape(x.shape, dims, keepdims)
    wanted = x.dtype if dtype is None else dtype
    if not dims:
        return cast(x, wanted)
    return make(op, [x], {"dim": dims, "keepdim": keepdims}, shape, wanted)


def reduced_shape(shape: tuple[int, ...], dims: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """The shape that a reduction leaves."""
    if keepdims:
        return tuple(1 if d in dims else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in dims)


def _summed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of sums: small integers become int64 or uint64."""
    return np.asarray(np.sum(np.empty(0, dtype))).dtype


def sum(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The sum along dims."""
    given = asarray(x)
    given = cast(given, _summed(given.dtype) if dtype is None else dtype)
    return reduce("aten.sum.dim_IntList", given, axis, keepdims)


def prod(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The product along dims."""
    given = asarray(x)
    given = cast(given, _summed(given.dtype) if dtype is None else dtype)
    return reduce("aten.prod.dim_int", given, axis, keepdims)


def _extremum(op: str, x: Any, axis: Axis, keepdims: bool) -> Array:
    given = asarray(x)
    if 0 in [given.shape[d] for d in axes_of(axis, given.ndim)]:
        raise ShapeMismatch(f"an empty dim of {given.shape} has no greatest or least element")
    return reduce(op, given, axis, keepdims)


def max(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The greatest element along dims."""
    return _extremum("aten.amax", x, axis, keepdims)


def min(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The least element along dims."""
    return _extremum("aten.amin", x, axis, keepdims)


def any(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Whether any element along dims is not zero."""
    return reduce("aten.any.dims", cast(asarray(x), np.bool_), axis, keepdims)


def all(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Whether no element along dims is zero."""
    return reduce("aten.all.dims", cast(asarray(x), np.bool_), axis, keepdims)


def count_nonzero(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """How many elements along dims are not zero."""
    return sum(cast(asarray(x), np.bool_), axis=axis, dtype=np.int64, keepdims=keepdims)


def _real(x: Array) -> Array:
    return cast(x, np.float64) if x.dtype.kind in "iub" else x


def _count(x: Array, axis: Axis) -> int:
    return product(x.shape[d] for d in axes_of(axis, x.ndim))


def mean(x: Any, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The mean along dims."""
    given = _real(asarray(x)) if dtype is None else cast(asarray(x), dtype)
    total = sum(_wide(given), axis=axis, keepdims=keepdims)
    return cast(apply("divide", total, float(_count(given, axis))), given.dtype)


def _wide(x: Array) -> Array:
    """Half-precision numbers are added up in single precision, as NumPy does."""
    return cast(x, np.float32) if x.dtype == np.float16 else x


def var(
    x: Any,
    /,
    *,
    axis: Axis = None,
    correction: float = 0.0,
    keepdims: bool = False,
    ddof: Any = None,
) -> Array:
    """The variance along dims; `correction` (NumPy: `ddof`) lowers the count."""
    given = asarray(x)
    values = _wide(_real(given))
    less = correction if ddof is None else ddof
    apart = apply("subtract", values, _spread(mean(values, axis=axis), values, axis))
    if apart.dtype.kind == "c":
        apart = apply("absolute", apart)
    squares = sum(apply("multiply", apart, apart), axis=axis, keepdims=keepdims)
    count = np.maximum(_count(values, axis) - less, 0)
    made = apply("divide", squares, float(count))
    return cast(made, np.float16) if given.dtype == np.float16 else made


def std(
    x: Any,
    /,
    *,
    axis: Axis = None,
    correction: float = 0.0,
    keepdims: bool = False,
    ddof: Any = None,
) -> Array:
    """The standard deviation along dims."""
    return apply("sqrt", var(x, axis=axis, correction=correction, keepdims=keepdims, ddof=ddof))


def _spread(x: Array, over: Array, axis: Axis) -> Array:
    """A reduced array with its dims back, of size 1: the reduction itself is the one without."""
    return reshape(x, reduced_shape(over.shape, axes_of(axis, over.ndim), True))


def ptp(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The difference of the greatest and the least element along dims."""
    largest = max(x, axis=axis, keepdims=keepdims)
    return apply("subtract", largest, min(x, axis=axis, keepdims=keepdims))


def average(x: Any, /, *, axis: Axis = None, weights: Any = None, keepdims: bool = False) -> Array:
    """The mean along dims with weights."""
    given = asarray(x)
    if weights is None:
        return mean(given, axis=axis, keepdims=keepdims)
    factors = asarray(weights)
    if factors.shape != given.shape:
        d = axis_of(axis, given.ndim)
        if factors.shape != (given.shape[d],):
            raise ShapeMismatch(f"weights of {factors.shape} for dim {d} of {given.shape}")
        factors = reshape(factors, (-1, *(1,) * (given.ndim - d - 1)))
    total = sum(apply("multiply", given, factors), axis=axis, keepdims=keepdims)
    spread = apply("multiply", factors, apply("equal", given, given))
    return apply("divide", total, sum(spread, axis=axis, keepdims=keepdims))


# -- positions -------------------------------------------------------------------------------------


def _position(op: str, x: Any, axis: int | None, keepdims: bool) -> Array:
    given = asarray(x)
    if axis is None:
        flat = reshape(given, (-1,))
        made = make(op, [_some(flat, 0)], {"dim": 0, "keepdim": False}, (), np.int64)
        return reshape(made, (1,) * given.ndim) if keepdims else made
    d = axis_of(axis, given.ndim)
    shape = reduced_shape(given.shape, (d,), keepdims)
    return make(op, [_some(given, d)], {"dim": d, "keepdim": keepdims}, shape, np.int64)


def _some(x: Array, dim: int) -> Array:
    if not x.shape[dim]:
        raise ShapeMismatch(f"an empty dim of {x.shape} has no greatest or least element")
    return x


def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """Where the first greatest element along a dim is."""
    return _position("aten.argmax", x, axis, keepdims)


def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """Where the first least element along a dim is."""
    return _position("aten.argmin", x, axis, keepdims)


# -- running reductions ----------------------------------------------------------------------------


def _cumulative(
    op: str, x: Any, axis: int | None, dtype: Any, include_initial: bool, initial: int
) -> Array:
    given = asarray(x)
    if axis is None:
        if given.ndim != 1:
            raise ShapeMismatch(f"an array of {given.ndim} dims, {given.shape}, needs an axis")
        axis = 0
    d = axis_of(axis, given.ndim)
    given = cast(given, _summed(given.dtype) if dtype is None else dtype)
    made = make(op, [given], {"dim": d}, given.shape, given.dtype)
    if include_initial:
        first = np.full((*given.shape[:d], 1, *given.shape[d + 1 :]), initial, given.dtype)
        made = concat([first, made], axis=d)
    return made


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """The sums of the elements up to each along a dim."""
    return _cumulative("aten.cumsum", x, axis, dtype, include_initial, 0)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """The products of the elements up to each along a dim."""
    return _cumulative("aten.cumprod", x, axis, dtype, include_initial, 1)


def cumsum(x: Any, /, axis: int | None = None, dtype: Any = None) -> Array:
    """NumPy's name for running sums; flattened without an axis."""
    given = reshape(x, (-1,)) if axis is None else asarray(x)
    return cumulative_sum(given, axis=0 if axis is None else axis, dtype=dtype)


def cumprod(x: Any, /, axis: int | None = None, dtype: Any = None) -> Array:
    """NumPy's name for running products; flattened without an axis."""
    given = reshape(x, (-1,)) if axis is None else asarray(x)
    return cumulative_prod(given, axis=0 if axis is None else axis, dtype=dtype)


def diff(
    x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None
) -> Array:
    """The difference of each element along a dim and the one before, n times over."""

    given = asarray(x)
    d = axis_of(axis, given.ndim)

    def line(value: Any) -> Array:
        more = asarray(value)
        if more.ndim:
            return more
        return broadcast_to(more, (*given.shape[:d], 1, *given.shape[d + 1 :]))

    if n < 0:
        raise InvalidArgument(f"differences of order {n}; give n = 0 at least")
    ends = [*([] if prepend is None else [line(prepend)]), given]
    made = concat([*ends, *([] if append is None else [line(append)])], axis=d)
    for _ in range(n):
        size = made.shape[d]
        name = "not_equal" if made.dtype == np.bool_ else "subtract"
        made = apply(name, take_slice(made, d, 1, size), take_slice(made, d, 0, size - 1))
    return made


# -- without NaN -----------------------------------------------------------------------------------


def _filled(x: Any, value: float) -> Array:
    given = asarray(x)
    if given.dtype.kind not in "fc":
        return given
    return where(apply("isnan", given), value, given)


def nansum(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The sum of what is not NaN."""
    return sum(_filled(x, 0), axis=axis, keepdims=keepdims)


def nanprod(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The product of what is not NaN."""
    return prod(_filled(x, 1), axis=axis, keepdims=keepdims)


def nanmax(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The greatest element that is not NaN."""
    return _around_nan(x, max, -np.inf, axis, keepdims)


def nanmin(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The least element that is not NaN."""
    return _around_nan(x, min, np.inf, axis, keepdims)


def _around_nan(x: Any, extremum: Any, worst: float, axis: Axis, keepdims: bool) -> Array:
    given = asarray(x)
    if given.dtype.kind not in "fc":
        made: Array = extremum(given, axis=axis, keepdims=keepdims)
        return made
    best = extremum(_filled(given, worst), axis=axis, keepdims=keepdims)
    nothing = all(apply("isnan", given), axis=axis, keepdims=keepdims)
    return where(nothing, np.nan, best)


def nanmean(x: Any, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The mean of what is not NaN."""
    given = _real(asarray(x))
    known = sum(apply("logical_not", apply("isnan", given)), axis=axis, keepdims=keepdims)
    total = sum(_filled(given, 0), axis=axis, keepdims=keepdims)
    return cast(apply("divide", total, known), given.dtype)


def nanvar(x: Any, /, *, axis: Axis = None, ddof: float = 0, keepdims: bool = False) -> Array:
    """The variance of what is not NaN."""
    given = _real(asarray(x))
    apart = apply("subtract", given, nanmean(given, axis=axis, keepdims=True))
    apart = apply("absolute", apart) if given.dtype.kind == "c" else apart
    apart = where(apply("isnan", given), 0, apart)
    known = sum(apply("logical_not", apply("isnan", given)), axis=axis, keepdims=keepdims)
    squares = sum(apply("multiply", apart, apart), axis=axis, keepdims=keepdims)
    free = apply("subtract", known, ddof)
    made = apply("divide", squares, where(apply("greater", free, 0), free, np.nan))
    return cast(made, apart.dtype)


def nanstd(x: Any, /, *, axis: Axis = None, ddof: float = 0, keepdims: bool = False) -> Array:
    """The standard deviation of what is not NaN."""
    return apply("sqrt", nanvar(x, axis=axis, ddof=ddof, keepdims=keepdims))


FUNCTIONS = {
    name: function
    for name, function in globals().items()
    if callable(function)
    and getattr(function, "__module__", "") == __name__
    and not name.startswith("_")
    and name not in ("reduce", "reduced_shape")
}
FUNCTIONS |= {"amax": max, "amin": min}
