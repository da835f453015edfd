"""Reductions over some dims of a tensor, and scans along one.

Partial sums, products, maxima and ``any`` combine. Means do not, since they divide by the size of
the whole; nor do variances, norms or positions. The analysis derives all of this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod

import numpy as np

from graphwright.describe.language import (
    ArgMax,
    ArgMin,
    Array,
    Expr,
    Int,
    Max,
    Min,
    Opaque,
    Sum,
    Tensor,
    describe,
    equal,
    function,
    reducer,
    where,
)

Dims = Sequence[Int] | Int | None
Element = Callable[..., Expr]

exp, log, sqrt, absolute, maximum = map(function, ("exp", "log", "sqrt", "abs", "maximum"))
differs, isinf, isnan, power, truncated = map(function, ("ne", "isinf", "isnan", "pow", "int"))


def reduced_dims(x: Tensor, dim: Dims) -> list[int]:
    """The dims to reduce; all dims if none are given."""
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return list(range(x.rank))
    return sorted(int(d) % x.rank for d in (dim if isinstance(dim, Sequence) else [dim]) if x.rank)


def fold(
    reduce: Callable[..., Expr], x: Tensor, dim: Dims, keepdim: bool, body: Element = lambda v: v
) -> Element:
    """Reduce `body` of the elements of x along `dim`."""
    dims = reduced_dims(x, dim)
    return lambda *i: reduce(
        lambda *k: body(x[place(x, dims, keepdim, i, k)]), over=[x.shape[d] for d in dims]
    )


def place(
    x: Tensor, dims: Sequence[int], keepdim: bool, i: Sequence[Int], k: Sequence[Int]
) -> tuple[Int, ...]:
    """The index in x of the k-th element that is reduced into output element i."""
    others, inner = iter(i), iter(k)
    index: list[Int] = []
    for d in range(x.rank):
        if d in dims:
            index.append(next(inner))
            if keepdim:
                next(others)
        else:
            index.append(next(others))
    return tuple(index)


def count(x: Tensor, dims: Sequence[int]) -> Int | int:
    """The number of elements that are reduced to one."""
    return prod((x.shape[d] for d in dims), start=1)


# -- reducers ------------------------------------------------------------------------------------


def _describe_folds(reduce: Callable[..., Expr], *ops: str) -> None:
    def reduction(x: Tensor, *, dim: Dims = None, keepdim: bool = False, dtype: str | None = None):
        to_int = dtype is not None and "int" in dtype  # converts elements before it reduces them
        return fold(reduce, x, dim, keepdim, truncated if to_int else lambda v: v)

    describe(*ops)(reduction)


for _name, _ops in {
    "sum": ["aten.sum", "aten.sum.dim_IntList"],
    "prod": ["aten.prod", "aten.prod.dim_int"],
    "max": ["aten.amax", "aten.max"],
    "min": ["aten.amin", "aten.min"],
    "any": ["aten.any", "aten.any.dim", "aten.any.dims"],
    "all": ["aten.all", "aten.all.dim", "aten.all.dims"],
    "argmax": ["aten.argmax"],
    "argmin": ["aten.argmin"],
}.items():
    _describe_folds(reducer(_name), *_ops)


@describe("aten.max.dim")
def max_dim(x: Tensor, *, dim: Int, keepdim: bool):
    return fold(Max, x, dim, keepdim), fold(ArgMax, x, dim, keepdim)


@describe("aten.min.dim")
def min_dim(x: Tensor, *, dim: Int, keepdim: bool):
    return fold(Min, x, dim, keepdim), fold(ArgMin, x, dim, keepdim)


@describe("aten.aminmax")
def aminmax(x: Tensor, *, dim: Int | None, keepdim: bool):
    return fold(Min, x, dim, keepdim), fold(Max, x, dim, keepdim)


@describe("aten.count_nonzero", "aten.count_nonzero.dim_IntList")
def count_nonzero(x: Tensor, *, dim: Dims):
    return fold(Sum, x, dim, False, lambda v: where(differs(v, 0), 1, 0))


@describe("aten.nansum")
def nansum(x: Tensor, *, dim: Dims, keepdim: bool):
    return fold(Sum, x, dim, keepdim, lambda v: where(isnan(v), 0, v))


# -- functions of reductions ---------------------------------------------------------------------


@describe("aten.mean", "aten.mean.dim")
def mean(x: Tensor, *, dim: Dims = None, keepdim: bool = False):
    total = fold(Sum, x, dim, keepdim)
    return lambda *i: total(*i) / count(x, reduced_dims(x, dim))


def moments(x: Tensor, dim: Dims, keepdim: bool, correction: object) -> tuple[Element, Element]:
    """The variance and the mean."""
    dims = reduced_dims(x, dim)
    average = mean(x, dim=dim, keepdim=keepdim)
    free = maximum(count(x, dims) - correction, 0)

    def variance(*i: Int) -> Expr:
        centre = average(*i)
        return fold(Sum, x, dim, keepdim, lambda v: (v - centre) * (v - centre))(*i) / free

    return variance, average


@describe("aten.var.correction")
def var(x: Tensor, *, dim: Dims, keepdim: bool, correction: object):
    return moments(x, dim, keepdim, 1 if correction is None else correction)[0]


@describe("aten.var.dim")
def var_dim(x: Tensor, *, dim: Dims, keepdim: bool, unbiased: bool):
    return moments(x, dim, keepdim, int(unbiased))[0]


@describe("aten.var_mean.correction")
def var_mean(x: Tensor, *, dim: Dims, keepdim: bool, correction: object):
    return moments(x, dim, keepdim, 1 if correction is None else correction)


@describe("aten.std.correction")
def std(x: Tensor, *, dim: Dims, keepdim: bool, correction: object):
    variance = var(x, dim=dim, keepdim=keepdim, correction=correction)
    return lambda *i: sqrt(variance(*i))


@describe("aten.std_mean.correction")
def std_mean(x: Tensor, *, dim: Dims, keepdim: bool, correction: object):
    return std(x, dim=dim, keepdim=keepdim, correction=correction), mean(
        x, dim=dim, keepdim=keepdim
    )


@describe("aten.logsumexp")
def logsumexp(x: Tensor, *, dim: Dims, keepdim: bool):
    def element(*i: Int) -> Expr:
        largest = fold(Max, x, dim, keepdim)(*i)
        top = where(isinf(largest), 0, largest)  # only -inf: exp(-inf - -inf) would be NaN
        real = (lambda v: v) if "float" in x.dtype else lambda v: v * 1.0
        return log(fold(Sum, x, dim, keepdim, lambda v: exp(real(v) - top))(*i)) + top

    return element


@describe("aten.linalg_vector_norm")
def vector_norm(x: Tensor, *, ord: object, dim: Dims, keepdim: bool):
    return norm(ord, lambda reduce, body: fold(reduce, x, dim, keepdim, body))


@describe(
    "aten.norm.Scalar", "aten.norm.ScalarOpt_dim",
    "aten.norm.ScalarOpt_dtype", "aten.norm.ScalarOpt_dim_dtype",
)  # fmt: skip
def norm_dims(x: Tensor, *, p: object, dim: Dims = None, keepdim: bool = False):
    return vector_norm(x, ord=2.0 if p is None else p, dim=dim, keepdim=keepdim)


@describe("aten.dist")
def dist(a: Tensor, b: Tensor, *, p: object):
    longer, shorter = (a, b) if a.rank >= b.rank else (b, a)
    lead = longer.rank - shorter.rank
    pairs = zip(longer.shape[lead:], shorter.shape, strict=True)
    shape = [*longer.shape[:lead], *(m if n == 1 else n for n, m in pairs)]

    def over_all(reduce: Callable[..., Expr], body: Element) -> Element:
        return lambda: reduce(lambda *k: body(a[k] - b[k]), over=shape)

    return norm(p, over_all)


@describe("aten.renorm")
def renorm(x: Tensor, *, p: object, dim: Int, maxnorm: object):
    others = [d for d in range(x.rank) if d != int(dim) % x.rank]
    length = norm(p, lambda reduce, body: fold(reduce, x, others, True, body))

    def element(*i: Int) -> Expr:
        size = length(*i)
        return x[i] * where(size > maxnorm, maxnorm / (size + RENORM_EPSILON), 1.0)

    return element


RENORM_EPSILON = 1e-7
"""What the kernel of renorm adds to a norm that it divides by."""


def norm(order: object, folded: Callable[[Callable[..., Expr], Element], Element]) -> Element:
    """The norm of an order, given how to fold a function of the elements."""
    largest, smallest = folded(Max, absolute), folded(Min, absolute)
    nonzero = folded(Sum, lambda v: where(differs(v, 0), 1.0, 0.0))
    powers = folded(Sum, lambda v: power(absolute(v), order))
    if isinstance(order, Int):
        if order == 1:
            return folded(Sum, absolute)
        return nonzero if order == 0 else lambda *i: power(powers(*i), 1.0 / order)
    finite = lambda *i: where(equal(order, 0), nonzero(*i), power(powers(*i), 1.0 / order))
    lowest = lambda *i: where(equal(order, -inf), smallest(*i), finite(*i))
    return lambda *i: where(equal(order, inf), largest(*i), lowest(*i))


@describe("aten.trace")
def trace(x: Tensor):
    rows, columns = x.shape
    return lambda: Sum(lambda k: x[k, k], over=rows if rows <= columns else columns)


# -- scans ---------------------------------------------------------------------------------------


def scan(name: str, numpy: Callable[[Array], Array], x: Tensor, dim: Int) -> Element:
    """A function of a whole line along `dim` that gives a line as long."""
    if not x.rank:
        return lambda: Opaque(name, lambda v: numpy(v[None])[0])(x[()])[()]
    d = int(dim) % x.rank
    return lambda *i: Opaque(name, numpy)(x[(*i[:d], slice(None), *i[d + 1 :])])[i[d]]


def _describe_scan(op: str, numpy: Callable[[Array], Array]) -> None:
    describe(f"aten.{op}")(lambda x, *, dim: scan(op, numpy, x, dim))


_describe_scan("cumsum", np.cumsum)
_describe_scan("cumprod", np.cumprod)
_describe_scan("logcumsumexp", np.logaddexp.accumulate)


def _record(reached: Callable[[Array, Array], Array], best: np.ufunc) -> Callable[[Array], Array]:
    """The last position so far of the running extremum."""

    def positions(line: Array) -> Array:
        hits = reached(line, best.accumulate(line))
        return np.maximum.accumulate(np.where(hits, np.arange(len(line)), 0))

    return positions


@describe("aten.cummax")
def cummax(x: Tensor, *, dim: Int):
    positions = _record(np.greater_equal, np.maximum)
    return scan("cummax", np.maximum.accumulate, x, dim), scan("cummax position", positions, x, dim)


@describe("aten.cummin")
def cummin(x: Tensor, *, dim: Int):
    positions = _record(np.less_equal, np.minimum)
    return scan("cummin", np.minimum.accumulate, x, dim), scan("cummin position", positions, x, dim)
