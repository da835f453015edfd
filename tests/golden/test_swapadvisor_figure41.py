"""The toy of SwapAdvisor's Figure 4.1: four published makespans, and the best of all schedules and pools."""

import pytest

from graphwright.memory import Choice, Planner, names_to_order
from graphwright.plans import verify_memory
from memory_problems import COARSE, FINE, LEFT_FIRST, PUBLISHED, RIGHT_FIRST, figure_41
from reference_swapping import all_orders, all_pools, fastest

ORDERS = {"left": LEFT_FIRST, "right": RIGHT_FIRST}
POOLS = {"coarse": COARSE, "fine": FINE}
CAPACITY = 10


@pytest.mark.parametrize(("order", "pool"), PUBLISHED)
def test_published_makespans(order, pool):
    problem = figure_41()
    numbers = names_to_order(problem, ORDERS[order])
    assert fastest(problem, numbers.tolist(), POOLS[pool]) == PUBLISHED[order, pool]
    plan = Planner(problem).plan(numbers, CAPACITY, Choice(), POOLS[pool])
    assert plan.makespan == PUBLISHED[order, pool]
    assert plan.order == ORDERS[order]
    verify_memory(plan, problem)


def test_belady_needs_the_threshold_where_the_paper_does():
    """In Figure 4.1(b) the furthest next use is that of A0, but A1 was used longer ago."""
    problem = figure_41()
    order, planner = names_to_order(problem, LEFT_FIRST), Planner(problem)
    times = [
        planner.plan(order, CAPACITY, Choice(policy="belady", threshold=t), COARSE).makespan
        for t in range(4)
    ]
    assert times == [7, 7, 7, 6]


def test_no_schedule_and_pool_is_faster_than_six():
    problem = figure_41()
    times = {
        (order, pool): fastest(problem, order, pool)
        for order in all_orders(problem)
        for pool in all_pools((1, 2), CAPACITY)
    }
    assert (
        len(times) == 4 * 12
    )  # Conv1 anywhere beside the others; one class, or 0 to 10 places of 1 MB
    assert min(t for t in times.values() if t is not None) == 6
    planner = Planner(problem)
    for (order, pool), exact in times.items():
        passed = planner.time(
            names_to_order(problem, [problem.operators[i].name for i in order]),
            CAPACITY,
            Choice(),
            pool,
        )
        assert (passed is None) == (exact is None)
        assert passed is None or passed.makespan >= exact


@pytest.mark.parametrize("order", ORDERS)
def test_an_arena_without_classes_needs_six_in_any_order(order):
    problem = figure_41()
    plan = Planner(problem).plan(names_to_order(problem, ORDERS[order]), CAPACITY, Choice())
    verify_memory(plan, problem)
    assert plan.makespan == 6 and plan.arena <= CAPACITY
