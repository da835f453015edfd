"""An optimizer's update of a parameter as one operator, and of many parameters as one kernel.

    graphwright.adam     Adam and AdamW: the parameter and both averages of its gradient
    graphwright.sgd      SGD with momentum: the parameter and its buffer

    adam(param, ...) -> (param', ...)          makes new tensors
    adam_(param, ...)                          writes over the old ones
    adam_all_(params, ...)                     those of many parameters at once

PyTorch's optimizers write an update as seven operators and more, each of which reads and writes
everything; that is what capture sees and what plans split. `update_of` says which operator one
update of an optimizer is, so that it becomes one again. On a GPU these are PyTorch's fused kernels,
which compute in float32 and round once. Elsewhere, in float64, and where a compiler looks inside,
the same operators run as in the optimizer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from graphwright.ir import Attr

Tensors = list[Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One update of an optimizer: the operator, the keys of the state that it changes, and its
    attributes; `counts` if it reads the number of the step."""

    op: str
    state: tuple[str, ...]
    counts: bool
    attrs: Mapping[str, Attr]


def update_of(optimizer: torch.optim.Optimizer, group: Mapping[str, Any]) -> Update | None:
    """What the updates of a parameter group are; None where they have no operator of their own.

    What hooks do to parameters before or after a step is no part of any.
    """
    kind = type(optimizer)
    if _has_hooks(optimizer):
        return None
    if kind in (torch.optim.Adam, torch.optim.AdamW):
        betas, options = group["betas"], (group["eps"], group["weight_decay"])
        if group["amsgrad"] or not _are_numbers(*betas, *options):
            return None
        is_decoupled = kind is torch.optim.AdamW or group.get("decoupled_weight_decay", False)
        return Update(
            op="graphwright.adam",
            state=("exp_avg", "exp_avg_sq"),
            counts=True,
            attrs={
                "beta1": float(betas[0]), "beta2": float(betas[1]), "eps": float(group["eps"]),
                "weight_decay": float(group["weight_decay"]), "decoupled": bool(is_decoupled),
                "maximize": bool(group["maximize"]),
            },
        )  # fmt: skip
    if kind is torch.optim.SGD and group["momentum"]:
        if not _are_numbers(group["momentum"], group["dampening"], group["weight_decay"]):
            return None
        return Update(
            op="graphwright.sgd",
            state=("momentum_buffer",),
            counts=False,
            attrs={
                "momentum": float(group["momentum"]), "dampening": float(group["dampening"]),
                "weight_decay": float(group["weight_decay"]), "nesterov": bool(group["nesterov"]),
                "maximize": bool(group["maximize"]),
            },
        )  # fmt: skip
    return None


def _has_hooks(optimizer: torch.optim.Optimizer) -> bool:
    own = optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks
    return any((*own, _global_optimizer_pre_hooks, _global_optimizer_post_hooks))


def _are_numbers(*options: object) -> bool:
    return all(isinstance(option, int | float) for option in options)


# -- Adam -----------------------------------------------------------------------------------------


def adam_all_(
    params: Tensors, grads: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors, step: Tensor,
    lr: Tensor, *, beta1: float, beta2: float, eps: float, weight_decay: float, decoupled: bool,
    maximize: bool,
) -> None:  # fmt: skip
    """Update many parameters; `step` is the number of this step, from 1 on."""
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
        gradient = grad.neg() if maximize else grad
        if weight_decay and decoupled:
            param.mul_(1 - lr * weight_decay)
        elif weight_decay:
            gradient = gradient.add(param, alpha=weight_decay)
        exp_avg.lerp_(gradient, 1 - beta1)
        exp_avg_sq.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        param.addcdiv_(exp_avg, (exp_avg_sq.sqrt() / root).add_(eps / step_size))


def adam_(
    param: Tensor, grad: Tensor, exp_avg: Tensor, exp_avg_sq: Tensor, step: Tensor, lr: Tensor,
    **options: Any,
) -> None:  # fmt: skip
    """Update a parameter."""
    adam_all_([param], [grad], [exp_avg], [exp_avg_sq], step, lr, **options)


def adam(
    param: Tensor, grad: Tensor, exp_avg: Tensor, exp_avg_sq: Tensor, step: Tensor, lr: Tensor,
    **options: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the new parameter and the new averages."""
    made = param.clone(), exp_avg.clone(), exp_avg_sq.clone()
    adam_(made[0], grad, made[1], made[2], step, lr, **options)
    return made


# -- SGD ------------------------------------------------------------------------------------------


def sgd_all_(
    params: Tensors, grads: Tensors, buffers: Tensors, lr: Tensor, *, momentum: float,
    dampening: float, weight_decay: float, nesterov: bool, maximize: bool,
) -> None:  # fmt: skip
    """Update many parameters, which have been updated before."""
    if _have_kernel(params, grads, buffers):
        rate = lr.to(torch.float32)
        for lists in _by_dtype(params, grads, buffers):
            torch.ops.aten._fused_sgd_.tensor_lr(
                *lists, weight_decay=weight_decay, momentum=momentum, lr=rate, dampening=dampening,
                nesterov=nesterov, maximize=maximize, is_first_step=False,
            )  # fmt: skip
        return
    for param, grad, buffer in zip(params, grads, buffers, strict=True):
        gradient = grad.neg() if maximize else grad
        if weight_decay:
            gradient = gradient.add(param, alpha=weight_decay)
        buffer.mul_(momentum).add_(gradient, alpha=1 - dampening)
        step = gradient.add(buffer, alpha=momentum) if nesterov else buffer
        param.addcmul_(step, lr.neg())


def sgd_(param: Tensor, grad: Tensor, buffer: Tensor, lr: Tensor, **options: Any) -> None:
    """Update a parameter."""
    sgd_all_([param], [grad], [buffer], lr, **options)


def sgd(
    param: Tensor, grad: Tensor, buffer: Tensor, lr: Tensor, **options: Any
) -> tuple[Tensor, ...]:
    """Return the new parameter and its buffer."""
    made = param.clone(), buffer.clone()
    sgd_(made[0], grad, made[1], lr, **options)
    return made


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


_LIBRARY = torch.library.Library("graphwright", "FRAGMENT")  # type: ignore[no-untyped-call]
_ADAM = "float beta1, float beta2, float eps, float weight_decay, bool decoupled, bool maximize"
_SGD = "float momentum, float dampening, float weight_decay, bool nesterov, bool maximize"
for _one, _over, _all, _read, _state, _numbers, _options in (
    (adam, adam_, adam_all_, "grad", ("exp_avg", "exp_avg_sq"), ("step", "lr"), _ADAM),
    (sgd, sgd_, sgd_all_, "grad", ("buffer",), ("lr",), _SGD),
):
    _rest = ", ".join(f"Tensor {name}" for name in _numbers) + f", *, {_options}"
    _plain = ", ".join(f"Tensor {name}" for name in ("param", _read, *_state))
    _results = ", ".join(["Tensor"] * (1 + len(_state)))
    _marks = {name: f"({mark}!)" for name, mark in zip(("param", *_state), "abc", strict=False)}
    _written = ", ".join(f"Tensor{_marks.get(n, '')} {n}" for n in ("param", _read, *_state))
    _lists = ", ".join(f"Tensor{_marks.get(n, '')}[] {n}s" for n in ("param", _read, *_state))
    for _kernel, _schema in (
        (_one, f"({_plain}, {_rest}) -> ({_results})"),
        (_over, f"({_written}, {_rest}) -> ()"),
        (_all, f"({_lists}, {_rest}) -> ()"),
    ):
        _LIBRARY.define(f"{_kernel.__name__}{_schema}")  # type: ignore[no-untyped-call]
        _LIBRARY.impl(_kernel.__name__, _kernel, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]
