"""An `Entry` describes a model of the zoo; a `Workload` is one training step of it.

A workload is one training step in parts: `loss_fn(model(inputs), targets)` for `batch = (inputs,
targets)`, then a step of `optimizer(model.parameters(), **optimizer_options)`. Inputs are a tensor,
a tuple of tensors (positional arguments) or a dict of tensors (keyword arguments).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphwright.capture import prepare
from graphwright.ir import Graph

Inputs = Tensor | tuple[Tensor, ...] | dict[str, Tensor]
Batch = tuple[Inputs, Tensor]
Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A model of the zoo: where its configuration comes from and its usual batch size."""

    name: str
    family: str
    source: str
    batch_size: int
    description: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Workload:
    """One training step: the model, its loss, a batch that fits, and the optimizer's class."""

    name: str
    model: nn.Module
    loss_fn: Loss
    batch: Batch
    optimizer: type[torch.optim.Optimizer] | None
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def num_parameters(self) -> int:
        """The number of weights of the model; a tied weight counts once."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    def capture(self) -> Graph:
        """The graph of this training step."""
        return prepare(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomTensors:
    """Random tensors from a seeded generator; on the meta device, tensors without storage."""

    device: torch.device
    generator: torch.Generator

    def floats(self, *shape: int) -> Tensor:
        """Standard normal values."""
        if self.device.type == "meta":
            return torch.empty(shape, device=self.device)
        return torch.randn(shape, generator=self.generator, device="cpu").to(self.device)

    def integers(self, high: int, *shape: int) -> Tensor:
        """Indices in 0 .. high - 1."""
        if self.device.type == "meta":
            return torch.empty(shape, dtype=torch.int64, device=self.device)
        values = torch.randint(high, shape, generator=self.generator, device="cpu")
        return values.to(self.device)


def classification(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of `logits[batch, class]`."""
    return F.cross_entropy(logits, labels)


def token_prediction(logits: Tensor, tokens: Tensor) -> Tensor:
    """Cross-entropy over all positions of `logits[batch, position, word]`."""
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def regression(predictions: Tensor, values: Tensor) -> Tensor:
    """Mean squared error."""
    return F.mse_loss(predictions, values)


def click_prediction(logits: Tensor, clicks: Tensor) -> Tensor:
    """Binary cross-entropy of unnormalised scores."""
    return F.binary_cross_entropy_with_logits(logits, clicks)
