"""Proposals to a task graph, small enough to time by hand. The laws are in property/test_schedule_laws."""

from __future__ import annotations

import numpy as np

from graphwright.plans import TaskGraph
from graphwright.simulate.delta.schedule import DeltaSchedule
from task_graphs import lockstep, make_task_graph


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def chain() -> tuple[DeltaSchedule, np.ndarray]:
    """Three tasks of 10 on one device; keys 0, 10, 20."""
    g = make_task_graph(
        [10, 10, 10], [(0, 1), (1, 2)], [[0], [0], [0]], num_resources=2, key=ints(0, 10, 20)
    )
    return DeltaSchedule.of(g)


def test_an_empty_schedule_takes_no_time():
    delta = DeltaSchedule(3)
    assert (delta.makespan, delta.evaluate(), len(delta)) == (0, 0, 0)
    delta.accept()
    delta.reject()
    assert delta.makespan == 0


def test_tasks_are_added_to_nothing():
    delta = DeltaSchedule(1, num_tasks=1, num_edges=1)
    slots = delta.add(ints(5, 6, 7), ints(1, 2, 3), ints(0, 1, 2, 2), ints(0, 0))
    delta.link(slots[:1], slots[2:])
    assert delta.evaluate() == 12
    assert delta.makespan == 0
    delta.accept()
    order, ready, start, end = delta.times()
    assert order.tolist() == slots.tolist()
    assert (ready.tolist(), start.tolist(), end.tolist()) == ([0, 0, 5], [0, 5, 5], [5, 11, 12])


def test_a_task_in_between_delays_what_follows():
    delta, slots = chain()
    new = delta.add(ints(7), ints(15), ints(0, 1), ints(1))
    delta.link(slots[1:2], new)
    delta.link(new, slots[2:])
    assert delta.evaluate() == 37
    delta.reject()
    assert delta.makespan == delta.evaluate() == 30


def test_removing_takes_the_edges_along():
    delta, slots = chain()
    delta.remove(slots[1:2])
    assert delta.evaluate() == 20
    delta.accept()
    order, ready, *_ = delta.times()
    assert order.tolist() == [slots[0], slots[2]]
    assert ready.tolist() == [0, 0]
    again = delta.add(ints(1), ints(11), ints(0, 0), ints())
    assert again.tolist() == [slots[1]]  # its slot is used again
    assert delta.evaluate() == 20


def test_everything_can_be_removed():
    delta, slots = chain()
    delta.remove(slots)
    assert delta.evaluate() == 0
    delta.accept()
    assert len(delta) == 0
    assert delta.makespan == 0


def test_a_task_added_and_removed_again_changes_nothing():
    delta, slots = chain()
    new = delta.add(ints(100), ints(15), ints(0, 1), ints(0))
    delta.link(new, slots[2:])
    assert (
        delta.evaluate() == 130
    )  # it is ready at the beginning, so only the first task is before it
    delta.remove(new)
    assert delta.evaluate() == 30
    delta.accept()
    assert delta.makespan == 30
    assert len(delta) == 3


def replace_task(
    delta: DeltaSchedule, g: TaskGraph, slots: np.ndarray, t: int, duration: int
) -> None:
    """Propose another duration for a task, all else as it was."""
    sources = np.repeat(np.arange(len(g)), np.diff(g.succ_ptr))
    delta.remove(slots[t : t + 1])
    occupied = g.resource[g.resource_ptr[t] : g.resource_ptr[t + 1]]
    new = delta.add(ints(duration), g.key[t : t + 1], ints(0, len(occupied)), occupied)
    before, behind = slots[sources[g.succ == t]], slots[g.succ[sources == t]]
    delta.link(before, np.repeat(new, len(before)))
    delta.link(np.repeat(new, len(behind)), behind)


def test_a_change_with_slack_ends_at_the_next_barrier():
    g = lockstep(4, 400)
    delta, slots = DeltaSchedule.of(g)
    quick = 801  # in the middle; the other devices take as long as before
    replace_task(delta, g, slots, quick, int(g.duration[quick]) // 2)
    assert delta.evaluate() == delta.makespan
    assert delta.stats.shifted
    assert delta.stats.retimed < 20


def test_what_follows_a_barrier_is_shifted():
    g = lockstep(4, 400)
    delta, slots = DeltaSchedule.of(g)
    replace_task(delta, g, slots, 801, int(g.duration[801]) + 12_345)
    assert delta.evaluate() == delta.makespan + 12_345
    assert delta.stats.shifted
    assert delta.stats.retimed < 20


def test_what_is_under_way_holds_the_rest_in_place():
    """A long task without resources ends when it ends, and so its successor is not shifted with the chain beside it."""
    g = make_task_graph(
        [95, 10, 10, 10, 10, 100],
        [(1, 2), (2, 3), (3, 4), (0, 5)],
        [[], [0], [0], [0], [0], [1]],
        num_resources=2,
    )
    delta, slots = DeltaSchedule.of(g)
    assert delta.makespan == 195
    replace_task(delta, g, slots, 2, 13)
    assert delta.evaluate() == 195
    delta.accept()
    assert delta.times()[3].tolist() == [95, 10, 23, 33, 43, 195]


def test_returned_slots_belong_to_the_caller():
    delta, _ = chain()
    new = delta.add(ints(7), ints(15), ints(0, 1), ints(1))
    new[:] = 0
    delta.reject()
    assert delta.times()[0].tolist() == [0, 1, 2]
    assert delta.evaluate() == 30


def test_a_schedule_shows_its_size():
    assert repr(chain()[0]) == "DeltaSchedule(3 tasks, 3e-08 ms)"
