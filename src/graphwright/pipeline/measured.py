"""Plan by measurements made just before: of the links, and of the calls that the plans make.

    links -> plan -> calls of its plans -> plan again -> calls that are new -> ... until none is

Calls that were not measured yet are priced by formulas, so a plan that wins by a formula alone is
measured in the next round, and stays only if the measurement agrees.

Plans for processes of this machine are made like that by themselves (`plan_here`): the figures of
`local:N` are those of large products and copies, of which small models make few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from time import monotonic

from graphwright.ir import Graph
from graphwright.machine import Cluster, Store, measures_itself, num_cores
from graphwright.partition import Progress, evaluate, plan
from graphwright.plans import Frontier, Plan, figures_of
from graphwright.run import calibrate, calls_of_plan, how_sure, measure_local
from graphwright.simulate import CostModel

SIZES = tuple(2**n for n in (10, 14, 18, 22, 24))
REPEATS, SWEEPS = 3, 3
CALL_SECONDS = 0.03
"""How long each call is timed."""
ROUNDS = 6
HERE_SECONDS = 20.0
"""How long calls are timed for plans on this machine, in all rounds."""
LONG_CALL = 0.1
"""Calls of so many seconds are what the figures of `local:N` are measured by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredFrontier:
    """A frontier, how many links and calls were measured for it, and what could not be.

    The fastest plan's step may differ by `sure` from its prediction, as a share.
    """

    frontier: Frontier
    num_links: int
    num_calls: int
    sure: float
    notes: tuple[str, ...] = ()


def plan_measured(
    graph: Graph, on: Cluster, store: Store, *, baselines: Sequence[str], report: Progress
) -> MeasuredFrontier:
    """Measure on processes of this machine what the plans need, and plan by that."""
    _plan(graph, on, store, baselines, report)  # compiles the search: nothing else runs while
    report(f"timing transfers between {on.num_devices} processes", 0, 0)  # transfers are timed
    links = measure_local(on, store=store, sizes=SIZES, repeats=REPEATS, sweeps=SWEEPS)
    if on.num_devices > num_cores():
        note = (
            f"{on.num_devices} processes take turns on {num_cores()} cores, so what operators take "
            "goes by formulas"
        )
        frontier = _plan(graph, on, store, baselines, report)
        return MeasuredFrontier(
            frontier=frontier,
            num_links=len(links.times),
            num_calls=0,
            sure=how_sure(graph, frontier.fastest(), store),
            notes=(note,),
        )
    planned = plan_by_calls(graph, on, store, device=on.name, baselines=baselines, report=report)
    return replace(planned, num_links=len(links.times))


def plan_by_calls(
    graph: Graph,
    on: Cluster,
    store: Store,
    *,
    device: str,
    baselines: Sequence[str],
    report: Progress,
    within: float = inf,
) -> MeasuredFrontier:
    """Plan, measure the calls of the plans on a device of this machine, and plan again by that.

    `device` is what to measure on, as "local:2", and has to be like those of the cluster. Plans
    that take over `within` times as long as the fastest keep their formulas, but for the baselines.
    """
    frontier = _plan(graph, on, store, baselines, report)
    num_calls = num_left = 0
    for _ in range(ROUNDS):
        calls = [call for each in _plans(frontier, within) for call in calls_of_plan(graph, each)]
        measured = calibrate(
            calls,
            device=device,
            figures=on.devices[0],
            store=store,
            seconds=CALL_SECONDS,
            progress=lambda done, total, op: report(f"timing {op}", done, total),
        )
        num_left = len(measured.skipped)
        if not measured.num_new:
            break
        num_calls += measured.num_new
        frontier = _plan(graph, on, store, baselines, report)
    notes = (f"{num_left} calls could not be timed and go by formulas",) if num_left else ()
    return MeasuredFrontier(
        frontier=frontier,
        num_links=0,
        num_calls=num_calls,
        sure=how_sure(graph, frontier.fastest(), store),
        notes=notes,
    )


def plan_here(
    search: Callable[[], Plan | Frontier],
    graph: Graph,
    on: Cluster,
    report: Progress | None = None,
) -> Plan | Frontier:
    """What a search finds, by what the calls of its plans take, if they are for this machine.

    They are measured where they were not before, for some seconds, and kept. Other clusters, more
    processes than cores, and `GRAPHWRIGHT_MEASURE=0` go by what is known.
    """
    found = search()
    if not measures_itself(on) or on.num_devices > num_cores():
        return found
    left = HERE_SECONDS
    for _ in range(ROUNDS):
        began = monotonic()
        if not _measure_here(found, graph, on, left, report):
            return found
        left -= monotonic() - began
        found = search()
    if isinstance(found, Plan):  # at its own price, not by formulas that it was chosen for
        _measure_here(found, graph, on, left, report)
        found = evaluate(graph, found, CostModel())
    return found


def _measure_here(
    found: Plan | Frontier, graph: Graph, on: Cluster, seconds: float, report: Progress | None
) -> int:
    """Measure the calls of plans on processes of this machine; how many were new."""
    plans = (found,) if isinstance(found, Plan) else _plans(found, inf)
    calls = [call for each in plans for call in calls_of_plan(graph, each)]
    formulas, device = CostModel(measured=False), on.devices[0]
    measured = calibrate(
        [call for call in calls if formulas.compute(*call, device) < LONG_CALL],
        device=on.name,
        figures=device,
        seconds=CALL_SECONDS,
        within=max(0.0, seconds),
        progress=report and (lambda done, total, op: report(f"timing {op}", done, total)),
    )
    return measured.num_new


def _plan(
    graph: Graph, on: Cluster, store: Store, baselines: Sequence[str], report: Progress
) -> Frontier:
    costs = CostModel(store)  # reads what is in the store now
    return plan(graph, on, costs=costs, baselines=tuple(baselines), report=report)


def _plans(frontier: Frontier, within: float) -> Iterator[Plan]:
    longest = within * figures_of(frontier.fastest()).time
    yield from (each for each in frontier if figures_of(each).time <= longest)
    yield from frontier.others.values()
