"""The genetic operators on the paper's own examples, and what they leave valid."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwright.memory import Planner, Pool, find_plan, program_order
from graphwright.memory.genetic import (
    cross_orders,
    cross_pools,
    mutate_order,
    mutate_pool,
    random_pool,
    repair_classes,
    repair_counts,
    survivors,
)
from graphwright.plans import verify_memory
from memory_problems import figure_41, random_problem

SIZES = (1, 2, 3, 4)


def test_crossing_schedules_as_figure_45():
    """Slice [2, 3, 4] of one parent, then 1 and 5 as the other has them; numbers from 0 here."""
    first, second = np.array([0, 1, 2, 3, 4]), np.array([1, 2, 3, 0, 4])
    assert cross_orders(first, second, 3).tolist() == [1, 2, 3, 0, 4]
    assert cross_orders(second, first, 3).tolist() == [0, 1, 2, 3, 4]


def test_crossing_pools_as_figure_46():
    first = Pool(sizes=SIZES, classes=(0, 0, 0, 0), counts=(4,))
    second = Pool(sizes=SIZES, classes=(0, 1, 1, 1), counts=(8, 1))
    child = cross_pools(first, second, 2, capacity=12)
    assert child.classes == (0, 1, 1, 1)  # [1, 2, 1, 1] repaired
    assert child.counts == (4, 2)  # [8, 3] takes 20 MB; repaired


def test_repairs_of_the_paper():
    assert repair_classes((0, 1, 0, 0)) == (0, 1, 1, 1)
    assert repair_counts((1, 4), (8, 3), 12) == (4, 2)


@given(st.data(), st.integers(0, 2**32 - 1))
def test_children_are_valid(data, seed):
    problem = random_problem(data.draw)
    random = np.random.default_rng(seed)
    planner = Planner(problem)
    order = program_order(problem)
    one = mutate_order(planner.arrays, order, 0.5, random)
    other = mutate_order(planner.arrays, order, 1.0, random)
    for child in (one, cross_orders(one, other, int(random.integers(len(order) + 1)))):
        place = np.empty(len(order), int)
        place[child] = np.arange(len(order))
        for i, before in enumerate(problem.predecessors):
            assert all(place[b] < place[i] for b in before)
    sizes = tuple(sorted({s.nbytes for s in problem.storages}))
    capacity = sum(sizes) + int(random.integers(30))
    pool = random_pool(sizes, capacity, random)
    for made in (pool, mutate_pool(pool, 0.5, capacity, random)):
        assert made.nbytes <= capacity
        steps = np.diff((0, *made.classes))
        assert set(steps.tolist()) <= {0, 1} and made.classes[0] == 0


def test_mutating_nothing_changes_nothing():
    planner = Planner(figure_41())
    order = np.array([0, 2, 3, 1, 4, 5])
    same = mutate_order(planner.arrays, order, 0.0, np.random.default_rng(0))
    assert same.tolist() == order.tolist()


def test_the_best_always_survives():
    random = np.random.default_rng(0)
    assert survivors([3.0, 1.0, float("inf"), 2.0], 2, 1.0, random)[0] == 1
    assert survivors([float("inf"), 1.0], 5, 1.0, random) == [1]


@pytest.mark.parametrize("search", ["genetic", "pools"])
def test_genetic_searches_reach_the_optimum_of_figure_41(search):
    problem = figure_41()
    found = find_plan(problem, 10, searches=(search,), budget=2.0, seed=1)
    assert found.times[search] == 6  # the exhaustive search finds no better one
    verify_memory(found.plan, problem)
