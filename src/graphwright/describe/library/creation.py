"""Tensors made from attributes alone, and random ones.

A ``size`` only restates the shape of the output. A random operator has no splits: its parts would draw other numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from graphwright.describe.expression import Expr
from graphwright.describe.language import Int, Opaque, Tensor, equal, random, where
from graphwright.describe.library.elementwise import elementwise
from graphwright.describe.registry import describe
from graphwright.describe.scalar import Array

Number = Int | Expr | bool


def whole_shape(out: Tensor) -> Sequence[Int]:
    return out.shape


# -- one value everywhere ---------------------------------------------------------------------------


@describe("aten.full", size=whole_shape)
def full(*, fill_value: Number):
    return lambda *i: fill_value


@describe("aten.zeros", size=whole_shape)
def zeros():
    return lambda *i: 0


@describe("aten.ones", size=whole_shape)
def ones():
    return lambda *i: 1


@describe("aten.new_full", size=whole_shape)
def new_full(x: Tensor, *, fill_value: Number):
    return lambda *i: fill_value


@describe("aten.new_zeros", size=whole_shape)
def new_zeros(x: Tensor):
    return lambda *i: 0


@describe("aten.new_ones", size=whole_shape)
def new_ones(x: Tensor):
    return lambda *i: 1


@describe("aten.scalar_tensor")
def scalar_tensor(*, s: Number):
    return lambda: s


elementwise("aten.full_like", lambda x, *, fill_value: where(True, fill_value, x))
elementwise("aten.zeros_like", lambda x: where(True, 0, x))
elementwise("aten.ones_like", lambda x: where(True, 1, x))

# -- values that follow the index -------------------------------------------------------------------


@describe("aten.arange.start_step", end=lambda start, step, out: start + out.shape[0] * step)
def arange_step(*, start: Number, step: Number):
    return lambda i: start + i * step


@describe("aten.arange.start", end=lambda start, out: start + out.shape[0])
def arange_start(*, start: Number):
    return lambda i: start + i


@describe("aten.arange")
def arange():
    return lambda i: i


@describe("aten.linspace")
def linspace(*, start: Number, end: Number, steps: Int):
    return lambda i: start if steps == 1 else start + i * ((end - start) / (steps - 1))


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


# -- random -----------------------------------------------------------------------------------------


@describe("aten.empty.memory_format", "aten.empty_strided", "aten.empty_permuted")
def empty():
    return lambda *i: random("uninitialised")


@describe("aten.empty_like", "aten.new_empty", "aten.new_empty_strided")
def empty_like(x: Tensor):
    return lambda *i: random("uninitialised")


@describe("aten.rand", "aten.randn", "aten.randint", "aten.randint.low", "aten.randperm")
def drawn():
    return lambda *i: random("number")


@describe("aten.rand_like", "aten.randn_like", "aten.randint_like", "aten.randint_like.low_dtype")
def drawn_like(x: Tensor):
    return lambda *i: random("number")


@describe(
    "aten.uniform", "aten.normal_functional", "aten.exponential", "aten.poisson", "aten.multinomial",
    "aten.log_normal", "aten.cauchy", "aten.geometric", "aten._standard_gamma", "aten._sample_dirichlet",
    "aten.normal.Tensor_float", "aten.normal.float_Tensor",
)  # fmt: skip
def refilled(x: Tensor):
    return lambda *i: random("number")


@describe("aten.normal.Tensor_Tensor")
def normal(mean: Tensor, std: Tensor):
    return lambda *i: random("number")


elementwise("aten.bernoulli", lambda x: random("uniform") < x)
elementwise("aten.bernoulli.p", lambda x, *, p: random("uniform") < p)


@describe("aten.native_dropout")
def native_dropout(x: Tensor, *, p: Expr, train: bool | None):
    if train is False:
        return lambda *i: x[i], lambda *i: where(True, True, x[i])
    return (
        lambda *i: where(random("uniform") >= p, x[i] / (1 - p), 0),
        lambda *i: random("uniform") >= p,
    )


elementwise("aten.native_dropout_backward", lambda g, mask, *, scale: g * mask * scale)
