"""Updates of optimizers: a parameter and its state, element by element."""

from __future__ import annotations

from collections.abc import Callable

from graphwright.describe.language import Expr, Int, Tensor, describe, function, where

absolute, maximum, power, sqrt = map(function, ("abs", "maximum", "pow", "sqrt"))

Element = Callable[..., Expr]


def _gradient(param: Tensor, grad: Tensor, weight_decay: float | None, maximize: bool) -> Element:
    """The gradient to go down, with that of the weights' squares if they decay by it."""

    def gradient(*i: Int) -> Expr:
        own = -grad[i] if maximize else grad[i]
        return own if weight_decay is None else own + weight_decay * param[i]

    return gradient


def _average(old: Tensor, beta: float, new: Element) -> Element:
    """What an average that forgets becomes with one value more."""
    return lambda *i: beta * old[i] + (1 - beta) * new(*i)


def _square(element: Element) -> Element:
    return lambda *i: element(*i) * element(*i)


def _decayed(param: Tensor, lr: Tensor, weight_decay: float | None) -> Element:
    """A parameter after decoupled weight decay, if there is any."""
    if weight_decay is None:
        return lambda *i: param[i]
    return lambda *i: param[i] * (1 - lr[()] * weight_decay)


@describe("graphwright.adam")
def adam(
    param: Tensor, grad: Tensor, exp_avg: Tensor, exp_avg_sq: Tensor, step: Tensor, lr: Tensor, *,
    beta1: float, beta2: float, eps: float, weight_decay: float, decoupled: bool, maximize: bool,
):  # fmt: skip
    gradient = _gradient(param, grad, None if decoupled else weight_decay, maximize)
    average = _average(exp_avg, beta1, gradient)
    squares = _average(exp_avg_sq, beta2, _square(gradient))
    decayed = _decayed(param, lr, weight_decay if decoupled else None)

    def updated(*i: Int) -> Expr:
        rate, number = lr[()], step[()]
        size = rate / (1 - power(beta1, number))
        root = sqrt(squares(*i)) / sqrt(1 - power(beta2, number))
        return decayed(*i) - size * average(*i) / (root + eps)

    return updated, average, squares


@describe("graphwright.radam")
def radam(
    param: Tensor, grad: Tensor, exp_avg: Tensor, exp_avg_sq: Tensor, step: Tensor, lr: Tensor, *,
    beta1: float, beta2: float, eps: float, weight_decay: float, decoupled: bool, maximize: bool,
):  # fmt: skip
    gradient = _gradient(param, grad, None if decoupled else weight_decay, maximize)
    average = _average(exp_avg, beta1, gradient)
    squares = _average(exp_avg_sq, beta2, _square(gradient))
    decayed = _decayed(param, lr, weight_decay if decoupled else None)

    def updated(*i: Int) -> Expr:
        rate, number = lr[()], step[()]
        correction, longest = 1 - power(beta2, number), 2 / (1 - beta2) - 1
        length = longest - 2 * number * power(beta2, number) / correction
        ratio = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
        adapted = sqrt(maximum(ratio * correction, 0)) / (sqrt(squares(*i)) + eps)
        size = rate / (1 - power(beta1, number))
        return decayed(*i) - size * average(*i) * where(length > 5, adapted, 1)

    return updated, average, squares


@describe("graphwright.adamax")
def adamax(
    param: Tensor, grad: Tensor, exp_avg: Tensor, exp_inf: Tensor, step: Tensor, lr: Tensor, *,
    beta1: float, beta2: float, eps: float, weight_decay: float, maximize: bool,
):  # fmt: skip
    gradient = _gradient(param, grad, weight_decay, maximize)
    average = _average(exp_avg, beta1, gradient)

    def largest(*i: Int) -> Expr:
        return maximum(beta2 * exp_inf[i], absolute(gradient(*i)) + eps)

    def updated(*i: Int) -> Expr:
        return param[i] - lr[()] / (1 - power(beta1, step[()])) * average(*i) / largest(*i)

    return updated, average, largest


@describe("graphwright.adagrad")
def adagrad(
    param: Tensor, grad: Tensor, sum: Tensor, step: Tensor, lr: Tensor, *, lr_decay: float,
    weight_decay: float, eps: float, maximize: bool,
):  # fmt: skip
    gradient = _gradient(param, grad, weight_decay, maximize)

    def squares(*i: Int) -> Expr:
        return sum[i] + gradient(*i) * gradient(*i)

    def updated(*i: Int) -> Expr:
        rate = lr[()] / (1 + (step[()] - 1) * lr_decay)
        return param[i] - rate * gradient(*i) / (sqrt(squares(*i)) + eps)

    return updated, squares


@describe("graphwright.rmsprop")
def rmsprop(
    param: Tensor, grad: Tensor, square_avg: Tensor, lr: Tensor, *, alpha: float, eps: float,
    weight_decay: float, maximize: bool,
):  # fmt: skip
    gradient = _gradient(param, grad, weight_decay, maximize)
    squares = _average(square_avg, alpha, _square(gradient))

    def updated(*i: Int) -> Expr:
        return param[i] - lr[()] * gradient(*i) / (sqrt(squares(*i)) + eps)

    return updated, squares


@describe("graphwright.rmsprop_momentum")
def rmsprop_momentum(
    param: Tensor, grad: Tensor, square_avg: Tensor, momentum_buffer: Tensor, lr: Tensor, *,
    alpha: float, eps: float, weight_decay: float, momentum: float, maximize: bool,
):  # fmt: skip
    gradient = _gradient(param, grad, weight_decay, maximize)
    squares = _average(square_avg, alpha, _square(gradient))

    def velocity(*i: Int) -> Expr:
        return momentum * momentum_buffer[i] + gradient(*i) / (sqrt(squares(*i)) + eps)

    return lambda *i: param[i] - lr[()] * velocity(*i), squares, velocity


@describe("graphwright.adadelta")
def adadelta(
    param: Tensor, grad: Tensor, square_avg: Tensor, acc_delta: Tensor, lr: Tensor, *, rho: float,
    eps: float, weight_decay: float, maximize: bool,
):  # fmt: skip
    gradient = _gradient(param, grad, weight_decay, maximize)
    squares = _average(square_avg, rho, _square(gradient))

    def delta(*i: Int) -> Expr:
        return sqrt(acc_delta[i] + eps) / sqrt(squares(*i) + eps) * gradient(*i)

    return (
        lambda *i: param[i] - lr[()] * delta(*i),
        squares,
        _average(acc_delta, rho, _square(delta)),
    )


@describe("graphwright.sgd")
def sgd(
    param: Tensor, grad: Tensor, momentum_buffer: Tensor, lr: Tensor, *, momentum: float,
    dampening: float, weight_decay: float, nesterov: bool, maximize: bool,
):  # fmt: skip
    gradient = _gradient(param, grad, weight_decay, maximize)

    def velocity(*i: Int) -> Expr:
        return momentum * momentum_buffer[i] + (1 - dampening) * gradient(*i)

    def updated(*i: Int) -> Expr:
        step = gradient(*i) + momentum * velocity(*i) if nesterov else velocity(*i)
        return param[i] - lr[()] * step

    return updated, velocity
