"""Memory plans that are damaged, edited or for something else are refused, and the message says where."""

import json
from dataclasses import replace

import pytest

from graphwright.errors import InvalidOption, PlanFormatError
from graphwright.memory import Choice, Planner, find_plan, least_bytes_in, program_order
from graphwright.plans import (
    InvalidMemoryPlan,
    MemoryPlan,
    MemoryProblem,
    MemoryTooSmall,
    Operator,
    SwapIn,
    SwapOut,
    verify_memory,
)
from memory_problems import COARSE, figure_41

PROBLEM = figure_41()
PLAN = Planner(PROBLEM).plan(program_order(PROBLEM), 10, Choice(), COARSE)


def without(kind, name):
    """The plan without an action; nobody waits for it any more."""
    gone = next(n for n, a in enumerate(PLAN.actions) if isinstance(a, kind) and a.name == name)

    def moved(n):
        return n - (n > gone) if n != gone else -1

    rest = [n for n in range(len(PLAN.actions)) if n != gone]
    return replace(
        PLAN,
        actions=tuple(
            replace(PLAN.actions[n], after=tuple(map(moved, PLAN.actions[n].after))) for n in rest
        ),
        starts=tuple(PLAN.starts[n] for n in rest),
        ends=tuple(PLAN.ends[n] for n in rest),
    )


def test_reading_what_is_not_there():
    with pytest.raises(InvalidMemoryPlan, match="reads W1, which is not on the device"):
        verify_memory(without(SwapIn, "W1"), PROBLEM)


def test_returning_what_never_left():
    with pytest.raises(InvalidMemoryPlan, match=r"in A1 .*: the host has no copy"):
        verify_memory(without(SwapOut, "A1"), PROBLEM)


def test_more_than_the_capacity():
    with pytest.raises(InvalidMemoryPlan, match="arena of 10 bytes exceeds the capacity of 9"):
        verify_memory(replace(PLAN, capacity=9), PROBLEM)


def test_places_outside_of_the_arena():
    with pytest.raises(InvalidMemoryPlan, match="not inside the arena"):
        verify_memory(replace(PLAN, arena=6), PROBLEM)


def test_two_tensors_in_one_place():
    actions = [replace(a, offset=0) if isinstance(a, SwapIn) else a for a in PLAN.actions]
    with pytest.raises(InvalidMemoryPlan, match=r"overlaps|not on the device"):
        verify_memory(replace(PLAN, actions=tuple(actions)), PROBLEM)


def test_operators_that_never_run():
    last = [n for n, a in enumerate(PLAN.actions) if a.stream == "compute"][-2]
    cut = replace(
        PLAN, actions=PLAN.actions[:last], starts=PLAN.starts[:last], ends=PLAN.ends[:last]
    )
    with pytest.raises(InvalidMemoryPlan, match="2 operators never run, Conv4 first"):
        verify_memory(cut, PROBLEM)


def test_times_that_cannot_be():
    with pytest.raises(InvalidMemoryPlan, match=r"starts before|predicted duration"):
        verify_memory(replace(PLAN, starts=(0,) * len(PLAN.starts)), PROBLEM)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "plan"}, "not a memory plan"),
        ({"version": 7}, "version 7"),
        ({"actions": [["fly", "A0", [-1, -1, -1]]]}, r"actions\[0\] is no action"),
        ({"actions": [["in", "A0", [-1, -1], 3]]}, "one number for each stream"),
        ({"residents": {"W1": "here"}}, "whole numbers"),
        ({"speed": 1}, "unknown field 'speed'"),
    ],
)
def test_damaged_files(tmp_path, change, message):
    path = tmp_path / "plan.json"
    PLAN.save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(PlanFormatError, match=message):
        MemoryPlan.load(path)


def test_a_capacity_below_one_operator_names_it():
    with pytest.raises(MemoryTooSmall, match="operator Conv2 needs 4 bytes at once"):
        find_plan(PROBLEM, 3)


def test_unknown_searches_are_listed():
    with pytest.raises(InvalidOption, match=r"'luck' is no search; there are lru, belady"):
        find_plan(PROBLEM, 10, searches=("luck",))


def test_the_exact_reference_is_for_small_problems():
    many = tuple(Operator(name=f"o{n}", reads=(), makes=(), duration=1) for n in range(17))
    with pytest.raises(InvalidOption, match="17 operators are too many"):
        least_bytes_in(MemoryProblem(operators=many, storages=()), 1)
