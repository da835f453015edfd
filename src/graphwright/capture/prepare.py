"""The one way from a model to a graph: capture its step, and apply passes.

    workload --capture--> graph --passes--> the graph that is planned, simulated and run

A plan names the passes that made its graph, so `prepare(workload, plan.passes)` makes that graph
again, in any process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import nn

from graphwright.capture.api import capture
from graphwright.ir import UNMERGED, Graph, PassRecord
from graphwright.rewrite import Pass


class Trainable(Protocol):
    """One training step in parts, as `zoo.Workload` has them."""

    @property
    def model(self) -> nn.Module:
        """The model; on "meta", it is initialised part by part."""

    @property
    def loss_fn(self) -> Any:
        """From the model's output and the targets to the loss; None where the model returns it."""

    @property
    def batch(self) -> Any:
        """What every step trains on."""

    @property
    def optimizer(self) -> Any:
        """The optimizer's class."""

    @property
    def optimizer_options(self) -> Mapping[str, Any]:
        """What the class is called with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A training step in parts, and nothing else."""

    model: nn.Module
    loss_fn: Any
    batch: Any
    optimizer: Any
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)


def prepare(
    workload: Trainable, passes: Iterable[Pass | PassRecord] = UNMERGED, **options: Any
) -> Graph:
    """The graph of a training step; `options` are those of `gw.capture`."""
    return capture(
        workload.model,
        workload.loss_fn,
        workload.batch,
        optimizer=workload.optimizer,
        optimizer_options=workload.optimizer_options,
        passes=passes,
        **options,
    )
