"""Full simulation of task graphs small enough to time by hand."""

from __future__ import annotations

import numpy as np

from graphwright.simulate.engine import schedule
from graphwright.tasks.compiled import compiled
from task_graphs import lockstep, make_task_graph


def test_no_tasks_take_no_time():
    s = schedule(make_task_graph([]))
    assert s.makespan == 0
    assert len(s) == 0


def test_a_chain_takes_the_sum_and_a_fork_the_longer_branch():
    g = make_task_graph([3, 4, 5, 1], [(0, 1), (0, 2), (1, 3), (2, 3)], num_resources=0)
    s = schedule(g)
    assert s.ready.tolist() == [0, 3, 3, 8]
    assert s.end.tolist() == [3, 7, 8, 9]
    assert s.makespan == 9


def test_a_resource_serves_first_what_is_ready_first_and_then_the_lesser_key():
    # 2 and 3 are ready at 1, before 1 at 2, but 4 was ready from the start.
    g = make_task_graph(
        [2, 5, 1, 5, 5, 5],
        [(0, 1), (2, 3), (2, 5)],
        [[1], [0], [2], [0], [0], [0]],
        num_resources=3,
    )
    s = schedule(g)
    assert s.order.tolist() == [0, 2, 4, 3, 5, 1]
    assert s.start.tolist() == [0, 15, 0, 5, 0, 10]


def test_a_transfer_occupies_all_of_its_links():
    g = make_task_graph([4, 2, 3], [], [[0], [0, 1], [1]], num_resources=2)
    s = schedule(g)
    assert s.start.tolist() == [0, 4, 6]  # link 1 is idle until 4, as its queue is served in order
    assert s.makespan == 9


def test_zero_durations_keep_the_order_of_keys():
    g = make_task_graph([0, 0, 0], [(0, 2)], [[0], [0], [0]])
    s = schedule(g)
    assert s.order.tolist() == [0, 1, 2]
    assert s.makespan == 0


def test_times_beyond_32_bits_are_exact():
    g = make_task_graph([2**60 + 1, 2**61], [(0, 1)], [[0], [0]])
    assert schedule(g).makespan == 2**60 + 1 + 2**61


def test_devices_in_lockstep_take_as_long_as_one():
    g, one = lockstep(5, 12), lockstep(1, 12)
    assert schedule(g).makespan == schedule(one).makespan


def test_a_schedule_shows_its_length():
    assert repr(schedule(make_task_graph([2_500_000_000]))) == "Schedule(1 tasks, 2.5 ms)"


def test_functions_compile_where_nothing_can_be_kept():
    """Code without a file has no place for its machine code, like a package in a read-only home."""
    scope: dict[str, object] = {}
    exec(compile("def double(x):\n    return 2 * x", "<nowhere>", "exec"), scope)
    assert compiled(scope["double"])(np.int64(21)) == 42
