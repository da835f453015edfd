"""Searches return valid plans, and more memory never makes them slower."""

from hypothesis import given
from hypothesis import strategies as st

from graphwright.memory import find_plan
from graphwright.plans import verify_memory
from memory_problems import random_problem


@given(st.data())
def test_more_memory_never_makes_a_plan_slower(data):
    problem = random_problem(data.draw)
    least = max(problem.needs)
    capacities = sorted(data.draw(st.lists(st.integers(0, 40), min_size=2, max_size=3)))
    times = []
    for more in capacities:
        found = find_plan(problem, least + more, searches=("greedy",))
        verify_memory(found.plan, problem)
        times.append(found.plan.makespan)
    assert times == sorted(times, reverse=True)


@given(st.data(), st.integers(0, 1000))
def test_all_searches_give_valid_plans(data, seed):
    problem = random_problem(data.draw, max_operators=6)
    found = find_plan(problem, max(problem.needs) + 2, budget=0.0, seed=seed)
    verify_memory(found.plan, problem)
    assert found.plan.makespan == min(found.times.values())
