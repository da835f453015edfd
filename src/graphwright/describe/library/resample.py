"""Resizing by nearest neighbour and by linear interpolation, in one to three dims, and the gradients.

An output row reads input rows at a position that is a real number, ``y * size / num_out``. A whole number of times
larger without a scale factor of its own, the nearest row is ``y // times`` and rows split between repetitions; in all
other cases the row is a value, and only batch and channels split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

from graphwright.describe.expression import Expr
from graphwright.describe.language import Int, Sum, Tensor, equal, fixed, function, where
from graphwright.describe.registry import describe

Ints = Sequence[Int]
Scales = Sequence[float | None] | None
Element = Callable[..., Expr]
Taps = list[tuple[Expr, Expr]]
"""Positions in a dim, with the weight of each."""

rounded_down = function("index")
smaller, larger = function("minimum"), function("maximum")


def ratio(size: Int, num_out: Int, scale: float | None) -> Expr:
    """How far one step in the output goes in the input.

    PyTorch's kernels disagree on a factor other than 1 that leaves the size as it was: some copy, some resample.
    """
    return size / num_out if scale is None else 1 / scale


def nearest(y: Int, size: Int, num_out: Int, scale: float | None) -> Expr:
    """The input row that output row y repeats."""
    return smaller(rounded_down(y * ratio(size, num_out, scale)), size - 1)


def linear(y: Int, size: Int, num_out: Int, scale: float | None, align_corners: bool) -> Taps:
    """The two input rows that output row y lies between."""
    if align_corners:
        at = y * ((size - 1) / larger(num_out - 1, 1))
    else:
        at = larger((y + 0.5) * ratio(size, num_out, scale) - 0.5, 0.0)
    low = smaller(rounded_down(at), size - 1)
    share = smaller(larger(at - low, 0.0), 1.0)
    return [(low, 1 - share), (smaller(low + 1, size - 1), share)]


def whole_times(sizes: Ints, num_out: Ints, scales: Scales) -> list[Int] | None:
    """How many times every row is repeated, where that is the same for all of them."""
    if any(s is not None for s in scales or ()) or any(
        n % m != 0 for n, m in zip(num_out, sizes, strict=True)
    ):
        return None
    return [fixed(n // m) for n, m in zip(num_out, sizes, strict=True)]


def given(scales: Scales, rank: int) -> Sequence[float | None]:
    """A scale factor or None for every spatial dim."""
    return scales or [None] * rank


def nearest_neighbour(x: Tensor, out: Tensor, scales: Scales) -> Element:
    """Repeat rows."""
    sizes, num_out = x.shape[2:], out.shape[2:]
    times = whole_times(sizes, num_out, scales)
    if times is not None:
        return lambda n, c, *y: x[(n, c, *(t // k for t, k in zip(y, times, strict=True)))]
    return lambda n, c, *y: x[(n, c, *map(nearest, y, sizes, num_out, given(scales, len(sizes))))]


def nearest_neighbour_backward(g: Tensor, out: Tensor, scales: Scales) -> Element:
    """Add up the gradients of a row's repetitions."""
    sizes, num_out = out.shape[2:], g.shape[2:]
    times = whole_times(sizes, num_out, scales)

    def element(n: Int, c: Int, *rows: Int) -> Expr:
        if times is not None:
            at = lambda d: [t * k + tap for t, k, tap in zip(rows, times, d, strict=True)]
            return Sum(lambda *d: g[(n, c, *at(d))], over=times)

        def add_up(dim: int, y: Ints) -> Expr:
            if dim == len(rows):
                return g[(n, c, *y)]
            where_from = lambda t: nearest(
                t, sizes[dim], num_out[dim], given(scales, len(rows))[dim]
            )
            here = lambda t: equal(where_from(t), rows[dim])
            return Sum(lambda t: where(here(t), add_up(dim + 1, (*y, t)), 0), over=num_out[dim])

        return add_up(0, ())

    return element


def interpolation(x: Tensor, out: Tensor, align_corners: bool, scales: Scales) -> Element:
    """Weigh the corners of the cell that an output element falls in."""
    sizes, num_out = x.shape[2:], out.shape[2:]
    corners = [align_corners] * len(sizes)

    def element(n: Int, c: Int, *y: Int) -> Expr:
        taps = map(linear, y, sizes, num_out, given(scales, len(sizes)), corners)
        terms = [
            (x[(n, c, *(at for at, _ in cell))], [w for _, w in cell]) for cell in product(*taps)
        ]
        values = [prod(weights, start=value) for value, weights in terms]
        return sum(values[1:], start=values[0])

    return element


def interpolation_backward(g: Tensor, out: Tensor, align_corners: bool, scales: Scales) -> Element:
    """Add up the gradients of the outputs that an element takes part in, weighed alike."""
    sizes, num_out = out.shape[2:], g.shape[2:]

    def element(n: Int, c: Int, *rows: Int) -> Expr:
        def weight(dim: int, y: Int) -> Expr:
            scale = given(scales, len(rows))[dim]
            low, high = linear(y, sizes[dim], num_out[dim], scale, align_corners)
            return where(equal(low[0], rows[dim]), low[1], 0.0) + where(
                equal(high[0], rows[dim]), high[1], 0.0
            )

        def add_up(dim: int, y: Ints) -> Expr:
            if dim == len(rows):
                return g[(n, c, *y)]
            return Sum(lambda t: weight(dim, t) * add_up(dim + 1, (*y, t)), over=num_out[dim])

        return add_up(0, ())

    return element


# -- the operators --------------------------------------------------------------------------------

OUTPUT = {"output_size": lambda out: out.shape[2:]}
BACKWARD = {"output_size": lambda g: g.shape[2:], "input_size": lambda out: out.shape}


@describe("aten.upsample_nearest1d", **OUTPUT)
def nearest1d(x: Tensor, *, scales: float | None, out: Tensor):
    return nearest_neighbour(x, out, [scales])


@describe("aten.upsample_nearest2d", **OUTPUT)
def nearest2d(x: Tensor, *, scales_h: float | None, scales_w: float | None, out: Tensor):
    return nearest_neighbour(x, out, [scales_h, scales_w])


@describe("aten.upsample_linear1d", **OUTPUT)
def linear1d(x: Tensor, *, align_corners: bool, scales: float | None, out: Tensor):
    return interpolation(x, out, align_corners, [scales])


@describe("aten.upsample_bilinear2d", **OUTPUT)
def bilinear2d(
    x: Tensor, *, align_corners: bool, scales_h: float | None, scales_w: float | None, out: Tensor
):
    return interpolation(x, out, align_corners, [scales_h, scales_w])


@describe("aten.upsample_nearest1d_backward", **BACKWARD)
def nearest1d_backward(g: Tensor, *, scales: float | None, out: Tensor):
    return nearest_neighbour_backward(g, out, [scales])


@describe("aten.upsample_nearest2d_backward", **BACKWARD)
def nearest2d_backward(g: Tensor, *, scales_h: float | None, scales_w: float | None, out: Tensor):
    return nearest_neighbour_backward(g, out, [scales_h, scales_w])


@describe("aten.upsample_linear1d_backward", **BACKWARD)
def linear1d_backward(g: Tensor, *, align_corners: bool, scales: float | None, out: Tensor):
    return interpolation_backward(g, out, align_corners, [scales])


@describe("aten.upsample_bilinear2d_backward", **BACKWARD)
def bilinear2d_backward(g: Tensor, *, align_corners: bool, scales_h: float | None, scales_w: float | None, out: Tensor):  # fmt: skip
    return interpolation_backward(g, out, align_corners, [scales_h, scales_w])


def _restated(out: Tensor, output_size: Ints | None) -> object:
    return None if output_size is None else out.shape[2:]


@describe("aten.upsample_nearest1d.vec", "aten.upsample_nearest2d.vec", "aten.upsample_nearest3d.vec", output_size=_restated)  # fmt: skip
def nearest_vec(x: Tensor, *, scale_factors: Scales, out: Tensor):
    return nearest_neighbour(x, out, scale_factors)


@describe("aten.upsample_linear1d.vec", "aten.upsample_bilinear2d.vec", "aten.upsample_trilinear3d.vec", output_size=_restated)  # fmt: skip
def linear_vec(x: Tensor, *, align_corners: bool, scale_factors: Scales, out: Tensor):
    return interpolation(x, out, align_corners, scale_factors)
