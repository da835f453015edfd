"""What a step was made from: it has values of its own, so nothing may be loaded behind its back.

    step = gw.compile(plan, model, loss_fn, optimizer, batch=batch)
    model.load_state_dict(saved)        would change nothing; the next step raises ModelChanged

Training the same model otherwise, to compare, changes nothing of the step either, and is allowed.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from graphwright.errors import ModelChanged


@dataclass(slots=True)
class _Loads:
    """Which of the two loaded values; a hook that travels with its model, into files as well."""

    loaded: set[str] = field(default_factory=set)

    def of_model(self, module: nn.Module, keys: Any) -> None:
        self.loaded.add("model")

    def of_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        self.loaded.add("optimizer")


class Origin:
    """The model and the optimizer of a step, which have to stay what they were."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer | None) -> None:
        self._loads = _Loads()
        self._parameters = tuple(model.named_parameters())
        self._trained = [parameter.requires_grad for _, parameter in self._parameters]
        hooks = [
            module.register_load_state_dict_post_hook(self._loads.of_model)  # type: ignore[no-untyped-call]
            for module in model.modules()
        ]
        if optimizer is not None:
            hooks.append(optimizer.register_load_state_dict_post_hook(self._loads.of_optimizer))
        for hook in hooks:
            weakref.finalize(self, hook.remove)

    def check(self) -> None:
        """Refuse to go on where they were given other values, or are trained otherwise."""
        if self._loads.loaded:
            what = " and the ".join(sorted(self._loads.loaded))
            raise ModelChanged(
                f"the {what} loaded values after the step was made, which has values of its own: "
                "load them before gw.compile, or load a checkpoint of a step with step.load"
            )
        for (name, parameter), before in zip(self._parameters, self._trained, strict=True):
            if parameter.requires_grad is not before:
                raise ModelChanged(
                    f"{name}.requires_grad was {before} when the step was made, and is "
                    f"{not before} now: what is trained is fixed; capture, plan and compile anew"
                )
