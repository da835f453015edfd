"""A step that is captured when it is given its first batch.

step = gw.compile(plan, model, loss_fn, optimizer)      nothing known of the batch
loss = step(batch)                                      captured, compared with the plan, lowered; then as any other step
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import nn

from graphwright.errors import StepNotBegun
from graphwright.ir import Graph
from graphwright.plans import Plan, Program
from graphwright.run.processes import World
from graphwright.run.step import Step


class LaterStep(Step):
    """A step that begins with its first batch, which has to be whole."""

    def __init__(
        self,
        begin: Callable[[Any], tuple[World, Graph, Plan, Program]],
        model: nn.Module,
        loss_fn: Any,
        optimizer: torch.optim.Optimizer | None,
        seed: int,
        torch_compile: bool = False,
    ) -> None:
        self.optimizer = optimizer
        self._begin: Callable[[Any], None] | None = lambda batch: Step.__init__(
            self, *begin(batch), model, loss_fn, optimizer, seed, torch_compile
        )

    def __call__(self, batch: Any) -> torch.Tensor:
        """Train on a batch and return the loss; the first one has to be whole."""
        if self._begin is not None:
            self._begin(batch)
            self._begin = None
        return super().__call__(batch)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") or self.__dict__.get("_begin") is None:
            raise AttributeError(f"a step has no {name}")
        raise StepNotBegun(
            f"the step has no {name} before its first batch; give gw.compile an example of the whole batch (batch=...) or the graph that was "
            "planned (graph=...)"
        )

    def __repr__(self) -> str:
        return "Step(not begun)" if self._begin is not None else super().__repr__()
