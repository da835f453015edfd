"""Sampling of an image at given points, and its gradients.

``grid[n, y, x]`` holds the coordinates, from -1 to 1, of output element (y, x). The positions are
data, so rows and columns of the image do not split; batch, channels and both grid dims do.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from graphwright.describe.language import Expr, Int, Sum, Tensor, describe, equal, function, where

Taps = list[tuple[Expr, Expr]]
"""Positions in a dim, with their weights."""

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
        taps: list[Taps] = []
        for dim, size in enumerate(x.shape[2:]):
            at = unnormalised(grid[(n, *y, 1 - dim)], size, align_corners)
            taps.append(taps_of(mode, padding, at, size, align_corners))
        cells = [(x.pad(0)[n, c, row, column], a * b) for (row, a), (column, b) in product(*taps)]
        return total([value * weight for value, weight in cells])

    return element


@describe("aten.grid_sampler_2d_backward")
def grid_sampler_backward(
    g: Tensor, x: Tensor, grid: Tensor, *, interpolation_mode: Int, padding_mode: Int,
    align_corners: bool, output_mask: Sequence[bool],
):  # fmt: skip
    mode, padding = int(interpolation_mode), int(padding_mode)

    def taps(n: Int, y: Sequence[Int]) -> list[tuple[Taps, Taps]]:
        """For both dims of the image, the taps with their weights, and with the slopes of these."""
        pairs: list[tuple[Taps, Taps]] = []
        for dim, size in enumerate(x.shape[2:]):
            coordinate = grid[(n, *y, 1 - dim)]
            at = unnormalised(coordinate, size, align_corners)
            slopes = slopes_of(mode, padding, at, size, align_corners)
            pairs.append((taps_of(mode, padding, at, size, align_corners), slopes))
        return pairs

    def grad_image(n: Int, c: Int, *here: Int) -> Expr:
        def share(*y: Int) -> Expr:
            value: Expr = g[(n, c, *y)]
            for place, (weights, _) in zip(here, taps(n, y), strict=True):
                value = value * total([where(equal(at, place), w, 0.0) for at, w in weights])
            return value

        return Sum(share, over=grid.shape[1:3])

    def grad_grid(n: Int, *i: Int) -> Expr:
        *y, which = i
        (rows, row_slopes), (columns, column_slopes) = taps(n, y)

        def along(c: Int, down: Taps, right: Taps) -> Expr:
            cells = product(down, right)
            return total([x.pad(0)[n, c, row, col] * (a * b) for (row, a), (col, b) in cells])

        def share(c: Int) -> Expr:
            right, down = along(c, rows, column_slopes), along(c, row_slopes, columns)
            return g[(n, c, *y)] * where(equal(which, 0), right, down)

        return Sum(share, over=x.shape[1])

    return (grad_image, grad_grid) if output_mask[0] else grad_grid


def total(terms: Sequence[Expr]) -> Expr:
    """The sum of at least one term."""
    return sum(terms[1:], start=terms[0])


def slopes_of(mode: int, padding: int, at: Expr, size: Int, align_corners: bool) -> Taps:
    """The positions around `at` in one dim, and the derivatives of their weights."""
    stretch = (size - 1) / 2 if align_corners else size / 2
    positions = [position for position, _ in taps_of(mode, padding, at, size, align_corners)]
    if mode == NEAREST:
        return [(position, at * 0) for position in positions]
    if mode == BICUBIC:
        offset = at - floor(at)
        signs = zip((-1, 0, 1, 2), positions, strict=True)
        return [
            (position, (1 if tap <= 0 else -1) * cubic_slope(absolute(offset - tap)) * stretch)
            for tap, position in signs
        ]
    moved = stretch * inside_slope(padding, at, size, align_corners)
    return [(positions[0], -moved), (positions[1], moved)]


def inside_slope(padding: int, at: Expr, size: Int, align_corners: bool) -> Expr:
    """The derivative of `inside` by the position."""
    slope = at * 0 + 1
    if padding == ZEROS:
        return slope
    if padding == REFLECTION:
        low, span = (0.0, size - 1) if align_corners else (-0.5, size)
        distance, width = absolute(at - low), larger(span, 1)
        even = equal(remainder(floor(distance / width), 2), 0)
        slope = where(at < low, -1.0, 1.0) * where(even, 1.0, -1.0)
        slope = where(equal(span * 1.0, 0), 0.0, slope)
        at = reflected(at, low, span)
    return where((at <= 0) | (at >= size - 1), 0.0, slope)


def cubic_slope(t: Expr) -> Expr:
    """The derivative of `cubic` by the distance t."""
    near = (3 * (SHARPNESS + 2) * t - 2 * (SHARPNESS + 3)) * t
    far = (3 * SHARPNESS * t - 10 * SHARPNESS) * t + 8 * SHARPNESS
    return where(t <= 1, near, far)


def taps_of(mode: int, padding: int, at: Expr, size: Int, align_corners: bool) -> Taps:
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
    """Convert a coordinate between -1 and 1 to a position in pixels."""
    return (coordinate + 1) / 2 * (size - 1) if align_corners else ((coordinate + 1) * size - 1) / 2


def inside(padding: int, at: Expr, size: Int, align_corners: bool) -> Expr:
    """Map a position into the image, as the padding mode says."""
    if padding == ZEROS:
        return at
    if padding == REFLECTION:
        at = reflected(at, 0.0, size - 1) if align_corners else reflected(at, -0.5, size)
    return smaller(larger(at, 0.0), size - 1)


def reflected(at: Expr, low: float, span: Int) -> Expr:
    """Reflect a position at both ends into [low, low + span]."""
    distance = absolute(at - low)
    width = larger(span, 1)
    rest = remainder(distance, width)
    even = equal(remainder(floor(distance / width), 2), 0)
    return where(equal(span * 1.0, 0), 0.0, where(even, rest + low, width - rest + low))


def cubic(t: Expr) -> Expr:
    """The weight of a tap at distance t < 2."""
    near = ((SHARPNESS + 2) * t - (SHARPNESS + 3)) * t * t + 1
    far = ((SHARPNESS * t - 5 * SHARPNESS) * t + 8 * SHARPNESS) * t - 4 * SHARPNESS
    return where(t <= 1, near, far)
