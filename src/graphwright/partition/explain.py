"""Why a plan is what it is: for every group what it costs, and what the next best configuration
would cost with everything else as it is.

cost of a group    its own time, and half of what moves between it and each neighbour
runner-up          the configuration of the group with which the whole takes the least time, of
                   those that differ from it along one axis, or treat each level in one way
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphwright.errors import PlanMismatch
from graphwright.partition.estimate import Estimate, Pair, make_estimate
from graphwright.partition.space import Coarse, Configurations, Group
from graphwright.plans import Plan, Strategy, check_plan
from graphwright.tasks import Costs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reason:
    """One group under a plan, by the additive estimate; times in seconds, memory in bytes of one
    device.

    `extra_time` and `extra_memory` are what the whole step would take more with the runner-up,
    which has `instead` for the group's lead.
    """

    group: Group
    strategy: Strategy
    compute_time: float
    moving_time: float
    memory: float
    instead: Strategy | None
    extra_time: float
    extra_memory: float


def explain(coarse: Coarse, plan: Plan, costs: Costs) -> list[Reason]:
    """A reason for every group, in their order; plans on some of the devices have none."""
    check_plan(plan, coarse.facts.graph)
    estimate = make_estimate(coarse, plan.cluster, costs, plans=(plan,))
    chosen: dict[int, int] = {}
    for g, group in enumerate(coarse.groups):
        number = estimate.seeds[g][0]
        if number is None:
            node = coarse.facts.graph.nodes[group.slots[group.lead][0]]
            raise PlanMismatch(
                f"{node.name} ({node.op}) runs on some of the devices only, or differs between "
                "time steps: such a plan has no additive estimate to explain; simulate it instead"
            )
        chosen[g] = number
    known: dict[tuple[Configurations, int], NDArray[np.int64]] = {}
    for every, c in zip(estimate.all, chosen.values(), strict=True):
        if (every, c) not in known:
            known[every, c] = _others(every, c)
    estimate = estimate.select({g: known[estimate.all[g], c] for g, c in chosen.items()})
    choices = [int(np.searchsorted(estimate.active[g], c)) for g, c in chosen.items()]
    pairs: list[set[Pair]] = [set() for _ in coarse.groups]
    for a, b in estimate.tables.flows.between:
        if a != b:
            pairs[a].add((min(a, b), max(a, b)))
            pairs[b].add((min(a, b), max(a, b)))
    return [_reason(estimate, choices, g, sorted(own)) for g, own in enumerate(pairs)]


def _others(every: Configurations, chosen: int) -> NDArray[np.int64]:
    """What a group is compared with; on many devices all configurations would take minutes."""
    return np.union1d(every.near(np.array([chosen])), every.uniform())


def _reason(estimate: Estimate, choices: list[int], g: int, pairs: list[Pair]) -> Reason:
    group, every = estimate.coarse.groups[g], estimate.configurations[g]
    own = estimate.unary(g)
    time, memory = own.time[:, 0].copy(), own.memory[:, 0].copy()
    moving = np.zeros(len(every))
    for u, v in pairs:
        table = estimate.pair(u, v)
        if table is None:
            continue
        other = v if u == g else u
        times, held = _across(table.time, table.memory, g < other, choices[other])
        moving += times
        memory = memory + held
    total = time + moving
    chosen = choices[g]
    rest = np.delete(np.arange(len(every)), chosen)
    best = int(rest[np.argmin(total[rest])]) if len(rest) else None
    return Reason(
        group=group,
        strategy=every.strategy(chosen, group.lead),
        compute_time=float(time[chosen]),
        moving_time=float(moving[chosen]) / 2,
        memory=float(memory[chosen]),
        instead=None if best is None else every.strategy(best, group.lead),
        extra_time=0.0 if best is None else float(total[best] - total[chosen]),
        extra_memory=0.0 if best is None else float(memory[best] - memory[chosen]),
    )


def _across(
    time: NDArray[np.float64], memory: NDArray[np.float64], first: bool, other: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The first option of a pair's table, given the configuration of the other group."""
    if first:
        return time[:, other, 0], memory[:, other, 0]
    return time[other, :, 0], memory[other, :, 0]
