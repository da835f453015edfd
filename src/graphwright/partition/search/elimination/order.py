"""In which order to eliminate the variables of an additive problem, and by which steps.

A factor is a table over some variables, its scope: a variable's own table, a pair's, or the result
of a step. Eliminating a variable v replaces all factors over v by one over v's neighbours, in which
v is chosen best. TensorOpt (section 3.2) names

    node elimination    v has two neighbours: a - v - b becomes a - b               K^3 products
    edge elimination    factors with one scope become their product                 K^2
    branch elimination  v has more: the result ranges over all neighbours           K^(degree + 1)
    linear DP           v has one: CF(b) = union over v of CF(v) x E(v, b)          K^2

so that an order of elimination is all there is to choose. Both orders take what is cheapest first,
in classes:

    "ldp"           leaves and inner vertices of blocks: o=o=o=o -> o-o-o-o -> from the ends inwards
                    (a block is a part that no single vertex disconnects; what connects blocks comes
                    last, so that a tree remains: TensorOpt's linear graph, and more)
    "elimination"   the chain's inner vertices too, in their order, until two are left: K^3 a vertex
                    (FT-Elimination, OptCNN)

Identical layers are eliminated alike in either, which is what lets `elimination.circuit` solve them
once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import prod
from typing import Literal, NamedTuple

Method = Literal["ldp", "elimination"]
Scope = tuple[int, ...]
Graph = dict[int, set[int]]

JOIN = -1
"""The `variable` of a step that eliminates none."""

NONE = -1
"""The `right` of a step with one operand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The order of elimination, the products of its widest step, and those of all steps."""

    variables: tuple[int, ...]
    widest: int
    total: int


class Step(NamedTuple):
    """Join factor `left` with factor `right` and choose `variable` best. Factors are numbered,
    steps' results after the given."""

    left: int
    right: int
    variable: int
    scope: Scope


def find_order(sizes: Mapping[int, int], scopes: Iterable[Scope], method: Method) -> Order:
    """The order in which to eliminate all variables of `sizes` (variable: configurations)."""
    graph: Graph = {v: set() for v in sizes}
    for scope in scopes:
        for v in scope:
            graph[v].update(scope)
    for v, others in graph.items():
        others.discard(v)
    kept = _ends_and_cuts(_core(graph)) if method == "ldp" else _inner_of_chains(graph)

    depth = dict.fromkeys(sizes, 0)  # steps beneath: chains are eliminated from both ends alike

    def priority(v: int) -> tuple[int, int, int, int]:
        degree = len(graph[v])
        cost = sizes[v] * prod(sizes[n] for n in graph[v])
        if method == "ldp" and v not in kept:
            return (0, depth[v], cost, v) if degree < 2 else (1 if degree == 2 else 3, 0, cost, v)
        if method == "ldp":
            return (2, depth[v], cost, v) if degree < 2 else (3, 0, cost, v)
        if degree < 2 and v not in kept:
            return (0, 0, cost, v)
        return (1, 0, 0, v) if degree == 2 else (2, 0, cost, v)

    heap = [priority(v) for v in graph]
    heapify(heap)
    variables: list[int] = []
    widest = total = 0
    while heap:
        entry = heappop(heap)
        v = entry[3]
        if v not in graph or entry != priority(v):
            continue
        cost = sizes[v] * prod(sizes[n] for n in graph[v])
        widest, total = max(widest, cost), total + cost
        variables.append(v)
        neighbours = graph.pop(v)
        for n in neighbours:
            graph[n] |= neighbours
            graph[n] -= {n, v}
            depth[n] = max(depth[n], depth[v] + 1)
        for n in neighbours:
            heappush(heap, priority(n))
    return Order(variables=tuple(variables), widest=widest, total=total)


def find_steps(
    sizes: Mapping[int, int], scopes: Sequence[Scope], order: Sequence[int]
) -> list[Step]:
    """The steps that eliminate the variables in that order; the last makes the result."""
    steps: list[Step] = []
    scope_of: list[Scope] = list(scopes)
    holding: dict[int, list[int]] = {v: [] for v in sizes}
    closed: deque[int] = deque()

    def put(factor: int) -> None:
        for v in scope_of[factor]:
            holding[v].append(factor)
        if not scope_of[factor]:
            closed.append(factor)

    def take(v: int) -> list[int]:
        factors = holding.pop(v)
        for factor in factors:
            for other in scope_of[factor]:
                if other != v:
                    holding[other].remove(factor)
        return factors

    def step(left: int, right: int, variable: int) -> int:
        scope = step_scope(scope_of[left], scope_of[right] if right != NONE else (), variable)
        steps.append(Step(left, right, variable, scope))
        scope_of.append(scope)
        return len(scope_of) - 1

    def entries(factor: int) -> tuple[int, Scope, int]:
        scope = scope_of[factor]
        return (prod(sizes[v] for v in scope), tuple(sorted(scope)), factor)

    for factor in range(len(scope_of)):
        put(factor)
    for v in order:
        groups: dict[frozenset[int], int] = {}  # edge elimination
        for factor in take(v):
            scope = frozenset(scope_of[factor])
            groups[scope] = step(groups[scope], factor, JOIN) if scope in groups else factor
        factors = sorted(groups.values(), key=entries)
        while len(factors) > 2:
            factors[:2] = [step(factors[0], factors[1], JOIN)]
        if len(factors) == 1:
            put(step(factors[0], NONE, v))
        else:
            put(step(factors[0], factors[1], v))
    while len(closed) > 1:  # parts that nothing connects: as a balanced tree
        left, right = closed.popleft(), closed.popleft()
        put(step(left, right, JOIN))
    return steps


def step_scope(left: Scope, right: Scope, variable: int) -> Scope:
    """What a step's result ranges over: what both do, then left alone, then right alone."""
    shared = tuple(v for v in left if v in right and v != variable)
    return (
        *shared,
        *(v for v in left if v not in right and v != variable),
        *(v for v in right if v not in left and v != variable),
    )


def _inner_of_chains(graph: Graph) -> set[int]:
    """All but the leaves of stars: those go first, before their neighbours."""
    return {
        v for v, others in graph.items() if len(others) != 1 or len(graph[next(iter(others))]) <= 2
    }


def _core(graph: Graph) -> Graph:
    """What is left when leaves are taken off: blocks, and what connects them."""
    core = {v: set(others) for v, others in graph.items()}
    leaves = [v for v, others in core.items() if len(others) < 2]
    while leaves:
        v = leaves.pop()
        for n in core.pop(v, ()):
            core[n].discard(v)
            if len(core[n]) == 1:
                leaves.append(n)
    return core


def _ends_and_cuts(graph: Graph) -> set[int]:
    """What a tree of blocks is made of: vertices whose removal disconnects something, the first and
    the last of each component.

    The ends are kept as the paper marks the first operator, so that the first and the last layer
    are eliminated like all others.
    """
    separators: set[int] = set()
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    for root in sorted(graph):
        if root in number:
            continue
        number[root] = low[root] = len(number)
        stack = [(root, -1, iter(sorted(graph[root])))]
        last = root
        while stack:  # Tarjan, without recursion
            v, parent, others = stack[-1]
            for n in others:
                if n not in number:
                    number[n] = low[n] = len(number)
                    stack.append((n, v, iter(sorted(graph[n]))))
                    break
                if n != parent:
                    low[v] = min(low[v], number[n])
            else:
                stack.pop()
                last = max(last, v)
                if parent >= 0:
                    low[parent] = min(low[parent], low[v])
                    if low[v] >= number[parent]:
                        separators.add(parent)
        separators |= {root, last}
    return separators
