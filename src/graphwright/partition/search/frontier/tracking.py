"""Frontier tracking (TensorOpt section 3): all assignments that no other beats in both time and
memory.

Where `eliminate` holds a number for every entry of a factor, here it is a frontier, and a step
(`elimination.circuit`) is

    result[a, b] = reduce(union over v of left[a, v] x right[v, b])   x: all sums of a point of each

(Eq. (4) to (7), Algorithms 1 to 3).

`find_order` has the eliminations and the linear DP; `contract` computes a range of entries, and
threads share the entries. Every point knows the points of the operands that it is the sum of, so
that unrolling gathers, step by step from the root, the points of all tables: their entries are the
configurations, and each of their points an option.

    memory
     |o              exact       all of it, for precision 0 and elimination narrow enough
     | o             precision   every assignment has a point with at most 1 + precision times its
     |   o                       time and memory; both ends are exact nevertheless
     |        o
     +------------ time

What makes it fast: equal sub-problems are solved once, and bounds from weighed problems (`bounds`)
leave gaps between known assignments in which alone there can be anything new. Each open gap is
tracked by itself, with the few configurations and points that come near enough to its line
(`Tracking.close`). With a precision most gaps close before.

Where elimination is too wide, some variables are fixed (`elimination.fixing`) and the frontiers
united: heuristic elimination. All ways to fix them are tried if they are few, and most are ruled
out by a handful of weights; else what good assignments for many weights have there, and `exact` is
false.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from math import inf, isinf, prod
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from graphwright.machine import num_cores
from graphwright.partition.estimate import Assignment, Problem
from graphwright.partition.search.elimination import (
    Domains,
    Method,
    Numbers,
    Operation,
    all_configurations,
    choose_fixed,
    fixed_domains,
    improve_in_turns,
)
from graphwright.partition.search.frontier.bounds import (
    SLACK,
    Bounds,
    Corners,
    Gap,
    Line,
    Supporting,
    find_bounds,
    find_supported,
    no_bounds,
    nondominated,
    open_corners,
)
from graphwright.partition.search.frontier.kernels import (
    Frontiers,
    Maps,
    Points,
    contract,
    leaf_points,
    thin,
)

Progress = Callable[[int, int], None]

WIDEST = 30_000_000
"""The most products of frontiers in one step: beyond, variables are fixed."""

MOST_TRIALS = 128
"""All ways to fix variables are tried if there are no more."""

TRIAL_LINES = 10
"""With how many weights a way to fix variables is looked at before it is tracked."""

SHARES = (0.0, 0.2, 1.0)
"""How far from a gap's line towards its corners is looked, in turns; the last one for all there
is."""

OVERHEAD = 1e4
"""Pairs of points that take as long as a step without any."""
FEW_ENTRIES = 64
"""Below this, threads cost more than they save."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tracked:
    """The frontier, memory upwards, and whether it is all of it, within the precision."""

    points: tuple[Assignment, ...]
    exact: bool
    precision: float

    def __repr__(self) -> str:
        known = "exact" if self.exact else "heuristic"
        return f"Tracked({len(self.points)} points, {known}, precision {self.precision:g})"


def track(
    problem: Problem,
    *,
    method: Method = "ldp",
    precision: float = 0.0,
    threads: int | None = None,
    progress: Progress | None = None,
    bounds: bool = True,
    share: bool = True,
    limit: int = WIDEST,
    budget: float | None = None,
    work: float = inf,
) -> Tracked:
    """The frontier of time and memory.

    precision    0 for all of it; else points within 1 + precision times others may be left out
    progress     is called with gaps (without bounds: steps) done and in all
    bounds       drop what bounds rule out; without, plain FT as published
    share        solve equal sub-problems once
    limit        the most products of frontiers in one step; beyond, variables are fixed
    budget       seconds after which gaps stay open (`exact` is then false); the points on the hull,
                 which come first, are always there
    work         the same in pairs of points that are added up, which no other program changes
    """
    assert precision >= 0
    tracking = Tracking(
        problem=problem,
        method=method,
        precision=_sound_precision(problem, precision),
        threads=num_cores() if threads is None else threads,
        progress=progress,
        bounds=bounds,
        share=share,
        deadline=None if budget is None else perf_counter() + budget,
        work_left=work,
    )
    domains = all_configurations(problem)
    fixed = choose_fixed(problem, domains, method, limit)
    exact = True
    if not fixed:
        tracking.track(domains)
    else:
        ways, exact = _ways_to_fix(problem, domains, fixed, method)
        tracking.track_all([fixed_domains(domains, values) for values in ways])
    return Tracked(
        points=tuple(tracking.points),
        exact=exact and not tracking.left_open,
        precision=tracking.precision,
    )


def _sound_precision(problem: Problem, precision: float) -> float:
    """Factors mean nothing where costs are negative: then nothing is left out."""
    for table in (*problem.unary, *problem.pairs.values()):
        if precision and (table.time.min(initial=0.0) < 0 or table.memory.min(initial=0.0) < 0):
            return 0.0
    return precision


def _ways_to_fix(
    problem: Problem, domains: Domains, fixed: Sequence[int], method: Method
) -> tuple[list[dict[int, int]], bool]:
    """All ways to fix these variables, or those of good assignments; whether it is all."""
    if prod(len(domains[v]) for v in fixed) <= MOST_TRIALS:
        ways = product(*(domains[v].tolist() for v in fixed))
        return [dict(zip(fixed, values, strict=True)) for values in ways], True
    values_of: dict[tuple[int, ...], None] = {}
    ends = [improve_in_turns(problem, domains, fixed, weight, method) for weight in (0.0, inf)]
    weights: list[float] = []
    if not any(isinf(end.time) for end in ends):
        span_time = max(ends[1].time - ends[0].time, 0.0)
        span_memory = max(ends[0].memory - ends[1].memory, 0.0)
        if span_time and span_memory:
            weights = [span_time / span_memory * 4.0**power for power in range(-3, 4)]
    middle = [improve_in_turns(problem, domains, fixed, weight, method) for weight in weights]
    for one in (*ends, *middle):
        values_of[tuple(one.choices[list(fixed)].tolist())] = None
    return [dict(zip(fixed, values, strict=True)) for values in values_of], False


class _OutOfTimeError(Exception):
    """The budget, of seconds or of work, is used up."""


@dataclass(slots=True, kw_only=True)
class Tracking:
    """Tracks the frontier within domains; what is known of one bounds the next."""

    problem: Problem
    method: Method
    precision: float
    threads: int
    progress: Progress | None
    bounds: bool
    share: bool
    deadline: float | None
    work_left: float
    left_open: bool = False
    points: list[Assignment] = field(default_factory=list)

    def add(self, points: Iterable[Assignment]) -> None:
        """Take in what is new."""
        self.points = nondominated([*self.points, *points])

    def track(self, domains: Domains) -> None:
        """Add the frontier within the domains."""
        numbers = Numbers(self.problem, domains, self.method, share=self.share)
        if not self.bounds:
            self.track_within(numbers, no_bounds(), (1 + self.precision) ** 0.5)
            return
        supporting = Supporting(numbers, self.threads)
        supported = find_supported(supporting, self.precision)
        self.add(supported.points)
        turns = [(share, gap) for share in SHARES for gap in supported.gaps]
        for number, (share, gap) in enumerate(turns, start=1):
            try:
                self.close(numbers, gap, share)
            except _OutOfTimeError:
                self.left_open = True
                return
            if self.progress is not None:
                self.progress(number, len(turns))

    def close(self, numbers: Numbers, gap: Gap, share: float) -> None:
        """Add what is new in a gap, of what comes as near to the hull as `share` says: from near to
        far, which leaves less to look for.

        First what takes every configuration from one side of the gap or from the other: where a
        model repeats a layer, neighbours on the hull differ in all of its layers, and between them
        lies what differs in some. Then the configurations that come near the line, then all that
        could matter.
        """
        factor = (1 + self.precision) ** 0.5  # a half for corners, the other for thinning
        line = gap.lines[0]
        if not len(self.corners_in(gap, self.precision)):
            return
        corners = self.corners_in(gap, factor - 1)
        enough = max(line.at(*corner) for corner in zip(corners.time, corners.memory, strict=True))
        limit = line.least + share * (enough * (1 + SLACK) - line.least)
        marginal = np.zeros(0)
        if share:
            values = numbers.values(line.alpha, line.beta)
            marginal = values + numbers.outside(values)
        domains = {}
        for v, domain in numbers.domains.items():
            begin = numbers.slot_begin[numbers.circuit.instance_slot[1 + v]]
            near = domain[marginal[begin : begin + len(domain)] < limit] if share else domain[:0]
            domains[v] = np.union1d(near, [gap.low.choices[v], gap.high.choices[v]])
        part = Numbers(self.problem, domains, self.method, share=self.share)
        within = find_bounds(part, corners, share or 1.0, threads=self.threads)
        self.track_within(part, within, factor**0.5 if share == 1.0 else 1 + self.precision / 4)

    def corners_in(self, gap: Gap, precision: float) -> Corners:
        """The open corners of a gap."""
        memory = [point.memory for point in self.points]
        begin = max(bisect_right(memory, gap.low.memory) - 1, 0)
        end = bisect_left(memory, gap.high.memory) + 1
        return open_corners(
            self.points[begin:end], gap.lines, precision, (gap.low.time, gap.high.memory)
        )

    def track_within(self, numbers: Numbers, within: Bounds, factor: float) -> None:
        """Add what is within the bounds, thinned by the factor on the way and at the end."""
        values = self.run(numbers, within, factor)
        self.add(self.unroll(numbers, values, factor))

    def track_all(self, ways: Sequence[Domains]) -> None:
        """Add the frontiers of several ways to fix variables; those of which lines say that they
        hold nothing new are left out."""
        if not self.bounds:
            for domains in ways:
                self.track(domains)
            return
        slopes: list[Line] = []
        lines: list[list[Line]] = []
        for domains in ways:
            supporting = Supporting(Numbers(self.problem, domains, self.method), self.threads)
            if len(slopes) <= 2:  # none yet that had a solution and a trade-off
                find_supported(supporting, max(self.precision, 0.01))
                asked = sorted(supporting.known)
                slopes = [Line(*asked[i]) for i in _evenly(len(asked), TRIAL_LINES)]
            solved = supporting.solve(slopes)
            lines.append([line for line, _ in solved])
            self.add(point for _, point in solved)
        for i in sorted(range(len(ways)), key=lambda i: sum(line.least for line in lines[i])):
            if any(isinf(line.least) for line in lines[i]):
                continue
            if len(open_corners(self.points, lines[i], self.precision)):
                self.track(ways[i])

    def run(self, numbers: Numbers, within: Bounds, factor: float) -> list[Frontiers]:
        """The frontiers of every slot."""
        circuit = numbers.circuit
        factor = factor ** (1 / max(1, _depth(circuit.operations, numbers.first_slot)))
        values = [Frontiers(*leaf_points(np.zeros((1, 1)), np.zeros((1, 1))))]
        for slot, leaf in enumerate(circuit.leaves, start=1):
            time = leaf.time
            if len(within.enough):
                rest = within.outside[numbers.slot_begin[slot] : numbers.slot_begin[slot + 1]]
                time = np.where(np.isinf(rest[:, :1]), inf, time)
            values.append(Frontiers(*leaf_points(time, leaf.memory)))
        with ThreadPoolExecutor(self.threads) as pool:
            for number, operation in enumerate(circuit.operations):
                slot = numbers.first_slot + number
                outside = within.outside[numbers.slot_begin[slot] : numbers.slot_begin[slot + 1]]
                bounds = within._replace(outside=outside)
                values.append(self._contract(values, operation, bounds, factor, pool))
                if self.progress is not None and not self.bounds:
                    self.progress(number + 1, len(circuit.operations))
        return values

    def _contract(
        self,
        values: Sequence[Frontiers],
        operation: Operation,
        bounds: Bounds,
        factor: float,
        pool: ThreadPoolExecutor,
    ) -> Frontiers:
        left, right = values[operation.left], values[operation.right]
        maps = Maps(operation.left_map, operation.right_map)
        shared, first, variable, last = operation.shape
        num_entries = shared * first * last
        pairs = num_entries * variable * _mean_points(left) * _mean_points(right)
        self.work_left -= OVERHEAD + pairs
        if self.work_left < 0:
            raise _OutOfTimeError

        def part(entries: tuple[int, int]) -> Frontiers:
            if self.deadline is not None and perf_counter() > self.deadline:
                raise _OutOfTimeError
            return Frontiers(*contract(left, right, maps, bounds, factor, *entries))

        if self.threads < 2 or num_entries * variable < FEW_ENTRIES**2 or num_entries < 2:
            return part((0, num_entries))
        cuts = np.linspace(0, num_entries, min(num_entries, 32 * self.threads) + 1).astype(int)
        return _concatenated(
            list(pool.map(part, zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)))
        )

    def unroll(
        self, numbers: Numbers, values: Sequence[Frontiers], factor: float = 1.0
    ) -> Iterable[Assignment]:
        """The assignments of all points of the root, or, with a factor, of some."""
        circuit, problem = numbers.circuit, self.problem
        root = values[numbers.root_slot]
        number = np.arange(len(root.time), dtype=np.int32)
        if factor > 1 and len(number):
            points = Points(root.time.copy(), root.memory.copy(), number, number)
            kept = thin(points, len(number), factor)
            number = number[:kept]
        num_points = len(number)
        at: dict[int, NDArray[np.intp]] = {circuit.root: number.astype(np.intp)}
        num_tables = len(circuit.pairs)
        for i in range(circuit.root, num_tables, -1):
            value, point = values[circuit.instance_slot[i]], at.pop(i)
            at[int(circuit.instance_left[i])] = value.left[point].astype(np.intp)
            at[int(circuit.instance_right[i])] = value.right[point].astype(np.intp)
        time, memory = np.zeros(num_points), np.zeros(num_points)
        choices = np.zeros((num_points, problem.num_variables), np.int64)
        options: list[tuple[tuple[int, int], list[int]]] = []
        for i, pair in enumerate(circuit.pairs, start=1):
            slot = int(circuit.instance_slot[i])
            value, point = values[slot], at[i]
            entry = np.searchsorted(value.begin, point, side="right") - 1
            option = value.left[point]
            leaf = circuit.leaves[slot - 1]
            time += leaf.time[entry, option]
            memory += leaf.memory[entry, option]
            if pair[0] == pair[1]:
                choices[:, pair[0]] = numbers.domains[pair[0]][entry]
            if leaf.time.shape[1] > 1:
                options.append((pair, option.tolist()))
        for p in range(num_points):
            chosen: Mapping[tuple[int, int], int] = {pair: column[p] for pair, column in options}
            yield Assignment(
                choices=choices[p], options=chosen, time=float(time[p]), memory=float(memory[p])
            )


def _evenly(size: int, most: int) -> list[int]:
    """At most so many of the numbers below `size`, both ends among them."""
    return sorted(
        {round(i * (size - 1) / max(1, min(size, most) - 1)) for i in range(min(size, most))}
    )


def _concatenated(parts: Sequence[Frontiers]) -> Frontiers:
    begins, total = [np.zeros(1, np.int64)], 0
    for part in parts:
        begins.append(part.begin[1:] + total)
        total += len(part.time)
    return Frontiers(
        np.concatenate([part.time for part in parts]),
        np.concatenate([part.memory for part in parts]),
        np.concatenate([part.left for part in parts]),
        np.concatenate([part.right for part in parts]),
        np.concatenate(begins),
    )


def _depth(operations: Sequence[Operation], first_slot: int) -> int:
    """The most steps that lie above one another: in each, thinning may lose its factor."""
    depth = [0] * first_slot
    for operation in operations:
        depth.append(1 + max(depth[operation.left], depth[operation.right]))
    return depth[-1]


def _mean_points(factor: Frontiers) -> float:
    """How many points an entry has."""
    return len(factor.time) / max(1, len(factor.begin) - 1)
