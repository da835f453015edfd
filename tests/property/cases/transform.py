"""Fourier transforms along one dim or two, of real and complex tensors."""

import torch
from hypothesis import strategies as st

from cases import Call, Draw, case, real, size


def transformed(draw: Draw) -> tuple[torch.Tensor, dict[str, object]]:
    dims = [size(draw, 2, 5) for _ in range(size(draw, high=3))]
    chosen = draw(st.permutations(range(len(dims))))[: draw(st.integers(1, 2))]
    return real(draw, *dims), {"dim": tuple(chosen), "normalization": draw(st.integers(0, 2))}


@case("aten._fft_c2c")
def c2c(draw: Draw) -> Call:
    x, attrs = transformed(draw)
    return {**attrs, "forward": draw(st.booleans())}, [torch.complex(x, real(draw, *x.shape))]


@case("aten._fft_r2c")
def r2c(draw: Draw) -> Call:
    x, attrs = transformed(draw)
    return {**attrs, "onesided": draw(st.booleans())}, [x]


@case("aten._fft_c2r")
def c2r(draw: Draw) -> Call:
    x, attrs = transformed(draw)
    half = torch.fft.rfftn(x, dim=attrs["dim"])  # type: ignore[arg-type]
    return {**attrs, "last_dim_size": x.shape[attrs["dim"][-1]]}, [half]  # type: ignore[index]
