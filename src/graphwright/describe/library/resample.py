"""Nearest-neighbour, linear and cubic resizing in one to three dims, and the gradients.

Output row y reads input rows around the real position ``y * size / num_out``. If the output is an
integer multiple of the input and no scale factor is given, the nearest row is ``y // times``, and
rows split between repetitions. Otherwise the row is a value, and only batch and channels split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

from graphwright.describe.language import (
    Expr,
    Int,
    Sum,
    Tensor,
    describe,
    equal,
    fixed,
    function,
    where,
)
from graphwright.describe.library.elementwise import Body, set_parameters
from graphwright.describe.library.grid_sample import cubic as cubic_weight

Ints = Sequence[Int]
Scales = Sequence[float | None] | None
Element = Callable[..., Expr]
Taps = list[tuple[Expr, Expr]]
"""Positions in a dim, with their weights."""
Nearest = Callable[[Int, Int, Int, float | None], Expr]
"""Maps an output row, both sizes and the scale factor to the input row."""
Weigh = Callable[[Int, Int, Int, float | None, bool], Taps]
"""The same, and whether corners are aligned, to the weighted input rows."""

rounded_down, absolute = function("index"), function("abs")
smaller, larger = function("minimum"), function("maximum")


def ratio(size: Int, num_out: Int, scale: float | None) -> Expr:
    """The distance in the input of one step in the output.

    If a factor other than 1 keeps the size, some of PyTorch's kernels copy and others resample.
    """
    return size / num_out if scale is None else 1 / scale


def nearest(y: Int, size: Int, num_out: Int, scale: float | None) -> Expr:
    """The input row that output row y copies."""
    return smaller(rounded_down(y * ratio(size, num_out, scale)), size - 1)


def linear(y: Int, size: Int, num_out: Int, scale: float | None, align_corners: bool) -> Taps:
    """The two input rows around output row y."""
    if align_corners:
        at = y * ((size - 1) / larger(num_out - 1, 1))
    else:
        at = larger((y + 0.5) * ratio(size, num_out, scale) - 0.5, 0.0)
    low = smaller(rounded_down(at), size - 1)
    share = smaller(larger(at - low, 0.0), 1.0)
    return [(low, 1 - share), (smaller(low + 1, size - 1), share)]


def exact(y: Int, size: Int, num_out: Int, scale: float | None) -> Expr:
    """The input row nearest to the centre of output row y."""
    return smaller(rounded_down((y + 0.5) * ratio(size, num_out, scale)), size - 1)


def cubic(y: Int, size: Int, num_out: Int, scale: float | None, align_corners: bool) -> Taps:
    """The four input rows around output row y; the edge row repeats beyond the edge."""
    if align_corners:
        at = y * ((size - 1) / larger(num_out - 1, 1))
    else:
        at = (y + 0.5) * ratio(size, num_out, scale) - 0.5
    low = rounded_down(at)
    return [
        (smaller(larger(low + tap, 0), size - 1), cubic_weight(absolute(at - low - tap)))
        for tap in (-1, 0, 1, 2)
    ]


def whole_times(sizes: Ints, num_out: Ints, scales: Scales) -> list[Int] | None:
    """The number of copies of every row, if it is the same for all rows."""
    if any(s is not None for s in scales or ()) or any(
        n % m != 0 for n, m in zip(num_out, sizes, strict=True)
    ):
        return None
    return [fixed(n // m) for n, m in zip(num_out, sizes, strict=True)]


def given(scales: Scales, rank: int) -> Sequence[float | None]:
    """The scale factor, or None, of every spatial dim."""
    return scales or [None] * rank


def nearest_neighbour(x: Tensor, out: Tensor, scales: Scales, pick: Nearest = nearest) -> Element:
    """Repeat rows."""
    sizes, num_out = x.shape[2:], out.shape[2:]
    times = whole_times(sizes, num_out, scales)
    if times is not None:
        return lambda n, c, *y: x[(n, c, *(t // k for t, k in zip(y, times, strict=True)))]
    return lambda n, c, *y: x[(n, c, *map(pick, y, sizes, num_out, given(scales, len(sizes))))]


def nearest_neighbour_backward(
    g: Tensor, out: Tensor, scales: Scales, pick: Nearest = nearest
) -> Element:
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
            where_from = lambda t: pick(t, sizes[dim], num_out[dim], given(scales, len(rows))[dim])
            here = lambda t: equal(where_from(t), rows[dim])
            return Sum(lambda t: where(here(t), add_up(dim + 1, (*y, t)), 0), over=num_out[dim])

        return add_up(0, ())

    return element


def interpolation(
    x: Tensor, out: Tensor, align_corners: bool, scales: Scales, weigh: Weigh = linear
) -> Element:
    """The weighted sum of the elements around the position of an output element."""
    sizes, num_out = x.shape[2:], out.shape[2:]
    corners = [align_corners] * len(sizes)

    def element(n: Int, c: Int, *y: Int) -> Expr:
        taps = map(weigh, y, sizes, num_out, given(scales, len(sizes)), corners)
        terms = [
            (x[(n, c, *(at for at, _ in cell))], [w for _, w in cell]) for cell in product(*taps)
        ]
        values = [prod(weights, start=value) for value, weights in terms]
        return sum(values[1:], start=values[0])

    return element


def interpolation_backward(
    g: Tensor, out: Tensor, align_corners: bool, scales: Scales, weigh: Weigh = linear
) -> Element:
    """The weighted sum of the gradients of all outputs that read an element."""
    sizes, num_out = out.shape[2:], g.shape[2:]

    def element(n: Int, c: Int, *rows: Int) -> Expr:
        def weight(dim: int, y: Int) -> Expr:
            scale = given(scales, len(rows))[dim]
            taps = weigh(y, sizes[dim], num_out[dim], scale, align_corners)
            shares = [where(equal(at, rows[dim]), share, 0.0) for at, share in taps]
            return sum(shares[1:], start=shares[0])

        def add_up(dim: int, y: Ints) -> Expr:
            if dim == len(rows):
                return g[(n, c, *y)]
            return Sum(lambda t: weight(dim, t) * add_up(dim + 1, (*y, t)), over=num_out[dim])

        return add_up(0, ())

    return element


# -- the operators -------------------------------------------------------------------------------

OUTPUT = {"output_size": lambda out: out.shape[2:]}
BACKWARD = {"output_size": lambda g: g.shape[2:], "input_size": lambda out: out.shape}


def in_order(scales: dict[str, float | None]) -> list[float | None]:
    """The scale factors in the order of dims, which is that of names: depth, height, width."""
    return [scales[name] for name in sorted(scales)]


def _describe_nearest(name: str, scales: Sequence[str], pick: Nearest) -> None:
    def forward(x: Tensor, *, out: Tensor, **factors: float | None):
        return nearest_neighbour(x, out, in_order(factors), pick)

    def backward(g: Tensor, *, out: Tensor, **factors: float | None):
        return nearest_neighbour_backward(g, out, in_order(factors), pick)

    def vec(x: Tensor, *, scale_factors: Scales, out: Tensor):
        return nearest_neighbour(x, out, scale_factors, pick)

    _register(name, scales, forward, backward, vec)


def _describe_interpolation(name: str, scales: Sequence[str], weigh: Weigh) -> None:
    def forward(x: Tensor, *, align_corners: bool, out: Tensor, **factors: float | None):
        return interpolation(x, out, align_corners, in_order(factors), weigh)

    def backward(g: Tensor, *, align_corners: bool, out: Tensor, **factors: float | None):
        return interpolation_backward(g, out, align_corners, in_order(factors), weigh)

    def vec(x: Tensor, *, align_corners: bool, scale_factors: Scales, out: Tensor):
        return interpolation(x, out, align_corners, scale_factors, weigh)

    _register(name, ["align_corners", *scales], forward, backward, vec)


def _register(name: str, attrs: Sequence[str], forward: Body, backward: Body, vec: Body) -> None:
    set_parameters(forward, ["x"], [*attrs, "out"])
    set_parameters(backward, ["g"], [*attrs, "out"])
    describe(f"aten.{name}", **OUTPUT)(forward)
    describe(f"aten.{name}_backward", **BACKWARD)(backward)
    describe(f"aten.{name}.vec", output_size=_restated)(vec)


def _restated(out: Tensor, output_size: Ints | None) -> object:
    return None if output_size is None else out.shape[2:]


_SCALES = {1: ["scales"], 2: ["scales_h", "scales_w"], 3: ["scales_d", "scales_h", "scales_w"]}

for _rank, _scales in _SCALES.items():
    _describe_nearest(f"upsample_nearest{_rank}d", _scales, nearest)
    _describe_nearest(f"_upsample_nearest_exact{_rank}d", _scales, exact)
for _rank, _name in {1: "linear1d", 2: "bilinear2d", 3: "trilinear3d"}.items():
    _describe_interpolation(f"upsample_{_name}", _SCALES[_rank], linear)
_describe_interpolation("upsample_bicubic2d", _SCALES[2], cubic)
