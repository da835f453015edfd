"""Padding, and the window matrices of `im2col`.

Padding with a constant splits anywhere: each part gets the padding in its region. A reflection or a
copy of the edge reads the tensor in both directions, so only the other dims split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product

from graphwright.describe.language import (
    Expr,
    Int,
    Sum,
    Tensor,
    describe,
    equal,
    expect,
    ignored,
    number,
    where,
)

Ints = Sequence[Int]
Branch = tuple[Expr | bool, Int | int]
"""A condition, and the index to read if it holds."""


@describe("aten.constant_pad_nd", pad=lambda x, out, pad: restated_pad(x, out, pad))
def constant_pad_nd(x: Tensor, *, pad: Ints, value: float):
    left = [pad[2 * (x.rank - 1 - d)] if 2 * (x.rank - d) <= len(pad) else 0 for d in range(x.rank)]
    return lambda *i: x.pad(number(value))[tuple(k - n for k, n in zip(i, left, strict=True))]


def restated_pad(x: Tensor, out: Tensor, pad: Ints) -> list[Int]:
    """Front padding as given, back padding from the sizes; the last dim comes first."""
    sizes = list(zip(x.shape, out.shape, strict=True))[::-1]
    return [
        side
        for (n, m), front in zip(sizes, pad[::2], strict=False)
        for side in (front, m - n - front)
    ]


# -- padding that repeats the tensor -------------------------------------------------------------


@describe("aten.reflection_pad1d", "aten.reflection_pad2d", "aten.reflection_pad3d")
def reflection_pad(x: Tensor, *, padding: Ints):
    def sources(i: Int, n: Int, front: Int) -> list[Branch]:
        return [
            (i < front, front - i),
            (i - front >= n, 2 * (n - 1) - i + front),
            (True, i - front),
        ]

    return padded(x, padding, sources)


@describe("aten.replication_pad1d", "aten.replication_pad2d", "aten.replication_pad3d")
def replication_pad(x: Tensor, *, padding: Ints):
    def sources(i: Int, n: Int, front: Int) -> list[Branch]:
        return [(i < front, 0), (i - front >= n, n - 1), (True, i - front)]

    return padded(x, padding, sources)


def padded(
    x: Tensor, padding: Ints, sources: Callable[[Int, Int, Int], list[Branch]]
) -> Callable[..., Expr]:
    """In every padded dim, read the first source whose condition holds."""
    fronts = list(padding[::2])[::-1]
    first = x.rank - len(fronts)

    def element(*i: Int) -> Expr:
        def choose(dim: int, index: tuple[Int | int, ...]) -> Expr:
            if dim == x.rank:
                return x[index]
            *others, (_, last) = sources(i[dim], x.shape[dim], fronts[dim - first])
            value = choose(dim + 1, (*index, last))
            for condition, source in reversed(others):
                value = where(condition, choose(dim + 1, (*index, source)), value)
            return value

        return choose(first, i[:first])

    return element


@describe(
    "aten.reflection_pad1d_backward",
    "aten.reflection_pad2d_backward",
    "aten.reflection_pad3d_backward",
)
def reflection_pad_backward(g: Tensor, x: Tensor, *, padding: Ints):
    """An element collects its own position in g and its reflections on both sides.

    Negative padding crops: an element whose position g does not have collects nothing there.
    """

    def images(i: Int, n: Int, front: Int, back: Int) -> list[Branch]:
        before = (i >= 1) & (i <= front)
        behind = (i >= n - 1 - back) & (i <= n - 2)
        return [(True, i + front), (before, front - i), (behind, 2 * (n - 1) - i + front)]

    sides, first = expected_pairs(g, x, padding), x.rank - len(padding) // 2

    def element(*i: Int) -> Expr:
        choices = [
            images(k, n, *side)
            for k, n, side in zip(i[first:], x.shape[first:], sides, strict=True)
        ]
        terms = [
            where_all([c for c, _ in branches], g.pad(0)[(*i[:first], *(at for _, at in branches))])
            for branches in product(*choices)
        ]
        return reduce(Expr.__add__, terms) + ignored(x[i])

    return element


@describe(
    "aten.replication_pad1d_backward",
    "aten.replication_pad2d_backward",
    "aten.replication_pad3d_backward",
)
def replication_pad_backward(g: Tensor, x: Tensor, *, padding: Ints):
    """An element collects its own position in g; the edges also the padding beyond them."""
    sides, first = expected_pairs(g, x, padding), x.rank - len(padding) // 2

    def element(*i: Int) -> Expr:
        def collect(dim: int, index: tuple[Int | int, ...]) -> Expr:
            if dim == x.rank:
                return g.pad(0)[index]
            k, n, (front, back) = i[dim], x.shape[dim], sides[dim - first]
            total = collect(dim + 1, (*index, k + front))
            if front > 0:
                before = Sum(lambda t: collect(dim + 1, (*index, t)), over=front)
                total = total + where(equal(k, 0), before, 0)
            if back > 0:
                behind = Sum(lambda t: collect(dim + 1, (*index, t + front + n)), over=back)
                total = total + where(equal(k, n - 1), behind, 0)
            return total

        return collect(first, i[:first]) + ignored(x[i])

    return element


def expected_pairs(g: Tensor, x: Tensor, padding: Ints) -> list[tuple[Int, Int]]:
    """(front, back) for each padded dim, in order; the kernel expects g to have both."""
    sides = list(zip(padding[::2], padding[1::2], strict=True))[::-1]
    for dim, (front, back) in enumerate(sides, start=-len(sides)):
        expect(g.shape[dim], x.shape[dim] + front + back)
    return sides


def where_all(conditions: Sequence[Expr | bool], value: Expr) -> Expr:
    """The value where all conditions hold, else 0."""
    met = [c for c in conditions if isinstance(c, Expr)]
    return where(reduce(Expr.__and__, met), value, 0) if met else value


# -- windows as the columns of a matrix ----------------------------------------------------------


@describe("aten.im2col")
def im2col(
    x: Tensor, *, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints, out: Tensor
):
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = kernel_size, dilation, padding, stride
    height, width = positions(x.shape[-2:], kernel_size, dilation, padding, stride)
    expect(out.shape[-1], height * width)

    def element(*i: Int) -> Expr:
        *batch, c, place = i
        y = place // width * sh + c // kw % kh * dh - ph
        z = place % width * sw + c % kw * dw - pw
        return x.pad(0)[(*batch, c // kw // kh, y, z)]

    return element


@describe("aten.col2im")
def col2im(
    x: Tensor, *, output_size: Ints, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints
):
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = kernel_size, dilation, padding, stride
    height, width = positions(output_size, kernel_size, dilation, padding, stride)
    expect(x.shape[-1], height * width)

    def element(*i: Int) -> Expr:
        *batch, c, y, z = i

        def term(a: Int, b: Int) -> Expr:
            up, left = y + ph - a * dh, z + pw - b * dw
            met = [
                equal(up % sh, 0),
                equal(left % sw, 0),
                up >= 0,
                left >= 0,
                up // sh < height,
                left // sw < width,
            ]
            return where_all(met, x[(*batch, (c * kh + a) * kw + b, up // sh * width + left // sw)])

        return Sum(term, over=[kh, kw])

    return element


def positions(
    size: Ints, kernel_size: Ints, dilation: Ints, padding: Ints, stride: Ints
) -> list[Int]:
    """The number of windows along each dim."""
    parts = zip(size, kernel_size, dilation, padding, stride, strict=True)
    return [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, d, p, s in parts]
