"""What is left out of a problem is in no solution within the bound."""

from random import Random

import numpy as np
import pytest

from graphwright.partition.estimate import Problem, Table
from graphwright.partition.search import least
from graphwright.partition.tiling.bounds import complete, diffuse, nearest, prune, within
from random_problems import SHAPES, random_problem


def without_options(problem: Problem) -> Problem:
    """The same problem, times alone."""

    def first(table: Table) -> Table:
        return Table(table.time[..., :1], np.zeros_like(table.time[..., :1]))

    return Problem(
        tuple(map(first, problem.unary)), {p: first(t) for p, t in problem.pairs.items()}
    )


def drawn(shape: str, seed: int) -> tuple[Problem, float]:
    rng = Random(f"{shape} {seed}")
    problem = without_options(random_problem(rng, shape, rng.randint(3, 6), alike=False))
    return problem, least(problem).time


@pytest.mark.parametrize("shape", SHAPES)
def test_the_best_is_never_left_out(shape):
    for seed in range(12):
        problem, best = drawn(shape, seed)
        if not np.isfinite(best):
            continue
        bound = best * 1.2 + 1e-9
        pruned = prune(problem, bound)
        assert least(pruned.problem).time == pytest.approx(best)
        costs = diffuse(pruned.problem, bound, 5)
        assert all(own.min() <= best * (1 + 1e-9) + 1e-9 for own in costs)
        left = pruned.only(within(costs, bound))
        solution = least(left.problem)
        assert solution.time == pytest.approx(best)
        choices = left.original(solution.choices)
        assert problem.evaluate(choices, {})[0] == pytest.approx(best)
        narrow = left.only(nearest(costs_of(costs, bound), solution.choices.tolist(), 1))
        assert least(narrow.problem).time == pytest.approx(best)


def costs_of(costs, bound):
    return [own[kept] for own, kept in zip(costs, within(costs, bound), strict=True)]


def test_passing_costs_on_leaves_out_more():
    """A chain whose ends disagree: no single table shows that the middle has to pay."""
    agree = Table(np.array([[0.0, 5.0], [5.0, 0.0]])[..., None], np.zeros((2, 2, 1)))
    ends = [np.array([0.0, 9.0]), np.zeros(2), np.array([9.0, 0.0])]
    problem = Problem(
        tuple(Table(e[:, None], np.zeros((2, 1))) for e in ends), {(0, 1): agree, (1, 2): agree}
    )
    costs = diffuse(problem, 5.0, 3)
    assert [own.min() for own in costs] == pytest.approx([5.0] * 3)
    assert [len(kept) for kept in within(costs, 5.0)] == [1, 2, 1]


def test_the_rest_is_completed_at_best():
    rng = np.random.default_rng(0)
    unary = tuple(Table(rng.random((3, 1)), np.zeros((3, 1))) for _ in range(4))
    pairs = {
        (u, v): Table(rng.random((3, 3, 1)), np.zeros((3, 3, 1)))
        for u, v in ((0, 2), (1, 2), (1, 3))
    }
    problem = Problem(unary, pairs)
    made = complete(problem, [1, 2])
    times = [problem.evaluate([1, 2, a, b], {})[0] for a in range(3) for b in range(3)]
    assert problem.evaluate(made, {})[0] == pytest.approx(min(times))
