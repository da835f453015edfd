"""Products of matrices and vectors, and distances between rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from graphwright.describe.language import (
    Array,
    Expr,
    Int,
    Max,
    Opaque,
    Sum,
    Tensor,
    describe,
    equal,
    function,
    in_multiples,
    where,
    whole,
)
from graphwright.describe.library.advanced_indexing import everything

Ints = Sequence[Int]

absolute, differs, power, sign = map(function, ("abs", "ne", "pow", "sign"))


@describe("aten.mm")
def mm(a: Tensor, b: Tensor):
    return lambda i, j: Sum(lambda k: a[i, k] * b[k, j])


@describe("aten.bmm")
def bmm(a: Tensor, b: Tensor):
    return lambda n, i, j: Sum(lambda k: a[n, i, k] * b[n, k, j])


@describe("aten.matmul")
def matmul(a: Tensor, b: Tensor):
    def element(*i: Int) -> Expr:
        row = i[len(i) - (2 if b.rank > 1 else 1) :][:1] if a.rank > 1 else ()
        column = i[-1:] if b.rank > 1 else ()
        lead = i[: len(i) - len(row) - len(column)]
        return Sum(lambda k: a[(*lead, *row, k)] * b[(*lead, k, *column)])

    return element


@describe("aten.tensordot")
def tensordot(a: Tensor, b: Tensor, *, dims_self: Ints, dims_other: Ints):
    pairs = {int(d) % a.rank: int(e) % b.rank for d, e in zip(dims_self, dims_other, strict=True)}
    kept_of_a = [d for d in range(a.rank) if d not in pairs]
    kept_of_b = [d for d in range(b.rank) if d not in pairs.values()]

    def element(*i: Int) -> Expr:
        free_of_a = dict(zip(kept_of_a, i[: len(kept_of_a)], strict=True))
        free_of_b = dict(zip(kept_of_b, i[len(kept_of_a) :], strict=True))

        def product(*k: Int) -> Expr:
            of_a = free_of_a | dict(zip(pairs, k, strict=True))
            of_b = free_of_b | dict(zip(pairs.values(), k, strict=True))
            return (
                a[tuple(of_a[d] for d in range(a.rank))] * b[tuple(of_b[d] for d in range(b.rank))]
            )

        sizes = [b.shape[e] if a.shape[d] == 1 else a.shape[d] for d, e in pairs.items()]
        return Sum(product, over=sizes) if pairs else product()

    return element


@describe("aten.mv")
def mv(a: Tensor, b: Tensor):
    return lambda i: Sum(lambda k: a[i, k] * b[k])


@describe("aten.dot", "aten.vdot")
def dot(a: Tensor, b: Tensor):
    return lambda: Sum(lambda k: a[k] * b[k])


@describe("aten.outer", "aten.ger")
def outer(a: Tensor, b: Tensor):
    return lambda i, j: a[i] * b[j]


@describe("aten.linear")
def linear(x: Tensor, w: Tensor, bias: Tensor | None):
    def element(*i: Int) -> Expr:
        rows = () if w.rank == 1 else i[-1:]
        lead = i[: x.rank - 1]
        total = Sum(lambda k: x[(*lead, k)] * w[(*rows, k)])
        return total if bias is None else total + bias[rows]

    return element


def times(beta: object, value: Expr) -> Expr:
    """The product; 0 if beta is 0, whatever the value: the kernel does not read it then."""
    return where(equal(beta, 0), 0, beta * value)


@describe("aten.addmm")
def addmm(c: Tensor, a: Tensor, b: Tensor, *, beta, alpha):
    return lambda i, j: times(beta, c[i, j]) + alpha * Sum(lambda k: a[i, k] * b[k, j])


@describe("aten._scaled_mm")
def scaled_mm(
    a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None,
    scale_result: Tensor | None, *, out: Tensor,
):  # fmt: skip
    """8-bit floats with a scale for each matrix, or for each row of a and column of b."""
    if not (is_scale(scale_a, a.shape[0], 0) and is_scale(scale_b, b.shape[1], 1)):
        given = [t for t in (a, b, scale_a, scale_b, bias, scale_result) if t is not None]
        made = Opaque("product scaled by blocks")(*map(everything, given))
        return lambda i, j: made[i, j]
    if scale_result is not None or "float8" in out.dtype:
        whole(a.shape[1])  # parts of a sum would be rounded to 8 bits before they are added
    for size in (a.shape[1], b.shape[1]):
        in_multiples(size, 16)  # as the kernels of GPUs want it

    def element(i: Int, j: Int) -> Expr:
        total = Sum(lambda k: a[i, k] * b[k, j])
        value = total * scale_at(scale_a, i, 0) * scale_at(scale_b, j, 1)
        return value if bias is None else value + bias[j]

    return element


def is_scale(scale: Tensor, size: Int, dim: int) -> bool:
    """Whether a scale is one number, or one for each element of a dim of a matrix."""
    if all(n == 1 for n in scale.shape):
        return True
    return scale.rank == 2 and scale.shape[dim] == size and scale.shape[1 - dim] == 1


def scale_at(scale: Tensor, i: Int, dim: int) -> Expr:
    """The scale of an element of a dim."""
    index: list[Int | int] = [0] * scale.rank
    if any(n != 1 for n in scale.shape):
        index[dim] = i
    return scale[tuple(index)]


@describe("aten.baddbmm")
def baddbmm(c: Tensor, a: Tensor, b: Tensor, *, beta, alpha):
    return lambda n, i, j: times(beta, c[n, i, j]) + alpha * Sum(lambda k: a[n, i, k] * b[n, k, j])


@describe("aten.addbmm")
def addbmm(c: Tensor, a: Tensor, b: Tensor, *, beta, alpha):
    return lambda i, j: times(beta, c[i, j]) + alpha * Sum(lambda n, k: a[n, i, k] * b[n, k, j])


@describe("aten.addmv")
def addmv(c: Tensor, a: Tensor, b: Tensor, *, beta, alpha):
    return lambda i: times(beta, c[i]) + alpha * Sum(lambda k: a[i, k] * b[k])


@describe("aten.addr")
def addr(c: Tensor, a: Tensor, b: Tensor, *, beta, alpha):
    return lambda i, j: times(beta, c[i, j]) + alpha * a[i] * b[j]


@describe("aten.linalg_cross")
def cross(a: Tensor, b: Tensor, *, dim: Int, out: Tensor):
    d = int(dim) % out.rank

    def element(*i: Int) -> Expr:
        one, two = ((*i[:d], (i[d] + n) % 3, *i[d + 1 :]) for n in (1, 2))
        return a[one] * b[two] - a[two] * b[one]

    return element


@describe("aten._trilinear")
def trilinear(
    a: Tensor, b: Tensor, c: Tensor, *, expand1: Ints, expand2: Ints, expand3: Ints, sumdim: Ints
):
    rank = a.rank + len(expand1)
    pairs = zip((a, b, c), (expand1, expand2, expand3), strict=True)
    factors = [(x, [d for d in range(rank) if d not in set(map(int, e))]) for x, e in pairs]
    summed = sorted(int(d) for d in sumdim)
    sizes = [dict(zip(dims, x.shape, strict=True)) for x, dims in factors]

    def element(*i: Int) -> Expr:
        kept = dict(zip([d for d in range(rank) if d not in summed], i, strict=True))

        def product(*k: Int) -> Expr:
            full = kept | dict(zip(summed, k, strict=True))
            one, two, three = (x[tuple(full[d] for d in dims)] for x, dims in factors)
            return one * two * three

        return Sum(product, over=[next(s[d] for s in sizes if d in s) for d in summed])

    return element


# -- distances -----------------------------------------------------------------------------------


@describe("aten._cdist_forward")
def cdist(a: Tensor, b: Tensor, *, p):
    def element(*i: Int) -> Expr:
        *n, row, column = i

        def gap(k: Int) -> Expr:
            return absolute(a[(*n, row, k)] - b[(*n, column, k)])

        count = Sum(lambda k: where(differs(gap(k), 0), 1.0, 0.0), over=a.shape[-1])
        finite = power(Sum(lambda k: power(gap(k), p), over=a.shape[-1]), 1 / p)
        return where(equal(p, inf), Max(gap, over=a.shape[-1]), where(equal(p, 0), count, finite))

    return element


@describe("aten._cdist_backward")
def cdist_backward(g: Tensor, a: Tensor, b: Tensor, distance: Tensor, *, p):
    def element(*i: Int) -> Expr:
        *n, row, k = i

        def share(column: Int) -> Expr:
            gap, length = a[(*n, row, k)] - b[(*n, column, k)], distance[(*n, row, column)]
            finite = sign(gap) * power(absolute(gap) / length, p - 1)
            slope = where(
                equal(p, inf), where(equal(absolute(gap), length), sign(gap), 0.0), finite
            )
            flat = function("or")(equal(length, 0), equal(p, 0))
            return g[(*n, row, column)] * where(flat, 0.0, slope)

        return Sum(share, over=b.shape[-2])

    return element


def _pairs(x: Array, p: Array) -> Array:
    rows, columns = np.triu_indices(len(x), 1)
    return np.linalg.norm(x[rows] - x[columns], ord=float(p), axis=-1)


@describe("aten._pdist_forward")
def pdist(x: Tensor, *, p):
    return lambda i: Opaque("distances of all pairs", _pairs)(x[:, :], p)[i]


def _pairs_backward(g: Array, x: Array, distances: Array, p: Array) -> Array:
    gradient = np.zeros_like(x)
    for pair, (row, column) in enumerate(zip(*np.triu_indices(len(x), 1), strict=True)):
        gap, length = x[row] - x[column], distances[pair]
        if length == 0 or p == 0:
            continue
        if np.isinf(p):
            slope = np.sign(gap) * (np.abs(gap) == length)
        else:
            slope = np.sign(gap) * (np.abs(gap) / length) ** (p - 1)
        gradient[row] += g[pair] * slope
        gradient[column] -= g[pair] * slope
    return gradient


@describe("aten._pdist_backward")
def pdist_backward(g: Tensor, x: Tensor, distances: Tensor, *, p):
    gradient = Opaque("gradient of distances of all pairs", _pairs_backward)
    return lambda i, k: gradient(g[:], x[:, :], distances[:], p)[i, k]
