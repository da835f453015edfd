"""Padding of all kinds, and window matrices."""

import torch
from hypothesis import assume
from hypothesis import strategies as st

from cases import Call, Draw, case, integer, real, shape, size
from graphwright.aten.invoke import call_kernel


@case("aten.constant_pad_nd")
def constant_pad_nd(draw: Draw) -> Call:
    dims = shape(draw, 1, 4)
    pad = [draw(st.integers(-2, 3)) for _ in range(2 * draw(st.integers(1, len(dims))))]
    for n, front, back in zip(dims[::-1], pad[::2], pad[1::2], strict=False):
        assume(n + front + back >= 1 and n + min(front, 0) + min(back, 0) >= 0)
    x = draw(st.sampled_from([real, real, integer]))(draw, *dims)
    values = [0, 0.0, -3] + [1.5, float("-inf")] * x.is_floating_point()
    return {"pad": tuple(pad), "value": draw(st.sampled_from(values))}, [x]


def padded(draw: Draw, rank: int, reflect: bool) -> Call:
    sizes = [size(draw, 2 if reflect else 1, 5 if rank < 3 else 3) for _ in range(rank)]
    limits = [n - 1 if reflect else 3 for n in reversed(sizes) for _ in range(2)]
    padding = tuple(draw(st.integers(-2, limit)) for limit in limits)
    for n, front, back in zip(reversed(sizes), padding[::2], padding[1::2], strict=True):
        assume(n + front + back >= 1)
    leading = [size(draw, 1, 3) for _ in range(draw(st.integers(1, 2)))]
    return {"padding": padding}, [real(draw, *leading, *sizes)]


def register(kind: str, rank: int) -> None:
    @case(f"aten.{kind}_pad{rank}d")
    def forward(draw: Draw) -> Call:
        return padded(draw, rank, kind == "reflection")

    @case(f"aten.{kind}_pad{rank}d_backward")
    def backward(draw: Draw) -> Call:
        attrs, (x,) = padded(draw, rank, kind == "reflection")
        out = call_kernel(f"aten.{kind}_pad{rank}d", [x], attrs)[0]
        return attrs, [torch.randn_like(out), x]


for rank in (1, 2, 3):
    register("reflection", rank)
    register("replication", rank)


def window(draw: Draw) -> dict[str, tuple[int, ...]]:
    bounds = {"kernel_size": (1, 3), "dilation": (1, 2), "padding": (0, 2), "stride": (1, 3)}
    return {name: tuple(draw(st.integers(*b)) for _ in range(2)) for name, b in bounds.items()}


def image(draw: Draw, attrs: dict[str, tuple[int, ...]]) -> torch.Tensor:
    sizes = [size(draw, 2, 6) for _ in range(2)]
    for n, k, d, p in zip(
        sizes, attrs["kernel_size"], attrs["dilation"], attrs["padding"], strict=True
    ):
        assume(n + 2 * p >= d * (k - 1) + 1)
    return real(draw, *(size(draw, 1, 3) for _ in range(draw(st.integers(1, 2)))), *sizes)


@case("aten.im2col")
def im2col(draw: Draw) -> Call:
    attrs = window(draw)
    return dict(attrs), [image(draw, attrs)]


@case("aten.col2im")
def col2im(draw: Draw) -> Call:
    attrs = window(draw)
    x = image(draw, attrs)
    columns = call_kernel("aten.im2col", [x], attrs)[0]
    return {**attrs, "output_size": tuple(x.shape[-2:])}, [torch.randn_like(columns)]
