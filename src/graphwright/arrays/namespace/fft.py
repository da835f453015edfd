"""Fourier transforms. One of several dims is one of each dim in turn, so that between them tiles
need no more than to be turned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphwright.arrays.array import Array, asarray, wrap
from graphwright.arrays.errors import ShapeMismatch
from graphwright.arrays.namespace.searching import along
from graphwright.arrays.namespace.shapes import axes_of, axis_of, roll

NORMS = ("backward", "ortho", "forward")


def _line(name: str, x: Any, n: int | None, axis: int, norm: str) -> Array:
    given = asarray(x)
    if norm not in NORMS:
        raise ValueError(f"no norm {norm!r}; one of {', '.join(NORMS)}")
    if n is not None and n < 1:
        raise ShapeMismatch(f"a transform of {n} points; give 1 at least")
    length = given.shape[axis_of(axis, given.ndim)]
    sample = getattr(np.fft, name)(np.ones(length or 1, given.dtype), n)
    return along("fft", given, axis, sample.dtype, sample.shape[0], name=name, n=n, norm=norm)


def _of_line(name: str) -> Callable[..., Array]:
    def transform(
        x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
    ) -> Array:
        return _line(name, x, n, axis, norm)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"numpy.fft.{name} of each line along a dim."
    return transform


fft, ifft, rfft, irfft, hfft, ihfft = map(
    _of_line, ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
)


def _dims(x: Array, s: Sequence[int] | None, axes: Any) -> list[tuple[int, int | None]]:
    dims = axes_of(axes, x.ndim) if axes is not None else tuple(range(x.ndim))
    if axes is None and s is not None:
        dims = dims[-len(s) :]
    sizes: Sequence[int | None] = [None] * len(dims) if s is None else list(s)
    if len(sizes) != len(dims):
        raise ShapeMismatch(f"{len(sizes)} sizes for {len(dims)} dims")
    return list(zip(dims, sizes, strict=True))


def _of_all(name: str, last: str, other: str, inverse: bool) -> Callable[..., Array]:
    def transform(
        x: Any, /, *, s: Sequence[int] | None = None, axes: Any = None, norm: str = "backward"
    ) -> Array:
        made = asarray(x)
        dims = _dims(made, s, axes)
        if not dims:
            return made
        steps = [(last, *dims[-1]), *((other, *d) for d in reversed(dims[:-1]))]
        if inverse:  # what is real at last stays complex up to then
            steps = [*((other, *d) for d in dims[:-1]), (last, *dims[-1])]
        for step, dim, n in steps:
            made = _line(step, made, n, dim, norm)
        return made

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = f"numpy.fft.{name} of several dims."
    return transform


fftn = _of_all("fftn", "fft", "fft", inverse=False)
ifftn = _of_all("ifftn", "ifft", "ifft", inverse=False)
rfftn = _of_all("rfftn", "rfft", "fft", inverse=False)
irfftn = _of_all("irfftn", "irfft", "ifft", inverse=True)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: str | None = None) -> Array:
    """The frequencies of the elements of a transform."""
    return wrap(np.fft.fftfreq(n, d).astype(np.float64 if dtype is None else dtype))


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: str | None = None) -> Array:
    """The frequencies of the elements of a transform of real numbers."""
    return wrap(np.fft.rfftfreq(n, d).astype(np.float64 if dtype is None else dtype))


def fftshift(x: Any, /, *, axes: Any = None) -> Array:
    """Frequency zero in the middle."""
    given = asarray(x)
    dims = axes_of(axes, given.ndim)
    return roll(given, tuple(given.shape[d] // 2 for d in dims), axis=dims) if dims else given


def ifftshift(x: Any, /, *, axes: Any = None) -> Array:
    """Frequency zero at the start again."""
    given = asarray(x)
    dims = axes_of(axes, given.ndim)
    return roll(given, tuple(-(given.shape[d] // 2) for d in dims), axis=dims) if dims else given


FUNCTIONS = {
    "fft": fft, "ifft": ifft, "rfft": rfft, "irfft": irfft, "hfft": hfft, "ihfft": ihfft,
    "fftn": fftn, "ifftn": ifftn, "rfftn": rfftn, "irfftn": irfftn, "fftfreq": fftfreq,
    "rfftfreq": rfftfreq, "fftshift": fftshift, "ifftshift": ifftshift,
}  # fmt: skip
