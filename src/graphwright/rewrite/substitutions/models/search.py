"""Cost-based backtracking search over the graphs that rules lead to (TASO algorithm 2).

Graphs wait in a queue, the cheapest first. Every rule is applied to the first one wherever it fits;
what costs less than `alpha` times the best so far waits in turn, once. Alpha 1 is greedy; more lets
the search go over graphs that are dearer for a while.

A graph costs the sum of its nodes. What depends on weights alone is computed once, ahead of
inference, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

from graphwright.ir import PERSISTENT_ROLES, Graph, Node
from graphwright.rewrite.substitutions.graphs import Substitution
from graphwright.rewrite.substitutions.models.find import find
from graphwright.rewrite.substitutions.models.recognise import recognise
from graphwright.rewrite.substitutions.models.replace import replace_match

ALPHA = 1.05
NodeCost = Callable[[Graph, Node], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The cheapest graph, its cost beside the original's, and the way to it."""

    graph: Graph
    cost: float
    original: float
    applied: tuple[Substitution, ...]
    seen: int


def search(
    graph: Graph,
    substitutions: Iterable[Substitution],
    cost: NodeCost,
    *,
    alpha: float = ALPHA,
    budget: int = 1000,
) -> Found:
    """The cheapest graph that was found; `budget` is how many are made."""
    rules, number = list(substitutions), count()
    original = cost_of(graph, cost)
    best = Found(graph=graph, cost=original, original=original, applied=(), seen=1)
    queue = [(original, next(number), graph, best.applied)]
    known = {graph.hash}
    while queue and len(known) < budget:
        _, _, first, applied = heappop(queue)
        for match in find(recognise(first), rules):
            made = replace_match(first, match)
            if made.hash in known:
                continue
            known.add(made.hash)
            price, way = cost_of(made, cost), (*applied, match.substitution)
            if price < best.cost:
                best = Found(graph=made, cost=price, original=original, applied=way, seen=0)
            if price < alpha * best.cost:
                heappush(queue, (price, next(number), made, way))
            if len(known) >= budget:
                break
    return Found(
        graph=best.graph,
        cost=best.cost,
        original=original,
        applied=best.applied,
        seen=len(known),
    )


def cost_of(graph: Graph, cost: NodeCost) -> float:
    """The sum over all nodes that depend on more than weights."""
    fixed = {name for name in graph.inputs if graph.tensors[name].role in PERSISTENT_ROLES}
    total = 0.0
    for node in graph.nodes:
        if all(name is None or name in fixed for name in node.inputs):
            fixed.update(node.outputs)
        else:
            total += cost(graph, node)
    return total
