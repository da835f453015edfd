"""Element-wise losses and their gradients.

``reduction`` 0 keeps the elements, 1 takes their mean, 2 their sum. A mean divides by the number of
elements, which a part does not know, so it does not split; capture decomposes it into a sum and a
division.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature

from graphwright.describe.language import Expr, Int, Sum, Tensor, describe, where
from graphwright.describe.library.elementwise import (
    Body,
    absolute,
    elements,
    exp,
    log,
    log1p,
    maximum,
    set_parameters,
)

NONE, MEAN = 0, 1


def loss(op: str, scalar: Body) -> None:
    """Describe the loss `op` by its value for one element."""

    @_with_reduction(op, scalar)
    def description(*tensors: Tensor, reduction: Int, **attrs: object) -> Body:
        def element(*i: Int) -> Expr:
            return scalar(*elements(tensors, i), **attrs)  # type: ignore[return-value]

        if reduction == NONE:
            return element
        shape = tensors[0].shape
        total = Sum(element, over=shape)
        return lambda: total / _product(shape) if reduction == MEAN else total


def loss_backward(op: str, scalar: Body) -> None:
    """Describe a loss's gradient by its value for one element; the tensors are g, x, ..."""

    @_with_reduction(op, scalar)
    def description(*tensors: Tensor, reduction: Int, **attrs: object) -> Body:
        def element(*i: Int) -> Expr:
            return scalar(*elements(tensors, i), **attrs)  # type: ignore[return-value]

        if reduction != MEAN:
            return element
        count = _product(tensors[1].shape)
        return lambda *i: element(*i) / count


def _with_reduction(op: str, scalar: Body) -> Callable[[Body], None]:
    given = signature(scalar).parameters.values()
    tensors = [p.name for p in given if p.kind is not Parameter.KEYWORD_ONLY]
    attrs = [p.name for p in given if p.kind is Parameter.KEYWORD_ONLY]

    def register(description: Body) -> None:
        described = wraps(scalar)(description)
        set_parameters(described, tensors, [*attrs, "reduction"])
        describe(op)(described)

    return register


def _product(shape: tuple[Int, ...]) -> Int | int:
    count: Int | int = 1
    for size in shape:
        count = size * count
    return count


loss("aten.mse_loss", lambda x, t: (x - t) * (x - t))
loss_backward("aten.mse_loss_backward", lambda g, x, t: g * (2 * (x - t)))
loss("aten.soft_margin_loss", lambda x, t: log1p(exp(-t * x)))
loss_backward("aten.soft_margin_loss_backward", lambda g, x, t: g * (-t / (1 + exp(t * x))))


def smooth_l1(x: Expr, t: Expr, *, beta: Expr) -> Expr:
    d = absolute(x - t)
    return where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta)


def smooth_l1_backward(g: Expr, x: Expr, t: Expr, *, beta: Expr) -> Expr:
    d = x - t
    return g * where(d <= -beta, -1, where(d >= beta, 1, d / beta))


def huber(x: Expr, t: Expr, *, delta: Expr) -> Expr:
    d = absolute(x - t)
    return where(d < delta, 0.5 * d * d, delta * (d - 0.5 * delta))


def huber_backward(g: Expr, x: Expr, t: Expr, *, delta: Expr) -> Expr:
    d = x - t
    return g * where(d <= -delta, -delta, where(d >= delta, delta, d))


loss("aten.smooth_l1_loss", smooth_l1)
loss_backward("aten.smooth_l1_loss_backward", smooth_l1_backward)
loss("aten.huber_loss", huber)
loss_backward("aten.huber_loss_backward", huber_backward)


def cross_entropy(x: Expr, t: Expr, w: Expr | None) -> Expr:
    value = (t - 1) * maximum(log1p(-x), -100) - t * maximum(log(x), -100)
    return value if w is None else w * value


def cross_entropy_backward(g: Expr, x: Expr, t: Expr, w: Expr | None) -> Expr:
    slope = (x - t) / maximum((1 - x) * x, 1e-12)
    return g * (slope if w is None else w * slope)


def cross_entropy_of_logits(x: Expr, t: Expr, w: Expr | None, pos: Expr | None) -> Expr:
    softplus = log1p(exp(-absolute(x))) + maximum(-x, 0)
    value = (1 - t) * x + (softplus if pos is None else ((pos - 1) * t + 1) * softplus)
    return value if w is None else w * value


loss("aten.binary_cross_entropy", cross_entropy)
loss_backward("aten.binary_cross_entropy_backward", cross_entropy_backward)
loss("aten.binary_cross_entropy_with_logits", cross_entropy_of_logits)
