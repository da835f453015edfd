"""How optimizers change parameters and their state, many at once, in place.

The first lists of a function are parameters and gradients; the others, and `step` and `lr`, are the
state and the numbers that the rule reads. `step` is the number of this step, from 1 on. Operators
are those of PyTorch's optimizers, in their order, with tensors for the numbers.

    graphwright.adagrad_all_(params, grads, sums, step, lr, lr_decay=..., ...)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

Tensors = list[Tensor]


def adam_all_(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors, step: Tensor,
    lr: Tensor, *, beta1: float, beta2: float, eps: float, weight_decay: float, decoupled: bool,
    maximize: bool,
) -> None:  # fmt: skip
    """Adam, and AdamW if `decoupled`."""
    if _have_kernel(params, grads, exp_avgs, exp_avg_sqs):
        name = "_fused_adamw_" if decoupled else "_fused_adam_"
        number, rate = step.to(torch.float32), lr.to(torch.float32)
        for lists in _by_dtype(params, grads, exp_avgs, exp_avg_sqs):
            getattr(torch.ops.aten, name).tensor_lr(
                *lists, [], [number] * len(lists[0]), lr=rate, beta1=beta1, beta2=beta2,
                weight_decay=weight_decay, eps=eps, amsgrad=False, maximize=maximize,
            )  # fmt: skip
        return
    step_size = (lr / (1 - beta1**step)).neg()
    root = (1 - beta2**step).sqrt() * step_size
    for param, grad, exp_avg, exp_avg_sq in zip(params, grads, exp_avgs, exp_avg_sqs, strict=True):
        gradient = _gradient(param, grad, 0.0 if decoupled else weight_decay, maximize)
        if weight_decay and decoupled:
            param.mul_(1 - lr * weight_decay)
        exp_avg.lerp_(gradient, 1 - beta1)
        exp_avg_sq.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        param.addcdiv_(exp_avg, (exp_avg_sq.sqrt() / root).add_(eps / step_size))


def sgd_all_(
    params: Tensors, grads: Tensors, momentum_buffers: Tensors, lr: Tensor, *, momentum: float,
    dampening: float, weight_decay: float, nesterov: bool, maximize: bool,
) -> None:  # fmt: skip
    """SGD with momentum, of parameters that have been updated before."""
    if _have_kernel(params, grads, momentum_buffers):
        rate = lr.to(torch.float32)
        for lists in _by_dtype(params, grads, momentum_buffers):
            torch.ops.aten._fused_sgd_.tensor_lr(
                *lists, weight_decay=weight_decay, momentum=momentum, lr=rate, dampening=dampening,
                nesterov=nesterov, maximize=maximize, is_first_step=False,
            )  # fmt: skip
        return
    for param, grad, buffer in zip(params, grads, momentum_buffers, strict=True):
        gradient = _gradient(param, grad, weight_decay, maximize)
        buffer.mul_(momentum).add_(gradient, alpha=1 - dampening)
        step = gradient.add(buffer, alpha=momentum) if nesterov else buffer
        param.addcmul_(step, lr.neg())


def adagrad_all_(
    params: Tensors, grads: Tensors, sums: Tensors, step: Tensor, lr: Tensor, *,
    lr_decay: float, weight_decay: float, eps: float, maximize: bool,
) -> None:  # fmt: skip
    """Adagrad."""
    rate = (lr / (1 + (step - 1) * lr_decay)).neg()
    for param, grad, total in zip(params, grads, sums, strict=True):
        gradient = _gradient(param, grad, weight_decay, maximize)
        total.addcmul_(gradient, gradient)
        param.addcdiv_(gradient * rate, total.sqrt().add_(eps))


def rmsprop_all_(
    params: Tensors, grads: Tensors, square_avgs: Tensors, lr: Tensor, *, alpha: float, eps: float,
    weight_decay: float, maximize: bool,
) -> None:  # fmt: skip
    """RMSprop without momentum."""
    rate = lr.neg()
    for param, grad, square_avg in zip(params, grads, square_avgs, strict=True):
        gradient = _gradient(param, grad, weight_decay, maximize)
        square_avg.mul_(alpha).addcmul_(gradient, gradient, value=1 - alpha)
        param.addcdiv_(gradient * rate, square_avg.sqrt().add_(eps))


def rmsprop_momentum_all_(
    params: Tensors, grads: Tensors, square_avgs: Tensors, momentum_buffers: Tensors, lr: Tensor, *,
    alpha: float, eps: float, weight_decay: float, momentum: float, maximize: bool,
) -> None:  # fmt: skip
    """RMSprop with momentum."""
    rate = lr.neg()
    for param, grad, square_avg, buffer in zip(
        params, grads, square_avgs, momentum_buffers, strict=True
    ):
        gradient = _gradient(param, grad, weight_decay, maximize)
        square_avg.mul_(alpha).addcmul_(gradient, gradient, value=1 - alpha)
        buffer.mul_(momentum).addcdiv_(gradient, square_avg.sqrt().add_(eps))
        param.addcmul_(buffer, rate)


def adadelta_all_(
    params: Tensors, grads: Tensors, square_avgs: Tensors, acc_deltas: Tensors, lr: Tensor, *,
    rho: float, eps: float, weight_decay: float, maximize: bool,
) -> None:  # fmt: skip
    """Adadelta."""
    rate = lr.neg()
    for param, grad, square_avg, acc_delta in zip(
        params, grads, square_avgs, acc_deltas, strict=True
    ):
        gradient = _gradient(param, grad, weight_decay, maximize)
        square_avg.mul_(rho).addcmul_(gradient, gradient, value=1 - rho)
        delta = acc_delta.add(eps).sqrt_().div_(square_avg.add(eps).sqrt_()).mul_(gradient)
        acc_delta.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        param.addcmul_(delta, rate)


def adamax_all_(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_infs: Tensors, step: Tensor,
    lr: Tensor, *, beta1: float, beta2: float, eps: float, weight_decay: float, maximize: bool,
) -> None:  # fmt: skip
    """Adamax."""
    correction = (beta1**step - 1) / lr
    for param, grad, exp_avg, exp_inf in zip(params, grads, exp_avgs, exp_infs, strict=True):
        gradient = _gradient(param, grad, weight_decay, maximize)
        exp_avg.lerp_(gradient, 1 - beta1)
        torch.maximum(exp_inf.mul_(beta2), gradient.abs().add_(eps), out=exp_inf)
        param.addcdiv_(exp_avg, exp_inf * correction)


def radam_all_(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors, step: Tensor,
    lr: Tensor, *, beta1: float, beta2: float, eps: float, weight_decay: float, decoupled: bool,
    maximize: bool,
) -> None:  # fmt: skip
    """RAdam."""
    correction = 1 - beta2**step
    longest = 2 / (1 - beta2) - 1
    length = longest - 2 * step * beta2**step / correction
    ratio = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    rate, root = (lr / (1 - beta1**step)).neg(), (ratio * correction).sqrt()
    for param, grad, exp_avg, exp_avg_sq in zip(params, grads, exp_avgs, exp_avg_sqs, strict=True):
        gradient = _gradient(param, grad, 0.0 if decoupled else weight_decay, maximize)
        if weight_decay and decoupled:
            param.mul_(1 - lr * weight_decay)
        exp_avg.lerp_(gradient, 1 - beta1)
        exp_avg_sq.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        adapted = torch.where(length > 5, root / exp_avg_sq.sqrt().add_(eps), 1)
        param.addcmul_(exp_avg * rate, adapted)


def _gradient(param: Tensor, grad: Tensor, weight_decay: float, maximize: bool) -> Tensor:
    gradient = grad.neg() if maximize else grad
    return gradient.add(param, alpha=weight_decay) if weight_decay else gradient


_REAL = (Tensor, torch.nn.Parameter)
_NARROW = frozenset({torch.float32, torch.float16, torch.bfloat16})


def _have_kernel(*lists: Sequence[Tensor]) -> bool:
    """Whether PyTorch's fused kernels take these tensors, which have to be real ones."""
    return all(
        each[0].is_cuda
        and each[0].dtype in _NARROW
        and all(type(t) in _REAL and t.dtype == each[0].dtype for t in each)
        for each in zip(*lists, strict=True)
    )


def _by_dtype(*lists: Sequence[Tensor]) -> Iterator[tuple[Tensors, ...]]:
    """The same lists for each dtype."""
    rows: dict[torch.dtype, list[tuple[Tensor, ...]]] = {}
    for row in zip(*lists, strict=True):
        rows.setdefault(row[0].dtype, []).append(row)
    for each in rows.values():
        yield tuple(map(list, zip(*each, strict=True)))
