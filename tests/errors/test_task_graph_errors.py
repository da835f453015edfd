"""Task graphs that no simulation can take: each message names the task and the rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphwright.errors import InvalidTaskGraph
from graphwright.plans import TaskGraph
from graphwright.simulate import verify_task_graph
from graphwright.simulate.delta.schedule import DeltaSchedule
from graphwright.simulate.engine import schedule
from graphwright.simulate.memory import memory
from task_graphs import make_task_graph, make_values


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def two_tasks(**changes: object) -> TaskGraph:
    g = make_task_graph([1, 2], [(0, 1)], [[0], [0, 1]], num_resources=2)
    return replace(g, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"duration": ints(1, -2)}, r"task 1 \(key 1\): its duration is negative"),
        ({"key": ints(5, 5)}, r"task 1 \(key 5\): its key is not greater"),
        (
            {"succ": np.array([0], np.int32), "indegree": np.array([1, 0], np.int32)},
            r"task 0 .*no cycle",
        ),
        ({"succ": np.array([2], np.int32)}, r"task 0 .*to no task"),
        ({"resource": np.array([0, 0, 2], np.int32)}, r"task 1 .*a resource that there is not"),
        ({"resource": np.array([0, 1, 1], np.int32)}, r"task 1 .*a resource twice"),
        ({"indegree": np.array([0, 2], np.int32)}, r"task 1 .*its indegree is not"),
        ({"succ_ptr": ints(0, 1)}, r"succ_ptr of 2 tasks has 2 entries"),
        ({"resource_ptr": ints(0, 1, 2)}, r"resource_ptr of 2 tasks .* from 0 to 3"),
        ({"resource_ptr": ints(0, 4, 3)}, r"task 1 .*end before they begin"),
        ({"key": ints(1)}, r"2 durations, 1 keys, 2 indegrees"),
    ],
)
def test_a_broken_task_graph_is_refused(changes, message):
    with pytest.raises(InvalidTaskGraph, match=message):
        schedule(two_tasks(**changes))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((4, 0, 3, False, [], [1]), r"value 0 \(4 bytes, activation, on device 0\).*no task gives birth"),
        ((4, 1, 3, False, [0], []), r"values.device goes from 1 to 1; there are 1"),
        ((4, 0, 9, False, [0], []), r"values.category goes from 9 to 9; there are 5"),
        ((4, 0, 0, False, [7], []), r"values.birth_task goes from 7 to 7; there are 3"),
        ((4, 0, 0, False, [0], [-1]), r"values.use_task goes from -1 to -1; there are 3"),
        ((-4, 0, 0, False, [0], []), r"value 0 has -4 bytes"),
    ],
)  # fmt: skip
def test_a_value_from_nowhere_is_refused(row, message):
    g = two_tasks(values=make_values([row]))
    with pytest.raises(InvalidTaskGraph, match=message):
        memory(g, schedule(g))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": np.array([0], np.uint8)}, "2 tasks, but 1 entries of kind"),
        ({"load": ints()}, "0 loads of 3 occupied resources"),
        ({"kind": np.array([0, 99], np.uint8)}, r"task 1 \(key 1\): it is of no known kind"),
        ({"kind": np.array([1, 0], np.uint8)}, r"task 0 .*a transfer without a label"),
        ({"device": ints(0, 1)}, r"task 1 .*it computes on no device"),
        ({"nbytes": ints(0, 8)}, r"task 1 .*it computes, and yet carries bytes"),
        (
            {"values": make_values([(4, 0, 3, False, [1], [0])])},
            r"value 0 \(4 bytes, activation, on device 0\) is used by task 0, and born by 1",
        ),
    ],
)
def test_all_rules_at_once(changes, message):
    verify_task_graph(two_tasks())
    with pytest.raises(InvalidTaskGraph, match=message):
        verify_task_graph(two_tasks(**changes))


def test_a_proposal_that_makes_no_sense_is_refused_and_leaves_no_trace():
    delta, slots = DeltaSchedule.of(two_tasks())
    for attempt, message in (
        (lambda: delta.add(ints(-1), ints(9), ints(0, 0), ints()), "duration -1"),
        (lambda: delta.add(ints(1), ints(9), ints(0, 1), ints(2)), r"resources \[2\] of 2"),
        (lambda: delta.add(ints(1), ints(9), ints(0, 2), ints(1, 1)), "given twice"),
        (lambda: delta.add(ints(1), ints(9), ints(0, 2), ints(1)), "from 0 to 2, not from 0 to 1"),
        (lambda: delta.add(ints(1), ints(), ints(0, 0), ints()), "1 durations, 0 keys"),
        (lambda: delta.remove(ints(0, 1, 0)), "slot 0 holds no task"),
        (lambda: delta.remove(ints(77)), "slot 77 holds no task"),
        (lambda: delta.link(slots[1:], slots[:1]), "the target's key is not the greater"),
        (lambda: delta.link(slots[:1], ints(5000)), "slot 5000: one of them holds no task"),
        (lambda: delta.link(slots[:1], slots), "1 sources and 2 targets"),
    ):
        with pytest.raises(InvalidTaskGraph, match=message):
            attempt()
    assert delta.evaluate() == delta.makespan == 3
    delta.remove(slots[1:])
    with pytest.raises(InvalidTaskGraph, match="holds no task"):
        delta.link(slots[:1], slots[1:])
    delta.reject()
    assert delta.evaluate() == 3
