"""From a graph to plans worth simulating: the tracked frontier of the additive problem, thinned.

The additive estimate adds up everything that one device computes and everything that is moved. A
real step overlaps the gathering of parameters and the adding up of gradients with computing. So the
frontier is tracked twice: with these movements at their full price, and with them hidden behind the
computing (`OVERLAP`); simulation decides between the plans of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import atan2, log

import numpy as np
from numpy.typing import NDArray

from graphwright.partition.estimate import Assignment, Estimate, Problem, Table
from graphwright.partition.progress import Progress, silent
from graphwright.partition.search.elimination import Method, least
from graphwright.partition.search.frontier.tracking import track
from graphwright.partition.search.narrow import narrow
from graphwright.partition.space import Weight
from graphwright.plans import Plan

OVERLAP = 0.9
"""The share of what moves for parameters and gradients that is taken to be hidden in the second
tracking."""
FAST_ENDS = (0.3, 0.5, 0.7)
"""Shares for which only the fastest plan is looked for."""
TRACKING = 5e7
"""Pairs of points, about a second's work, after which gaps between points of an estimated frontier
stay open; a dozen of its points are simulated in any case. Seconds would make the plan depend on
what else the machine does."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrackedPlans:
    """Plans with their additive estimates, (seconds, bytes), and whether the tracking was exact in
    the configurations that it had."""

    plans: tuple[tuple[Plan, tuple[float, float]], ...]
    exact: bool


def find_candidates(
    estimate: Estimate,
    *,
    count: int,
    precision: float = 0.01,
    method: Method = "ldp",
    overlaps: Sequence[float] = (0.0, OVERLAP),
    work: float = TRACKING,
    budget: float | None = None,
    progress: Progress = silent,
) -> TrackedPlans:
    """At most about `count` plans spread over the frontiers, their ends always among them."""
    estimate = narrow(estimate, estimate.space.width)
    problem = estimate.problem()
    points: list[Assignment] = []
    exact = True
    for overlap in overlaps:
        tracked = track(
            _hidden(estimate, problem, overlap),
            method=method,
            precision=precision,
            work=work,
            budget=budget,
            progress=lambda done, total: progress("tracking the frontier", done, total),
        )
        exact &= tracked.exact
        for point in spread(tracked.points, max(2, count // len(overlaps))):
            time, memory = problem.evaluate(point.choices.tolist(), point.options)
            points.append(replace(point, time=time, memory=memory))
    for overlap in FAST_ENDS if len(overlaps) > 1 else ():
        point = least(_hidden(estimate, problem, overlap))
        time, memory = problem.evaluate(point.choices.tolist(), point.options)
        points.append(replace(point, time=time, memory=memory))
    plans: dict[tuple[bytes, tuple[tuple[tuple[int, int], int], ...]], Assignment] = {}
    for point in points:
        plans.setdefault((point.choices.tobytes(), tuple(sorted(point.options.items()))), point)
    return TrackedPlans(
        plans=tuple((estimate.plan(p, "frontier"), (p.time, p.memory)) for p in plans.values()),
        exact=exact,
    )


def _hidden(estimate: Estimate, problem: Problem, overlap: float) -> Problem:
    """The problem with what moves to and from parameters cheaper by the share that is hidden."""
    if overlap == 0.0:
        return problem
    updates = {g for g, group in enumerate(estimate.coarse.groups) if group.weight is Weight.UPDATE}
    known: dict[bytes, Table] = {}
    pairs = {}
    for (u, v), table in problem.pairs.items():
        if u in updates or v in updates:
            if table.key not in known:
                cheaper = np.where(np.isfinite(table.time), table.time * (1 - overlap), np.inf)
                known[table.key] = Table(cheaper, table.memory)
            table = known[table.key]
        pairs[u, v] = table
    return Problem(problem.unary, pairs)


def spread(points: Sequence[Assignment], count: int) -> list[Assignment]:
    """Both ends, then corners, where the curve on logarithmic axes turns most, up to half of
    `count`; the rest evenly between along the curve."""
    if len(points) <= count:
        return list(points)
    x = np.array([log(max(p.memory, 1.0)) for p in points])
    y = np.array([log(max(p.time, 1e-12)) for p in points])
    x, y = x / max(np.ptp(x), 1e-9), y / max(np.ptp(y), 1e-9)
    numbers = [0, len(points) - 1, *_corners(x, y)][: max(2, count // 2)]
    along = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])
    while len(numbers) < count:  # next the one that is farthest from all that were chosen
        away = np.abs(along[:, None] - along[numbers]).min(axis=1)
        numbers.append(int(away.argmax()))
    return [points[n] for n in sorted(set(numbers))]


def _corners(x: Floats, y: Floats) -> list[int]:
    """The corners of the lower hull of a falling curve, without its ends, the sharpest first."""
    hull: list[int] = []
    for n in range(len(x)):
        while len(hull) > 1 and _turn(x, y, hull[-2], hull[-1], n) <= 0:
            hull.pop()
        hull.append(n)
    sharp = [_turn(x, y, *hull[i - 1 : i + 2]) for i in range(1, len(hull) - 1)]
    return [hull[1 + i] for i in sorted(range(len(sharp)), key=lambda i: -sharp[i])]


def _turn(x: Floats, y: Floats, a: int, b: int, c: int) -> float:
    """The angle by which the way from a over b to c turns left."""
    before = atan2(y[b] - y[a], x[b] - x[a])
    return atan2(y[c] - y[b], x[c] - x[b]) - before
