"""Updates of optimizers: a parameter and its state, element by element."""

from __future__ import annotations

from graphwright.describe.language import Expr, Int, Tensor, describe, function

power, sqrt = map(function, ("pow", "sqrt"))


@describe("graphwright.adam")
def adam(
    param: Tensor, grad: Tensor, exp_avg: Tensor, exp_avg_sq: Tensor, step: Tensor, lr: Tensor, *,
    beta1: float, beta2: float, eps: float, weight_decay: float, decoupled: bool, maximize: bool,
):  # fmt: skip
    def gradient(*i: Int) -> Expr:
        own = -grad[i] if maximize else grad[i]
        return own if decoupled else own + weight_decay * param[i]

    def average(*i: Int) -> Expr:
        return exp_avg[i] + (1 - beta1) * (gradient(*i) - exp_avg[i])

    def squares(*i: Int) -> Expr:
        return beta2 * exp_avg_sq[i] + (1 - beta2) * gradient(*i) * gradient(*i)

    def updated(*i: Int) -> Expr:
        rate, number = lr[()], step[()]
        decayed = param[i] * (1 - rate * weight_decay) if decoupled else param[i]
        size = rate / (1 - power(beta1, number))
        root = sqrt(squares(*i)) / sqrt(1 - power(beta2, number))
        return decayed - size * average(*i) / (root + eps)

    return updated, average, squares


@describe("graphwright.sgd")
def sgd(
    param: Tensor, grad: Tensor, buffer: Tensor, lr: Tensor, *, momentum: float, dampening: float,
    weight_decay: float, nesterov: bool, maximize: bool,
):  # fmt: skip
    def gradient(*i: Int) -> Expr:
        own = -grad[i] if maximize else grad[i]
        return own + weight_decay * param[i]

    def velocity(*i: Int) -> Expr:
        return momentum * buffer[i] + (1 - dampening) * gradient(*i)

    def updated(*i: Int) -> Expr:
        step = gradient(*i) + momentum * velocity(*i) if nesterov else velocity(*i)
        return param[i] - lr[()] * step

    return updated, velocity
