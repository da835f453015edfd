"""Which configurations of a group are worth tracking, where there are too many for all.

Growing: on many devices a group has thousands of configurations. Start with those that have one
joint choice for each level, solve for several weights of memory against time, and add to every
group what differs in one axis from what the solutions use; until they get no better. Each round is
solved exactly, for all groups at once, so changes that only pay together are found.

Narrowing: then keep the best few, by an estimate of what the whole plan would cost with each:

    message(u -> v, c) = min over c' of  unary[u, c'] + pair[u, v][c', c] + other messages into u
    belief(v, c)       = unary[v, c] + messages into v

A few rounds of such messages (min-sum belief propagation: exact on trees, close on graphs of
layers) for the same weights. A configuration is kept if it is among the best for some weight in
some of the groups that are equal to it. What known plans use is always kept. Equal groups keep
equal configurations, so that their tables stay shared.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from graphwright.partition.estimate import Assignment, Estimate, Pair, Problem, Table
from graphwright.partition.search.elimination import sweep

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_MESSAGES = 4
_GROWTHS = 6
_ENOUGH = 1e-3
"""A round of growing that gains less than this share is the last."""
_WEIGHTS = (0.0, 0.03, 0.3, 3.0, 30.0)
"""Of memory against time, where 1 makes the least of the one as dear as the least of the other."""
WHOLE = 128
"""So many configurations are taken as they are."""


def narrow(estimate: Estimate, width: int | None) -> Estimate:
    """The estimate with about `width` configurations of every group, all of them if None."""
    if width is None:
        return estimate
    most = max(map(len, estimate.all), default=0)
    if most > max(width, WHOLE):
        estimate = grow(estimate)
    if max(map(len, estimate.configurations), default=0) <= width:
        return estimate
    scores = _scores(estimate.problem())
    kept: dict[int, Ints] = {}
    for members in _classes(estimate).values():
        if len(estimate.configurations[members[0]]) <= width:
            continue
        rank = np.min(
            [np.argsort(np.argsort(scores[g], axis=1, kind="stable"), axis=1) for g in members],
            axis=0,
        )
        order = np.lexsort((rank.sum(axis=0), rank.min(axis=0)))
        for g in members:
            kept[g] = np.sort(estimate.active[g][order[:width]])
    return estimate.select(kept)


def grow(estimate: Estimate) -> Estimate:
    """The estimate with the configurations around the solutions for several weights."""
    classes = _classes(estimate)
    estimate = estimate.select({g: every.uniform() for g, every in enumerate(estimate.all)})
    before = [np.inf] * len(_WEIGHTS)
    for _ in range(_GROWTHS):
        problem = estimate.problem()
        weights = _weights(problem)
        solutions = sweep(problem, weights)
        values = [a.time + w * a.memory for a, w in zip(solutions, weights, strict=True)]
        if all(new > old * (1 - _ENOUGH) for new, old in zip(values, before, strict=True)):
            break
        before = values
        estimate = estimate.select(_around(estimate, classes, solutions))
    return estimate


def _around(
    estimate: Estimate, classes: dict[Hashable, list[int]], solutions: Sequence[Assignment]
) -> dict[int, Ints]:
    """What the solutions use in any of the groups that are alike, and what is near."""
    wanted: dict[int, Ints] = {}
    for members in classes.values():
        used = {int(estimate.active[g][a.choices[g]]) for g in members for a in solutions}
        near = estimate.all[members[0]].near(np.array(sorted(used), dtype=np.int64))
        wanted.update(dict.fromkeys(members, near))
    return wanted


def _classes(estimate: Estimate) -> dict[Hashable, list[int]]:
    """Groups that are alike."""
    classes: dict[Hashable, list[int]] = {}
    for g in range(len(estimate.all)):
        classes.setdefault(estimate.key(g), []).append(g)
    return classes


def _weights(problem: Problem) -> list[float]:
    time = sum(float(t.time.min()) for t in problem.unary)
    memory = sum(float(t.memory.min()) for t in problem.unary)
    return [w * time / memory if memory > 0 else 0.0 for w in _WEIGHTS]


# -- beliefs ---------------------------------------------------------------------------------------


def _scores(problem: Problem) -> list[Floats]:
    """Beliefs for every variable, [weight, configuration], each less its least."""
    scores: list[list[Floats]] = [[] for _ in problem.unary]
    for weight in _weights(problem):
        for v, belief in enumerate(_beliefs(problem, weight)):
            scores[v].append(belief - belief.min())
    return [np.array(rows) for rows in scores]


def _beliefs(problem: Problem, weight: float) -> list[Floats]:
    known: dict[bytes, Floats] = {}

    def cost(table: Table) -> Floats:
        if table.key not in known:
            known[table.key] = (table.time + weight * table.memory).min(axis=-1)
        return known[table.key]

    unary = [cost(t) for t in problem.unary]
    pairs = {pair: cost(t) for pair, t in problem.pairs.items()}
    messages: dict[Pair, Floats] = {}
    for u, v in pairs:
        messages[u, v] = np.zeros(len(unary[v]))
        messages[v, u] = np.zeros(len(unary[u]))
    into: dict[int, list[int]] = {}
    for u, v in messages:
        into.setdefault(v, []).append(u)

    def beliefs() -> list[Floats]:
        return [
            np.sum([own, *(messages[u, v] for u in into.get(v, ()))], axis=0)
            for v, own in enumerate(unary)
        ]

    solved: dict[tuple[bytes, bool, bytes], Floats] = {}
    for _ in range(_MESSAGES):
        belief, fresh = beliefs(), {}
        for (u, v), table in pairs.items():
            for a, b, costs in ((u, v, table), (v, u, table.T)):
                given = belief[a] - messages[b, a]
                key = (problem.pairs[u, v].key, a < b, given.tobytes())
                if key not in solved:
                    sent = (given[:, None] + costs).min(axis=0)
                    solved[key] = sent - sent.min()
                fresh[a, b] = solved[key]
        messages = fresh
    return beliefs()
