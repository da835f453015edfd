"""Fourier transforms: opaque along the transformed dims, split along all others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from graphwright.describe.language import Array, Expr, Int, Opaque, Tensor, describe

Ints = Sequence[Int]

FORWARD = ("backward", "ortho", "forward")
INVERSE = ("forward", "ortho", "backward")
"""NumPy's names for PyTorch's modes 0 to 2: no scaling, 1/sqrt(size), 1/size."""


def transformed(
    name: str, numpy: Callable[..., Array], x: Tensor, dim: Ints, *args: object
) -> Callable[..., Expr]:
    """``numpy(part, axes, *args)`` of the slices of x that span `dim`, the axes of a slice."""
    dims = [int(d) % x.rank for d in dim]
    axes = [sorted(dims).index(d) for d in dims]
    function = Opaque(name, lambda part, *args: numpy(part, axes, *args))

    def element(*i: Int) -> Expr:
        key = tuple(slice(None) if d in dims else i[d] for d in range(x.rank))
        return function(x[key], *args)[tuple(i[d] for d in sorted(dims))]

    return element


@describe("aten._fft_c2c")
def fft_c2c(x: Tensor, *, dim: Ints, normalization: Int, forward: bool):
    if forward:
        norm = FORWARD[int(normalization)]
        return transformed(
            "fft", lambda part, axes: np.fft.fftn(part, axes=axes, norm=norm), x, dim
        )
    norm = INVERSE[int(normalization)]
    return transformed(
        "inverse fft", lambda part, axes: np.fft.ifftn(part, axes=axes, norm=norm), x, dim
    )


@describe("aten._fft_r2c")
def fft_r2c(x: Tensor, *, dim: Ints, normalization: Int, onesided: bool):
    norm = FORWARD[int(normalization)]
    transform = np.fft.rfftn if onesided else np.fft.fftn
    return transformed("real fft", lambda part, axes: transform(part, axes=axes, norm=norm), x, dim)


@describe("aten._fft_c2r")
def fft_c2r(x: Tensor, *, dim: Ints, normalization: Int, last_dim_size: Int):
    norm = INVERSE[int(normalization)]

    def inverse(part: Array, axes: list[int], last: Array) -> Array:
        sizes = [*(part.shape[a] for a in axes[:-1]), int(last)]
        return np.fft.irfftn(part, s=sizes, axes=axes, norm=norm)

    return transformed("inverse real fft", inverse, x, dim, last_dim_size)
