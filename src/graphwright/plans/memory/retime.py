"""When the actions of a memory plan happen on a device, by the durations of its problem.

    start = the latest end of what an action waits for: `after`, and the one before it on its stream

A plan is right whatever its actions take, so that one plan serves a machine before and after it
was calibrated, and other machines as well; only the predicted times differ.
"""

from __future__ import annotations

from dataclasses import replace

from graphwright.plans.memory.plan import STREAMS, MemoryPlan, Run, SwapIn, SwapOut
from graphwright.plans.memory.problem import MemoryProblem


def durations(plan: MemoryPlan, problem: MemoryProblem) -> tuple[int, ...]:
    """Picoseconds that each action of a plan takes."""
    operators = {op.name: op.duration for op in problem.operators}
    storages = {storage.name: storage for storage in problem.storages}
    taken = []
    for action in plan.actions:
        match action:
            case Run():
                taken.append(operators[action.name])
            case SwapOut():
                taken.append(storages[action.name].out_time)
            case SwapIn():
                taken.append(storages[action.name].in_time)
    return tuple(taken)


def retime(plan: MemoryPlan, problem: MemoryProblem) -> MemoryPlan:
    """A plan that `verify_actions` has passed, with the times of a problem."""
    starts: list[int] = []
    ends: list[int] = []
    latest = [-1, -1, -1]
    for at, (action, taken) in enumerate(zip(plan.actions, durations(plan, problem), strict=True)):
        own = STREAMS.index(action.stream)
        waits = (ends[n] for n in (*action.after, latest[own]) if n >= 0)
        starts.append(max(waits, default=0))
        ends.append(starts[-1] + taken)
        latest[own] = at
    return replace(plan, starts=tuple(starts), ends=tuple(ends))
