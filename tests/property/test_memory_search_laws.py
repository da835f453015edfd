"""Searches return valid plans, and more memory never makes them slower."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwright.memory import early_order, find_plan, local_order
from graphwright.plans import verify_memory
from memory_problems import random_problem


@pytest.mark.parametrize("search", ["lru", "belady", "greedy", "schedules", "places"])
@given(data=st.data())
def test_more_memory_never_makes_a_plan_slower(search, data):
    problem = random_problem(data.draw)
    least = max(problem.needs)
    capacities = sorted(data.draw(st.lists(st.integers(0, 40), min_size=2, max_size=3)))
    times = []
    for more in capacities:
        found = find_plan(problem, least + more, searches=(search,))
        verify_memory(found.plan, problem)
        times.append(found.plan.makespan)
    assert times == sorted(times, reverse=True)


@given(st.data(), st.integers(0, 1000))
def test_plans_for_less_memory_count_as_found(data, seed):
    """So more memory makes no plan slower, whatever searches draw and whenever they end."""
    problem = random_problem(data.draw, max_operators=8)
    least = max(problem.needs)
    known = []
    for more in sorted(data.draw(st.lists(st.integers(0, 40), min_size=2, max_size=3))):
        found = find_plan(
            problem, least + more, searches=("lru", "random"), budget=0.0, seed=seed, known=known
        )
        verify_memory(found.plan, problem)
        assert found.plan.capacity == least + more
        assert all(found.plan.makespan <= plan.makespan for plan in known)
        known.append(found.plan)


@given(st.data(), st.integers(0, 1000))
def test_all_searches_give_valid_plans(data, seed):
    problem = random_problem(data.draw, max_operators=6)
    found = find_plan(problem, max(problem.needs) + 2, budget=0.0, seed=seed)
    verify_memory(found.plan, problem)
    assert found.plan.makespan == min(found.times.values())


@given(st.data(), st.integers(1, 40), st.booleans())
def test_a_local_order_takes_what_needs_the_least(data, room, lean):
    """Each operator needs as little as any that was ready, looked at one by one."""
    problem = random_problem(data.draw)
    ops, before = problem.operators, problem.predecessors
    nbytes = [storage.nbytes for storage in problem.storages]
    rank = {int(i): at for at, i in enumerate(early_order(problem))}
    left = [sum(s in op.reads for op in ops) for s in range(len(nbytes))]
    recent: list[int] = []
    done: list[int] = []

    def need(i):
        if ops[i].updates and before[i]:
            return 0, rank[i]
        missing = sum(nbytes[s] for s in ops[i].reads if s not in recent)
        if lean:
            missing += sum(nbytes[s] for s in ops[i].makes)
            free = (s for s in ops[i].reads if left[s] == 1 and problem.storages[s].ends == "free")
            missing -= sum(nbytes[s] for s in free)
        return missing, rank[i]

    while len(done) < len(ops):
        ready = [i for i in range(len(ops)) if i not in done and set(before[i]) <= set(done)]
        i = min(ready, key=need)
        done.append(i)
        for s in (*ops[i].reads, *ops[i].makes):
            recent = [*(r for r in recent if r != s), s]
        for s in ops[i].reads:
            left[s] -= 1
            if not left[s]:
                recent = [r for r in recent if r != s]
        while sum(nbytes[s] for s in recent) > room and len(recent) > 1:
            recent = recent[1:]
    assert local_order(problem, room, lean).tolist() == done
