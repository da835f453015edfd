"""The mixed-integer reference."""

from math import inf

import numpy as np
import pytest

from _reference_searches.milp import solve
from graphwright.errors import DoesNotFit, NothingFound
from graphwright.partition.estimate.problem import Problem, Table


def table(time, memory) -> Table:
    return Table(np.array(time, float), np.array(memory, float))


def trade(num_variables: int) -> Problem:
    return Problem((table([[1], [0]], [[0], [1]]),) * num_variables, {})


def test_no_variables():
    assert solve(Problem((), {})).time == 0


def test_a_limit_is_kept():
    found = solve(trade(10), memory_limit=6.5)
    assert (found.time, found.memory, found.exact) == (4, 6, True)
    assert int(found.choices.sum()) == 6


def test_options_are_whole_under_a_limit():
    """Half of the one option and half of the other would fit and be faster."""
    problem = Problem((table([[0, 10]], [[10, 0]]),), {})
    found = solve(problem, memory_limit=5)
    assert (found.time, found.memory) == (10, 0)
    assert found.options == {(0, 0): 1}


def test_least_memory():
    assert solve(trade(4), objective="memory").memory == 0


def test_costs_of_any_size():
    """Nanoseconds and gigabytes."""
    problem = Problem((table([[3e-9], [1e-9]], [[1e10], [4e10]]),) * 3, {})
    found = solve(problem, memory_limit=6.5e10)
    assert (found.time, found.memory) == pytest.approx((7e-9, 6e10))


def test_what_does_not_fit():
    problem = Problem((table([[1]], [[2e9]]),) * 2, {})
    with pytest.raises(
        DoesNotFit, match=r"at most 3,000,000,000 bytes; the smallest needs 4,000,000,000"
    ) as info:
        solve(problem, memory_limit=3e9)
    assert (info.value.limit, info.value.needed) == (3_000_000_000, 4_000_000_000)


def test_nothing_possible():
    problem = Problem((table([[inf]], [[1]]),), {})
    with pytest.raises(NothingFound, match="infinite time"):
        solve(problem)
    with pytest.raises(NothingFound, match="infinite time"):
        solve(problem, memory_limit=5)


def test_no_time_at_all():
    rng = np.random.default_rng(0)
    draw = lambda *shape: Table(rng.random((*shape, 1)), rng.random((*shape, 1)))
    edges = [(u, v) for v in range(12) for u in range(v)]
    problem = Problem(tuple(draw(12) for _ in range(12)), {edge: draw(12, 12) for edge in edges})
    with pytest.raises(NothingFound, match="within 1e-06 s"):
        solve(problem, time_limit=1e-6)
