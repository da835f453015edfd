"""Convolutions and their gradients, one to three spatial dims, strides, padding, dilation, groups, both directions."""

import torch
from hypothesis import assume
from hypothesis import strategies as st

from cases import Call, Draw, case, real
from graphwright.aten.invoke import call_kernel


def convolution_call(draw: Draw, bias: bool) -> Call:
    rank = draw(st.sampled_from([1, 1, 2, 2, 2, 3]))
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    transposed = draw(st.booleans())
    stride, dilation, kernel = (
        tuple(draw(st.integers(1, high)) for _ in range(rank)) for high in (3, 2, 3)
    )
    padding = tuple(draw(st.integers(0, 2)) for _ in range(rank))
    extra = tuple(
        draw(st.integers(0, max(s, d) - 1)) if transposed else 0
        for s, d in zip(stride, dilation, strict=True)
    )
    sizes = tuple(draw(st.integers(3, 7 if rank < 3 else 4)) for _ in range(rank))
    for n, s, p, d, k, e in zip(sizes, stride, padding, dilation, kernel, extra, strict=True):
        out = (n - 1) * s - 2 * p + d * (k - 1) + e + 1 if transposed else n + 2 * p - d * (k - 1)
        assume(out >= 1)
    c_in, c_out = (groups * draw(st.integers(1, 3)) for _ in range(2))
    batch = draw(st.integers(1, 4))
    x = real(draw, batch, c_in, *sizes)
    rows, columns = (c_in, c_out) if transposed else (c_out, c_in)
    w = real(draw, rows, columns // groups, *kernel)
    attrs = {
        "stride": stride, "padding": padding, "dilation": dilation, "transposed": transposed,
        "output_padding": extra, "groups": groups,
    }  # fmt: skip
    return attrs, [x, w, real(draw, c_out) if bias else None]


@case("aten.convolution")
def convolution(draw: Draw) -> Call:
    attrs, inputs = convolution_call(draw, draw(st.booleans()))
    if draw(st.integers(0, 4)) == 0:  # a list of one counts for all dims
        for name in ("stride", "padding", "dilation", "output_padding"):
            attrs[name] = attrs[name][:1] if len(set(attrs[name])) == 1 else attrs[name]
    return attrs, inputs


@case("graphwright.convolution_grad_input")
def grad_input(draw: Draw) -> Call:
    attrs, (x, w, _) = convolution_call(draw, False)
    g = torch.randn_like(call_kernel("aten.convolution", [x, w, None], attrs)[0])
    return {**attrs, "input_size": tuple(x.shape)}, [g, w]


@case("graphwright.convolution_grad_weight")
def grad_weight(draw: Draw) -> Call:
    attrs, (x, w, _) = convolution_call(draw, False)
    g = torch.randn_like(call_kernel("aten.convolution", [x, w, None], attrs)[0])
    return {**attrs, "weight_size": tuple(w.shape)}, [g, x]
