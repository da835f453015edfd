"""Losses that require a margin between the score of the right class and the others; gradients.

`multi_margin_loss` has one right class per row, `multilabel_margin_loss` several: the numbers in a
row of the target up to the first negative one. Both divide by the number of classes, so classes do
not split, and rows do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from graphwright.describe.language import (
    Array,
    Expr,
    Int,
    Opaque,
    Sum,
    Tensor,
    describe,
    equal,
    function,
    number,
    where,
)

Index = Sequence[Int]
NONE, MEAN = 0, 1

maximum, power = function("maximum"), function("pow")


def reduced(value: Callable[[Index], Expr], target: Tensor, rows: int, reduction: Int):
    """A loss per row, its mean or its sum; the first `rows` dims of `target` count the rows."""
    if reduction == NONE:
        return lambda *n: value(n)
    total = Sum(lambda *n: value(n), over=target.shape[:rows])
    return lambda: total / target.shape[0] if rows and reduction == MEAN else total


def num_classes(x: Tensor) -> Int | int:
    """The number of scores of a row; a scalar is a row of one."""
    return x.shape[-1] if x.rank else 1


def of_row(x: Tensor, n: Index) -> Expr:
    """The element of x for a row; a single row has no index."""
    return x[tuple(n) if n else (0,) * x.rank]


# -- one right class -----------------------------------------------------------------------------


@describe("aten.multi_margin_loss")
def multi_margin(
    x: Tensor, target: Tensor, weight: Tensor | None, *, p: Int, margin: object, reduction: Int
):
    def row(n: Index) -> Expr:
        right = of_row(target, n)

        def share(j: Int) -> Expr:
            gap = maximum(margin - x[(*n, right)] + x[(*n, j)], 0)
            return where(equal(j, right), 0, power(gap, p))

        total = Sum(share, over=num_classes(x)) / num_classes(x)
        return total if weight is None else total * weight[right]

    return reduced(row, target, target.rank, reduction)


@describe("aten.multi_margin_loss_backward")
def multi_margin_backward(
    g: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, *, p: Int, margin: object,
    reduction: Int,
):  # fmt: skip
    def element(*i: Int) -> Expr:
        *n, own = i or (0,)
        right = of_row(target, n)

        def slope(j: Int) -> Expr:
            gap = margin - x[(*n, right)] + x[(*n, j)]
            steepness = 1.0 if number(p) == 1 else 2 * gap
            return where(equal(j, right) | (gap <= 0), 0, steepness)

        others = -Sum(slope, over=num_classes(x))
        both = where(equal(own, right), others, slope(own)) / num_classes(x)
        if reduction == MEAN and n:
            both = both / x.shape[0]
        down = of_row(g, n) if reduction == NONE else g[()]
        return down * (both if weight is None else both * weight[right])

    return element


# -- several -------------------------------------------------------------------------------------


def labels(target: Array) -> Array:
    """The right classes of a row."""
    target = np.atleast_1d(target)
    ends = np.flatnonzero(target < 0)
    return target[: ends[0]] if len(ends) else target


def marks(target: Array) -> Array:
    """1 for each right class of a row, else 0."""
    marked = np.zeros(target.size)
    marked[labels(target)] = 1
    return marked


def margins(x: Array, target: Array) -> Array:
    """How much the margin of each right class over each wrong class falls short."""
    x = np.atleast_1d(x)
    gaps = np.maximum(1 - x[labels(target), None] + x[None, :], 0)
    return np.where(marks(target)[None, :] == 1, 0, gaps)


def slopes(x: Array, target: Array) -> Array:
    """The gradient of a row's loss."""
    short = (margins(x, target) > 0).astype(float)
    slope = short.sum(0)
    np.subtract.at(slope, labels(target), short.sum(1))
    return slope / x.size


@describe("aten.multilabel_margin_loss_forward")
def multilabel_margin(x: Tensor, target: Tensor, *, reduction: Int):
    loss = Opaque("multilabel margin", lambda x, target: margins(x, target).sum() / x.size)
    marked = Opaque("multilabel marks", marks)

    def row(n: Index) -> Expr:
        return loss(x[(*n, slice(None))], target[(*n, slice(None))])[()]

    is_target = lambda *i: marked(target[(*i[:-1], slice(None))])[i[-1] if i else 0]
    return reduced(row, target, max(target.rank - 1, 0), reduction), is_target


@describe("aten.multilabel_margin_loss_backward")
def multilabel_margin_backward(
    g: Tensor, x: Tensor, target: Tensor, is_target: Tensor, *, reduction: Int
):
    slope = Opaque("multilabel margin slope", lambda x, target, _: slopes(x, target))

    def element(*i: Int) -> Expr:
        *n, own = i or (0,)
        line = (*n, slice(None))
        value = slope(x[line], target[line], is_target[line])[own]
        if reduction == MEAN and n:
            value = value / x.shape[0]
        return value * (of_row(g, n) if reduction == NONE else g[()])

    return element
