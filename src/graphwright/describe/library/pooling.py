"""Pooling over windows in any number of spatial dims, and its gradients.

An average over a window is a convolution without weights: it splits along rows with a halo, and the
padding of a part becomes rows of zeros. So does a maximum with its position in the window. If the
divisor depends on how much of a window lies inside (`count_include_pad` off, `ceil_mode`), or if a
maximum returns its position in the plane, the row is a value, and only batch and channels split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod

from graphwright.describe.language import (
    Any,
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
    function,
    ignored,
    where,
)
from graphwright.describe.library.windows import covering, window

Ints = Sequence[Int]
Element = Callable[..., Expr]

floordiv, remainder = function("floordiv"), function("remainder")
smaller, larger = function("minimum"), function("maximum")


def per_dim(values: Ints, rank: int) -> list[Int]:
    """An attribute for every spatial dim; a single value applies to all."""
    return list(values) if len(values) == rank else [values[0]] * rank


def geometry(
    rank: int, kernel_size: Ints, stride: Ints, padding: Ints
) -> tuple[list[Int], list[Int], list[Int]]:
    """Window, stride and padding of every spatial dim; the default stride is the window."""
    return per_dim(kernel_size, rank), per_dim(stride or kernel_size, rank), per_dim(padding, rank)


# -- maximum -------------------------------------------------------------------------------------


def flat(index: Sequence[object], sizes: Ints) -> object:
    """The position in a plane, in row-major order."""
    total = index[0]
    for i, size in zip(index[1:], sizes[1:], strict=True):
        total = total * size + i
    return total


def max_pool(
    rank: int, x: Tensor, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> tuple[Element, Element]:
    """The largest element of each window, and its position in the plane."""
    kernel, steps, pads = geometry(rank, kernel_size, stride, padding)
    gaps = per_dim(dilation, rank)

    def over_window(fold: Callable[..., Expr], i: Ints) -> Expr:
        y = i[-rank:]
        return fold(
            lambda *d: x.pad(-inf)[(*i[:-rank], *window(y, d, steps, pads, gaps))], over=kernel
        )

    def position(*i: Int) -> Expr:
        tap = over_window(ArgMax, i)
        taps: list[Expr] = []
        for k in reversed(kernel[1:]):
            taps.insert(0, remainder(tap, k))
            tap = floordiv(tap, k)
        starts = zip(i[-rank:], [tap, *taps], steps, pads, gaps, strict=True)
        return flat([t * s - p + d * gap for t, d, s, p, gap in starts], x.shape[-rank:])

    return lambda *i: over_window(Max, i), position


@describe("aten.max_pool2d_with_indices")
def max_pool2d(x: Tensor, *, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints):
    return max_pool(2, x, kernel_size, stride, padding, dilation)


@describe("aten.max_pool3d_with_indices")
def max_pool3d(x: Tensor, *, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints):
    return max_pool(3, x, kernel_size, stride, padding, dilation)


@describe("graphwright.max_pool")
def max_pool_places(x: Tensor, *, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints):
    """Positions are relative to the window, so they are the same in every part of the plane."""
    rank = len(kernel_size)

    def over_window(fold: Callable[..., Expr]) -> Element:
        return lambda *i: fold(
            lambda *d: x.pad(-inf)[(*i[:-rank], *window(i[-rank:], d, stride, padding, dilation))],
            over=kernel_size,
        )

    return over_window(Max), over_window(ArgMax)


@describe("graphwright.max_pool_grad_input", input_size=lambda out: out.shape)
def max_pool_grad_input(
    g: Tensor, places: Tensor, *, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints
):
    rank = len(kernel_size)

    def element(*i: Int) -> Expr:
        def share(*d: Int) -> Expr:
            at, met = covering(i[-rank:], d, stride, padding, dilation)
            chosen = equal(places.pad(-1)[(*i[:-rank], *at)], flat(d, kernel_size))
            return where(chosen if met is True else chosen & met, g.pad(0)[(*i[:-rank], *at)], 0)

        return Sum(share, over=kernel_size)

    return element


def max_pool_backward(
    rank: int, g: Tensor, x: Tensor, indices: Tensor, kernel_size: Ints, stride: Ints,
    padding: Ints, dilation: Ints,
) -> Element:  # fmt: skip
    """Each element gets the gradients of the windows whose maximum it is."""
    kernel, steps, pads = geometry(rank, kernel_size, stride, padding)
    gaps = per_dim(dilation, rank)

    def element(*i: Int) -> Expr:
        here = flat(i[-rank:], x.shape[-rank:])

        def share(*d: Int) -> Expr:
            at, met = covering(i[-rank:], d, steps, pads, gaps)
            chosen = equal(indices.pad(-1)[(*i[:-rank], *at)], here)
            return where(chosen if met is True else chosen & met, g.pad(0)[(*i[:-rank], *at)], 0)

        return Sum(share, over=kernel) + ignored(x[i])

    return element


@describe("aten.max_pool2d_with_indices_backward")
def max_pool2d_backward(
    g: Tensor, x: Tensor, indices: Tensor, *, kernel_size: Ints, stride: Ints, padding: Ints,
    dilation: Ints,
):  # fmt: skip
    return max_pool_backward(2, g, x, indices, kernel_size, stride, padding, dilation)


@describe("aten.max_pool3d_with_indices_backward")
def max_pool3d_backward(
    g: Tensor, x: Tensor, indices: Tensor, *, kernel_size: Ints, stride: Ints, padding: Ints,
    dilation: Ints,
):  # fmt: skip
    return max_pool_backward(3, g, x, indices, kernel_size, stride, padding, dilation)


@describe("aten.max_unpool2d", output_size=lambda out: out.shape[-2:])
def max_unpool2d(x: Tensor, indices: Tensor, *, out: Tensor):
    """An element that several windows chose has the same value in all of them."""

    def element(*i: Int) -> Expr:
        here = flat(i[-2:], out.shape[-2:])
        chosen = lambda p, q: equal(indices[(*i[:-2], p, q)], here)
        value = Max(lambda p, q: where(chosen(p, q), x[(*i[:-2], p, q)], -inf), over=x.shape[-2:])
        return where(Any(lambda p, q: chosen(p, q), over=x.shape[-2:]), value, 0.0)

    return element


# -- average -------------------------------------------------------------------------------------


def divisor(
    y: Ints, sizes: Ints, kernel: Ints, stride: Ints, padding: Ints, clipped: bool, padded: bool
) -> object:
    """The divisor of the sum over the window of output y."""
    if not clipped:
        return prod(kernel)
    lengths: list[Expr] = []
    for t, n, k, s, p in zip(y, sizes, kernel, stride, padding, strict=True):
        start = t * s - p
        end = smaller(start + k, n + p if padded else n)
        lengths.append(end - (start if padded else larger(start, 0)))
    return prod(lengths[1:], start=lengths[0])


def is_clipped(padding: Ints, ceil_mode: bool, padded: bool) -> bool:
    """Whether some windows have fewer elements than others."""
    return ceil_mode or not (padded or all(p == 0 for p in padding))


def avg_pool(
    rank: int, x: Tensor, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool,
    padded: bool, override: Int | None = None,
) -> Element:  # fmt: skip
    """The mean of each window."""
    kernel, steps, pads = geometry(rank, kernel_size, stride, padding)
    clipped = is_clipped(pads, ceil_mode, padded)

    def element(*i: Int) -> Expr:
        y = i[-rank:]
        total = Sum(lambda *d: x.pad(0)[(*i[:-rank], *window(y, d, steps, pads))], over=kernel)
        return total / (
            override or divisor(y, x.shape[-rank:], kernel, steps, pads, clipped, padded)
        )

    return element


@describe("aten.avg_pool1d")
def avg_pool1d(
    x: Tensor, *, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool,
    count_include_pad: bool,
):  # fmt: skip
    return avg_pool(1, x, kernel_size, stride, padding, ceil_mode, count_include_pad)


@describe("aten.avg_pool2d")
def avg_pool2d(
    x: Tensor, *, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool,
    count_include_pad: bool, divisor_override: Int | None,
):  # fmt: skip
    return avg_pool(
        2, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


@describe("aten.avg_pool3d")
def avg_pool3d(
    x: Tensor, *, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool,
    count_include_pad: bool, divisor_override: Int | None,
):  # fmt: skip
    return avg_pool(
        3, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def avg_pool_backward(
    rank: int, g: Tensor, x: Tensor, kernel_size: Ints, stride: Ints, padding: Ints,
    ceil_mode: bool, padded: bool, override: Int | None,
) -> Element:  # fmt: skip
    """Each element gets its share of the gradients of its windows."""
    kernel, steps, pads = geometry(rank, kernel_size, stride, padding)
    clipped = is_clipped(pads, ceil_mode, padded)
    pads = [int(p) for p in pads]
    for n, k in zip(x.shape[-rank:], kernel, strict=True):
        if k != 1:  # the kernel refuses the padding, or the small image, that a halo would need
            expect(n, fixed(n))

    def element(*i: Int) -> Expr:
        def share(*d: Int) -> Expr:
            at, met = covering(i[-rank:], d, steps, pads)
            by = override or divisor(at, x.shape[-rank:], kernel, steps, pads, clipped, padded)
            value = g.pad(0)[(*i[:-rank], *at)] / by
            return value if met is True else where(met, value, 0)

        return Sum(share, over=kernel) + ignored(x[i])

    return element


@describe("aten.avg_pool2d_backward")
def avg_pool2d_backward(
    g: Tensor, x: Tensor, *, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool,
    count_include_pad: bool, divisor_override: Int | None,
):  # fmt: skip
    return avg_pool_backward(
        2, g, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


@describe("aten.avg_pool3d_backward")
def avg_pool3d_backward(
    g: Tensor, x: Tensor, *, kernel_size: Ints, stride: Ints, padding: Ints, ceil_mode: bool,
    count_include_pad: bool, divisor_override: Int | None,
):  # fmt: skip
    return avg_pool_backward(
        3, g, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )
