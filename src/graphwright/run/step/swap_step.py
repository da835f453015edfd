"""A step in less memory than it needs: parameters, state and activations come and go by a plan.

    step = gw.swap(graph, memory="2GB").compile(model, loss_fn, optimizer)
    loss = step(batch)

Values between steps are those of ordinary training, to the last bit of what the same graph computes
without swapping. Random operators draw from PyTorch's default generator in the order of the graph,
as eager training does: `torch.manual_seed` before a step gives the same numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from graphwright.aten import (
    as_pairs,
    fixed_options,
    learning_rates,
    named_tensors,
    rate_label,
    refuse_arrays,
    refuse_changes,
    tensor_type,
)
from graphwright.errors import BatchMismatch, StepLost
from graphwright.ir import Graph, Role
from graphwright.memory import GraphProblem
from graphwright.plans import MemoryPlan, Mesh, replicated
from graphwright.run.checkpoint import Shard
from graphwright.run.program import SwapExecutor
from graphwright.run.step.batch import check_arguments, name_batch
from graphwright.run.step.held import kept_inputs
from graphwright.run.step.initial import initial_parts
from graphwright.run.step.origin import Origin


class _Swapped:
    """What training and inference have in common: values by name, and one way to run them."""

    def __init__(
        self,
        given: GraphProblem,
        plan: MemoryPlan,
        model: nn.Module,
        loss_fn: Any,
        optimizer: torch.optim.Optimizer | None,
        device: torch.device,
        seed: int,
        check_first: Callable[[Any], None] | None,
    ) -> None:
        self._check_first = check_first
        self.graph, self.plan, self._model = given.graph, plan, model
        self.kept = kept_inputs(given.graph)
        whole = {name: tuple((0, n) for n in t.shape) for name, t in self.kept.items()}
        cpu = torch.device("cpu")
        parts = initial_parts(given.graph, model, loss_fn, optimizer, whole, cpu, seed)
        self._executor = SwapExecutor(given, plan, device)
        self._executor.give(parts)
        self._is_lost = False

    def values(self) -> dict[str, Tensor]:
        """Every parameter, buffer and optimizer state; copies."""
        self._check()
        return {name: self._executor.take(name).clone() for name in self.kept}

    def gather(self) -> nn.Module:
        """The model with the values that it has now."""
        self._check()
        with torch.no_grad():
            for name, tensor in (*self._model.named_parameters(), *self._model.named_buffers()):
                if name in self.kept:
                    as_pairs(tensor).copy_(self._executor.take(name))
        return self._model

    def _run(self, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Results by name."""
        self._check()
        self._executor.give(given)
        self._is_lost = True
        self._executor.run()
        self._is_lost = False
        results = dict.fromkeys(
            name for name in self.graph.outputs if name not in self.graph.updates.values()
        )
        return {name: self._executor.result(name) for name in results}

    def _compare_first(self, batch: Any) -> None:
        """Refuse what the graph was not captured from, where only a batch can show it."""
        if self._check_first is not None:
            self._check_first(batch)
            self._check_first = None

    def _check(self) -> None:
        if self._is_lost:
            raise StepLost(
                "an earlier step failed halfway, so the parameters are gone; load a checkpoint, or "
                "compile the plan again"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.plan!r})"


class SwapStep(_Swapped):
    """A training step; call it with a batch. `num_steps` counts the calls."""

    def __init__(
        self,
        given: GraphProblem,
        plan: MemoryPlan,
        model: nn.Module,
        loss_fn: Any,
        optimizer: torch.optim.Optimizer | None,
        device: torch.device,
        seed: int = 0,
        check_first: Callable[[Any], None] | None = None,
    ) -> None:
        super().__init__(given, plan, model, loss_fn, optimizer, device, seed, check_first)
        self.optimizer, self.num_steps, self.seed = optimizer, 0, seed
        self._has_targets = loss_fn is not None
        self._options = [] if optimizer is None else fixed_options(optimizer)
        self._origin = Origin(model, optimizer)

    def __call__(self, batch: Any) -> Tensor:
        """Train on a batch and return the loss."""
        self._origin.check()
        self._compare_first(batch)
        named = name_batch(batch, self._has_targets)
        check_arguments(batch, self._has_targets, self.graph)
        check_batch(named, self.graph)
        rates: dict[str, Tensor] = {}
        if self.optimizer is not None:
            refuse_changes(self.optimizer, self._options)
            known = {rate_label(n): rate for n, rate in learning_rates(self.optimizer).items()}
            rates = {name: rate for name, rate in known.items() if name in self.graph.inputs}
            # what schedulers look at before they warn
            self.optimizer._opt_called = True  # type: ignore[attr-defined]
        results = self._run({**named, **rates})
        self.num_steps += 1
        return results[self.graph.outputs[0]]

    def save(self, directory: str | os.PathLike[str], *, keep: int | None = None) -> Path:
        """Write a checkpoint, complete or not there at all.

        It loads under any memory plan of the graph, and into the steps of `gw.compile`.
        """
        from graphwright.run.checkpoint import save

        self._check()
        held = {name: self._executor.take(name) for name in self.kept}
        extra = {"num_steps": self.num_steps, "seed": self.seed, "graph": self.graph.hash}
        return save(directory, self.num_steps, self._shards(held), extra=extra, keep=keep)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Read a checkpoint, or the newest one in a folder, whatever plan wrote it."""
        from graphwright.run.checkpoint import load_step

        read = {name: self._executor.room_for(name) for name in self.kept}
        self.num_steps, self.seed = load_step(path, self._shards(read))
        self._executor.restart(read)
        self._is_lost = False

    def _shards(self, whole: Mapping[str, Tensor]) -> dict[str, Shard]:
        here = replicated(Mesh((0,), ()))
        return {
            name: Shard(name=name, type=type, sharding=here, local=whole[name])
            for name, type in self.kept.items()
        }


class SwapModel(_Swapped):
    """A model whose inference runs in less memory than it needs; call it with its inputs."""

    def __init__(
        self,
        given: GraphProblem,
        plan: MemoryPlan,
        model: nn.Module,
        device: torch.device,
        seed: int = 0,
        check_first: Callable[[Any], None] | None = None,
    ) -> None:
        super().__init__(given, plan, model, None, None, device, seed, check_first)

    def __call__(self, *inputs: Any) -> Tensor | dict[str, Tensor]:
        """What the model returns for some inputs: a tensor, or several by name."""
        tree = inputs[0] if len(inputs) == 1 else inputs
        refuse_arrays("inputs", tree)
        self._compare_first(tree)
        named = dict(named_tensors("inputs", tree))
        check_batch(named, self.graph)
        results = self._run(named)
        return next(iter(results.values())) if len(results) == 1 else results


def check_batch(named: Mapping[str, Tensor], graph: Graph) -> None:
    """Refuse a batch with other tensors than the graph was captured with."""
    wanted = [name for name in graph.inputs if graph.tensors[name].role is Role.INPUT]
    if more := named.keys() - set(wanted):
        raise BatchMismatch(
            f"unexpected {', '.join(sorted(more))}; the captured batch has {', '.join(wanted)}"
        )
    for name in wanted:
        type = graph.tensors[name].type
        if name not in named:
            raise BatchMismatch(f"the batch has no {name} ({type}); it has {', '.join(named)}")
        if tensor_type(named[name]) != type:
            raise BatchMismatch(
                f"{name} is {tensor_type(named[name])}, the plan is for {type}; give batches of "
                "the captured size, or capture and plan again"
            )
