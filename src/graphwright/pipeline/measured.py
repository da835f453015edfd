"""Plan by measurements made just before: of the links, and of the calls that the plans make.

    links -> plan -> calls of its plans -> plan again -> calls that are new -> ... until none is

Calls that were not measured yet are priced by formulas, so a plan that wins by a formula alone is
measured in the next round, and stays only if the measurement agrees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphwright.ir import Graph
from graphwright.machine import Cluster, Store, num_cores
from graphwright.partition import Progress, plan
from graphwright.plans import Frontier, Plan
from graphwright.run import calibrate, calls_of_plan, measure_local
from graphwright.simulate import CostModel

SIZES = tuple(2**n for n in (10, 14, 18, 22, 24))
REPEATS, SWEEPS = 3, 3
CALL_SECONDS = 0.03
"""How long each call is timed."""
ROUNDS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredFrontier:
    """A frontier, how many links and calls were measured for it, and what could not be."""

    frontier: Frontier
    num_links: int
    num_calls: int
    notes: tuple[str, ...] = ()


def plan_measured(
    graph: Graph, on: Cluster, store: Store, *, baselines: Sequence[str], report: Progress
) -> MeasuredFrontier:
    """Measure on processes of this machine what the plans need, and plan by that."""

    def plan_again() -> Frontier:
        costs = CostModel(store)  # reads what is in the store now
        return plan(graph, on, costs=costs, baselines=tuple(baselines), report=report)

    plan_again()  # compiles the search, so that nothing else runs while transfers are timed
    report(f"timing transfers between {on.num_devices} processes", 0, 0)
    links = measure_local(on, store=store, sizes=SIZES, repeats=REPEATS, sweeps=SWEEPS)
    frontier = plan_again()
    if on.num_devices > num_cores():
        note = (
            f"{on.num_devices} processes take turns on {num_cores()} cores, so what operators take "
            "goes by formulas"
        )
        return MeasuredFrontier(frontier=frontier, num_links=len(links), num_calls=0, notes=(note,))
    num_calls = num_left = 0
    for _ in range(ROUNDS):
        calls = [call for each in _plans(frontier) for call in calls_of_plan(graph, each)]
        measured = calibrate(
            calls,
            device=on.name,
            store=store,
            seconds=CALL_SECONDS,
            progress=lambda done, total, op: report(f"timing {op}", done, total),
        )
        num_left = len(measured.skipped)
        if not measured.num_new:
            break
        num_calls += measured.num_new
        frontier = plan_again()
    notes = (f"{num_left} calls could not be timed and go by formulas",) if num_left else ()
    return MeasuredFrontier(
        frontier=frontier, num_links=len(links), num_calls=num_calls, notes=notes
    )


def _plans(frontier: Frontier) -> Iterator[Plan]:
    yield from frontier
    yield from frontier.others.values()
