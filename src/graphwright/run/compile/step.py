"""`gw.compile`: from a plan, and the model that was planned, to the step of this rank.

    plan, model, loss, optimizer --capture--> graph --is it the planned one?--lower--> Step

The graph is captured from an example of the whole batch, given, or captured from the first batch
that the step is called with.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from graphwright.aten import BatchDim, OptimizerLike, eager_module, make_optimizer, surrounding
from graphwright.capture import Parts, prepare, read_options
from graphwright.errors import BatchMismatch, InvalidOption, PlanMismatch
from graphwright.ir import Graph, Role
from graphwright.lower import lower
from graphwright.memory import check_seed
from graphwright.plans import Frontier, Plan, parse_limit
from graphwright.rewrite import graph_of_plan
from graphwright.run.compile.ranks import RankPlanner
from graphwright.run.processes import gather_results, read_variables, world
from graphwright.run.step import RankMemory, RankProgram, Start, Step, check_given
from graphwright.simulate import CostModel


def compile_step(
    plan: Plan | str | os.PathLike[str],
    model: nn.Module,
    loss_fn: Any = None,
    optimizer: OptimizerLike | None = None,
    *,
    batch: Any = None,
    graph: Graph | None = None,
    optimizer_options: Mapping[str, Any] | None = None,
    clip_norm: float | None = None,
    accumulate: int = 1,
    batch_dim: BatchDim = 0,
    autocast: torch.dtype | None = None,
    mixed_precision: torch.dtype | None = None,
    seed: int = 0,
    device: str | None = None,
    torch_compile: bool = False,
    check_graph: bool = True,
    memory: int | str | None = None,
    reserve: int | str = 0,
) -> Step:
    """Make a plan's training step on this rank; every rank calls this with the same plan.

    `batch` is an example of the whole batch, as for `gw.capture` (its values are not read), or
    `graph` the graph that was planned; without both, the first batch that the step is given is the
    example, and has to be whole. Either way model, loss and optimizer are captured and have to make
    the planned graph; `check_graph=False` trusts a given one instead, which saves the seconds that
    a large model takes. `clip_norm`, `accumulate`, `batch_dim`, `autocast` and `mixed_precision`
    are those of `gw.capture`; a given graph has its own. The model's values are what
    training starts from: real ones, or on the meta device those that its modules'
    `reset_parameters` make from `seed`; see also `Step.load`. An optimizer instance keeps its
    learning rates, so that schedulers work on it (`step.optimizer`). `torch_compile` compiles what
    each rank computes between what it sends and receives, which takes a while at the first call.

    With `memory`, a size as "16GB", or where the plan has a size of its own, each rank runs in an
    arena of that much device memory, less `reserve`: what does not fit waits in its host's, and the
    step is the same. An operator that does not fit is named before anything starts.

    >>> step = gw.compile(plan, model, loss_fn, torch.optim.Adam, batch=batch)
    >>> for batch in loader:
    ...     loss = step(batch)
    >>> step.save("checkpoints"); trained = step.gather()
    """
    check_seed(seed)
    plan = plan if isinstance(plan, Plan) else _load(plan)
    model = eager_module(model)
    made = None if optimizer is None else make_optimizer(optimizer, optimizer_options, model)
    _check_size(plan)
    room = _room(plan, memory, reserve, torch_compile)
    options: dict[str, Any] = {
        "clip_norm": clip_norm,
        "accumulate": accumulate,
        "batch_dim": batch_dim,
        "autocast": autocast or surrounding(),
        "mixed_precision": mixed_precision,
    }
    if graph is not None:
        _check_has_options(
            clip_norm=clip_norm,
            accumulate=None if accumulate == 1 else accumulate,
            autocast=autocast,
            mixed_precision=mixed_precision,
        )
        options = {"autocast": None, **read_options(graph)}
        graph = graph_of_plan(graph, plan)
        _check_is_planned(plan, graph)

    def captured(example: Any) -> Graph:
        workload = Parts(
            model=model,
            loss_fn=loss_fn,
            batch=example,
            optimizer=optimizer,
            optimizer_options=optimizer_options or {},
        )
        return prepare(workload, plan.passes, **options)

    def lowered_from(first_batch: Any) -> RankProgram:
        graph = captured(first_batch)
        _check_is_whole(plan, graph)
        return _lowered(plan, graph, device, room)

    start: Start = lowered_from
    check_first = None
    if batch is not None:
        start = _lowered(plan, captured(batch), device, room)
    elif graph is not None:
        if check_graph:
            first = next(model.parameters(), torch.empty(0))
            check_first = check_given(graph, captured, loss_fn is not None, first.device)
        start = _lowered(plan, graph, device, room)
    return Step(start, model, loss_fn, made, seed, torch_compile, check_first)


def _check_is_planned(plan: Plan, graph: Graph) -> None:
    if plan.graph_hash != graph.hash:
        raise PlanMismatch(
            "the plan was made for another graph: another model, loss, batch size, dtype, "
            "optimizer or options of it, clip_norm, accumulate, autocast or mixed_precision; plan "
            "this one with gw.plan"
        )


def _room(
    plan: Plan, memory: int | str | None, reserve: int | str, torch_compile: bool
) -> int | None:
    """Bytes of each rank's arena, None for as much as its step takes."""
    limit = plan.memory if memory is None else parse_limit(memory)
    if limit is None:
        if parse_limit(reserve):
            raise InvalidOption("reserve leaves a part of memory=... free; give memory as well")
        return None
    if torch_compile:
        raise InvalidOption(
            "torch_compile joins operators between which memory is planned; leave it out, or run "
            "without a limit of memory"
        )
    return limit - parse_limit(reserve)


def _lowered(plan: Plan, graph: Graph, device: str | None, room: int | None) -> RankProgram:
    """The program of this rank, with a memory plan where there is only so much room."""
    _check_is_planned(plan, graph)
    programs = lower(graph, plan, optimizer=room is None)
    here = world(device=device)
    program = programs.program(here.rank)
    if room is None:
        return RankProgram(world=here, graph=graph, plan=plan, program=program)
    planner = RankPlanner(programs, CostModel(), room)
    made: list[RankMemory] = []
    gather_results(lambda: made.append(planner.plan(here.rank, program)))
    return RankProgram(world=here, graph=graph, plan=plan, program=program, memory=made[0])


def _load(plan: object) -> Plan:
    if isinstance(plan, Frontier):
        raise InvalidOption(
            f"a frontier of {len(plan)} plans was given; choose one: frontier.fastest(), "
            "frontier.smallest() or frontier.turning_point()"
        )
    if not isinstance(plan, str | os.PathLike):
        raise InvalidOption(f"a plan, or the path of a saved one, is needed, not {plan!r}")
    return Plan.load(Path(plan))


def _check_size(plan: Plan) -> None:
    size = _expected_size()
    if plan.cluster.num_devices != size:
        raise PlanMismatch(
            f"the plan is for {plan.cluster.num_devices} devices ({plan.cluster.name}), but {size} "
            f"processes run; start as many (gw.launch({plan.cluster.num_devices}), graphwright run "
            f"--workers {plan.cluster.num_devices}, or torchrun), or plan for local:{size}"
        )


def _check_has_options(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise InvalidOption(
                f"{name}={value} changes what is captured, but graph=... is captured already; give "
                f"{name} to gw.capture, or batch=... in the place of graph=..."
            )


def _check_is_whole(plan: Plan, graph: Graph) -> None:
    """Raise if the first batch of a step that was made without an example is not as planned."""
    if plan.graph_hash == graph.hash:
        return
    shapes = ", ".join(
        f"{name} {list(graph.tensors[name].type.shape)}"
        for name in graph.inputs
        if graph.tensors[name].role is Role.INPUT
    )
    raise BatchMismatch(
        f"the first batch ({shapes}) makes another graph than the one that was planned. Without an "
        "example the first batch has to be the whole one, not this rank's part of it: give "
        "gw.compile an example of the whole batch (batch=...), or the graph (graph=...). If it is "
        "whole, then model, optimizer, dtype or batch size are others than planned"
    )


def _expected_size() -> int:
    """How many processes there are, before anything is started."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return dist.get_world_size()
    variables = read_variables(os.environ)
    return 1 if variables is None else variables.size
