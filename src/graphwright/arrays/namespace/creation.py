"""New arrays. Constant ones are one element, broadcast; counts and grids are made where needed."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index
from typing import Any

import numpy as np

from graphwright.arrays.array import Array, asarray, cast, duplicate, wrap
from graphwright.arrays.errors import ArrayError, InvalidArgument
from graphwright.arrays.namespace.elementwise import apply, where
from graphwright.arrays.namespace.shapes import (
    broadcast_to,
    count_up,
    diagonal,
    expand_dims,
    moveaxis,
    pad,
    reshape,
    tril,
)

Device = str | None
LARGEST = 2**60


def _check(device: Device) -> None:
    if device not in (None, "cpu"):
        raise ArrayError(f"no device {device!r}; arrays are on 'cpu', whatever workers there are")


def _shape(shape: Any) -> tuple[int, ...]:
    sizes = tuple(map(index, shape)) if isinstance(shape, tuple | list) else (index(shape),)
    if any(n < 0 for n in sizes) or prod(sizes) > LARGEST:
        raise InvalidArgument(f"shape {shape}: sizes are 0 or more, {LARGEST} elements at most")
    return sizes


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Device = None) -> Array:
    """An array with one value everywhere."""
    _check(device)
    if isinstance(fill_value, Array):
        value = cast(fill_value, dtype or fill_value.dtype)
        return duplicate(broadcast_to(value, _shape(shape)))
    return broadcast_to(wrap(np.asarray(fill_value, dtype=dtype)), _shape(shape))


def zeros(shape: Any, *, dtype: Any = None, device: Device = None) -> Array:
    """An array of zeros."""
    return full(shape, 0, dtype=np.float64 if dtype is None else dtype, device=device)


def ones(shape: Any, *, dtype: Any = None, device: Device = None) -> Array:
    """An array of ones."""
    return full(shape, 1, dtype=np.float64 if dtype is None else dtype, device=device)


def empty(shape: Any, *, dtype: Any = None, device: Device = None) -> Array:
    """An array of zeros: what is there before a value is, nobody may rely on."""
    return zeros(shape, dtype=dtype, device=device)


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Device = None) -> Array:
    """An array of the same shape with one value everywhere."""
    given = asarray(x)
    return full(given.shape, fill_value, dtype=dtype or given.dtype, device=device)


def zeros_like(x: Any, /, *, dtype: Any = None, device: Device = None) -> Array:
    """An array of zeros of the same shape."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Any, /, *, dtype: Any = None, device: Device = None) -> Array:
    """An array of ones of the same shape."""
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x: Any, /, *, dtype: Any = None, device: Device = None) -> Array:
    """An array of zeros of the same shape."""
    return full_like(x, 0, dtype=dtype, device=device)


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Device = None
) -> Array:
    """Numbers from `start` up to `stop` in steps; from 0 with one argument."""
    _check(device)
    first, end = (0, start) if stop is None else (start, stop)
    if all(isinstance(n, int | np.integer) for n in (first, end, step)):
        size = len(range(int(first), int(end), int(step)))
        kind = np.dtype(np.int64 if dtype is None else dtype)
    else:
        size = max(0, int(np.ceil((end - first) / step)))
        kind = np.dtype(np.float64 if dtype is None else dtype)
    if kind.kind in "iu":  # as NumPy: the first two numbers are cut to integers, not each
        first, step = int(first), int(first + step) - int(first)
    exact = kind.kind in "iu" and all(isinstance(n, int | np.integer) for n in (first, step))
    wide = kind if exact and kind.itemsize == 8 else np.dtype(np.int64 if exact else np.float64)
    ends = np.arange(2) * np.asarray(step).astype(wide) + np.asarray(first).astype(wide)
    made = cast(count_up(size), wide)
    if ends[1] - ends[0] != 1:
        made = apply("multiply", made, wrap((ends[1] - ends[0]).astype(wide)))
    if first != 0:
        made = apply("add", made, wrap(ends[0].astype(wide)))
    return cast(made, kind)


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int = 50,
    *,
    dtype: Any = None,
    device: Device = None,
    endpoint: bool = True,
) -> Array:
    """So many numbers at equal distances."""
    _check(device)
    (num,) = _shape(num)
    inexact = np.result_type(np.asarray(start), np.asarray(stop), np.float64)
    kind = np.dtype(inexact if dtype is None else dtype)
    wide = np.result_type(inexact, kind) if kind.kind in "fc" else inexact
    gaps = num - 1 if endpoint else num
    steps = cast(count_up(num), wide)
    width = np.asarray(stop, dtype=wide) - np.asarray(start, dtype=wide)
    if gaps > 0:
        with np.errstate(all="ignore"):
            gap = width / gaps
        steps = (
            apply("multiply", steps, wrap(gap))
            if gap != 0
            else apply("multiply", apply("divide", steps, float(gaps)), wrap(width))
        )
    else:
        steps = apply("multiply", steps, wrap(width))
    made = apply("add", steps, wrap(np.asarray(start, dtype=wide)))
    if endpoint and num > 1:
        last = apply("equal", count_up(num), num - 1)
        made = where(last, wrap(np.asarray(stop, dtype=wide)), made)
    if kind.kind in "iu":
        made = apply("floor", made)
    return cast(made, kind)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: Device = None,
) -> Array:
    """Ones on a diagonal, zeros elsewhere."""
    _check(device)
    rows, columns = count_up(n_rows), count_up(n_rows if n_cols is None else n_cols)
    on = apply("equal", apply("add", expand_dims(rows, 1), int(k)), columns)
    return cast(on, np.float64 if dtype is None else dtype)


def identity(n: int, *, dtype: Any = None) -> Array:
    """A square matrix with ones on its diagonal."""
    return eye(n, dtype=dtype)


def tri(n: int, m: int | None = None, k: int = 0, *, dtype: Any = None) -> Array:
    """Ones on and below a diagonal, zeros elsewhere."""
    return tril(ones((n, n if m is None else m), dtype=dtype), k=k)


def diag(x: Any, /, k: int = 0) -> Array:
    """The diagonal of a matrix, or the matrix with a line on its diagonal."""
    given = asarray(x)
    if given.ndim == 2:
        return diagonal(given, offset=k)
    size = given.shape[0] + abs(k)
    pads = np.asarray([max(k, 0), max(-k, 0)])
    line = pad(given, [pads.tolist()])
    zero = asarray(np.zeros((), given.dtype))
    return where(eye(size, k=k, dtype=np.bool_), line, zero)


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Array]:
    """The coordinates of a grid: for each array one that varies along one dim."""
    given = [asarray(x) for x in arrays]
    if indexing not in ("xy", "ij"):
        raise ArrayError(f"indexing is 'xy' or 'ij', not {indexing!r}")
    sizes = [x.size for x in given]
    count = len(given)
    made = [
        broadcast_to(reshape(x, tuple(-1 if d == n else 1 for d in range(count))), sizes)
        for n, x in enumerate(given)
    ]
    turned = indexing == "xy" and count > 1
    return [duplicate(moveaxis(x, 0, 1) if turned else x) for x in made]


def from_dlpack(x: Any, /, *, device: Device = None, copy: bool | None = None) -> Array:
    """An array of what offers its memory by DLPack."""
    _check(device)
    given = x.compute() if isinstance(x, Array) else np.from_dlpack(x)
    return asarray(np.asarray(given), copy=copy)


def array(obj: Any, dtype: Any = None, *, copy: bool = True) -> Array:
    """NumPy's name for `asarray`."""
    return asarray(obj, dtype=dtype, copy=True if copy else None)


def fromfunction(function: Any, shape: Sequence[int], *, dtype: Any = np.float64) -> Array:
    """A function of the coordinates of each element."""
    grid = meshgrid(*(cast(count_up(n), dtype) for n in shape), indexing="ij")
    return asarray(function(*grid))


def from_array(x: Any) -> Array:
    """An array without a copy: whoever gave it must not change it any more."""
    return wrap(np.asarray(x))


FUNCTIONS = {
    name: function
    for name, function in globals().items()
    if callable(function)
    and getattr(function, "__module__", "") == __name__
    and not name.startswith("_")
}
FUNCTIONS |= {"asarray": asarray}
