"""What no solution within a bound can use, left out of an additive problem before it is solved.

No entry of a table is negative, so an assignment that gives variable v its configuration c costs

    at least    unary[v, c]  +  sum over pairs (v, u) of  min over d of pair[v, u][c, d]

and where that is more than a known solution, c is left out (`prune`). That may raise what others
cost at least, so it is done again while something changes. Moving a large array costs so much that
little is left but tilings that agree, whatever the size of the graph.

Where many small arrays leave too much, costs are passed on between neighbours first, so that what
the rest of the graph costs at least shows in each variable's own (`diffuse`: sequential tree-
reweighted diffusion, as in soft arc consistency; the sum over all tables never changes). Then the
same test leaves out more, and what is left is ordered by what it costs at least (`nearest`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphwright.frozen import FrozenDict
from graphwright.partition.estimate import Floats, Pair, Problem, Table

Ints = NDArray[np.int64]
_ROUNDS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Pruned:
    """A problem with fewer configurations, and the numbers that they had."""

    problem: Problem
    kept: tuple[Ints, ...]

    def original(self, choices: Ints) -> list[int]:
        """The configurations of an assignment, by the numbers that they had."""
        return [int(kept[c]) for kept, c in zip(self.kept, choices.tolist(), strict=True)]

    def only(self, some: Sequence[Ints]) -> Pruned:
        """The problem with some of the configurations that are left."""
        kept = tuple(own[numbers] for own, numbers in zip(self.kept, some, strict=True))
        return Pruned(_select(self.problem, some), kept)


def whole(problem: Problem) -> Pruned:
    """All of a problem."""
    return Pruned(problem, tuple(np.arange(len(table.time)) for table in problem.unary))


def prune(problem: Problem, bound: float) -> Pruned:
    """The problem without what is in no assignment of `bound` or less."""
    kept = [np.arange(len(table.time)) for table in problem.unary]
    if not np.isfinite(bound):
        return Pruned(problem, tuple(kept))
    near: list[dict[int, Floats]] = [{} for _ in kept]
    for (u, v), table in problem.pairs.items():
        near[u][v] = table.time.min(axis=2)
        near[v][u] = near[u][v].T
    least: list[dict[int, Floats]] = [
        {u: costs.min(axis=1) for u, costs in own.items()} for own in near
    ]
    waiting = set(range(len(kept)))
    for _ in range(_ROUNDS):
        changed: set[int] = set()
        for v in sorted(waiting):
            cost = problem.unary[v].time.min(axis=1)[kept[v]]
            for own in least[v].values():
                cost = cost + own[kept[v]]
            good = cost <= bound
            if not good.all():
                kept[v] = kept[v][good]
                changed.add(v)
        waiting = set()
        for v in changed:
            for u in near[v]:
                least[u][v] = near[u][v][:, kept[v]].min(axis=1, initial=np.inf)
                waiting.add(u)
        if not changed:
            break
    return Pruned(_select(problem, kept), tuple(kept))


def diffuse(problem: Problem, bound: float, rounds: int) -> list[Floats]:
    """What an assignment costs at least with each configuration of each variable.

    Entries beyond the bound count as a little more than that.
    """
    most = 2 * bound + 1
    unary = [np.minimum(table.time.min(axis=1), most) for table in problem.unary]
    near: list[list[tuple[int, Floats]]] = [[] for _ in unary]
    for (u, v), table in problem.pairs.items():
        costs = np.minimum(table.time.min(axis=2), most)
        near[u].append((v, costs))
        near[v].append((u, costs.T))
    count = len(unary)
    for turn in range(2 * rounds + 1):
        forward = turn % 2 == 0
        for v in range(count) if forward else reversed(range(count)):
            _pass_on(v, unary[v], near[v], forward)
    total = 0.0
    for v in range(count):
        for u, costs in near[v]:
            if u > v:
                least = float(costs.min())
                costs -= least
                total += least
        total += float(unary[v].min())
    return [
        np.sum([own - own.min(), *(costs.min(axis=1) for _, costs in others)], axis=0) + total
        for own, others in zip(unary, near, strict=True)
    ]


def _pass_on(v: int, own: Floats, near: list[tuple[int, Floats]], forward: bool) -> None:
    """Gather at a variable what its pairs cost at least, and give it to the pairs ahead."""
    for _, costs in near:
        least = costs.min(axis=1)
        own += least
        costs -= least[:, None]
    ahead = [costs for u, costs in near if (u > v) == forward]
    if ahead:
        share = own / max(len(ahead), len(near) - len(ahead))
        for costs in ahead:
            costs += share[:, None]
        own -= len(ahead) * share


def within(costs: Sequence[Floats], bound: float) -> list[Ints]:
    """The configurations of each variable that may keep a bound."""
    return [np.flatnonzero(own <= bound) for own in costs]


def nearest(costs: Sequence[Floats], known: Sequence[int], width: int) -> list[Ints]:
    """The configurations of each variable that cost the least, and the known one."""
    return [
        np.union1d(np.argsort(own, kind="stable")[:width], [at]).astype(np.int64)
        for own, at in zip(costs, known, strict=True)
    ]


def complete(
    problem: Problem, choices: Iterable[int], excluded: Mapping[int, int] = FrozenDict()
) -> list[int]:
    """The first variables as given, and each of the others, which touch none but those, at best,
    but for one excluded configuration."""
    made = list(choices)
    given = len(made)
    costs = [table.time.min(axis=1).copy() for table in problem.unary[given:]]
    for (u, v), table in problem.pairs.items():
        if v >= given:
            costs[v - given] += table.time[made[u]].min(axis=1)
    for v, configuration in excluded.items():
        costs[v - given][configuration] = np.inf
    return [*made, *(int(np.argmin(own)) for own in costs)]


def _select(problem: Problem, kept: Sequence[Ints]) -> Problem:
    """The problem with some configurations; tables that were one stay one."""
    known: dict[tuple[object, ...], Table] = {}

    def cut(table: Table, *rows: Ints) -> Table:
        key = (table.key, *(row.tobytes() for row in rows))
        if key not in known:
            known[key] = Table(table.time[np.ix_(*rows)], table.memory[np.ix_(*rows)])
        return known[key]

    unary = tuple(cut(table, kept[v]) for v, table in enumerate(problem.unary))
    pairs: dict[Pair, Table] = {
        (u, v): cut(table, kept[u], kept[v]) for (u, v), table in problem.pairs.items()
    }
    return Problem(unary, pairs)
