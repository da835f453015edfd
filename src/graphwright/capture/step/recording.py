"""One step of a model on its way to a graph: what is recorded, and what is known of it so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from graphwright.aten import BatchDim
from graphwright.capture.record import Recorder, Results, Value
from graphwright.ir import Role

LossFunction = Callable[[Any, Any], Tensor]


@dataclass(slots=True)
class Recording:
    """A step to record; `loss_fn` and `optimizer` are None where there is no such part.

    By the names of the graph's inputs: `originals` are the tensors of the model, `tensors` the fake
    ones in their place as they are now, `values` what these were at the beginning.
    """

    model: nn.Module
    inputs: Any
    targets: Any = ()
    training: bool = True
    loss_fn: LossFunction | None = None
    optimizer: torch.optim.Optimizer | None = None
    clip_norm: float | None = None
    accumulate: int = 1
    batch_dim: BatchDim = 0
    autocast: torch.dtype | None = None
    mixed_precision: torch.dtype | None = None
    recorder: Recorder = field(init=False)
    values: dict[str, Value] = field(default_factory=dict[str, Value])
    tensors: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    originals: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    results: Results = field(default_factory=Results)
    given_twice: list[dict[str, Tensor]] = field(default_factory=list[dict[str, Tensor]])
    constant_rates: bool = False

    def modules(self) -> list[nn.Module]:
        """The model, and the loss if it is a module."""
        return [self.model, *([self.loss_fn] if isinstance(self.loss_fn, nn.Module) else [])]

    def trained(self) -> dict[str, Tensor]:
        """The parameters that have a gradient now."""
        return {
            name: tensor
            for name, tensor in self.tensors.items()
            if tensor.grad is not None and self.values[name].role is Role.PARAMETER
        }

    def free_name(self, name: str) -> str:
        """Return a result's name; a parameter or buffer that is called so keeps its own."""
        return name if name not in self.values else f"{name}.result"
