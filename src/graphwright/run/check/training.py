"""Is it the same training? Some steps under a plan on all ranks, the same steps on one device, and how far apart every tensor is.

    all ranks      make -> compile -> steps -> values, whole      \\
                                                                    largest difference of each tensor, on rank 0
    rank 0 alone   make -> eager PyTorch -> steps -> values       /

Compared in float64, where a difference is a mistake and not rounding: in float32 a gradient that is zero but for rounding (the bias of
attention's keys) moves a parameter under Adam by as much as any other. PyTorch draws other random numbers than a plan does, so that a
model with dropout is compared with a plan for one device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from graphwright.aten import bind, call, make_optimizer, map_tensors, split_batch
from graphwright.ir import Graph
from graphwright.lower import lower
from graphwright.machine import cluster
from graphwright.plans import Plan
from graphwright.run.processes import World, world
from graphwright.run.random import is_random
from graphwright.run.step import Step, kept_inputs
from graphwright.run.training import (
    JOIN_SECONDS,
    Trainable,
    Trained,
    Training,
    compile_training,
    make_seeded,
    timed_step,
)

TOLERANCE = {"float64": 1e-7}
"""Difference over the largest element that counts as rounding; `LOOSE` for what is not computed in float64."""
LOOSE = 1e-3
FLOOR = 1e-6
"""A tensor whose largest element is smaller than this is compared with this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A training step in parts, changed from those of a workload."""

    model: nn.Module
    loss_fn: Any
    batch: Any
    optimizer: Any
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How far apart all tensors are, the farthest first, and what was compared with what."""

    steps: tuple[Trained, ...]
    expected_losses: tuple[float, ...]
    dtype: str
    against: str
    tolerance: float
    differences: dict[str, float]

    @property
    def agrees(self) -> bool:
        """Whether all differences are rounding."""
        return all(found <= self.tolerance for found in self.differences.values())

    @property
    def worst(self) -> tuple[str, float]:
        """The tensor that is farthest apart."""
        return next(iter(self.differences.items()))


def compare(training: Training, in_double: bool) -> Comparison | None:
    """Train both ways; what came of it on rank 0, None on the others."""
    here = world(timeout=JOIN_SECONDS)
    workload = make_seeded(training)
    workload = doubled(workload) if in_double else workload
    step = compile_training(training, workload)
    steps = [timed_step(step, workload.batch) for _ in range(training.num_steps)]
    found = step.values()
    if here.rank:
        return None
    again = make_seeded(training)
    again = doubled(again) if in_double else again
    needs_plan = any(is_random(n.op) for n in training.graph.nodes) or _is_meta(again.model)
    train = _train_planned if needs_plan else _train_eagerly
    expected, expected_losses = train(training, again)
    differences = {name: _apart(found[name], value) for name, value in expected.items()}
    differences["loss"] = max(
        _apart(*torch.tensor([done.loss, loss], dtype=torch.float64))
        for done, loss in zip(steps, expected_losses, strict=True)
    )
    dtype = "float64" if in_double else "its own dtype"
    return Comparison(
        steps=tuple(steps),
        expected_losses=tuple(expected_losses),
        dtype=dtype,
        against="a plan for one device" if needs_plan else "PyTorch on one device",
        tolerance=TOLERANCE.get(dtype, LOOSE),
        differences=dict(sorted(differences.items(), key=lambda item: -item[1])),
    )


def doubled(workload: Trainable) -> Parts:
    """The same in float64."""

    def double(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.double() if tensor.is_floating_point() else tensor

    loss_fn = workload.loss_fn
    return Parts(
        model=workload.model.double(),
        loss_fn=loss_fn.double() if isinstance(loss_fn, nn.Module) else loss_fn,
        batch=map_tensors(double, workload.batch),
        optimizer=workload.optimizer,
        optimizer_options=workload.optimizer_options,
    )


def same_program(plan: Plan, graph: Graph, other: Graph) -> Plan | None:
    """The plan for another graph that differs in dtypes alone; None where it differs in more."""
    names = [(node.name, node.op) for node in graph.nodes]
    if names != [(node.name, node.op) for node in other.nodes] or graph.inputs != other.inputs:
        return None
    return replace(plan, graph_hash=other.hash)


def _train_eagerly(
    training: Training, workload: Trainable
) -> tuple[dict[str, torch.Tensor], list[float]]:
    model, loss_fn = workload.model, workload.loss_fn
    optimizer = make_optimizer(workload.optimizer, workload.optimizer_options, model)
    inputs, targets = split_batch(workload.batch, has_targets=loss_fn is not None)
    losses = []
    for _ in range(training.num_steps):
        optimizer.zero_grad()
        output = call(model, inputs)
        loss = output if loss_fn is None else loss_fn(output, targets)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    values = bind(training.graph, model, inputs=inputs, loss_fn=loss_fn, optimizer=optimizer)
    return {n: v for n, v in values.items() if n in kept_inputs(training.graph)}, losses


def _train_planned(
    training: Training, workload: Trainable
) -> tuple[dict[str, torch.Tensor], list[float]]:
    model = workload.model
    optimizer = make_optimizer(workload.optimizer, workload.optimizer_options, model)
    alone = World(rank=0, size=1, local_rank=0, device=torch.device("cpu"), backend=None)
    plan = Plan(strategies={}, cluster=cluster("local:1"), graph_hash=training.graph.hash)
    program = lower(training.graph, plan).program(0)
    step = Step(
        alone, training.graph, plan, program, model, workload.loss_fn, optimizer, training.seed
    )
    losses = [float(step(workload.batch)) for _ in range(training.num_steps)]
    return step.values(), losses


def _is_meta(model: nn.Module) -> bool:
    return any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))


def _apart(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference, over the largest element that is expected; infinite where a number is none."""
    if not expected.numel():
        return 0.0
    a, b = found.detach().cpu().double(), expected.detach().cpu().double()
    apart = float((a - b).abs().max() / b.abs().max().clamp(min=FLOOR))
    return apart if apart == apart else float("inf")
