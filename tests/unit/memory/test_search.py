"""Which search a plan is said to be of, and when nothing has to be searched."""

from dataclasses import replace

import pytest

from graphwright.errors import InvalidOption
from graphwright.memory import Choice, Planner, find_plan, plan_without_swaps, program_order, search
from graphwright.plans import MemoryProblem, Operator, Storage, swapped_bytes, verify_memory
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


def test_parameters_that_are_read_once_come_in_equal_parts():
    """A chain with room for three quarters of its weights: the others come while operators run.

    Copies take 100, operators 120; with what is left at the end of a step as residents it is 279.
    """
    n = 40
    weights = [
        Storage(name=f"w{i}", nbytes=10, out_time=10, in_time=10, begins_on_host=True, ends="home")
        for i in range(n)
    ]
    values = [Storage(name=f"a{i}", nbytes=3, out_time=1, in_time=1) for i in range(n)]
    operators = [
        Operator(name=f"op{i}", reads=(i, n + i - 1) if i else (i,), makes=(n + i,), duration=3)
        for i in range(n)
    ]
    problem = MemoryProblem(operators=tuple(operators), storages=(*weights, *values))
    found = find_plan(problem, 300 + 30, searches=("greedy",))
    verify_memory(found.plan, problem)
    assert found.plan.makespan <= 1.6 * problem.compute_time


def test_what_is_small_and_lasts_never_leaves():
    """A thousand scales beside a few large weights: only the weights come and go."""
    large, small, count = 2_000_000, 512, 20
    storages, operators = [], []
    for i in range(count):
        for name, nbytes in ((f"weight{i}", large), (f"scale{i}", small)):
            storages.append(
                Storage(
                    name=name, nbytes=nbytes, out_time=nbytes, in_time=nbytes, begins_on_host=True,
                    ends="home",
                )
            )  # fmt: skip
        operators.append(
            Operator(name=f"step{i}", reads=(2 * i, 2 * i + 1), makes=(), duration=large,
                     writes=(2 * i + 1,), repeats=False)
        )  # fmt: skip
    problem = MemoryProblem(operators=tuple(operators), storages=tuple(storages))
    planner = Planner(problem)
    plan = planner.plan(program_order(problem), 8_000_000, Choice(policy="lru"))
    verify_memory(plan, problem)
    assert {f"scale{i}": small * i for i in range(count)}.items() <= plan.residents.items()
    assert not any(
        getattr(a, "name", "").startswith("scale") for a in plan.actions if a.stream != "run"
    )
    tight = planner.plan(program_order(problem), max(problem.needs), Choice(policy="lru"))
    verify_memory(tight, problem)  # where they would be in the way, they leave


def test_weights_that_are_updated_come_back_to_where_they_began():
    """Eight layers there and back, with room for six weights: from anywhere it takes 141."""
    n, weight = 8, 10
    weights = [
        Storage(name=f"w{i}", nbytes=weight, out_time=weight, in_time=weight, begins_on_host=True,
                ends="home")
        for i in range(n)
    ]  # fmt: skip
    values = [Storage(name=f"v{i}", nbytes=1, out_time=1, in_time=1) for i in range(2 * n)]
    forward = [
        Operator(name=f"f{i}", reads=(i, n + i - 1) if i else (i,), makes=(n + i,), duration=6)
        for i in range(n)
    ]
    backward = []
    for i in reversed(range(n)):
        after = (2 * n + i + 1,) if i < n - 1 else ()
        backward += [
            Operator(name=f"b{i}", reads=(i, n + i, *after), makes=(2 * n + i,), duration=6),
            Operator(name=f"u{i}", reads=(i, 2 * n + i), makes=(), writes=(i,), duration=1,
                     updates=True),
        ]  # fmt: skip
    problem = MemoryProblem(operators=(*forward, *backward), storages=(*weights, *values))
    found = find_plan(problem, 6 * weight, searches=("greedy",))
    verify_memory(found.plan, problem)
    assert len(found.plan.residents) >= 4
    assert found.plan.makespan <= 1.2 * problem.compute_time


@pytest.mark.parametrize("seed", [-1, 0.5, True, "3"])
def test_a_seed_is_a_whole_number_from_0_upwards(seed):
    with pytest.raises(InvalidOption, match="seed="):
        find_plan(figure_41(), 10, searches=("greedy",), seed=seed)
