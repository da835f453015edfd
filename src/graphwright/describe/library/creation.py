"""Tensors made only from attributes, and random tensors.

``size`` restates the shape of the output. A random number depends on its position in the whole
output, so a random operator splits like an element-wise function of the position; `instead` reads a
tensor only for its shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from graphwright.describe.language import (
    Array,
    Expr,
    Int,
    Opaque,
    Tensor,
    describe,
    equal,
    function,
    instead,
    random,
    where,
)
from graphwright.describe.library.elementwise import absolute, elementwise

Number = Int | Expr | bool


def output_shape(out: Tensor) -> Sequence[Int]:
    return out.shape


# -- one value everywhere ------------------------------------------------------------------------


@describe("aten.full", size=output_shape)
def full(*, fill_value: Number):
    return lambda *i: fill_value


@describe("aten.zeros", size=output_shape)
def zeros():
    return lambda *i: 0


@describe("aten.ones", size=output_shape)
def ones():
    return lambda *i: 1


@describe("aten.new_full", size=output_shape)
def new_full(x: Tensor, *, fill_value: Number):
    return lambda *i: fill_value


@describe("aten.new_zeros", size=output_shape)
def new_zeros(x: Tensor):
    return lambda *i: 0


@describe("aten.new_ones", size=output_shape)
def new_ones(x: Tensor):
    return lambda *i: 1


@describe("aten.scalar_tensor")
def scalar_tensor(*, s: Number):
    return lambda: s


elementwise("aten.full_like", lambda x, *, fill_value: where(True, fill_value, x))
elementwise("aten.zeros_like", lambda x: where(True, 0, x))
elementwise("aten.ones_like", lambda x: where(True, 1, x))

# -- values that follow the index ----------------------------------------------------------------


@describe("aten.arange.start_step", end=lambda start, step, out: start + out.shape[0] * step)
def arange_step(*, start: Number, step: Number, out: Tensor):
    if "int" in out.dtype:  # the kernel converts both before it counts
        start, step = whole_number(start), whole_number(step)
    return lambda i: start + i * step


def whole_number(value: Number) -> Number:
    """A real attribute without its fraction."""
    return function("int")(value) if isinstance(value, Expr) else value


@describe("aten.arange.start", end=lambda start, out: start + out.shape[0])
def arange_start(*, start: Number):
    return lambda i: start + i


@describe("aten.arange")
def arange():
    return lambda i: i


@describe("aten.linspace")
def linspace(*, start: Number, end: Number, steps: Int, out: Tensor):
    if "int" in out.dtype:  # the kernel converts both before it divides
        start, end = whole_number(start), whole_number(end)
    if steps == 1:
        return lambda i: start
    step = (end - start) / (steps - 1)
    return lambda i: where(i < steps // 2, start + i * step, end - (steps - 1 - i) * step)


@describe("aten.eye", "aten.eye.m")
def eye():
    return lambda i, j: where(equal(i, j), 1, 0)


def _describe_triangle(op: str, numpy: Callable[..., tuple[Array, Array]]) -> None:
    made = Opaque(op, lambda row, col, offset: np.stack(numpy(int(row), int(offset), int(col))))
    describe(f"aten.{op}")(
        lambda *, row, col, offset: lambda which, i: made(row, col, offset)[which, i]
    )


_describe_triangle("tril_indices", np.tril_indices)
_describe_triangle("triu_indices", np.triu_indices)


# -- random --------------------------------------------------------------------------------------


@describe(
    "aten.empty.memory_format", "aten.empty_strided", "aten.empty_permuted", size=output_shape
)  # fmt: skip
def empty():
    return lambda *i: random("uninitialised")


@describe("aten.new_empty", "aten.new_empty_strided", size=output_shape)
def new_empty(x: Tensor):
    return lambda *i: random("uninitialised")


elementwise("aten.empty_like", lambda x: instead(random("uninitialised"), x))


@describe("aten.rand", "aten.randn", "aten.randint", "aten.randint.low", size=output_shape)
def drawn():
    return lambda *i: random("number")


for _op in (
    "aten.rand_like", "aten.randn_like", "aten.randint_like", "aten.randint_like.low_dtype",
    "aten.uniform", "aten.normal_functional", "aten.exponential", "aten.log_normal", "aten.cauchy",
    "aten.geometric", "aten.poisson", "aten._standard_gamma",
):  # fmt: skip
    elementwise(_op, lambda x: instead(random("number"), x))

elementwise("aten.normal.Tensor_float", lambda mean, *, std: mean + std * random("normal"))
elementwise(
    "aten.normal.float_Tensor", lambda std, *, mean: mean + absolute(std) * random("normal")
)
elementwise("aten.normal.Tensor_Tensor", lambda mean, std: mean + absolute(std) * random("normal"))
elementwise("aten.bernoulli", lambda x: random("uniform") < x)
elementwise("aten.bernoulli.p", lambda x, *, p: instead(random("uniform") < p, x))


# Random numbers that depend on each other: one part draws them all.


@describe("aten.randperm")
def randperm():
    return lambda i: Opaque("permutation")(random("order"))[i]


@describe("aten.multinomial")
def multinomial(x: Tensor):
    def element(*i: Int) -> Expr:
        return Opaque("samples")(x[(*i[:-1], slice(None))], random("number"))[i[-1]]

    return element


@describe("aten._sample_dirichlet")
def dirichlet(x: Tensor):
    def element(*i: Int) -> Expr:
        return Opaque("dirichlet")(x[(*i[:-1], slice(None))], random("number"))[i[-1]]

    return element


@describe("aten.native_dropout")
def native_dropout(x: Tensor, *, p: Expr, train: bool | None):
    if train is False:
        return lambda *i: x[i], lambda *i: where(True, True, x[i])
    return (
        lambda *i: where(random("uniform") >= p, x[i] / (1 - p), 0),
        lambda *i: instead(random("uniform") >= p, x[i]),
    )


elementwise("aten.native_dropout_backward", lambda g, mask, *, scale: g * mask * scale)
