"""Pooling to a given size, where windows are alike and where they are not."""

import torch
from hypothesis import strategies as st

from cases import Call, Draw, case, real, size
from graphwright.aten.invoke import call_kernel


def pooled(draw: Draw, rank: int) -> tuple[torch.Tensor, tuple[int, ...]]:
    outs = tuple(size(draw, high=4) for _ in range(rank))
    if draw(st.booleans()):
        sizes = tuple(n * size(draw, high=3) for n in outs)
    else:
        sizes = tuple(size(draw, 2, 6 if rank < 3 else 4) for _ in range(rank))
    lead = (size(draw, high=3), size(draw, high=3))[draw(st.integers(0, 1)) :]
    return real(draw, *lead, *sizes), outs


def forward(draw: Draw, rank: int) -> Call:
    x, outs = pooled(draw, rank)
    return {"output_size": outs}, [x]


def average_backward(draw: Draw, rank: int) -> Call:
    x, outs = pooled(draw, rank)
    return {}, [real(draw, *x.shape[:-rank], *outs), x]


@case("aten.adaptive_max_pool2d_backward")
def maximum_backward(draw: Draw) -> Call:
    x, outs = pooled(draw, 2)
    out, indices = call_kernel("aten.adaptive_max_pool2d", [x], {"output_size": outs})
    return {}, [real(draw, *out.shape), x, indices]


case("aten.adaptive_avg_pool1d")(lambda draw: forward(draw, 1))
case("aten._adaptive_avg_pool2d", "aten.adaptive_max_pool2d")(lambda draw: forward(draw, 2))
case("aten._adaptive_avg_pool3d")(lambda draw: forward(draw, 3))
case("aten._adaptive_avg_pool2d_backward")(lambda draw: average_backward(draw, 2))
case("aten._adaptive_avg_pool3d_backward")(lambda draw: average_backward(draw, 3))
