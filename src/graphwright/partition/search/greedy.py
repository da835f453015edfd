"""Spartan's greedy orders: decide group by group, each for the least cost given what has been
decided.

largest     the group of the largest tensor first, then of the second largest, and so on
connected   the group first that has the most decided neighbours
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from graphwright.partition.estimate import Assignment, Estimate, Problem

Order = Literal["largest", "connected"]


def greedy(problem: Problem, sizes: list[float], order: Order = "largest") -> Assignment:
    """An assignment; `sizes` tells how large each variable's largest tensor is."""
    count = problem.num_variables
    near: dict[int, list[tuple[int, NDArray[np.float64]]]] = {v: [] for v in range(count)}
    for (u, v), table in problem.pairs.items():
        costs = table.time[..., 0]
        near[u].append((v, costs.T))
        near[v].append((u, costs))
    choices = np.full(count, -1, dtype=np.int64)
    decided_near = np.zeros(count)
    for _ in range(count):
        undecided = np.flatnonzero(choices < 0)
        if order == "largest":
            v = int(max(undecided, key=lambda w: (sizes[w], -w)))
        else:
            v = int(max(undecided, key=lambda w: (decided_near[w], sizes[w], -w)))
        cost = problem.unary[v].time[:, 0].copy()
        for u, costs in near[v]:
            if choices[u] >= 0:
                cost += costs[choices[u]]
            decided_near[u] += 1
        choices[v] = int(np.argmin(cost))
    time, memory = problem.evaluate(choices.tolist(), {})
    return Assignment(choices=choices, options={}, time=time, memory=memory)


def largest_of_groups(estimate: Estimate) -> list[float]:
    """The bytes of the largest tensor that each group makes or keeps."""
    graph = estimate.coarse.facts.graph
    return [
        float(
            max(
                graph.tensors[name].type.nbytes
                for node in group.nodes
                for name in (*graph.nodes[node].outputs, *group.inputs)
            )
        )
        for group in estimate.coarse.groups
    ]
