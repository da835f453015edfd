"""What devices hold, over schedules small enough to count by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from graphwright.simulate.engine import schedule
from graphwright.simulate.memory import memory
from task_graphs import make_task_graph, make_values

PARAMETER, GRADIENT, _, ACTIVATION, _ = range(5)


def graph(rows, num_devices=1):
    """Three tasks of 10 in a row, with values."""
    return make_task_graph(
        [10, 10, 10],
        [(0, 1), (1, 2)],
        [[0], [0], [0]],
        values=make_values(rows),
        num_devices=num_devices,
    )


def measure(rows, num_devices=1):
    g = graph(rows, num_devices)
    return memory(g, schedule(g))


def test_a_device_without_values_holds_nothing():
    result = measure([(5, 1, PARAMETER, True, [], [])], num_devices=2)
    assert result.peak.tolist() == [0, 5]
    times, held = result.curve(0)
    assert (times.tolist(), held.tolist()) == ([0.0], [[0]] * 5)


def test_a_value_lives_from_its_birth_to_its_last_use():
    result = measure([(7, 0, ACTIVATION, False, [0], [1])])
    times, held = result.curve(0)
    assert times.tolist() == [0.0, 20e-12]
    assert held[ACTIVATION].tolist() == [7, 0]
    assert result.peak.tolist() == [7]


def test_what_is_freed_makes_room_for_what_is_allocated_at_that_time():
    result = measure(
        [
            (100, 0, ACTIVATION, False, [0], []),
            (60, 0, GRADIENT, False, [1], [2]),
            (50, 0, GRADIENT, False, [2], []),
        ]
    )
    assert result.peak.tolist() == [110]
    assert result.peak_time.tolist() == [20]
    assert result.breakdown(0)["gradient"] == 110
    assert result.breakdown(0)["activation"] == 0


def test_a_value_of_several_births_lives_from_the_first_of_them():
    result = measure([(3, 0, GRADIENT, False, [2, 1], [])])
    assert result.curve(0)[0].tolist() == [0.0, 10e-12, 30e-12]


def test_persistent_values_are_there_all_the_time():
    result = measure([(1000, 0, PARAMETER, True, [], [2]), (1, 0, ACTIVATION, False, [1], [])])
    assert result.peak.tolist() == [1001]
    assert result.curve(0)[1].sum(axis=0).tolist() == [1000, 1001, 1000]


def test_terabytes_are_exact():
    size = 2**45 + 1
    result = measure([(size, 0, PARAMETER, True, [], [])] * 3)
    assert result.peak.tolist() == [3 * size]
    assert repr(result) == "Memory(1 devices, at most 1.056e+05 GB on one)"


def over(rows, pairs):
    g = graph(rows)
    values, tasks = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    g = replace(g, values=replace(g.values, over_value=values, over_task=tasks))
    return memory(g, schedule(g)).peak.tolist()


def test_an_operator_writes_over_what_nobody_uses_later():
    """Task 1 makes the second value from the first, element by element."""
    rows = [(7, 0, ACTIVATION, False, [0], [1]), (7, 0, ACTIVATION, False, [1], [2])]
    assert measure(rows).peak.tolist() == [14]
    assert over(rows, [(0, 1)]) == [7]
    used_later = [(7, 0, ACTIVATION, False, [0], [1, 2]), rows[1]]
    assert over(used_later, [(0, 1)]) == [14]
    lasting = [(7, 0, PARAMETER, True, [], [1]), rows[1]]
    assert over(lasting, [(0, 1)]) == [14]


def test_an_operator_writes_over_one_operand_only():
    rows = [(7, 0, ACTIVATION, False, [0], [1])] * 2 + [(7, 0, ACTIVATION, False, [1], [])]
    assert over(rows, [(0, 1), (1, 1)]) == [14]


def test_what_is_replaced_is_there_from_the_beginning_to_its_last_use():
    result = measure([(7, 0, PARAMETER, False, [3], [1]), (5, 0, PARAMETER, False, [2], [3])])
    times, held = result.curve(0)
    assert times.tolist() == [0.0, 20e-12, 30e-12]
    assert held[PARAMETER].tolist() == [7, 5, 0]
