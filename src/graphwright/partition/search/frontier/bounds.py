"""What a frontier need not track: bounds from weighed problems, which are cheap to solve.

Every weight w gives an assignment of least time + w * memory, a supported point, and a line below
which there is nothing:

    time                                 u, v   supported points: known assignments
     | u                                 ----   the line of their weight: nothing is below
     |  \\ . n                            n      the corner (time of u, memory of v)
     |    \\                             what beats both lies in the triangle of line and corner
     |      \\ v
     +------------ memory

`find_supported` asks for the weight of the line through two neighbours and splits where a point is
found below it (Aneja and Nair), until only neighbours on the hull are left or triangles are closed:
with a precision p, nothing need be better than a known point by less than a factor 1 + p, so that
corners move towards the origin, and a corner below the line closes its triangle.

For the open triangles, `Bounds` holds for every entry of every slot the least value of all the rest
(`Numbers.outside`). A partial point that, together with the least value of the rest, is beyond the
corner for the weight of each open triangle leads to nothing new and is dropped. This is exact, and
most points go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf, isinf
from typing import NamedTuple

import numpy as np

from graphwright.partition.estimate import Assignment, Floats
from graphwright.partition.search.elimination import Numbers
from graphwright.partition.search.frontier.kernels import Bounds

SLACK = 1e-9
"""Relative: more than what rounding amounts to, so that no point is dropped for it."""

ROUNDING = 1e-12
"""Relative: sums in another order differ by less."""

MOST_LINES = 32
"""For how many weights bounds are held."""

MOST_BYTES = 1 << 29
"""How much memory bounds may take."""


class Line(NamedTuple):
    """alpha * time + beta * memory is never less than `least`."""

    alpha: float
    beta: float
    least: float = 0.0

    def at(self, time: float, memory: float) -> float:
        return self.alpha * time + self.beta * memory


class Gap(NamedTuple):
    """Two neighbours on the hull, of less memory and of less time, and lines that bound what lies
    between; the first is theirs."""

    low: Assignment
    high: Assignment
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Supported:
    """Known assignments, memory upwards, and the gaps in which something new may be."""

    points: tuple[Assignment, ...]
    gaps: tuple[Gap, ...]


Solved = tuple[Line, Assignment]


class Supporting:
    """Solves weighed problems, each once."""

    def __init__(self, numbers: Numbers, threads: int) -> None:
        self.numbers = numbers
        self.threads = threads
        self.known: dict[tuple[float, float], Solved] = {}

    def solve(self, lines: Sequence[Line]) -> list[Solved]:
        """The least value, and an assignment that has it, for each line."""
        new = list({line[:2]: line for line in lines if line[:2] not in self.known}.values())
        if len(new) > 1 and self.threads > 1:
            with ThreadPoolExecutor(self.threads) as pool:
                answers = list(pool.map(self._solve, new))
        else:
            answers = [self._solve(line) for line in new]
        for line, solved in zip(new, answers, strict=True):
            self.known[line[:2]] = solved
        return [self.known[line[:2]] for line in lines]

    def _solve(self, line: Line) -> Solved:
        values = self.numbers.values(line.alpha, line.beta)
        assignment = self.numbers.assignment(values, line.alpha, line.beta)
        return line._replace(least=self.numbers.total(values)), assignment


def find_supported(supporting: Supporting, precision: float, *, most: int = 2000) -> Supported:
    """Supported points until no triangle can shrink, from about `most` weighed problems."""
    shrink = 1.0 + precision
    low, high = supporting.solve([Line(0.0, 1.0), Line(1.0, 0.0)])
    if isinf(low[1].time):
        return Supported(points=(), gaps=())
    left: list[Gap] = []
    gaps: list[tuple[Solved, Solved]] = [(low, high)]

    def is_open(low: Assignment, high: Assignment, *lines: Line) -> bool:
        return all(
            line.at(low.time / shrink, high.memory / shrink) * (1 + SLACK) > line.least
            for line in lines
        )

    while gaps:
        asked: list[tuple[Solved, Solved, Line]] = []
        for low, high in gaps:
            alpha = high[1].memory - low[1].memory
            beta = low[1].time - high[1].time
            if not is_open(low[1], high[1], low[0], high[0]):
                continue
            if alpha <= 0 or beta <= 0 or len(supporting.known) >= most:
                left.append(Gap(low[1], high[1], (low[0], high[0])))
            else:
                asked.append((low, high, Line(alpha / (alpha + beta), beta / (alpha + beta))))
        gaps = []
        answers = supporting.solve([line for _, _, line in asked])
        for (low, high, _), (line, point) in zip(asked, answers, strict=True):
            below = line.least < line.at(low[1].time, low[1].memory) * (1 - ROUNDING)
            if below and point.time < low[1].time and point.memory < high[1].memory:
                gaps += [(low, (line, point)), ((line, point), high)]
            elif is_open(low[1], high[1], line):
                left.append(Gap(low[1], high[1], (line, low[0], high[0])))
    known = supporting.known.values()
    return Supported(
        points=tuple(nondominated([point for _, point in known])),
        gaps=tuple(left),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Corners:
    """Anything new has less time and less memory than one of these, and lies above its line."""

    time: Floats
    memory: Floats
    lines: tuple[Line, ...]

    def __len__(self) -> int:
        return len(self.lines)


def open_corners(
    points: Sequence[Assignment],
    lines: Sequence[Line],
    precision: float,
    most: tuple[float, float] = (inf, inf),
) -> Corners:
    """The corners between neighbours, each with the line that it is least above; those below some
    line are none.

    `most` is the time and the memory that anything new stays below.
    """
    time = np.array([point.time for point in points[:-1]]).clip(max=most[0]) / (1 + precision)
    memory = np.array([point.memory for point in points[1:]]).clip(max=most[1]) / (1 + precision)
    alpha, beta, least = (np.array(column) for column in zip(*lines, strict=True))
    height = (np.outer(time, alpha) + np.outer(memory, beta)) * (1 + SLACK) - least
    best = np.argmin(height / (np.abs(least) + 1e-300), axis=1)
    is_open = (height > 0).all(axis=1)
    return Corners(
        time=time[is_open],
        memory=memory[is_open],
        lines=tuple(lines[i] for i in best[is_open]),
    )


def nondominated(points: Iterable[Assignment]) -> list[Assignment]:
    """The points that none dominates, up to rounding, memory upwards; the first of equals."""
    kept: list[Assignment] = []
    for point in sorted(points, key=lambda point: (point.memory, point.time)):
        if isinf(point.time) or (kept and point.time >= kept[-1].time * (1 - ROUNDING)):
            continue
        if kept and point.memory <= kept[-1].memory * (1 + ROUNDING):
            kept.pop()
        kept.append(point)
    return kept


def no_bounds() -> Bounds:
    """Bounds that drop nothing."""
    return Bounds(alpha=np.zeros(0), beta=np.zeros(0), enough=np.zeros(0), outside=np.zeros((0, 0)))


def find_bounds(numbers: Numbers, corners: Corners, share: float = 1.0, *, threads: int) -> Bounds:
    """Bounds for the lines of the open triangles, or for some of them if they are many; only a
    share of their height, if asked for."""
    num_entries = int(numbers.slot_begin[-1])
    most = min(MOST_LINES, max(2, MOST_BYTES // (8 * num_entries)))
    slope = np.array([line.alpha for line in corners.lines])
    order = np.argsort(slope, kind="stable")
    # Each chosen line serves a run of corners, its own in their middle.
    distinct = np.unique(slope)
    groups = np.array_split(distinct, min(most, len(distinct)))
    lines, enough = [], []
    for group in groups:
        run = [i for i in order if group[0] <= slope[i] <= group[-1]]
        line = next(corners.lines[i] for i in run if slope[i] == group[len(group) // 2])
        lines.append(line)
        highest = max(line.at(corners.time[i], corners.memory[i]) for i in run)
        enough.append(line.least + share * (highest - line.least))
    num_lines = len(lines)
    outside = np.empty((num_entries, num_lines))
    limits = np.array(enough) * (1 + SLACK)

    def fill(j: int) -> Floats:
        values = numbers.values(lines[j].alpha, lines[j].beta)
        outside[:, j] = numbers.outside(values)
        return values + outside[:, j]

    useful = np.zeros(num_entries, np.bool_)
    with ThreadPoolExecutor(threads) as pool:
        for j, total in enumerate(pool.map(fill, range(num_lines))):
            useful |= total < limits[j]
    outside[~useful] = np.inf
    return Bounds(
        alpha=np.array([line.alpha for line in lines]),
        beta=np.array([line.beta for line in lines]),
        enough=limits,
        outside=outside,
    )
