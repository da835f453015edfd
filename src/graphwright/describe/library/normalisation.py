"""Softmax, and layer, group and batch normalisation, with their gradients.

Each of them reduces over the dims that it normalises and uses the result element by element. So it
splits along all other dims: a layer norm along the tokens, a batch norm in training along channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from graphwright.describe.language import (
    Expr,
    Int,
    Max,
    Sum,
    Tensor,
    constant,
    describe,
    equal,
    fixed,
    function,
    ignored,
    where,
    whole,
)

Ints = Sequence[Int]
Element = Callable[..., Expr]

exp, log, sqrt = map(function, ("exp", "log", "sqrt"))


# -- softmax -------------------------------------------------------------------------------------


def line(x: Tensor, dim: Int, i: Ints) -> tuple[Callable[[Int], Expr], Int | int]:
    """The elements along `dim` through element i, and their number; a scalar is one element."""
    d = int(dim) % max(x.rank, 1)
    return lambda k: x[(*i[:d], k, *i[d + 1 :])], x.shape[d] if x.rank else 1


@describe("aten._softmax")
def softmax(x: Tensor, *, dim: Int):
    def element(*i: Int) -> Expr:
        along, length = line(x, dim, i)
        top = Max(along, over=length)
        return exp(x[i] - top) / Sum(lambda k: exp(along(k) - top), over=length)

    return element


@describe("aten._safe_softmax")
def safe_softmax(x: Tensor, *, dim: Int):
    plain = softmax(x, dim=dim)
    nothing = constant(float("-inf"))

    def element(*i: Int) -> Expr:
        along, length = line(x, dim, i)
        return where(equal(Max(along, over=length), nothing), 0.0, plain(*i))

    return element


@describe("aten._log_softmax")
def log_softmax(x: Tensor, *, dim: Int):
    def element(*i: Int) -> Expr:
        along, length = line(x, dim, i)
        top = Max(along, over=length)
        return x[i] - top - log(Sum(lambda k: exp(along(k) - top), over=length))

    return element


@describe("aten._softmax_backward_data")
def softmax_backward(g: Tensor, y: Tensor, *, dim: Int):
    def element(*i: Int) -> Expr:
        (down, length), (along, _) = line(g, dim, i), line(y, dim, i)
        return y[i] * (g[i] - Sum(lambda k: down(k) * along(k), over=length))

    return element


@describe("aten._log_softmax_backward_data")
def log_softmax_backward(g: Tensor, y: Tensor, *, dim: Int):
    def element(*i: Int) -> Expr:
        down, length = line(g, dim, i)
        return g[i] - exp(y[i]) * Sum(down, over=length)

    return element


# -- layer norm ----------------------------------------------------------------------------------


@describe("aten.native_layer_norm")
def layer_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, *, normalized_shape: Ints, eps: float
):
    outer = x.rank - len(normalized_shape)
    inner = x.shape[outer:]

    def mean(*i: Int) -> Expr:
        return Sum(lambda *k: x[(*i[:outer], *k)], over=inner) / prod(inner)

    def rstd(centre: Expr, *i: Int) -> Expr:
        squares = Sum(lambda *k: square(x[(*i[:outer], *k)] - centre), over=inner)
        return 1 / sqrt(squares / prod(inner) + eps)

    def out(*i: Int) -> Expr:
        centre = mean(*i)
        return affine((x[i] - centre) * rstd(centre, *i), weight, bias, i[outer:])

    return out, mean, lambda *i: rstd(mean(*i), *i)


@describe("graphwright.layer_norm_grad_input")
def layer_norm_grad_input(
    g: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None, *,
    normalized_shape: Ints,
):  # fmt: skip
    outer = x.rank - len(normalized_shape)
    inner = x.shape[outer:]

    def element(*i: Int) -> Expr:
        at = (*i[:outer], *(0 for _ in inner))

        def normal(k: Ints) -> Expr:
            return (x[(*i[:outer], *k)] - mean[at]) * rstd[at]

        def scaled(k: Ints) -> Expr:
            return affine(g[(*i[:outer], *k)], weight, None, k)

        total = Sum(lambda *k: scaled(k), over=inner)
        along = Sum(lambda *k: scaled(k) * normal(k), over=inner)
        own = i[outer:]
        return rstd[at] * (scaled(own) - (total + normal(own) * along) / prod(inner))

    return element


@describe("aten.native_layer_norm_backward")
def layer_norm_backward(
    g: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None, bias: Tensor | None, *,
    normalized_shape: Ints, output_mask: Sequence[bool],
):  # fmt: skip
    num_outer = x.rank - len(normalized_shape)
    outer = x.shape[:num_outer]
    ones = [0] * len(normalized_shape)
    for n in x.shape[num_outer:]:
        whole(n)

    def grad_weight(*i: Int) -> Expr:
        return Sum(
            lambda *b: g[(*b, *i)] * (x[(*b, *i)] - mean[(*b, *ones)]) * rstd[(*b, *ones)],
            over=outer,
        )

    def grad_bias(*i: Int) -> Expr:
        def term(*b: Int) -> Expr:
            row = (*b, *ones)
            return g[(*b, *i)] + ignored(x[(*b, *i)]) + ignored(mean[row]) + ignored(rstd[row])

        return Sum(term, over=outer)

    grad_input = layer_norm_grad_input(g, x, mean, rstd, weight, normalized_shape=normalized_shape)
    return wanted(output_mask, grad_input, grad_weight, grad_bias)


@describe("aten._fused_rms_norm")
def rms_norm(x: Tensor, weight: Tensor | None, *, normalized_shape: Ints, eps: float | None):
    outer = x.rank - len(normalized_shape)
    inner = x.shape[outer:]

    def rstd(*i: Int) -> Expr:
        mean = Sum(lambda *k: square(x[(*i[:outer], *k)]), over=inner) / prod(inner)
        return 1 / sqrt(mean + (EPSILON[x.dtype] if eps is None else eps))

    return lambda *i: affine(x[i] * rstd(*i), weight, None, i[outer:]), rstd


EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "bfloat16": 2.0**-23, "float16": 2.0**-23}
"""The default eps of an RMS norm; 16-bit floats compute in float32."""


# -- group norm ----------------------------------------------------------------------------------

GROUP_SIZES = {
    "N": lambda x: x.shape[0],
    "C": lambda x: x.shape[1],
    "HxW": lambda x: prod(x.shape[2:], start=1),
}


@describe("aten.native_group_norm", **GROUP_SIZES)
def group_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, *, group: Int, eps: float):
    size = fixed(x.shape[1] // group)
    inner = (size, *x.shape[2:])

    def mean(n: Int, j: Int) -> Expr:
        return Sum(lambda c, *y: x[(n, j * size + c, *y)], over=inner) / prod(inner)

    def rstd(centre: Expr, n: Int, j: Int) -> Expr:
        squares = Sum(lambda c, *y: square(x[(n, j * size + c, *y)] - centre), over=inner)
        return 1 / sqrt(squares / prod(inner) + eps)

    def out(n: Int, c: Int, *y: Int) -> Expr:
        centre = mean(n, c // size)
        return affine((x[(n, c, *y)] - centre) * rstd(centre, n, c // size), weight, bias, [c])

    return out, mean, lambda n, j: rstd(mean(n, j), n, j)


@describe("aten.native_group_norm_backward", **GROUP_SIZES)
def group_norm_backward(
    g: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None, *, group: Int,
    output_mask: Sequence[bool],
):  # fmt: skip
    size = fixed(x.shape[1] // group)
    inner = (size, *x.shape[2:])

    def normal(n: Int, c: Int, j: Int, *y: Int) -> Expr:
        return (x[(n, c, *y)] - mean[n, j]) * rstd[n, j]

    def grad_input(n: Int, c: Int, *y: Int) -> Expr:
        j = c // size

        def scaled(c: Int, *y: Int) -> Expr:
            return affine(g[(n, c, *y)], weight, None, [c])

        total = Sum(lambda k, *z: scaled(j * size + k, *z), over=inner)
        along = Sum(
            lambda k, *z: scaled(j * size + k, *z) * normal(n, j * size + k, j, *z), over=inner
        )
        return rstd[n, j] * (scaled(c, *y) - (total + normal(n, c, j, *y) * along) / prod(inner))

    outer = (x.shape[0], *x.shape[2:])

    def grad_weight(c: Int) -> Expr:
        return Sum(lambda n, *y: g[(n, c, *y)] * normal(n, c, c // size, *y), over=outer)

    def grad_bias(c: Int) -> Expr:
        return Sum(lambda n, *y: g[(n, c, *y)] + ignored(normal(n, c, c // size, *y)), over=outer)

    return wanted(output_mask, grad_input, grad_weight, grad_bias)


# -- shared --------------------------------------------------------------------------------------


def square(value: Expr) -> Expr:
    """The value times itself."""
    return value * value


def wanted(output_mask: Sequence[bool], *gradients: Element) -> list[Element]:
    """The gradients that a kernel is asked for; it returns no others."""
    return [gradient for gradient, asked in zip(gradients, output_mask, strict=True) if asked]


def affine(value: Expr, weight: Tensor | None, bias: Tensor | None, i: Ints) -> Expr:
    """Scale and shift a normalised value by the weights, if any."""
    if weight is not None:
        value = value * weight[tuple(i)]
    return value if bias is None else value + bias[tuple(i)]
