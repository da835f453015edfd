"""Random additive problems of many shapes, and their whole frontier by trying everything."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random

import numpy as np

from graphwright.partition.estimate.problem import Problem, Table

SHAPES = ("single", "loose", "chain", "tree", "series-parallel", "general", "skips", "hub", "parts")


def random_problem(
    rng: Random,
    shape: str,
    num_variables: int,
    *,
    most_configurations: int = 4,
    most_options: int = 3,
    whole: bool | None = None,
    infinite: float = 0.08,
    alike: bool = False,
) -> Problem:
    """A problem of that shape; `whole` costs are small integers (many ties), `alike` repeats tables as layers do."""
    n = 1 if shape == "single" else num_variables
    whole = rng.random() < 0.5 if whole is None else whole
    sizes = [
        most_configurations if alike else rng.randint(1, most_configurations) for _ in range(n)
    ]
    known: dict[tuple[int, ...], list[Table]] = {}

    def table(*dims: int) -> Table:
        if alike and len(known.get(dims, ())) >= 2:
            return rng.choice(known[dims])
        full = (*dims, rng.randint(1, most_options))
        values = np.array([rng.random() for _ in range(2 * int(np.prod(full)))]).reshape(2, *full)
        time, memory = np.floor(values * 12) if whole else values * 10 + 0.01
        time[np.array([rng.random() < infinite for _ in range(time.size)]).reshape(full)] = np.inf
        made = Table(time, memory)
        known.setdefault(dims, []).append(made)
        return made

    edges = {(min(u, v), max(u, v)) for u, v in shape_edges(rng, shape, n) if u != v}
    return Problem(
        unary=tuple(table(size) for size in sizes),
        pairs={(u, v): table(sizes[u], sizes[v]) for u, v in sorted(edges)},
    )


def shape_edges(rng: Random, shape: str, n: int) -> list[tuple[int, int]]:
    """The pairs of a graph of that shape."""
    chain = list(pairwise(range(n)))
    if shape in ("single", "loose"):
        return []
    if shape == "chain":
        return chain
    if shape == "tree":
        return [(rng.randrange(v), v) for v in range(1, n)]
    if shape == "series-parallel":
        edges = [(0, 1)] if n > 1 else []
        for v in range(2, n):
            u, w = rng.choice(edges)
            if rng.random() < 0.5:
                edges.remove((u, w))
            edges += [(u, v), (v, w)]
        return edges
    if shape == "skips":
        return chain + [(v, v + rng.randint(2, 3)) for v in range(n - 3) if rng.random() < 0.6]
    if shape == "hub":
        return chain + [(0, v) for v in range(1, n)]
    if shape == "parts":
        return [(u, v) for u, v in chain if rng.random() < 0.6]
    return [(u, v) for v in range(n) for u in range(v) if rng.random() < 0.5]


def brute_force(problem: Problem) -> list[tuple[float, float]]:
    """The whole frontier as (time, memory), memory upwards, from all assignments and options."""
    points = [(0.0, 0.0)] if problem.num_variables == 0 else []
    options: dict[tuple, list[tuple[float, float]]] = {}

    def frontier_of(key: tuple, table: Table, entry: tuple[int, ...]) -> list[tuple[float, float]]:
        if (key, entry) not in options:
            pairs = zip(table.time[entry].tolist(), table.memory[entry].tolist(), strict=True)
            options[key, entry] = nondominated(list(pairs))
        return options[key, entry]

    sizes = [range(len(table.time)) for table in problem.unary]
    for choices in product(*sizes) if sizes else ():
        reached = [(0.0, 0.0)]
        for v, table in enumerate(problem.unary):
            reached = added(reached, frontier_of((v,), table, (choices[v],)))
        for (u, v), table in problem.pairs.items():
            reached = added(reached, frontier_of((u, v), table, (choices[u], choices[v])))
        points += reached
        if len(points) > 5000:
            points = nondominated(points)
    return nondominated(points)


def added(
    left: list[tuple[float, float]], right: list[tuple[float, float]]
) -> list[tuple[float, float]]:
    sums = [(t + dt, m + dm) for t, m in left for dt, dm in right]
    return sums if len(right) == 1 else nondominated(sums)


def nondominated(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other dominates, memory upwards; those of infinite time are none."""
    kept: list[tuple[float, float]] = []
    best = np.inf
    for time, memory in sorted(points, key=lambda point: (point[1], point[0])):
        if time < best:
            kept.append((time, memory))
            best = time
    return kept


def covers(
    found: list[tuple[float, float]], wanted: list[tuple[float, float]], factor: float = 1.0
) -> bool:
    """Whether each wanted point has one found of at most `factor` times its time and memory, up to rounding."""
    slack = factor * (1 + 1e-9)
    return all(
        any(t <= slack * time + 1e-9 and m <= slack * memory + 1e-9 for t, m in found)
        for time, memory in wanted
    )


def costs_of(points) -> list[tuple[float, float]]:
    """The (time, memory) of assignments."""
    return [(point.time, point.memory) for point in points]
