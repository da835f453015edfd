"""Is it the same training? Train under a plan and on one device, and compare every tensor.

    all ranks      make -> compile -> steps -> values, whole    \\
                                                                  largest differences, on rank 0
    rank 0 alone   make -> eager PyTorch -> steps -> values     /

Compared in float64, where a difference is a mistake and not rounding: in float32 a gradient that is
zero but for rounding (the bias of attention's keys) moves a parameter under Adam by as much as any
other. PyTorch draws other random numbers than a plan does, so a model with dropout is compared with
a plan for one device.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isnan

import torch
from torch import nn

from graphwright.aten import bind, call, make_optimizer, map_tensors, own_loss, split_batch
from graphwright.capture import Parts, Trainable
from graphwright.describe import is_random
from graphwright.ir import Graph
from graphwright.lower import lower
from graphwright.machine import cluster
from graphwright.plans import Plan, make_plan
from graphwright.run.processes import World, world
from graphwright.run.step import RankProgram, Step, kept_inputs
from graphwright.run.training import (
    JOIN_SECONDS,
    StepRecord,
    Training,
    compile_training,
    make_seeded,
    timed_step,
)

TOLERANCE = {"float64": 1e-7}
"""Difference, relative to the largest element, that is rounding; `LOOSE` for other dtypes."""
LOOSE = 1e-3
FLOOR = 1e-6
"""A tensor whose largest element is smaller than this is compared with this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How far apart all tensors are, the farthest first, and what was compared with what."""

    steps: tuple[StepRecord, ...]
    expected_losses: tuple[float, ...]
    dtype: str
    against: str
    tolerance: float
    differences: dict[str, float]

    @property
    def agrees(self) -> bool:
        """Whether all differences are rounding."""
        return all(difference <= self.tolerance for difference in self.differences.values())

    @property
    def worst(self) -> tuple[str, float]:
        """The tensor that is farthest apart."""
        return next(iter(self.differences.items()))


def compare(training: Training, in_double: bool) -> Comparison | None:
    """Train both ways; the comparison on rank 0, None on the others."""
    here = world(timeout=JOIN_SECONDS)
    workload = make_seeded(training)
    workload = doubled(workload) if in_double else workload
    step = compile_training(training, workload)
    steps = [timed_step(step, workload.batch) for _ in range(training.num_steps)]
    trained = step.values()
    if here.rank:
        return None
    again = make_seeded(training)
    again = doubled(again) if in_double else again
    needs_plan = any(is_random(training.graph, n) for n in training.graph.nodes) or _is_meta(
        again.model
    )
    train = _train_planned if needs_plan else _train_eagerly
    expected, expected_losses = train(training, again)
    differences = {name: _difference(trained[name], value) for name, value in expected.items()}
    differences["loss"] = max(
        _difference(*torch.tensor([done.loss, loss], dtype=torch.float64))
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
    ratio = max(
        (
            other.tensors[name].type.nbytes / max(1, graph.tensors[name].type.nbytes)
            for name in graph.inputs
        ),
        default=1.0,
    )
    memory = None if plan.memory is None else round(plan.memory * max(1.0, ratio))
    return replace(plan, graph_hash=other.hash, memory=memory)


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
        loss = own_loss(output) if loss_fn is None else loss_fn(output, targets)
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
    graph = training.graph
    plan = make_plan(graph, cluster("local:1"), {})
    program = lower(graph, plan).program(0)
    start = RankProgram(world=alone, graph=graph, plan=plan, program=program)
    step = Step(start, model, workload.loss_fn, optimizer, training.seed)
    losses = [float(step(workload.batch)) for _ in range(training.num_steps)]
    return step.values(), losses


def _is_meta(model: nn.Module) -> bool:
    return any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))


def _difference(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference, relative to the largest expected element; infinite for nan."""
    if not expected.numel():
        return 0.0
    a, b = actual.detach().cpu().double(), expected.detach().cpu().double()
    difference = float((a - b).abs().max() / b.abs().max().clamp(min=FLOOR))
    return float("inf") if isnan(difference) else difference
