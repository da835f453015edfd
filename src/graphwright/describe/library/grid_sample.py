"""Reading an image at given points: ``grid[n, y, x]`` holds the coordinates, -1 to 1, of output element (y, x).

The image is looked up at positions that are data, so its rows and columns stay whole; the batch, the channels and
both dims of the grid split.
"""

from __future__ import annotations

from itertools import product

from graphwright.describe.expression import Expr
from graphwright.describe.language import Int, Tensor, equal, function, where
from graphwright.describe.registry import describe

BILINEAR, NEAREST, BICUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)
SHARPNESS = -0.75
"""The free parameter of the cubic kernel."""

rounded_down, rounded, floor, absolute = map(function, ("index", "round", "floor", "abs"))
smaller, larger, remainder = map(function, ("minimum", "maximum", "fmod"))


@describe("aten.grid_sampler_2d")
def grid_sampler(
    x: Tensor, grid: Tensor, *, interpolation_mode: Int, padding_mode: Int, align_corners: bool
):
    mode, padding = int(interpolation_mode), int(padding_mode)

    def element(n: Int, c: Int, *y: Int) -> Expr:
        taps: list[list[tuple[Expr, Expr]]] = []
        for dim, size in enumerate(x.shape[2:]):
            at = unnormalised(grid[(n, *y, 1 - dim)], size, align_corners)
            taps.append(taps_of(mode, padding, at, size, align_corners))
        cells = [(x.pad(0)[n, c, row, column], a * b) for (row, a), (column, b) in product(*taps)]
        values = [value * weight for value, weight in cells]
        return sum(values[1:], start=values[0])

    return element


def taps_of(
    mode: int, padding: int, at: Expr, size: Int, align_corners: bool
) -> list[tuple[Expr, Expr]]:
    """The positions around `at` in one dim, and their weights."""
    if mode == BICUBIC:
        low = floor(at)
        return [
            (
                rounded_down(inside(padding, low + tap, size, align_corners)),
                cubic(absolute(at - low - tap)),
            )
            for tap in (-1, 0, 1, 2)
        ]
    at = inside(padding, at, size, align_corners)
    if mode == NEAREST:
        return [(rounded_down(rounded(at)), at * 0 + 1)]
    low = floor(at)
    return [(rounded_down(low), 1 - (at - low)), (rounded_down(low + 1), at - low)]


def unnormalised(coordinate: Expr, size: Int, align_corners: bool) -> Expr:
    """A coordinate between -1 and 1 as a position in pixels."""
    return (coordinate + 1) / 2 * (size - 1) if align_corners else ((coordinate + 1) * size - 1) / 2


def inside(padding: int, at: Expr, size: Int, align_corners: bool) -> Expr:
    """A position as the padding mode takes it."""
    if padding == ZEROS:
        return at
    if padding == REFLECTION:
        at = reflected(at, 0.0, size - 1) if align_corners else reflected(at, -0.5, size)
    return smaller(larger(at, 0.0), size - 1)


def reflected(at: Expr, low: float, span: Int) -> Expr:
    """A position folded back and forth into [low, low + span]."""
    distance = absolute(at - low)
    width = larger(span, 1)
    rest = remainder(distance, width)
    even = equal(remainder(floor(distance / width), 2), 0)
    return where(equal(span * 1.0, 0), 0.0, where(even, rest + low, width - rest + low))


def cubic(t: Expr) -> Expr:
    """The weight of a tap at distance t, below 2."""
    near = ((SHARPNESS + 2) * t - (SHARPNESS + 3)) * t * t + 1
    far = ((SHARPNESS * t - 5 * SHARPNESS) * t + 8 * SHARPNESS) * t - 4 * SHARPNESS
    return where(t <= 1, near, far)
