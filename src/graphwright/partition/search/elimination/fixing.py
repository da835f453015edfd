"""Which variables to fix where elimination alone would be too wide (TensorOpt's heuristic
elimination).

A mask that every layer reads, or a tied weight, closes cycles through all layers:

         hub                       without it a chain is left: fix the hub, eliminate the rest,
       / / \\ \\                     for all of its configurations or the most promising
    o - o - o - o

The variable to fix is the one without which the widest step of the elimination is the least wide.
"""

from __future__ import annotations

from graphwright.partition.estimate import Problem
from graphwright.partition.search.elimination.circuit import Domains, all_configurations, scopes_of
from graphwright.partition.search.elimination.order import Method, Scope, find_order

CANDIDATES = 12
"""How many variables, those with most neighbours, are considered."""


def work_of(problem: Problem, method: Method = "ldp") -> int:
    """How many products eliminating all variables makes."""
    sizes, scopes = scopes_of(problem, all_configurations(problem))
    return find_order(sizes, scopes, method).total


def choose_fixed(problem: Problem, domains: Domains, method: Method, limit: int) -> tuple[int, ...]:
    """The variables to fix so that no step makes more than `limit` products."""
    sizes, scopes = scopes_of(problem, domains)
    fixed: list[int] = []
    order = find_order(sizes, scopes, method)
    while order.widest > limit and sizes:
        degree = dict.fromkeys(sizes, 0)
        for scope in scopes:
            for v in scope:
                degree[v] += len(scope) - 1
        candidates = sorted(sizes, key=lambda v: (-degree[v], v))[:CANDIDATES]
        trials = []
        for v in candidates:
            smaller = {u: size for u, size in sizes.items() if u != v}
            without = find_order(smaller, _without(scopes, v), method)
            trials.append((max(without.widest, limit), without.total * sizes[v], v, without))
        _, _, hub, order = min(trials, key=lambda trial: trial[:3])
        fixed.append(hub)
        del sizes[hub]
        scopes = _without(scopes, hub)
    return tuple(fixed)


def _without(scopes: list[Scope], hub: int) -> list[Scope]:
    return [tuple(u for u in scope if u != hub) for scope in scopes]
