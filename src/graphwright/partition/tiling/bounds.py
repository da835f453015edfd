"""What no solution within a bound can use, left out of an additive problem before it is solved.

No entry of a table is negative, so an assignment that gives variable v its configuration c costs

    at least    unary[v, c]  +  sum over pairs (v, u) of  min over d of pair[v, u][c, d]

and where that is more than a known solution, c is left out. That may raise what others cost at
least, so it is done again while something changes. Moving a large array costs so much that little
is left but tilings that agree, whatever the size of the graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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


def _select(problem: Problem, kept: list[Ints]) -> Problem:
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
