"""An optimizer's update of a parameter as one operator, and of many parameters as one kernel.

    adagrad(param, ...) -> (param', ...)       makes new tensors
    adagrad_(param, ...)                       writes over the old ones
    adagrad_all_(params, ...)                  those of many parameters at once

PyTorch's optimizers write an update as five operators and more, each of which reads and writes
everything; that is what capture sees and what plans split. `update_of` says which operator one
update of an optimizer is, so that it becomes one again. `_RULES` has a line for each: all three
operators, their schemas, the state and the options that they take follow from the last one's
signature, which is written in `rules`.

On a GPU, Adam and SGD are PyTorch's fused kernels, which compute in float32 and round once.
Otherwise, in float64, and where a compiler looks inside, the operators are those of the optimizer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, optim
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from graphwright.aten.optimizers.rules import (
    adadelta_all_,
    adagrad_all_,
    adam_all_,
    adamax_all_,
    radam_all_,
    rmsprop_all_,
    rmsprop_momentum_all_,
    sgd_all_,
)
from graphwright.ir import Attr


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One update of an optimizer: the operator, the keys of the state that it changes, and its
    attributes; `counts` if it reads the number of the step."""

    op: str
    state: tuple[str, ...]
    counts: bool
    attrs: Mapping[str, Attr]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """The function that updates as these optimizers do, if `set_` options are set and `unset` are
    not.

    Its lists are parameters, gradients, and state under the optimizer's keys; its keywords are the
    optimizer's options.
    """

    kinds: tuple[type[optim.Optimizer], ...]
    update: Callable[..., None]
    set_: tuple[str, ...] = ()
    unset: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.update.__name__.removesuffix("_all_")

    def named(self, *annotations: str) -> dict[str, str]:
        """The arguments of these types, with them."""
        arguments = inspect.signature(self.update).parameters.values()
        return {a.name: a.annotation for a in arguments if a.annotation in annotations}

    @property
    def written(self) -> tuple[str, ...]:
        """What changes: the parameter and its state."""
        param, _, *state = (name.removesuffix("s") for name in self.named("Tensors"))
        return param, *state


_RULES = (
    _Rule(kinds=(optim.Adam, optim.AdamW), update=adam_all_, unset=("amsgrad",)),
    _Rule(kinds=(optim.SGD,), update=sgd_all_, set_=("momentum",)),
    _Rule(kinds=(optim.Adagrad,), update=adagrad_all_),
    _Rule(kinds=(optim.RMSprop,), update=rmsprop_all_, unset=("centered", "momentum")),
    _Rule(
        kinds=(optim.RMSprop,),
        update=rmsprop_momentum_all_,
        set_=("momentum",),
        unset=("centered",),
    ),
    _Rule(kinds=(optim.Adadelta,), update=adadelta_all_),
    _Rule(kinds=(optim.Adamax,), update=adamax_all_),
    _Rule(kinds=(optim.RAdam,), update=radam_all_),
)


def update_of(optimizer: optim.Optimizer, group: Mapping[str, Any]) -> Update | None:
    """What the updates of a parameter group are; None where they have no operator of their own.

    What hooks do to parameters before or after a step is no part of any.
    """
    if _has_hooks(optimizer):
        return None
    for rule in _RULES:
        if (
            type(optimizer) in rule.kinds
            and all(group[name] for name in rule.set_)
            and not any(group[name] for name in rule.unset)
        ):
            types = rule.named("float", "bool")
            options = {name: _option(name, optimizer, group) for name in types}
            if not all(isinstance(option, int | float) for option in options.values()):
                return None
            return Update(
                op=f"graphwright.{rule.name}",
                state=rule.written[1:],
                counts="step" in rule.named("Tensor"),
                attrs={
                    name: bool(option) if types[name] == "bool" else float(option)
                    for name, option in options.items()
                },
            )
    return None


def _has_hooks(optimizer: optim.Optimizer) -> bool:
    own = optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks
    return any((*own, _global_optimizer_pre_hooks, _global_optimizer_post_hooks))


def _option(name: str, optimizer: optim.Optimizer, group: Mapping[str, Any]) -> Any:
    """An option by the name that rules give it."""
    match name:
        case "beta1" | "beta2":
            return group["betas"][name == "beta2"]
        case "decoupled":
            return type(optimizer) is optim.AdamW or group.get("decoupled_weight_decay", False)
        case _:
            return group[name]


_LIBRARY = torch.library.Library("graphwright", "FRAGMENT")  # type: ignore[no-untyped-call]


def _register(rule: _Rule) -> None:
    """Make the operators of a rule: with results of its own, in place, and for many parameters."""
    lists = [name.removesuffix("s") for name in rule.named("Tensors")]
    numbers = [f"Tensor {name}" for name in rule.named("Tensor")]
    options = [f"{kind} {name}" for name, kind in rule.named("float", "bool").items()]
    rest = ", ".join([*numbers, "*", *options])
    marks = {name: f"({mark}!)" for name, mark in zip(rule.written, "abcd", strict=False)}

    def over(*tensors: Tensor, **options: Any) -> None:
        listed, given = tensors[: len(lists)], tensors[len(lists) :]
        rule.update(*([tensor] for tensor in listed), *given, **options)

    def one(param: Tensor, grad: Tensor, *others: Tensor, **options: Any) -> tuple[Tensor, ...]:
        count = len(rule.written) - 1
        made = param.clone(), *(tensor.clone() for tensor in others[:count])
        over(made[0], grad, *made[1:], *others[count:], **options)
        return made

    results = ", ".join("Tensor" for _ in rule.written)
    plain = ", ".join(f"Tensor {name}" for name in lists)
    written = ", ".join(f"Tensor{marks.get(name, '')} {name}" for name in lists)
    many = ", ".join(f"Tensor{marks.get(name, '')}[] {name}s" for name in lists)
    for name, kernel, schema in (
        (rule.name, one, f"({plain}, {rest}) -> ({results})"),
        (f"{rule.name}_", over, f"({written}, {rest}) -> ()"),
        (f"{rule.name}_all_", rule.update, f"({many}, {rest}) -> ()"),
    ):
        _LIBRARY.define(f"{name}{schema}")  # type: ignore[no-untyped-call]
        _LIBRARY.impl(name, kernel, "CompositeImplicitAutograd")  # type: ignore[no-untyped-call]


for _rule in _RULES:
    _register(_rule)
