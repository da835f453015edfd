"""Losses, written out as element-wise operators, a sum and a division (see `composites`).

The targets of a classification pick one class each:

    loss_i = -w[t_i] * x[i, t_i]   where t_i is not ignored, else 0
    mean   = sum(loss_i) / sum(w[t_i])
    grad   = where(class == t_i, -w[t_i] * g / sum(w), 0)

so that a part of the batch needs only its own targets and the two sums. The other losses come from
PyTorch's own decompositions, whose means the recorder writes as sums.
"""

from __future__ import annotations

from torch import Tensor
from torch._decomp import get_decompositions

from graphwright.aten import aten
from graphwright.capture.decompose.composites import DECOMPOSITIONS, along, decompose, sum_over

NONE, MEAN, SUM = 0, 1, 2
"""ATen's numbers for a loss's reduction."""

_FROM_PYTORCH = (
    aten.mse_loss.default,
    aten.mse_loss_backward.default,
    aten.smooth_l1_loss.default,
    aten.smooth_l1_loss_backward.default,
    aten.huber_loss.default,
    aten.huber_loss_backward.default,
    aten.binary_cross_entropy.default,
    aten.binary_cross_entropy_backward.default,
    aten.binary_cross_entropy_with_logits.default,
    aten.soft_margin_loss.default,
    aten.soft_margin_loss_backward.default,
)

for _overload, _decomposition in get_decompositions(_FROM_PYTORCH).items():  # type: ignore[arg-type]
    DECOMPOSITIONS[_overload] = _decomposition


def _all_dims(x: Tensor) -> list[int]:
    return list(range(x.dim()))


def _weight_of_target(weight: Tensor, target: Tensor) -> Tensor:
    flat = aten.view.default(target, [target.numel()])
    return aten.view.default(aten.index_select.default(weight, 0, flat), list(target.shape))


@decompose(aten.nll_loss_forward.default, aten.nll_loss2d_forward.default)
def _nll_loss_forward(
    x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    class_dim = 1 if x.dim() > 1 else 0
    counts = aten.ne.Scalar(target, ignore_index)
    zero = aten.full.default([], 0, dtype=target.dtype)
    safe = aten.where.self(counts, target, zero)
    index = aten.unsqueeze.default(safe, class_dim)
    picked = aten.squeeze.dims(aten.gather.default(x, class_dim, index), [class_dim])
    nothing = aten.full.default([], 0.0, dtype=x.dtype)
    losses = aten.neg.default(picked)
    if weight is None:
        weights = aten._to_copy.default(counts, dtype=x.dtype)
    else:
        each = _weight_of_target(weight, safe)
        losses = aten.mul.Tensor(losses, each)
        weights = aten.where.self(counts, each, nothing)
    losses = aten.where.self(counts, losses, nothing)
    total = sum_over(weights, _all_dims(weights)) if weights.dim() else weights
    if reduction == NONE:
        return losses, aten.full.default([], 0.0, dtype=x.dtype)
    loss = sum_over(losses, _all_dims(losses)) if losses.dim() else losses
    return (aten.div.Tensor(loss, total) if reduction == MEAN else loss), total


@decompose(aten.nll_loss_backward.default, aten.nll_loss2d_backward.default)
def _nll_loss_backward(
    grad: Tensor,
    x: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: Tensor,
) -> Tensor:
    class_dim = 1 if x.dim() > 1 else 0
    classes = along(aten.arange.default(x.shape[class_dim], dtype=target.dtype), x.dim(), class_dim)
    wanted = aten.unsqueeze.default(target, class_dim)
    hit = aten.logical_and.default(
        aten.eq.Tensor(classes, wanted), aten.ne.Scalar(wanted, ignore_index)
    )
    scale = aten.neg.default(grad)
    if reduction == MEAN:
        scale = aten.div.Tensor(scale, total_weight)
    if reduction == NONE and x.dim() > 1:
        scale = aten.unsqueeze.default(scale, class_dim)
    if weight is not None:
        scale = aten.mul.Tensor(along(weight, x.dim(), class_dim), scale)
    zero = aten.full.default([], 0.0, dtype=x.dtype)
    return aten.where.self(hit, scale, zero)
