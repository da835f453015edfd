"""Every search for partitions against trying everything, on random additive problems of all shapes."""

from functools import cache
from itertools import pairwise
from math import inf, isinf
from random import Random

import numpy as np
import pytest

from _reference_searches import milp as exact
from graphwright.errors import DoesNotFit, NothingFound
from graphwright.partition.estimate.problem import Problem, Table
from graphwright.partition.search.elimination.circuit import all_configurations, compile_problem
from graphwright.partition.search.elimination.weighted import least, objective, sweep
from graphwright.partition.search.frontier.tracking import track
from random_problems import SHAPES, brute_force, costs_of, covers, random_problem

SEEDS = range(20)
WEIGHTS = (0.0, 0.3, 1.0, 4.0, inf)
Points = list[tuple[float, float]]


@cache
def solved(shape: str, seed: int) -> tuple[Problem, Points]:
    rng = Random(f"{shape} {seed}")
    problem = random_problem(rng, shape, rng.randint(2, 6), alike=seed % 3 == 0)
    return problem, brute_force(problem)


def same(found: Points, wanted: Points) -> bool:
    return covers(found, wanted) and covers(wanted, found)


def check_points(problem: Problem, points) -> None:
    """Points evaluate to what they claim, memory upwards, time downwards."""
    for point in points:
        claimed = (point.time, point.memory)
        assert problem.evaluate(point.choices, point.options) == pytest.approx(claimed)
    assert all(a.memory < b.memory and a.time > b.time for a, b in pairwise(points))


def weighed(points: Points, weight: float) -> float:
    values = (m if isinf(weight) else t + weight * m for t, m in points)
    return min(values, default=inf)


@pytest.mark.parametrize("shape", SHAPES)
def test_least_is_the_least(shape):
    for seed in SEEDS:
        problem, frontier = solved(shape, seed)
        for method in ("ldp", "elimination"):
            found = sweep(problem, WEIGHTS, method=method, threads=1)
            for weight, one in zip(WEIGHTS, found, strict=True):
                assert one.exact
                assert objective(one, weight) == pytest.approx(weighed(frontier, weight)), seed
                if frontier:
                    claimed = (one.time, one.memory)
                    assert problem.evaluate(one.choices, one.options) == pytest.approx(claimed)


@pytest.mark.parametrize("shape", SHAPES)
def test_highs_agrees(shape):
    for seed in SEEDS[::2]:
        problem, frontier = solved(shape, seed)
        if not frontier:
            with pytest.raises(NothingFound):
                exact.solve(problem)
            continue
        assert exact.solve(problem).time == pytest.approx(frontier[-1][0])
        assert exact.solve(problem, objective="memory").memory == pytest.approx(frontier[0][1])
        one = exact.solve(problem, weight=0.3)
        assert one.time + 0.3 * one.memory == pytest.approx(weighed(frontier, 0.3))
        time, limit = frontier[len(frontier) // 2]
        within = exact.solve(problem, memory_limit=limit * (1 + 1e-9))
        assert within.exact
        assert within.time == pytest.approx(time)
        assert within.memory <= limit * (1 + 1e-6)
        if frontier[0][1] > 0.1:
            with pytest.raises(DoesNotFit):
                exact.solve(problem, memory_limit=frontier[0][1] * 0.99)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bounds": False},
        {"method": "elimination"},
        {"method": "elimination", "bounds": False},
        {"share": False},
        {"bounds": False, "share": False},
        {"limit": 30},
        {"limit": 30, "bounds": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", SHAPES)
def test_whole_frontier(shape, options):
    for seed in SEEDS:
        problem, frontier = solved(shape, seed)
        found = track(problem, threads=1, **options)
        assert found.exact
        check_points(problem, found.points)
        assert same(costs_of(found.points), frontier), f"seed {seed}"


@pytest.mark.parametrize("bounds", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_precision_is_kept(shape, bounds):
    for seed in SEEDS:
        problem, frontier = solved(shape, seed)
        for precision in (0.02, 0.3):
            found = track(problem, threads=1, precision=precision, bounds=bounds)
            check_points(problem, found.points)
            costs = costs_of(found.points)
            assert covers(frontier, costs), f"seed {seed}"
            assert covers(costs, frontier, 1 + precision), f"seed {seed}"
            if frontier:
                assert costs[0][1] == pytest.approx(frontier[0][1])
                assert costs[-1][0] == pytest.approx(frontier[-1][0])


@pytest.mark.parametrize("shape", ["general", "hub", "skips"])
def test_what_is_too_wide_is_found_in_part(shape, monkeypatch):
    """With hardly any way to fix variables allowed, what is found is possible and, at the ends, not far off."""
    monkeypatch.setattr("graphwright.partition.search.frontier.tracking.MOST_TRIALS", 2)
    monkeypatch.setattr("graphwright.partition.search.elimination.weighted.MOST_TRIALS", 2)
    inexact = 0
    for seed in SEEDS:
        problem, frontier = solved(shape, seed)
        found = track(problem, threads=1, limit=8)
        check_points(problem, found.points)
        assert covers(frontier, costs_of(found.points))
        if found.exact:
            assert same(costs_of(found.points), frontier)
        inexact += not found.exact
        one = least(problem, 0.3, limit=8)
        assert objective(one, 0.3) >= weighed(frontier, 0.3) - 1e-9
        if one.exact:
            assert objective(one, 0.3) == pytest.approx(weighed(frontier, 0.3))
    assert inexact > 5


def test_larger_problems_agree_with_each_other():
    """Too large to try everything: FT as published, with bounds, and HiGHS."""
    for seed in range(8):
        rng = Random(seed)
        shape = ("series-parallel", "chain", "skips", "tree")[seed % 4]
        problem = random_problem(
            rng, shape, 14, most_configurations=6, alike=seed % 2 == 0, infinite=0.02, whole=False
        )
        plain = costs_of(track(problem, threads=1, bounds=False).points)
        assert same(costs_of(track(problem, threads=1).points), plain)
        assert same(costs_of(track(problem, threads=2, method="elimination").points), plain)
        within = costs_of(track(problem, threads=1, precision=0.01).points)
        assert covers(within, plain, 1.01)
        assert exact.solve(problem).time == pytest.approx(plain[-1][0])
        assert least(problem, 0.5).exact
        middle = plain[len(plain) // 2]
        limited = exact.solve(problem, memory_limit=middle[1] * (1 + 1e-9))
        assert limited.time == pytest.approx(middle[0])


def test_repeated_layers_are_solved_once():
    """Sharing changes nothing but the number of steps that differ."""
    rng = Random(5)
    draw = lambda *dims: Table(
        *(np.array([rng.random() for _ in range(np.prod(dims))]).reshape(dims) for _ in range(2))
    )
    own, link = [draw(3, 1) for _ in range(4)], draw(3, 3, 2)
    block = {edge: draw(3, 3, 1) for edge in ((0, 1), (0, 2), (1, 3), (2, 3))}
    unary, pairs = [], {}
    for layer in range(8):
        first = len(unary)
        unary += own
        pairs |= {(u + first, v + first): table for (u, v), table in block.items()}
        if layer:
            pairs[first - 1, first] = link
    problem = Problem(tuple(unary), pairs)
    shared = track(problem, bounds=False, threads=1)
    apart = track(problem, bounds=False, threads=1, share=False)
    assert same(costs_of(shared.points), costs_of(apart.points))
    domains = all_configurations(problem)
    once, each = (compile_problem(problem, domains, share=share) for share in (True, False))
    assert once.root == each.root == len(each.pairs) + len(each.operations)
    assert len(once.operations) < 0.6 * len(each.operations)
    check_points(problem, shared.points)
