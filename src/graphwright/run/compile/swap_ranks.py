"""What a partition plan costs in less memory than it needs: a memory plan for every rank.

    graph, plan, memory --RankPlanner--> memory plans --one task graph--> timeline
                                              --compile(model, loss, optimizer)--> step of this rank

In a timeline all ranks run side by side, each with its three streams, and meet in their transfers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from torch import nn

from graphwright.aten import OptimizerLike
from graphwright.ir import Graph
from graphwright.lower import lower
from graphwright.machine import Cluster
from graphwright.memory import task_graph_of_ranks
from graphwright.plans import MemoryPlan, Plan, format_seconds, swapped_bytes
from graphwright.rewrite import graph_of_plan
from graphwright.run.compile.ranks import RankPlanner, with_host_link
from graphwright.run.compile.step import compile_step
from graphwright.run.step import RankMemory, Step
from graphwright.simulate import Timeline, figures, memory, schedule, simulate
from graphwright.tasks import Costs


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class RankSwaps:
    """A partition plan in so much memory on every device; `compile` makes this rank's step.

    `ranks` have the memory plans, `whole` is the plan without a limit.
    """

    graph: Graph
    whole: Plan
    capacity: int
    ranks: tuple[RankMemory, ...]
    costs: Costs

    @property
    def cluster(self) -> Cluster:
        return self.whole.cluster

    @property
    def plans(self) -> tuple[MemoryPlan, ...]:
        """The memory plan of every rank."""
        return tuple(rank.plan for rank in self.ranks)

    @cached_property
    def plan(self) -> Plan:
        """The partition plan with its limit and what it takes then; `gw.compile` keeps to it."""
        predicted = replace(figures(self.timeline), memory=max(p.arena for p in self.plans))
        return replace(self.whole, memory=self.capacity, figures=predicted)

    @property
    def time(self) -> float:
        """Predicted seconds of a step."""
        return self.timeline.makespan

    @cached_property
    def unlimited(self) -> float:
        """Predicted seconds of a step on devices with memory for everything."""
        return simulate(self.graph, self.whole, costs=self.costs).makespan

    @property
    def needs(self) -> tuple[int, ...]:
        """Bytes that each rank holds at once without swapping, in the order of its program."""
        return tuple(rank.given.problem.held_at_once() for rank in self.ranks)

    @property
    def least(self) -> int:
        """Bytes that the largest operator of any rank needs: with less memory there is no plan."""
        return max(max(rank.given.problem.needs, default=0) for rank in self.ranks)

    @property
    def swapped(self) -> tuple[tuple[int, int], ...]:
        """Bytes that leave for each rank's host, and that return, in a step."""
        return tuple(swapped_bytes(rank.plan, rank.given.problem) for rank in self.ranks)

    @cached_property
    def timeline(self) -> Timeline:
        """All ranks with their streams, and memory over time with the capacity as its limit.

        Processes of this machine compute and copy by turns: their copies are not hidden.
        """
        on = with_host_link(self.cluster)
        plans = [(rank.given, rank.plan) for rank in self.ranks]
        tasks = task_graph_of_ranks(plans, on, serial=self.cluster.host is None)
        times = schedule(tasks)
        devices = tuple(replace(device, memory=self.capacity) for device in on.devices)
        return Timeline(
            graph=self.graph,
            cluster=replace(on, devices=devices),
            tasks=tasks,
            schedule=times,
            memory=memory(tasks, times),
            plan=f"{self.whole.algorithm}, swap",
            seed=self.whole.seed,
        )

    def compile(
        self,
        model: nn.Module,
        loss_fn: Any = None,
        optimizer: OptimizerLike | None = None,
        **options: Any,
    ) -> Step:
        """The step of this rank, as `gw.compile` makes it of the plan, with its options."""
        given = options if "batch" in options else {"graph": self.graph, **options}
        return compile_step(self.plan, model, loss_fn, optimizer, **given)

    def to_dict(self) -> dict[str, object]:
        """The figures as JSON-ready data."""
        return {
            "cluster": self.cluster.name,
            "capacity": self.capacity,
            "least": self.least,
            "time": self.time,
            "unlimited_time": self.unlimited,
            "ranks": [
                {
                    "arena": rank.plan.arena,
                    "needs": needs,
                    "bytes_out": out,
                    "bytes_in": back,
                    "residents": len(rank.plan.residents),
                    "algorithm": rank.plan.algorithm,
                }
                for rank, needs, (out, back) in zip(
                    self.ranks, self.needs, self.swapped, strict=True
                )
            ],
        }

    def __repr__(self) -> str:
        arena = max(plan.arena for plan in self.plans)
        return (
            f"RankSwaps({len(self.ranks)} ranks, {arena / 1e6:,.4g} MB each at most, "
            f"{format_seconds(self.time)}; {format_seconds(self.unlimited)} with unlimited memory)"
        )


def swap_ranks(graph: Graph, plan: Plan, capacity: int, costs: Costs) -> RankSwaps:
    """Plan the memory of every rank of a plan."""
    graph = graph_of_plan(graph, plan)
    plan = replace(plan, memory=None)
    planner = RankPlanner(lower(graph, plan, optimizer=False), costs, capacity)
    ranks = tuple(planner.plan(rank) for rank in range(plan.cluster.num_devices))
    return RankSwaps(graph=graph, whole=plan, capacity=capacity, ranks=ranks, costs=costs)
