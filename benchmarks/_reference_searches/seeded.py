"""What a known plan is in the additive problem of an estimate that was given it."""

from __future__ import annotations

import numpy as np

from graphwright.partition import Assignment, Estimate


def assignment_of(estimate: Estimate, number: int) -> Assignment | None:
    """The assignment of one of the plans that a model was given, None where it has none."""
    problem = estimate.problem()
    choices = np.zeros(problem.num_variables, dtype=np.int64)
    for g, seeds in enumerate(estimate.seeds):
        seed = seeds[number]
        if seed is None:
            return None
        choices[g] = int(np.flatnonzero(estimate.active[g] == seed)[0])
    options: dict[tuple[int, int], int] = {}
    for (u, v), table in problem.pairs.items():
        entry = table.time[choices[u], choices[v]]
        options[u, v] = int(np.argmin(entry))
    time, memory = problem.evaluate(choices.tolist(), options)
    return Assignment(choices=choices, options=options, time=time, memory=memory)
