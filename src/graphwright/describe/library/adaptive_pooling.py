"""Pooling to a given output size, and its gradients.

Output y of n covers the input rows from ``y * size // n`` up to ``ceil((y + 1) * size / n)``. If n
divides the size, these are adjacent windows of equal size, and an average splits between them.
Otherwise only batch and channels split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import inf, prod

from graphwright.describe.language import (
    ArgMax,
    Expr,
    Int,
    Max,
    Sum,
    Tensor,
    describe,
    equal,
    expect,
    fixed,
    ignored,
    where,
)
from graphwright.describe.library.pooling import flat, max_pool

Ints = Sequence[Int]
Element = Callable[..., Expr]


def even_windows(sizes: Ints, num_out: Ints) -> list[Int] | None:
    """The size of the windows, if all are equal."""
    if all(n % m == 0 for n, m in zip(sizes, num_out, strict=True)):
        return [fixed(n // m) for n, m in zip(sizes, num_out, strict=True)]
    return None


def bounds(y: Int, size: Int, num_out: Int) -> tuple[Int, Int]:
    """The first row of window y, and the first row after it."""
    return y * size // num_out, ((y + 1) * size + num_out - 1) // num_out


def within(rows: Ints, y: Ints, sizes: Ints, num_out: Ints) -> Expr:
    """Whether `rows` lie in window y."""
    tests: list[Expr] = []
    for row, (start, end) in zip(rows, map(bounds, y, sizes, num_out), strict=True):
        tests += [row >= start, row < end]
    return reduce(Expr.__and__, tests)


def area(y: Ints, sizes: Ints, num_out: Ints) -> Int | int:
    """The number of elements of window y."""
    return prod((end - start for start, end in map(bounds, y, sizes, num_out)), start=1)


# -- average -------------------------------------------------------------------------------------


def average(rank: int, x: Tensor, out: Tensor) -> Element:
    """The mean of each window."""
    sizes, num_out = x.shape[-rank:], out.shape[-rank:]
    even = even_windows(sizes, num_out)
    if even is not None:
        for n, m, k in zip(sizes, num_out, even, strict=True):
            expect(n, m * k)

    def element(*i: Int) -> Expr:
        lead, y = i[:-rank], i[-rank:]
        if even is not None:
            at = lambda d: [t * k + tap for t, k, tap in zip(y, even, d, strict=True)]
            return Sum(lambda *d: x[(*lead, *at(d))], over=even) / prod(even)
        total = Sum(lambda *r: where(within(r, y, sizes, num_out), x[(*lead, *r)], 0), over=sizes)
        return total / area(y, sizes, num_out)

    return element


def average_backward(rank: int, g: Tensor, x: Tensor) -> Element:
    """Each element gets its share of the gradients of its windows."""
    sizes, num_out = x.shape[-rank:], g.shape[-rank:]
    even = even_windows(sizes, num_out)

    def element(*i: Int) -> Expr:
        lead, rows = i[:-rank], i[-rank:]
        if even is not None:
            at = [t // k for t, k in zip(rows, even, strict=True)]
            return g[(*lead, *at)] / prod(even) + ignored(x[i])

        def share(*y: Int) -> Expr:
            return where(
                within(rows, y, sizes, num_out), g[(*lead, *y)] / area(y, sizes, num_out), 0
            )

        return Sum(share, over=num_out) + ignored(x[i])

    return element


@describe("aten.adaptive_avg_pool1d", output_size=lambda out: out.shape[-1:])
def adaptive_avg_pool1d(x: Tensor, *, out: Tensor):
    return average(1, x, out)


@describe("aten._adaptive_avg_pool2d", output_size=lambda out: out.shape[-2:])
def adaptive_avg_pool2d(x: Tensor, *, out: Tensor):
    return average(2, x, out)


@describe("aten._adaptive_avg_pool3d", output_size=lambda out: out.shape[-3:])
def adaptive_avg_pool3d(x: Tensor, *, out: Tensor):
    return average(3, x, out)


@describe("aten._adaptive_avg_pool2d_backward")
def adaptive_avg_pool2d_backward(g: Tensor, x: Tensor):
    return average_backward(2, g, x)


@describe("aten._adaptive_avg_pool3d_backward")
def adaptive_avg_pool3d_backward(g: Tensor, x: Tensor):
    return average_backward(3, g, x)


# -- maximum -------------------------------------------------------------------------------------


@describe("aten.adaptive_max_pool2d", output_size=lambda outs: outs[0].shape[-2:])
def adaptive_max_pool2d(x: Tensor, *, outs: Sequence[Tensor]):
    sizes, num_out = x.shape[-2:], outs[0].shape[-2:]
    even = even_windows(sizes, num_out)
    if even is not None:
        return max_pool(2, x, even, even, [0, 0], [1, 1])

    def over_window(fold: Callable[..., Expr], i: Ints) -> Expr:
        return fold(
            lambda *r: where(within(r, i[-2:], sizes, num_out), x[(*i[:-2], *r)], -inf), over=sizes
        )

    return lambda *i: over_window(Max, i), lambda *i: over_window(ArgMax, i)


@describe("aten.adaptive_max_pool2d_backward")
def adaptive_max_pool2d_backward(g: Tensor, x: Tensor, indices: Tensor):
    even = even_windows(x.shape[-2:], g.shape[-2:])

    def element(*i: Int) -> Expr:
        here = flat(i[-2:], x.shape[-2:])

        def share(*y: Int) -> Expr:
            return where(equal(indices[(*i[:-2], *y)], here), g[(*i[:-2], *y)], 0)

        if even is not None:
            return share(*(t // k for t, k in zip(i[-2:], even, strict=True))) + ignored(x[i])
        return Sum(share, over=g.shape[-2:]) + ignored(x[i])

    return element
