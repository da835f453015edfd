"""Batch normalisation.

In training it reduces over all dims but the channels, so only these split. (Capture therefore
decomposes it into sums, which also split along the batch.) In evaluation it is element-wise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from graphwright.describe.language import (
    Expr,
    Int,
    Sum,
    Tensor,
    constant,
    describe,
    function,
    ignored,
)
from graphwright.describe.library.normalisation import affine, square, wanted

Element = Callable[..., Expr]
sqrt = function("sqrt")


def statistics(x: Tensor) -> tuple[Element, Element]:
    """The mean of each channel in this batch, and the variance around a given mean."""
    others = (x.shape[0], *x.shape[2:])

    def mean(c: Int) -> Expr:
        return Sum(lambda n, *y: x[(n, c, *y)], over=others) / prod(others)

    def variance(c: Int, centre: Expr) -> Expr:
        return Sum(lambda n, *y: square(x[(n, c, *y)] - centre), over=others) / prod(others)

    return mean, variance


def inverse(variance: Expr, eps: float) -> Expr:
    """The inverse standard deviation."""
    return 1 / sqrt(variance + eps)


def nothing(_: Int) -> Expr:
    """An element of the empty statistics that the kernel returns in evaluation."""
    return constant(0)


def with_unused(value: Expr, unused: Sequence[Tensor | None], c: Int) -> Expr:
    """The value, reading what is unused by channel, so that it is cut along the same channels."""
    return sum((ignored(t[c]) for t in unused if t is not None), start=value)


@describe("aten.native_batch_norm", "aten._native_batch_norm_legit")
def batch_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, *, training: bool, eps: float,
):  # fmt: skip
    if training:
        out, mean, invstd = batch_norm_no_stats(x, weight, bias, eps=eps)
        return out, lambda c: with_unused(mean(c), [running_mean, running_var], c), invstd
    assert running_mean is not None and running_var is not None
    return batch_norm_no_training(x, weight, bias, running_mean, running_var, eps=eps)


@describe("aten._native_batch_norm_legit.no_stats")
def batch_norm_no_stats(x: Tensor, weight: Tensor | None, bias: Tensor | None, *, eps: float):
    mean, variance = statistics(x)

    def out(n: Int, c: Int, *y: Int) -> Expr:
        centre = mean(c)
        return affine(
            (x[(n, c, *y)] - centre) * inverse(variance(c, centre), eps), weight, bias, [c]
        )

    return out, mean, lambda c: inverse(variance(c, mean(c)), eps)


@describe("aten._native_batch_norm_legit_no_training")
def batch_norm_no_training(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, var: Tensor, *, eps: float
):
    def out(n: Int, c: Int, *y: Int) -> Expr:
        return affine((x[(n, c, *y)] - mean[c]) * inverse(var[c], eps), weight, bias, [c])

    return out, nothing, nothing


@describe("aten._native_batch_norm_legit_functional")
def batch_norm_functional(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor,
    running_var: Tensor, *, training: bool, momentum: float, eps: float,
):  # fmt: skip
    outs = batch_norm(x, weight, bias, running_mean, running_var, training=training, eps=eps)
    if not training:
        return *outs, lambda c: running_mean[c], lambda c: running_var[c]
    mean, variance = statistics(x)
    n = prod((x.shape[0], *x.shape[2:]))

    def new_mean(c: Int) -> Expr:
        return (1 - momentum) * running_mean[c] + momentum * mean(c)

    def new_var(c: Int) -> Expr:
        return (1 - momentum) * running_var[c] + momentum * variance(c, mean(c)) * n / (n - 1)

    return *outs, new_mean, new_var


@describe("aten.native_batch_norm_backward")
def batch_norm_backward(
    g: Tensor, x: Tensor, weight: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, save_mean: Tensor | None, save_invstd: Tensor | None, *,
    train: bool, eps: float, output_mask: Sequence[bool],
):  # fmt: skip
    others = (x.shape[0], *x.shape[2:])
    running = (running_mean, running_var)
    mean, spread = (save_mean, save_invstd) if train else running
    assert mean is not None and spread is not None
    unused = (mean, spread, weight, *(running if train else ()))
    invstd: Element = lambda c: spread[c] if train else inverse(spread[c], eps)

    def normal(n: Int, c: Int, *y: Int) -> Expr:
        return (x[(n, c, *y)] - mean[c]) * invstd(c)

    def grad_weight(c: Int) -> Expr:
        def term(n: Int, *y: Int) -> Expr:
            return with_unused(g[(n, c, *y)] * normal(n, c, *y), unused, c)

        return Sum(term, over=others)

    def grad_bias(c: Int) -> Expr:
        def term(n: Int, *y: Int) -> Expr:
            return with_unused(g[(n, c, *y)] + ignored(x[(n, c, *y)]), unused, c)

        return Sum(term, over=others)

    def grad_input(n: Int, c: Int, *y: Int) -> Expr:
        own = g[(n, c, *y)] + ignored(x[(n, c, *y)])
        if train:
            own = own - (grad_bias(c) + normal(n, c, *y) * grad_weight(c)) / prod(others)
        return with_unused(affine(own * invstd(c), weight, None, [c]), unused, c)

    return wanted(output_mask, grad_input, grad_weight, grad_bias)
