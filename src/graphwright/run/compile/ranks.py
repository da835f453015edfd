"""Memory plans of ranks: each rank's program in less memory than it needs.

    lowered program of a rank --times--> MemoryProblem --search--> MemoryPlan

Transfers keep their order in every memory plan, so ranks meet whatever each of them has planned:
every rank plans for itself, and none waits for another's plan.
"""

from __future__ import annotations

from dataclasses import replace

from graphwright.errors import MemoryTooSmall
from graphwright.lower import InstructionTimes, Lowered
from graphwright.machine import Cluster, HostLink
from graphwright.memory import Planner, find_plan, plan_without_swaps, problem_of_program
from graphwright.plans import MemoryPlan, MemoryProblem, Program, verify_memory
from graphwright.run.step import RankMemory
from graphwright.tasks import Costs

SEARCHES = ("lru", "belady", "greedy")
"""Searches that end by themselves: they find the same plan wherever they run."""


class RankPlanner:
    """Plans the memory of the ranks of one plan; equal programs share a memory plan."""

    def __init__(self, lowered: Lowered, costs: Costs, capacity: int) -> None:
        self.lowered, self.capacity = lowered, capacity
        self.cluster = with_host_link(lowered.plan.cluster)
        self.times = InstructionTimes(lowered, costs)
        self._known: dict[MemoryProblem, MemoryPlan] = {}

    def plan(self, rank: int, program: Program | None = None) -> RankMemory:
        """The memory plan of a rank; an error names the operator that does not fit, and the rank.

        `program` is that of the rank, where it is known.
        """
        program = self.lowered.program(rank) if program is None else program
        facts = self.lowered.expansion.facts
        given = problem_of_program(program, facts, self.cluster, self.times.of(program))
        plan = self._known.get(given.problem)
        if plan is None:
            try:
                plan = self._known[given.problem] = plan_memory(given.problem, self.capacity)
            except MemoryTooSmall as error:
                raise MemoryTooSmall(f"rank {rank}: {error}") from None
        return RankMemory(given=given, plan=plan)


def plan_memory(problem: MemoryProblem, capacity: int) -> MemoryPlan:
    """The fastest plan that ends without a clock; checked."""
    planner = Planner(problem)
    planner.check_capacity(capacity)
    plan = plan_without_swaps(planner, capacity)
    if plan is None:
        plan = find_plan(problem, capacity, searches=SEARCHES, planner=planner).plan
    verify_memory(plan, problem)
    return plan


def with_host_link(cluster: Cluster) -> Cluster:
    """The cluster; processes of this machine copy at half the rate of their memory."""
    if cluster.host is not None:
        return cluster
    rate = cluster.devices[0].bandwidth / 2
    return replace(cluster, host=HostLink(bandwidth=rate, duplex=rate, latency=1e-6))
