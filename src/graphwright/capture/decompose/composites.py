"""Composite kernels, written out so that splitting the batch stays exact.

A kernel that hides a reduction over the batch (a mean, a batch norm, a loss) cannot be split: the
mean of means is not the mean, and the variance needs every part's mean first. Written as sums and
element-wise operators it can be: each part sums its own, the sums are added, and what follows is
element-wise.

    mean      sum(x) / n
    variance  sum((x - mean)^2) / (n - correction)
    addmm     beta * c + alpha * (a @ b)
    nll_loss  sum(-w[t] * x[i, t]) / sum(w[t])         over the targets that are not ignored

`convolution_backward` and `native_layer_norm_backward` become one node for each gradient (see
`kernels`). A function here has the schema of the operator that it stands for; it may return KEPT to
keep the operator. The functions call torch operators, which the recorder sees in turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from graphwright.aten import as_float32, aten, ours

Decomposition = Callable[..., Any]
F = TypeVar("F", bound=Decomposition)

KEPT = cast(Tensor, NotImplemented)
"""What a decomposition returns to keep the operator as it is."""

DECOMPOSITIONS: dict[object, Decomposition] = {}


REJOINED: set[object] = set()
"""Operators whose kernels do the work of their parts where nothing is split in between."""


def decompose(*overloads: object, rejoined: bool = False) -> Callable[[F], F]:
    """Register a function in place of operators; those of a library by their names.

    `rejoined`: a step runs the operator itself where a plan leaves its parts together
    (`rewrite.rejoin`).
    """

    def register(function: F) -> F:
        DECOMPOSITIONS.update(dict.fromkeys(overloads, function))
        if rejoined:
            REJOINED.update(overloads)
        return function

    return register


def dims_of(x: Tensor, dim: Sequence[int] | int | None) -> list[int]:
    """Return the dims meant by a reduction's argument, where none means all."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return list(range(x.dim()))
    given = [dim] if isinstance(dim, int) else dim
    return sorted(d % max(x.dim(), 1) for d in given) if x.dim() else []


def count(x: Tensor, dims: Sequence[int]) -> int:
    """Return how many elements a reduction over `dims` adds up."""
    return math.prod(x.shape[d] for d in dims)


def as_dtype(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return x with the given dtype."""
    return x if x.dtype == dtype else aten._to_copy.default(x, dtype=dtype)


def along(x: Tensor, rank: int, dim: int = 1) -> Tensor:
    """Return a vector as a tensor of the given rank that broadcasts along `dim`."""
    return aten.view.default(x, [x.shape[0] if d == dim else 1 for d in range(rank)])


def sum_over(x: Tensor, dims: Sequence[int], keepdim: bool = False) -> Tensor:
    """Return the sum over dims."""
    return aten.sum.dim_IntList(x, list(dims), keepdim)


def mean_over(x: Tensor, dims: Sequence[int], keepdim: bool = False) -> Tensor:
    """Return the mean over dims, as a sum and a division by a constant."""
    return aten.div.Scalar(sum_over(x, dims, keepdim), count(x, dims))


# Means and variances.


@decompose(aten.mean.dim)
def _mean_dim(
    x: Tensor, dim: Sequence[int] | None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    target = dtype or x.dtype
    wide = as_float32(as_dtype(x, target))
    return as_dtype(mean_over(wide, dims_of(x, dim), keepdim), target)


@decompose(aten.mean.default)
def _mean(x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
    return _mean_dim(x, None, False, dtype=dtype)


def _variance(
    x: Tensor, dim: Sequence[int] | None, correction: float | None, keepdim: bool
) -> tuple[Tensor, Tensor]:
    """Return variance and mean."""
    dims = dims_of(x, dim)
    wide = as_float32(x)
    mean = mean_over(wide, dims, keepdim=True)
    centred = aten.sub.Tensor(wide, mean)
    free = count(x, dims) - (1 if correction is None else correction)
    variance = aten.div.Scalar(
        sum_over(aten.mul.Tensor(centred, centred), dims, keepdim),
        free if free > 0 else 0.0,
    )
    if not keepdim:
        mean = aten.squeeze.dims(mean, dims)
    return as_dtype(variance, x.dtype), as_dtype(mean, x.dtype)


@decompose(aten.var.correction)
def _var(
    x: Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Tensor:
    return _variance(x, dim, correction, keepdim)[0]


@decompose(aten.var_mean.correction)
def _var_mean(
    x: Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[Tensor, Tensor]:
    return _variance(x, dim, correction, keepdim)


@decompose(aten.std.correction)
def _std(
    x: Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Tensor:
    return aten.sqrt.default(_variance(x, dim, correction, keepdim)[0])


@decompose(aten.std_mean.correction)
def _std_mean(
    x: Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[Tensor, Tensor]:
    variance, mean = _variance(x, dim, correction, keepdim)
    return aten.sqrt.default(variance), mean


@decompose(aten.linalg_vector_norm.default)
def _vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    target = dtype or x.dtype
    wide = as_float32(as_dtype(x, target))
    dims = dims_of(x, dim)
    if ord == 2:
        norm = aten.sqrt.default(sum_over(aten.mul.Tensor(wide, wide), dims, keepdim))
    elif ord == 1:
        norm = sum_over(aten.abs.default(wide), dims, keepdim)
    elif ord == math.inf:
        norm = aten.amax.default(aten.abs.default(wide), dims, keepdim)
    else:
        return KEPT
    return as_dtype(norm, target)


# Matrix products with an addend.


def _scaled(x: Tensor, factor: float) -> Tensor:
    return x if factor == 1 else aten.mul.Scalar(x, factor)


def _add_product(addend: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    if beta == 0:  # by definition even where the addend is not finite
        return _scaled(product, alpha)
    return aten.add.Tensor(_scaled(product, alpha), _scaled(addend, beta))


@decompose(aten.addmm.default)
def _addmm(c: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return _add_product(c, aten.mm.default(a, b), beta, alpha)


@decompose(aten.baddbmm.default)
def _baddbmm(c: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return _add_product(c, aten.bmm.default(a, b), beta, alpha)


@decompose(aten.addbmm.default)
def _addbmm(c: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return _add_product(c, sum_over(aten.bmm.default(a, b), [0]), beta, alpha)


@decompose(aten.addmv.default)
def _addmv(c: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return _add_product(c, aten.mv.default(a, b), beta, alpha)


@decompose(aten.addr.default)
def _addr(c: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    outer = aten.mul.Tensor(aten.unsqueeze.default(a, 1), aten.unsqueeze.default(b, 0))
    return _add_product(c, outer, beta, alpha)


@decompose("transformers.grouped_mm_fallback.default")
def _transformers_grouped_mm(x: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
    return aten._grouped_mm.default(x, weight, offs)


@decompose("transformers.grouped_mm_fallback_backward.default")
def _transformers_grouped_mm_backward(
    x: Tensor, weight: Tensor, offs: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor]:
    for_input = aten._grouped_mm.default(grad, aten.transpose.int(weight, 1, 2), offs)
    return for_input, aten._grouped_mm.default(aten.transpose.int(x, 0, 1), grad, offs)


@decompose(aten.floor_divide.default)
def _floor_divide(x: Tensor, other: Tensor | float) -> Tensor:
    return aten.div.Tensor_mode(x, other, rounding_mode="floor")


# Convolution.


def _for_each_dim(options: Sequence[Any], rank: int) -> list[Any]:
    """A convolution's options, with one number where one for each dim is meant repeated."""
    return [o * rank if isinstance(o, list) and len(o) == 1 else o for o in options]


@decompose(aten.convolution.default)
def _convolution(x: Tensor, weight: Tensor, bias: Tensor | None, *options: Any) -> Tensor:
    whole = _for_each_dim(options, weight.dim() - 2)
    if bias is None and whole == list(options):
        return KEPT
    out = aten.convolution.default(x, weight, None, *whole)
    return out if bias is None else aten.add.Tensor(out, along(bias, out.dim()))


@decompose(aten.convolution_backward.default)
def _convolution_backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    given = (stride, padding, dilation, transposed, output_padding, groups)
    options = _for_each_dim(given, weight.dim() - 2)
    for_input = for_weight = for_bias = None
    if output_mask[0]:
        for_input = ours.convolution_grad_input.default(grad, weight, list(x.shape), *options)
    if output_mask[1]:
        for_weight = ours.convolution_grad_weight.default(grad, x, list(weight.shape), *options)
    if output_mask[2]:
        for_bias = sum_over(grad, [d for d in range(grad.dim()) if d != 1])
    return for_input, for_weight, for_bias


# Shapes.


@decompose(aten.stack.default)
def _stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    dim = dim % (tensors[0].dim() + 1)
    return aten.cat.default([aten.unsqueeze.default(x, dim) for x in tensors], dim)


@decompose(aten.cat.default)
def _cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Leave out vectors of no elements, which PyTorch lets pass beside tensors of any rank."""
    kept = [x for x in tensors if tuple(x.shape) != (0,)]
    if not kept or len(kept) == len(tensors):
        return KEPT
    dtype = reduce(torch.promote_types, (x.dtype for x in tensors))
    return aten.cat.default([as_dtype(x, dtype) for x in kept], dim)


@decompose(aten.empty_like.default)
def _empty_like(x: Tensor, *, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    """A random kernel fills what it is given in the order of memory, so that order has to show."""
    strides = x.stride()
    order = sorted(range(x.dim()), key=lambda d: (-strides[d], d))
    stored, size = [x.shape[d] for d in order], 1
    for d in reversed(order):
        if strides[d] != size:
            return KEPT  # neither contiguous nor a permutation of it
        size *= x.shape[d]
    if order == list(range(x.dim())):
        return KEPT
    filled = aten.full.default(stored, 0, dtype=dtype or x.dtype)
    return aten.permute.default(filled, [order.index(d) for d in range(x.dim())])


@decompose(aten.copy.default)
def _copy(x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    return aten.expand.default(as_dtype(source, x.dtype), list(x.shape))


@decompose(aten.fill.Tensor)
def _fill(x: Tensor, value: Tensor) -> Tensor:
    return aten.expand.default(as_dtype(value, x.dtype), list(x.shape))


@decompose(aten.masked_select.default)
def _masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """Has a fixed shape where the mask is known, as indexing has."""
    x, mask = torch.broadcast_tensors(x, mask)  # type: ignore[no-untyped-call]
    return aten.index.Tensor(x, [mask])


@decompose(aten.where.ScalarSelf)
def _where_scalar_self(condition: Tensor, a: float, b: Tensor) -> Tensor:
    return aten.where.self(condition, aten.scalar_tensor.default(a, dtype=b.dtype), b)


@decompose(aten.where.ScalarOther)
def _where_scalar_other(condition: Tensor, a: Tensor, b: float) -> Tensor:
    return aten.where.self(condition, a, aten.scalar_tensor.default(b, dtype=a.dtype))
