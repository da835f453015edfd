"""`gw.swap`: a step in less memory than it needs, planned ahead.

graph, memory --search--> SwapPlan --compile(model, loss, optimizer)--> step(batch)
graph, memory, partition plan --> RankSwaps (`swap_ranks`)
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import torch
from torch import nn

from graphwright.aten import OptimizerLike, eager_module, make_optimizer
from graphwright.capture import Parts, capture, prepare, read_options
from graphwright.errors import InvalidOption, MemoryTooSmall, PlanMismatch
from graphwright.ir import Graph
from graphwright.machine import PICOSECONDS, Cluster
from graphwright.machine import cluster as find_cluster
from graphwright.memory import (
    GraphProblem,
    Planner,
    Progress,
    check_searches,
    check_seed,
    fastest_known,
    find_plan,
    plan_without_swaps,
    problem_of,
    task_graph,
)
from graphwright.plans import (
    Frontier,
    MemoryPlan,
    Plan,
    make_plan,
    parse_limit,
    retime,
    swapped_bytes,
    verify_actions,
    verify_memory,
)
from graphwright.rewrite import rejoin
from graphwright.run.compile.ranks import with_host_link
from graphwright.run.compile.swap_ranks import RankSwaps, swap_ranks
from graphwright.run.step import SwapModel, SwapStep, check_given
from graphwright.simulate import CostModel, Timeline, memory, schedule
from graphwright.tasks import Costs

DEFAULT = ("lru", "belady", "greedy", "random", "genetic", "pools")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SwapPlan:
    """A memory plan for a graph; `compile` makes a step of it.

    `graph` is what was captured; in the one that is planned (`given`), kernels that capture takes
    apart are one again. `times` are the seconds per iteration that each search found, `progress`
    the generations of the genetic ones, `interrupted` whether the search was cut short.
    """

    graph: Graph
    given: GraphProblem
    cluster: Cluster
    plan: MemoryPlan
    times: Mapping[str, float] = field(default_factory=dict)
    progress: tuple[Progress, ...] = ()
    interrupted: bool = False

    @property
    def time(self) -> float:
        """Predicted seconds of an iteration."""
        return self.plan.makespan / PICOSECONDS

    @property
    def unlimited(self) -> float:
        """Predicted seconds of an iteration on a device with memory for everything."""
        return self.given.problem.compute_time / PICOSECONDS

    @property
    def needs(self) -> int:
        """Bytes that the step holds at once without swapping, in the order of the program."""
        return self.given.problem.held_at_once()

    @property
    def least(self) -> int:
        """Bytes that the largest operator needs: with less memory there is no plan."""
        return max(self.given.problem.needs, default=0)

    @property
    def swapped(self) -> tuple[int, int]:
        """Bytes that leave for the host and return in a step; the batch's arrival is no return."""
        return swapped_bytes(self.plan, self.given.problem)

    @cached_property
    def timeline(self) -> Timeline:
        """The three streams and the memory over time, with the capacity as its limit."""
        facts = self.given.facts
        positions = {**facts.position, **dict.fromkeys(self.given.copied, 0)}
        for name, (old, _) in self.given.copied.items():
            made = facts.producer.get(self.given.graph.updates.get(old, old))
            positions[name] = 0 if made is None else made[0]
        categories = self.given.categories
        tasks = task_graph(self.plan, self.given.problem, self.cluster, positions, categories)
        times = schedule(tasks)
        devices = (replace(d, memory=self.plan.capacity) for d in self.cluster.devices)
        return Timeline(
            graph=self.given.graph,
            cluster=replace(self.cluster, devices=tuple(devices)),
            tasks=tasks,
            schedule=times,
            memory=memory(tasks, times),
            plan=f"swap, {self.plan.algorithm}",
            seed=self.plan.seed,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan as JSON; `gw.swap(graph, plan=path)` reads it."""
        self.plan.save(path)

    def compile(
        self,
        model: nn.Module,
        loss_fn: Any = None,
        optimizer: OptimizerLike | None = None,
        *,
        optimizer_options: Mapping[str, Any] | None = None,
        device: str | None = None,
        seed: int = 0,
        check_graph: bool = True,
    ) -> SwapStep | SwapModel:
        """The step of a training graph, or the callable of an inference graph.

        Give what the graph was captured from: it is captured again and compared, unless
        `check_graph=False` trusts it. The model's values are what it starts from; it is left as it
        is until `gather`. `device` is "cuda" where there is a GPU, otherwise "cpu".
        """
        chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
        where = torch.device(chosen)
        if where.type not in ("cpu", "cuda"):
            raise InvalidOption(f"device={device!r}: a memory plan runs on cpu or cuda")
        model = eager_module(model)
        trains = _is_training(self.graph)
        if trains and optimizer is None and self.graph.updates and _has_state(self.graph):
            raise PlanMismatch("the graph has an optimizer's update; give compile that optimizer")
        made = None if optimizer is None else make_optimizer(optimizer, optimizer_options, model)

        def captured(example: Any) -> Graph:
            options = {"autocast": None, **read_options(self.graph)}
            if not trains:
                return capture(model, inputs=example, passes=self.graph.passes, **options)
            parts = Parts(
                model=model,
                loss_fn=loss_fn,
                batch=example,
                optimizer=optimizer,
                optimizer_options=optimizer_options or {},
            )
            return prepare(parts, self.graph.passes, **options)

        check_first = None
        if check_graph:
            first = next(model.parameters(), torch.empty(0))
            has_targets = trains and loss_fn is not None
            check_first = check_given(self.graph, captured, has_targets, first.device)
        if not trains:
            return SwapModel(self.given, self.plan, model, where, seed, check_first)
        return SwapStep(self.given, self.plan, model, loss_fn, made, where, seed, check_first)

    def to_dict(self) -> dict[str, object]:
        """The figures of the plan as JSON-ready data."""
        bytes_out, bytes_in = self.swapped
        return {
            "cluster": self.cluster.name,
            "capacity": self.plan.capacity,
            "arena": self.plan.arena,
            "needs": self.needs,
            "least": self.least,
            "time": self.time,
            "unlimited_time": self.unlimited,
            "bytes_out": bytes_out,
            "bytes_in": bytes_in,
            "residents": len(self.plan.residents),
            "algorithm": self.plan.algorithm,
            "seed": self.plan.seed,
            "searches": {n: t if t < float("inf") else None for n, t in self.times.items()},
            "interrupted": self.interrupted,
        }

    def __repr__(self) -> str:
        share = self.unlimited / self.time if self.time else 1.0
        return f"SwapPlan({self.plan!r}, {share:.1%} of the speed with unlimited memory)"


@overload
def swap(
    graph: Graph,
    memory: int | str | None = None,
    *,
    cluster: Cluster | str | None = None,
    reserve: int | str = 0,
    search: str | Sequence[str] = DEFAULT,
    budget: float = 10.0,
    seed: int = 0,
    costs: Costs | None = None,
    plan: MemoryPlan | str | os.PathLike[str] | None = None,
    known: Sequence[SwapPlan | MemoryPlan] = (),
    partition: None = None,
) -> SwapPlan: ...
@overload
def swap(
    graph: Graph,
    memory: int | str | None = None,
    *,
    partition: Plan | Frontier | str | os.PathLike[str],
    reserve: int | str = 0,
    costs: Costs | None = None,
) -> RankSwaps: ...
def swap(
    graph: Graph,
    memory: int | str | None = None,
    *,
    cluster: Cluster | str | None = None,
    reserve: int | str = 0,
    search: str | Sequence[str] = DEFAULT,
    budget: float = 10.0,
    seed: int = 0,
    costs: Costs | None = None,
    plan: MemoryPlan | str | os.PathLike[str] | None = None,
    known: Sequence[SwapPlan | MemoryPlan] = (),
    partition: Plan | Frontier | str | os.PathLike[str] | None = None,
) -> SwapPlan | RankSwaps:
    """Plan a graph for so much device memory; what does not fit waits in host memory.

    `memory` is a size as "16GB", the device's own if not given, of which `reserve` is left for what
    kernels allocate themselves. `cluster` names the machine whose device and host link the times
    are for; this machine if not given. Where all fits, nothing is swapped or searched. `search`
    names one search or several, of which the best plan is taken; those with a random part share
    `budget` seconds. Interrupted, the search returns the best plan so far. `plan` is a saved plan
    to use instead; its times are predicted anew. `known` are plans for the same graph, such as
    those for less memory: the step is as fast as in any of them that fits.

    With a `partition`, a plan for several devices, every rank's program is planned for so much
    memory, by the searches that end by themselves. Of a frontier the plan that is then the fastest
    is taken: one that fits, or one that swaps.

    >>> step = gw.swap(graph, memory="2GB").compile(model, loss_fn, torch.optim.Adam)
    >>> for batch in loader:
    ...     loss = step(batch)
    """
    if partition is not None:
        _refuse(cluster=cluster, plan=plan, search=search if search != DEFAULT else None)
        _refuse(known=known or None)
        return _swap_partition(graph, memory, reserve, partition, costs)
    on = with_host_link(find_cluster("local:1" if cluster is None else cluster))
    together, _ = rejoin(graph, make_plan(graph, on, {}), in_memory=True)
    given = problem_of(together, on, CostModel() if costs is None else costs)
    limit = on.devices[0].memory if memory is None else parse_limit(memory)
    capacity = limit - parse_limit(reserve)
    if plan is not None:
        saved = plan if isinstance(plan, MemoryPlan) else MemoryPlan.load(Path(plan))
        _check_is_for(saved, together, None if memory is None else capacity)
        verify_actions(saved, given.problem)
        return SwapPlan(graph=graph, given=given, cluster=on, plan=retime(saved, given.problem))
    if isinstance(budget, bool) or not budget >= 0:
        raise InvalidOption(f"budget={budget!r}: give seconds, from 0 upwards")
    if not isinstance(search, Sequence):
        raise InvalidOption(f"search={search!r}: give the name of a search, or several")
    searches = (search,) if isinstance(search, str) else tuple(search)
    check_searches(searches)
    check_seed(seed)
    others = [each.plan if isinstance(each, SwapPlan) else each for each in known]
    for other in others:
        _check_is_for(other, together, None)
    planner = Planner(given.problem)
    if (whole := plan_without_swaps(planner, capacity)) is not None:
        best = fastest_known(given.problem, capacity, others)
        if best is not None and best.makespan < whole.makespan:
            whole = best
        verify_memory(whole, given.problem)
        return SwapPlan(graph=graph, given=given, cluster=on, plan=whole)
    found = find_plan(
        given.problem, capacity, searches=searches, budget=budget, seed=seed, planner=planner,
        known=others,
    )  # fmt: skip
    verify_memory(found.plan, given.problem)
    return SwapPlan(
        graph=graph,
        given=given,
        cluster=on,
        plan=found.plan,
        times={name: time / PICOSECONDS for name, time in found.times.items()},
        progress=found.progress,
        interrupted=found.interrupted,
    )


def _refuse(**given: object) -> None:
    for name, value in given.items():
        if value is not None:
            raise InvalidOption(f"{name}={value!r} is for one device; leave it out with partition=")


def _swap_partition(
    graph: Graph,
    memory: int | str | None,
    reserve: int | str,
    partition: Plan | Frontier | str | os.PathLike[str],
    costs: Costs | None,
) -> RankSwaps:
    """A partition plan in so much memory, or that plan of a frontier which is fastest in it."""
    chosen = partition
    if not isinstance(chosen, Plan | Frontier):
        chosen = Plan.load(Path(chosen))
    prices = CostModel() if costs is None else costs
    made: list[RankSwaps] = []
    failure: MemoryTooSmall | None = None
    for each in chosen if isinstance(chosen, Frontier) else (chosen,):
        limit = each.memory if memory is None else parse_limit(memory)
        if limit is None:
            limit = min(device.memory for device in each.cluster.devices)
        try:
            made.append(swap_ranks(graph, each, limit - parse_limit(reserve), prices))
        except MemoryTooSmall as error:
            failure = error if failure is None else failure
    if not made:
        assert failure is not None
        raise failure
    return min(made, key=lambda swaps: swaps.time)


def _check_is_for(plan: MemoryPlan, graph: Graph, capacity: int | None) -> None:
    if plan.graph_hash != graph.hash:
        raise PlanMismatch("the memory plan was made for another graph; plan this one")
    if capacity is not None and plan.arena > capacity:
        raise PlanMismatch(
            f"the memory plan takes {plan.arena:,} bytes, more than the {capacity:,} that "
            "memory=... allows; plan again without plan=..."
        )


def _is_training(graph: Graph) -> bool:
    return bool(graph.updates) or any(node.phase != "forward" for node in graph.nodes)


def _has_state(graph: Graph) -> bool:
    return any(graph.tensors[name].role == "optimizer_state" for name in graph.inputs)
