"""Batch, layer, group and RMS normalisation, written out as sums (see `composites`).

Training-mode batch norm, with n elements per channel:

    mean = sum(x) / n          centred = x - mean          var = sum(centred^2) / n
    y    = centred * rsqrt(var + eps) * weight + bias
    running_mean' = (1 - m) running_mean + m mean          running_var' with var * n / (n - 1)

and backward, with xhat = (x - mean) * invstd:

    grad_bias = sum(g)    grad_weight = sum(g * xhat)
    grad_x = (g - grad_bias / n - xhat * grad_weight / n) * invstd * weight

Layer norm's forward stays one node, as it reduces inside a sample only; its backward is three.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graphwright.aten import as_float32, aten, ours
from graphwright.capture.decompose.composites import (
    along,
    as_dtype,
    count,
    decompose,
    mean_over,
    sum_over,
)


def _channel_dims(x: Tensor) -> list[int]:
    return [d for d in range(x.dim()) if d != 1]


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
    if weight is not None:
        x = aten.mul.Tensor(x, along(weight, x.dim()))
    if bias is not None:
        x = aten.add.Tensor(x, along(bias, x.dim()))
    return as_dtype(x, dtype)


def _blend(old: Tensor, new: Tensor, momentum: float) -> Tensor:
    kept = aten.mul.Scalar(old, 1 - momentum)
    return aten.add.Tensor(kept, as_dtype(aten.mul.Scalar(new, momentum), old.dtype))


def _train(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running: tuple[Tensor, Tensor] | None,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    dims = _channel_dims(x)
    n = count(x, dims)
    wide = as_float32(x)
    mean = mean_over(wide, dims)
    centred = aten.sub.Tensor(wide, along(mean, x.dim()))
    variance = aten.div.Scalar(sum_over(aten.mul.Tensor(centred, centred), dims), n)
    invstd = aten.rsqrt.default(aten.add.Scalar(variance, eps))
    out = _affine(aten.mul.Tensor(centred, along(invstd, x.dim())), weight, bias, x.dtype)
    if running is None:
        return out, mean, invstd, None, None
    unbiased = aten.mul.Scalar(variance, n / max(n - 1, 1))
    return (
        out,
        mean,
        invstd,
        _blend(running[0], mean, momentum),
        _blend(running[1], unbiased, momentum),
    )


def _evaluate(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, var: Tensor, eps: float
) -> Tensor:
    invstd = aten.rsqrt.default(aten.add.Scalar(var, eps))
    centred = aten.sub.Tensor(as_float32(x), along(mean, x.dim()))
    return _affine(aten.mul.Tensor(centred, along(invstd, x.dim())), weight, bias, x.dtype)


def _nothing(x: Tensor) -> Tensor:
    return aten.full.default([0], 0.0, dtype=x.dtype)


@decompose(aten._native_batch_norm_legit_functional.default, rejoined=True)
def _batch_norm_functional(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    if training:
        return _train(x, weight, bias, (running_mean, running_var), momentum, eps)  # type: ignore[return-value]
    out = _evaluate(x, weight, bias, running_mean, running_var, eps)
    return out, _nothing(x), _nothing(x), running_mean, running_var


@decompose(aten.native_batch_norm.default, aten._native_batch_norm_legit.default, rejoined=True)
def _native_batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    if training:
        return _train(x, weight, bias, None, momentum, eps)[:3]
    assert running_mean is not None and running_var is not None
    out = _evaluate(x, weight, bias, running_mean, running_var, eps)
    return out, _nothing(x), _nothing(x)


@decompose(aten._native_batch_norm_legit.no_stats, rejoined=True)
def _batch_norm_no_stats(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    return _train(x, weight, bias, None, momentum, eps)[:3]


@decompose(aten._native_batch_norm_legit_no_training.default, rejoined=True)
def _batch_norm_no_training(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    out = _evaluate(x, weight, bias, running_mean, running_var, eps)
    return out, _nothing(x), _nothing(x)


@decompose(aten.native_batch_norm_backward.default, rejoined=True)
def _batch_norm_backward(
    grad: Tensor,
    x: Tensor,
    weight: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    save_mean: Tensor | None,
    save_invstd: Tensor | None,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    rank, dims = x.dim(), _channel_dims(x)
    n = count(x, dims)
    if train:
        assert save_mean is not None and save_invstd is not None
        mean, invstd = save_mean, save_invstd
    else:
        assert running_mean is not None and running_var is not None
        mean = running_mean
        invstd = aten.rsqrt.default(aten.add.Scalar(running_var, eps))
    wide = as_float32(grad)
    centred = aten.sub.Tensor(as_float32(x), along(mean, rank))
    normal = aten.mul.Tensor(centred, along(invstd, rank))
    grad_bias = sum_over(wide, dims)
    grad_weight = sum_over(aten.mul.Tensor(wide, normal), dims)
    scale = invstd if weight is None else aten.mul.Tensor(invstd, weight)
    if train:
        wide = aten.sub.Tensor(wide, along(aten.div.Scalar(grad_bias, n), rank))
        share = along(aten.div.Scalar(grad_weight, n), rank)
        wide = aten.sub.Tensor(wide, aten.mul.Tensor(normal, share))
    grad_input = as_dtype(aten.mul.Tensor(wide, along(scale, rank)), x.dtype)
    dtype = grad_weight.dtype if weight is None else weight.dtype
    return (
        grad_input if output_mask[0] else None,
        as_dtype(grad_weight, dtype) if output_mask[1] else None,
        as_dtype(grad_bias, dtype) if output_mask[2] else None,
    )


@decompose(aten.native_layer_norm.default)
def _layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    if weight is None or weight.dtype == x.dtype:
        return NotImplemented  # type: ignore[no-any-return]
    out, mean, rstd = aten.native_layer_norm.default(
        as_dtype(x, weight.dtype), list(normalized_shape), weight, bias, eps
    )  # under autocast; kernels for two dtypes are not everywhere
    return as_dtype(out, x.dtype), mean, rstd


@decompose(aten.native_layer_norm_backward.default, rejoined=True)
def _layer_norm_backward(
    grad: Tensor,
    x: Tensor,
    normalized_shape: Sequence[int],
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    outer = list(range(x.dim() - len(normalized_shape)))
    for_input = for_weight = for_bias = None
    if output_mask[0]:
        dtype = x.dtype if weight is None else weight.dtype
        wide_input = ours.layer_norm_grad_input.default(
            as_dtype(grad, dtype), as_dtype(x, dtype), mean, rstd, weight, list(normalized_shape)
        )
        for_input = as_dtype(wide_input, x.dtype)
    wide = as_float32(grad)
    if output_mask[1] and weight is not None:
        normal = aten.mul.Tensor(aten.sub.Tensor(as_float32(x), mean), rstd)
        for_weight = as_dtype(_sum_outer(aten.mul.Tensor(wide, normal), outer), weight.dtype)
    if output_mask[2] and bias is not None:
        for_bias = as_dtype(_sum_outer(wide, outer), bias.dtype)
    return for_input, for_weight, for_bias


def _sum_outer(x: Tensor, dims: Sequence[int]) -> Tensor:
    return sum_over(x, dims) if dims else x


def _grouped(x: Tensor, groups: int) -> Tensor:
    """Return [N, C, ...] as [N, groups, C / groups, ...]."""
    n, channels, *rest = x.shape
    return aten.view.default(x, [n, groups, channels // groups, *rest])


def _per_channel(x: Tensor, like: Tensor) -> Tensor:
    """Return [C] so that it broadcasts to a grouped tensor."""
    groups, size, *rest = like.shape[1:]
    return aten.view.default(x, [1, groups, size, *(1 for _ in rest)])


@decompose(aten.native_group_norm.default, rejoined=True)
def _group_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    grouped = _grouped(as_float32(x), group)
    inner = list(range(2, grouped.dim()))
    mean = mean_over(grouped, inner, keepdim=True)
    centred = aten.sub.Tensor(grouped, mean)
    variance = mean_over(aten.mul.Tensor(centred, centred), inner, keepdim=True)
    rstd = aten.rsqrt.default(aten.add.Scalar(variance, eps))
    out = aten.mul.Tensor(centred, rstd)
    if weight is not None:
        out = aten.mul.Tensor(out, _per_channel(weight, out))
    if bias is not None:
        out = aten.add.Tensor(out, _per_channel(bias, out))
    out = aten.view.default(as_dtype(out, x.dtype), list(x.shape))
    saved = [as_dtype(aten.squeeze.dims(t, inner), x.dtype) for t in (mean, rstd)]
    return out, saved[0], saved[1]


@decompose(aten.native_group_norm_backward.default, rejoined=True)
def _group_norm_backward(
    grad: Tensor,
    x: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    wide, inverse = _grouped(as_float32(grad), group), as_float32(rstd)
    inner = list(range(2, wide.dim()))
    ones = [1 for _ in inner]
    spread = aten.view.default(inverse, [*rstd.shape, *ones])
    centre = aten.view.default(as_float32(mean), [*mean.shape, *ones])
    normal = aten.mul.Tensor(aten.sub.Tensor(_grouped(as_float32(x), group), centre), spread)
    dtype = grad.dtype if weight is None else weight.dtype
    for_input = for_weight = for_bias = None
    if output_mask[1]:
        summed = sum_over(aten.mul.Tensor(wide, normal), [0, *inner[1:]])
        for_weight = aten.view.default(as_dtype(summed, dtype), [C])
    if output_mask[2]:
        summed = sum_over(wide, [0, *inner[1:]])
        for_bias = aten.view.default(as_dtype(summed, dtype), [C])
    if output_mask[0]:
        if weight is not None:
            wide = aten.mul.Tensor(wide, _per_channel(weight, wide))
        along_normal = mean_over(aten.mul.Tensor(wide, normal), inner, keepdim=True)
        flat = aten.sub.Tensor(wide, mean_over(wide, inner, keepdim=True))
        flat = aten.sub.Tensor(flat, aten.mul.Tensor(normal, along_normal))
        flat = as_dtype(aten.mul.Tensor(flat, spread), x.dtype)
        for_input = aten.view.default(flat, list(x.shape))
    return for_input, for_weight, for_bias
