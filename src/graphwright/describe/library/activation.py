"""Activation functions and their gradients.

A gradient operator takes the output gradient g and the forward input x or output y.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan, pi, sqrt

from graphwright.describe.language import Expr, Int, Tensor, describe, instead, random, where
from graphwright.describe.library.elementwise import (
    absolute,
    bounded,
    elementwise,
    erf,
    exp,
    expm1,
    log,
    log1p,
    maximum,
    minimum,
    sigmoid,
    tanh,
)

Tensors = Sequence[Tensor]

SIXTH = 0.1666666716337204  # 1/6 in single precision, as in the kernel for every dtype

# -- piecewise linear ----------------------------------------------------------------------------

elementwise("aten.relu", lambda x: maximum(x, 0))
elementwise("aten.relu6", lambda x: bounded(x, 0, 6))
elementwise("aten.threshold", lambda x, *, threshold, value: where(x <= threshold, value, x))
elementwise("aten.threshold_backward", lambda g, x, *, threshold: where(x <= threshold, 0, g))
elementwise("aten.leaky_relu", lambda x, *, negative_slope: where(x > 0, x, negative_slope * x))
elementwise(
    "aten.leaky_relu_backward", lambda g, x, *, negative_slope: where(x > 0, g, negative_slope * g)
)
elementwise("aten.hardtanh", lambda x, *, min_val, max_val: bounded(x, min_val, max_val))
elementwise(
    "aten.hardtanh_backward",
    lambda g, x, *, min_val, max_val: where((x <= min_val) | (x >= max_val), 0, g),
)
elementwise("aten.hardsigmoid", lambda x: bounded(x + 3, 0, 6) / 6)
elementwise("aten.hardsigmoid_backward", lambda g, x: where((x > -3) & (x < 3), g * SIXTH, 0))
elementwise("aten.hardswish", lambda x: x * bounded(x + 3, 0, 6) / 6)
elementwise(
    "aten.hardswish_backward",
    lambda g, x: where(x <= -3, 0, where(x < 3, g * (x / 3 + 0.5), g)),
)
elementwise("aten.hardshrink", lambda x, *, lambd: where(absolute(x) <= lambd, 0, x))
elementwise("aten.hardshrink_backward", lambda g, x, *, lambd: where(absolute(x) <= lambd, 0, g))
elementwise(
    "aten.softshrink",
    lambda x, *, lambd: where(x > lambd, x - lambd, where(x < -lambd, x + lambd, 0)),
)
elementwise("aten.softshrink_backward", lambda g, x, *, lambd: where(absolute(x) <= lambd, 0, g))
elementwise("aten._prelu_kernel", lambda x, w: where(x > 0, x, w * x))


@describe("aten._prelu_kernel_backward")
def prelu_backward(g: Tensor, x: Tensor, w: Tensor):
    return (
        lambda *i: where(x[i] > 0, g[i], w[i] * g[i]),
        lambda *i: where(x[i] > 0, 0, x[i] * g[i]),
    )


# -- smooth --------------------------------------------------------------------------------------

elementwise("aten.sigmoid_backward", lambda g, y: g * (y * (1 - y)))
elementwise("aten.tanh_backward", lambda g, y: g * (1 - y * y))
elementwise("aten.silu", lambda x: x * sigmoid(x))
elementwise("aten.silu_backward", lambda g, x: g * (sigmoid(x) * (1 + x * (1 - sigmoid(x)))))
elementwise("aten.celu", lambda x, *, alpha: where(x > 0, x, alpha * expm1(x / alpha)))
elementwise(
    "aten.elu",
    lambda x, *, alpha, scale, input_scale: scale * where(x > 0, x, alpha * expm1(x * input_scale)),
)
elementwise("aten.logit", lambda x, *, eps: logit(x if eps is None else bounded(x, eps, 1 - eps)))
elementwise("aten.logit_backward", lambda g, x, *, eps: logit_backward(g, x, eps))
elementwise("aten.mish", lambda x: x * tanh(log1p(exp(x))))


def logit(x: Expr) -> Expr:
    return log(x / (1 - x))


def logit_backward(g: Expr, x: Expr, eps: Expr | None) -> Expr:
    if eps is None:
        return where((x < 0) | (x > 1), nan, g / (x * (1 - x)))
    return where((x < eps) | (x > 1 - eps), 0, g / (x * (1 - x)))


def elu_backward(
    g: Expr, y: Expr, *, alpha: Expr, scale: Expr, input_scale: Expr, is_result: bool
) -> Expr:
    slope = y + alpha * scale if is_result else alpha * scale * exp(y * input_scale)
    return g * where(y > 0, scale, input_scale * slope)


def mish_backward(g: Expr, x: Expr) -> Expr:
    y = tanh(log1p(exp(x)))
    return g * (y + x * sigmoid(x) * (1 - y * y))


def softplus(x: Expr, *, beta: Expr, threshold: Expr) -> Expr:
    return where(x * beta > threshold, x, log1p(exp(x * beta)) / beta)


def softplus_backward(g: Expr, x: Expr, *, beta: Expr, threshold: Expr) -> Expr:
    return where(x * beta > threshold, g, g * sigmoid(x * beta))


elementwise("aten.elu_backward", elu_backward)
elementwise("aten.mish_backward", mish_backward)
elementwise("aten.softplus", softplus)
elementwise("aten.softplus_backward", softplus_backward)


def gelu(x: Expr, *, approximate: str) -> Expr:
    curve = tanh(_inner(x)) if approximate == "tanh" else erf(x / sqrt(2))
    return 0.5 * x * (1 + curve)


def gelu_backward(g: Expr, x: Expr, *, approximate: str) -> Expr:
    if approximate == "tanh":
        y = tanh(_inner(x))
        slope = (1 - y * y) * (sqrt(2 / pi) * (1 + 3 * 0.044715 * x * x))
        return g * (0.5 * (1 + y) + 0.5 * x * slope)
    return g * (0.5 * (1 + erf(x / sqrt(2))) + x * exp(-0.5 * x * x) / sqrt(2 * pi))


def _inner(x: Expr) -> Expr:
    return sqrt(2 / pi) * (x + 0.044715 * x * x * x)


elementwise("aten.gelu", gelu)
elementwise("aten.gelu_backward", gelu_backward)


@describe("aten.log_sigmoid_forward")
def log_sigmoid(x: Tensor):
    return (
        lambda *i: minimum(x[i], 0) - log1p(exp(-absolute(x[i]))),
        lambda *i: exp(-absolute(x[i])),
    )


elementwise(
    "aten.log_sigmoid_backward",
    lambda g, x, z: g * (where(x < 0, 1, 0) - where(x < 0, 1, -1) * (z / (1 + z))),
)

# -- random slopes in training; otherwise their mean ---------------------------------------------


def mean_slope(x: Expr, noise: Expr, lower: Expr, upper: Expr) -> Expr:
    """The mean slope; the noise tensor is read only for its shape."""
    return where(True, where(x > 0, x, x * ((lower + upper) / 2)), noise)


@describe("aten.rrelu_with_noise", "aten.rrelu_with_noise_functional")
def rrelu(x: Tensor, noise: Tensor, *, lower: Expr, upper: Expr, training: bool, outs: Tensors):
    if training:
        drawn = lambda *i: instead(where(x[i] > 0, x[i], x[i] * random("slope")), noise[i])
        slope = lambda *i: instead(where(x[i] > 0, 1.0, random("slope")), noise[i])
        return [drawn, slope][: len(outs)]
    mean = lambda *i: mean_slope(x[i], noise[i], lower, upper)
    return [mean, lambda *i: where(True, noise[i], x[i])][: len(outs)]


def rrelu_backward(
    g: Expr, x: Expr, noise: Expr, *, lower: Expr, upper: Expr, training: bool
) -> Expr:
    if training:
        return where(True, g * noise, x)
    return where(True, where(x > 0, g, g * ((lower + upper) / 2)), noise)


elementwise("aten.rrelu_with_noise_backward", rrelu_backward)


# -- gated: one half of a dim gates the other ----------------------------------------------------


@describe("aten.glu")
def glu(x: Tensor, *, dim: Int, out: Tensor):
    d = int(dim) % x.rank
    half = out.shape[d]
    return lambda *i: x[i] * sigmoid(x[*i[:d], i[d] + half, *i[d + 1 :]])


@describe("aten.glu_backward")
def glu_backward(g: Tensor, x: Tensor, *, dim: Int):
    d = int(dim) % x.rank
    half = g.shape[d]

    def element(*i: Int) -> Expr:
        first = (*i[:d], i[d] % half, *i[d + 1 :])
        second = (*i[:d], i[d] % half + half, *i[d + 1 :])
        value, gate = x[first], sigmoid(x[second])
        return g[first] * where(i[d] < half, gate, value * gate * (1 - gate))

    return element
