"""Cost-based backtracking search (TASO algorithm 2) over graphs of a pool.

Graphs wait in a queue, the cheapest first. A graph's changes are tried one after the other: what
costs less than `alpha` times the best so far waits in turn, once. Alpha 1 is greedy; more lets the
search go over graphs that are dearer for a while.

Where a change has merged two tensors, the same is tried with all others that it fits: first in
pairs, then in pairs of pairs, and so on, as one kernel for all may be dearer than four. Biases and
activations are merged with them while that saves anything. One by one these steps could be dearer
for too long: 32 branches are cheaper in eights, though perhaps not the first two of them.

A change that makes the best graph so far is followed at once: the graph that it came from waits
with the changes that are left. So a chain of improvements, such as 32 branches that become one,
takes as many steps as it is long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from time import monotonic

from graphwright.rewrite.optimize.patterns import Change, Matcher, Pattern
from graphwright.rewrite.optimize.pool import Graph

ALPHA = 1.05
BETTER = 0.999
"""What costs this share of the best or less is better; prices are not known more closely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The cheapest graph that was found, its cost, and the rules on the way to it."""

    graph: Graph
    cost: float
    original: float
    applied: tuple[Pattern, ...]
    seen: int


def backtrack(
    matcher: Matcher,
    graph: Graph,
    *,
    alpha: float = ALPHA,
    budget: int = 1000,
    deadline: float = float("inf"),
) -> Found:
    """The cheapest graph that was found; `budget` is how many are looked at."""
    pool, order = matcher.pool, count()
    original = pool.cost(graph)
    best, least = graph, original
    way: tuple[Pattern, ...] = ()
    known = {graph}
    queue: list[tuple[float, int, Graph, tuple[Pattern, ...], Iterator[Change]]] = []
    heappush(queue, (original, next(order), graph, (), matcher.changes(graph)))
    while queue and len(known) < budget and monotonic() < deadline:
        cost, number, first, applied, changes = heappop(queue)
        if cost > alpha * least:
            break
        for change in changes:
            made = pool.replace(first, change.replaced)
            if made is None or made in known:
                continue
            known.add(made)
            steps = (*applied, change.pattern)
            if len(change.replaced) > 1:
                rounds = _rounds(matcher, first, change.pattern, deadline)
                every = dict.fromkeys((made, *rounds))
                made, steps = min(
                    (_followed(matcher, each, steps, deadline) for each in every),
                    key=lambda graph_and_steps: pool.cost(graph_and_steps[0]),
                )
                known.add(made)
            price = pool.cost(made)
            if price < alpha * least:
                heappush(queue, (price, next(order), made, steps, matcher.changes(made)))
            if price < BETTER * least:
                best, least, way = made, price, steps
                heappush(queue, (cost, number, first, applied, changes))
                break
            if len(known) >= budget or monotonic() >= deadline:
                break
    return Found(graph=best, cost=least, original=original, applied=way, seen=len(known))


def _rounds(matcher: Matcher, graph: Graph, pattern: Pattern, deadline: float) -> Iterator[Graph]:
    """The graph after each round of merges, in which no tensor is merged twice."""
    while True:
        start, merged = graph, frozenset[int]()
        while monotonic() < deadline and (step := matcher.merged(graph, pattern, merged)):
            graph, made = step
            merged |= made
        if graph == start:
            return
        yield graph


def _followed(
    matcher: Matcher, graph: Graph, steps: tuple[Pattern, ...], deadline: float
) -> tuple[Graph, tuple[Pattern, ...]]:
    """The graph after all that follows a merge, and the rules on the way."""
    pool = matcher.pool
    cost = pool.cost(graph)
    better = True
    while better:
        better = False
        for pattern in matcher.loose:
            for made in _rounds(matcher, graph, pattern, deadline):
                if (price := pool.cost(made)) < cost:
                    graph, cost, steps = made, price, (*steps, pattern)
                    better = True
    return graph, steps
