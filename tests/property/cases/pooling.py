"""Pooling in one to three dims: strides, padding, dilation, rounding up, divisors, with and without a batch."""

import torch
from hypothesis import assume
from hypothesis import strategies as st

from cases import Call, Draw, case, real, size
from graphwright.aten.invoke import call_kernel


def windows(draw: Draw, rank: int, dilated: bool) -> tuple[torch.Tensor, dict[str, object]]:
    kernel = tuple(size(draw, high=3) for _ in range(rank))
    stride = draw(st.sampled_from([(), tuple(size(draw, high=3) for _ in range(rank))]))
    padding = tuple(draw(st.integers(0, k // 2)) for k in kernel)
    dilation = tuple(size(draw, high=2) if dilated else 1 for _ in range(rank))
    sizes = tuple(size(draw, 3, 7 if rank < 3 else 4) for _ in range(rank))
    for n, k, p, d in zip(sizes, kernel, padding, dilation, strict=True):
        assume(n + 2 * p - d * (k - 1) >= 1)
    lead = (size(draw, high=3), size(draw, high=3))[draw(st.integers(0, 1)) :]
    attrs = {
        "kernel_size": kernel,
        "stride": stride,
        "padding": padding,
        "ceil_mode": draw(st.booleans()),
    }
    return real(draw, *lead, *sizes), {**attrs, "dilation": dilation} if dilated else attrs


def max_pool(draw: Draw, rank: int) -> Call:
    x, attrs = windows(draw, rank, dilated=True)
    return attrs, [x]


def max_pool_backward(draw: Draw, rank: int) -> Call:
    attrs, (x,) = max_pool(draw, rank)
    assert x is not None
    attrs["stride"] = attrs["stride"] or attrs["kernel_size"]
    out, indices = call_kernel(f"aten.max_pool{rank}d_with_indices", [x], attrs)
    return attrs, [real(draw, *out.shape), x, indices]


@case("graphwright.max_pool")
def max_pool_places(draw: Draw) -> Call:
    rank = draw(st.sampled_from([2, 3]))
    attrs, inputs = max_pool(draw, rank)
    attrs["stride"] = attrs["stride"] or attrs["kernel_size"]
    for name in ("kernel_size", "stride", "padding", "dilation"):
        attrs[name] = tuple(attrs[name]) if len(attrs[name]) == rank else tuple(attrs[name]) * rank
    return attrs, inputs


@case("graphwright.max_pool_grad_input")
def max_pool_grad_input(draw: Draw) -> Call:
    attrs, inputs = max_pool_places(draw)
    (x,) = inputs
    out, places = call_kernel("graphwright.max_pool", inputs, attrs)
    del attrs["ceil_mode"]
    attrs["input_size"] = tuple(x.shape)
    return attrs, [real(draw, *out.shape), places]


def avg_pool(draw: Draw, rank: int) -> Call:
    x, attrs = windows(draw, rank, dilated=False)
    attrs["count_include_pad"] = draw(st.booleans())
    if rank > 1:
        attrs["divisor_override"] = draw(st.sampled_from([None, None, 5]))
        if draw(st.integers(0, 3)) == 0:
            x = (x * 9).long()  # whole numbers are rounded, so parts of them do not add up
    return attrs, [x]


def avg_pool_backward(draw: Draw, rank: int) -> Call:
    attrs, (x,) = avg_pool(draw, rank)
    assert x is not None
    x = x.double()
    attrs["stride"] = attrs["stride"] or attrs["kernel_size"]
    (out,) = call_kernel(f"aten.avg_pool{rank}d", [x], attrs)
    return attrs, [real(draw, *out.shape), x]


for _rank in (1, 2, 3):
    case(f"aten.avg_pool{_rank}d")(lambda draw, rank=_rank: avg_pool(draw, rank))
for _rank in (2, 3):
    case(f"aten.avg_pool{_rank}d_backward")(lambda draw, rank=_rank: avg_pool_backward(draw, rank))
    case(f"aten.max_pool{_rank}d_with_indices")(lambda draw, rank=_rank: max_pool(draw, rank))
    case(f"aten.max_pool{_rank}d_with_indices_backward")(
        lambda draw, rank=_rank: max_pool_backward(draw, rank)
    )


@case("aten.max_unpool2d")
def max_unpool2d(draw: Draw) -> Call:
    attrs, (x,) = max_pool(draw, 2)
    assert x is not None
    out, indices = call_kernel("aten.max_pool2d_with_indices", [x], attrs)
    return {"output_size": tuple(x.shape[-2:])}, [out, indices]
