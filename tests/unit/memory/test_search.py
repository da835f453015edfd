"""Which search a plan is said to be of, and when nothing has to be searched."""

from dataclasses import replace

import pytest

from graphwright.memory import Choice, Planner, find_plan, plan_without_swaps, program_order, search
from graphwright.plans import swapped_bytes, verify_memory
from memory_problems import figure_41


@pytest.mark.parametrize(
    ("greedy", "random", "winner"),
    [(10_000, 10_000, "greedy"), (10_000, 9_995, "greedy"), (10_000, 9_900, "random")],
)
def test_a_search_has_to_be_faster_than_a_simpler_one(monkeypatch, greedy, random, winner):
    """Times that differ by less than a thousandth are a tie; the first plan, START's, never wins it."""
    problem = figure_41()
    planner = Planner(problem)
    passed = planner.time(program_order(problem), 10, Choice())
    times = iter([10_000, greedy, random])
    monkeypatch.setattr(planner, "time", lambda *given: replace(passed, makespan=next(times)))
    for name in ("greedy", "random"):

        def once(state, name=name):
            state.try_one(name, program_order(problem), Choice())

        monkeypatch.setitem(search.SEARCHES, name, once)
    found = find_plan(problem, 10, searches=("greedy", "random"), planner=planner)
    assert found.plan.algorithm.startswith(winner)


def test_where_all_fits_data_alone_moves():
    problem = figure_41()
    room = sum(s.nbytes for s in problem.storages)
    lasting = replace(
        problem,
        storages=tuple(
            replace(s, ends="home") if s.begins_on_host else s for s in problem.storages
        ),
    )
    plan = plan_without_swaps(Planner(lasting), 10 * room)
    verify_memory(plan, lasting)
    assert swapped_bytes(plan, lasting) == (0, 0) and plan.arena <= room
    assert plan_without_swaps(Planner(lasting), max(lasting.needs)) is None
