"""Measure what operators take on this machine, and store it where the cost model looks.

    calls -> distinct, without views and constants -> new to the store -> run, timed and stored
             in three sweeps over all; the median counts, as slow moments of a shared machine last
             longer than a call is timed

A call that fails or does not fit into memory is reported, not raised, and not stored. What was
stored before an interruption stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from time import monotonic
from typing import TypeAlias

from graphwright.describe import Types, types_of
from graphwright.ir import Attr, Attrs, Graph
from graphwright.machine import Device, Measurement, Store
from graphwright.plans import Plan
from graphwright.rewrite import rejoin
from graphwright.run.measure.calls.one_call import try_to_measure
from graphwright.run.measure.hardware import Target, find_target
from graphwright.run.measure.strain import Strain, load_strain
from graphwright.run.program import keep_freed_memory
from graphwright.simulate import (
    Calibration,
    CostModel,
    MeasuredCall,
    Skipped,
    measured_with,
    spell_types,
    torch_version,
)
from graphwright.tasks import place_all

Call: TypeAlias = tuple[str, Mapping[str, Attr], Types]
"""Operator, attributes and local types."""

Progress: TypeAlias = Callable[[int, int, str], None]
"""Called before each measurement: how many are done, of how many, and the next operator."""

_Key: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Distinct:
    """A call, how often it is made, its seconds by the roofline, and its key in the store."""

    op: str
    attrs: Attrs
    types: Types
    count: int
    roofline: float
    key: _Key


SWEEPS = 3
"""How often every call is measured, with all others in between."""


def calls_of(graph: Graph) -> list[Call]:
    """The calls of a graph, one for every node."""
    return [(node.op, node.attrs, types_of(graph, node)) for node in graph.nodes]


def calls_of_plan(graph: Graph, plan: Plan) -> list[Call]:
    """The calls that devices make of a graph's nodes under a plan: those of their parts.

    A kernel that is put together for the plan counts beside what it stands for, by which searches
    compare plans.
    """
    together = rejoin(graph, plan)
    pairs = [(graph, plan)] if together[0] is graph else [(graph, plan), together]
    known = {node.name: node.op for node in graph.nodes}
    return [
        (node.op, part.attrs, part.types)
        for each, its_plan in pairs
        for node, placed in zip(each.nodes, place_all(each, its_plan), strict=True)
        if each is graph or known.get(node.name) != node.op
        for part in placed.classes
    ]


def calibrate(
    calls: Iterable[Call],
    *,
    device: str = "cpu",
    store: Store | None = None,
    figures: Device | None = None,
    limit: int | None = None,
    seconds: float = 0.2,
    within: float = inf,
    progress: Progress | None = None,
) -> Calibration:
    """Measure the distinct calls on a device of this machine, but for those in the store.

    `device` is "cpu", "local:4" (one of four processes), "cuda" or "cuda:1"; `figures` are what the
    roofline goes by, if not the device's known ones. With `limit`, only so many calls count, those
    that take longest by the roofline. Each call is timed for about `seconds`; none is begun after
    `within` seconds, so that those are left out which take least.
    """
    target = find_target(device, figures)
    store = store or Store()
    strain = Strain() if target.beside is None else load_strain(store, target.beside)
    known = store.load_compute(target.figures.name, measured_with())
    wanted, num_free = _distinct(calls, target.figures)
    wanted = wanted[:limit]
    new = [one for one in wanted if one.key not in known]
    if target.device.type == "cpu":
        keep_freed_memory()  # as in a step
    until = monotonic() + within
    measured, failed = _sweep(new, target, store, seconds, until, 1 + strain.share, progress)
    rows: list[MeasuredCall] = []
    skipped: list[Skipped] = []
    for one in wanted:
        op, attrs, types, count = one.op, one.attrs, one.types, one.count
        time = measured.get(one.key) or known.get(one.key)
        if time is None:
            reason = failed.get(one.key, "there was no time left for it")
            skipped.append(Skipped(op=op, attrs=attrs, types=types, count=count, reason=reason))
        else:
            rows.append(
                MeasuredCall(
                    op=op, attrs=attrs, types=types, count=count, measured=time.seconds,
                    spread=time.spread, repeats=time.repeats, roofline=one.roofline,
                    new=one.key in measured,
                )
            )  # fmt: skip
    return Calibration(
        device=target.figures.name,
        figures=target.figures,
        torch=torch_version(),
        rows=tuple(sorted(rows, key=lambda row: -row.measured * row.count)),
        skipped=tuple(skipped),
        num_free=num_free,
    )


def _sweep(
    calls: Sequence[_Distinct],
    target: Target,
    store: Store,
    seconds: float,
    until: float,
    longer: float,
    progress: Progress | None,
) -> tuple[dict[_Key, Measurement], dict[_Key, str]]:
    """Measure calls in sweeps, storing each at once; the times, and why calls failed.

    In a step a call takes so many times as long.
    """
    measured: dict[_Key, list[Measurement]] = {}
    failed: dict[_Key, str] = {}
    total = len(calls) * SWEEPS
    for done, one in enumerate([*calls] * SWEEPS):
        if progress is not None:
            progress(done, total, one.op)
        if monotonic() > until:
            break
        if one.key in failed:
            continue
        result = try_to_measure(one.op, one.attrs, one.types, target, seconds / SWEEPS)
        if isinstance(result, str):
            failed[one.key] = result
        else:
            measured.setdefault(one.key, []).append(result)
            middle = _middle(measured[one.key], longer)
            store.put_compute(target.figures.name, measured_with(), *one.key, middle)
    if progress is not None:
        progress(total, total, "")
    return {key: _middle(each, longer) for key, each in measured.items()}, failed


def _middle(measured: Sequence[Measurement], longer: float = 1.0) -> Measurement:
    """The (lower) median of one call's measurements; its spread is at least theirs."""
    ordered = sorted(measured, key=lambda one: one.seconds)
    middle = ordered[(len(measured) - 1) // 2]
    # A quarter of the range is half the distance of the quartiles of three.
    between = (ordered[-1].seconds - ordered[0].seconds) / 4
    return replace(
        middle, seconds=longer * middle.seconds, spread=longer * max(middle.spread, between)
    )


def _distinct(calls: Iterable[Call], figures: Device) -> tuple[list[_Distinct], int]:
    """The distinct calls, the longest first; and how many take no time."""
    costs = CostModel(measured=False)
    counts: dict[tuple[str, Attrs, Types], int] = {}
    num_free = 0
    for op, attrs, types in calls:
        own = attrs if isinstance(attrs, Attrs) else Attrs(attrs)
        if costs.compute(op, own, types, figures) == 0:
            num_free += 1
        else:
            counts[op, own, types] = counts.get((op, own, types), 0) + 1
    distinct = [
        _Distinct(
            op, attrs, types, count, costs.compute(op, attrs, types, figures),
            (op, attrs.text, spell_types(types)),
        )
        for (op, attrs, types), count in counts.items()
    ]  # fmt: skip
    return sorted(distinct, key=lambda one: -one.roofline * one.count), num_free
