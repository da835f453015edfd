"""Functions of whole blocks that NumPy has not, or not in this form."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Block = NDArray[Any]


def put(x: Block, places: Block, values: Block) -> Block:
    """`x` with other elements at places of its row-major order."""
    made = np.array(x)
    made.reshape(-1)[places] = values
    return made


def sort(x: Block, *, descending: bool, stable: bool) -> Block:
    """Each line along the last dim in order."""
    kind: Any = "stable" if stable else None
    if not descending:
        return np.sort(x, axis=-1, kind=kind)
    return np.flip(np.sort(x, axis=-1, kind=kind), -1)


def argsort(x: Block, *, descending: bool, stable: bool) -> Block:
    """Where the elements of each sorted line come from."""
    kind: Any = "stable" if stable else None
    if not descending:
        return np.argsort(x, axis=-1, kind=kind)
    last = x.shape[-1] - 1
    return np.flip(last - np.argsort(np.flip(x, -1), axis=-1, kind=kind), -1)


def searchsorted(line: Block, values: Block, *, side: str) -> Block:
    """Where each value would go in a sorted line."""
    return np.searchsorted(line, values, side=side)  # type: ignore[call-overload,no-any-return]


def searchsorted_lines(lines: Block, values: Block, *, side: str) -> Block:
    """Where each value would go in its line; all lines are the same one."""
    line = lines.reshape(-1, lines.shape[-1])[0] if values.size else lines[..., :0].reshape(-1)
    return searchsorted(line, values, side=side)


def running(x: Block, *, function: Any) -> Block:
    """A running reduction along the last dim, by a user's function."""
    made = np.array(x)
    for k in range(1, x.shape[-1]):
        made[..., k] = function(made[..., k - 1], x[..., k])
    return made


def median(x: Block) -> Block:
    """The median of each line along the last dim."""
    if not x.shape[-1]:
        return np.full(x.shape[:-1], np.nan, np.result_type(x.dtype, np.float16))
    return np.asarray(np.median(x, axis=-1))


def quantile_lines(x: Block, q: Block, *, method: str, ignore_nan: bool, wanted: str) -> Block:
    """Quantiles of each line along the last dim; all lines have the same ones."""
    function: Any = np.nanquantile if ignore_nan else np.quantile
    if not q.size:
        return np.empty(q.shape, wanted)
    levels = q.reshape(-1, q.shape[-1])[0]
    made = np.asarray(function(x, levels, axis=-1, method=method), dtype=wanted)
    return np.moveaxis(made, 0, -1)


def scatter(x: Block, places: Block, values: Block, *, function: Any) -> Block:
    """`x` with values joined to what is at their places, one after the other."""
    made = np.array(x)
    if isinstance(function, np.ufunc):
        function.at(made, places, values)
        return made
    for place, value in zip(places.tolist(), values, strict=True):
        made[place] = function(made[place], value)
    return made


def fft(x: Block, *, name: str, n: int | None, norm: str) -> Block:
    """A transform along the last dim."""
    made: Block = getattr(np.fft, name)(x, n, -1, norm)
    return made


def pinv(x: Block, rtol: Block | None = None) -> Block:
    """The pseudo-inverse."""
    return np.linalg.pinv(x) if rtol is None else np.linalg.pinv(x, rtol=rtol)


def matrix_rank(x: Block, rtol: Block | None = None) -> Block:
    """The number of singular values that are not taken for zero."""
    return np.asarray(np.linalg.matrix_rank(x, rtol=rtol))
