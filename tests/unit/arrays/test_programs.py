"""Programs as graphs: planned once, whatever names their tensors have."""

import numpy as np

import graphwright.arrays as ga
from array_segments import run_tiled
from graphwright.arrays.expression import needed
from graphwright.arrays.running.program import as_graph, plan_program


def program_of(*arrays):
    outputs = [x._output for x in arrays]
    return as_graph(outputs, needed(outputs, lambda o: o.value is not None))


def test_equal_programs_are_planned_once():
    x, y = (ga.asarray(np.arange(64.0).reshape(16, 4) + n) for n in range(2))
    first, second = (program_of(v.sum(axis=0) * 2).graph for v in (x, y))
    assert plan_program(first, 2, {}) is plan_program(second, 2, {})


def test_programs_in_another_order_do_not_share_the_names_of_their_results():
    x = ga.asarray(np.arange(64.0).reshape(16, 4))
    up, down = x + 1, x + 2
    one, other = program_of(up * down), program_of(down * up)
    assert [n.op for n in one.graph.nodes] == [n.op for n in other.graph.nodes]
    for made, expected in ((up - down, -1), (down - up, 1)):
        np.testing.assert_array_equal(run_tiled(made, 2), np.full((16, 4), expected))


def test_results_that_are_read_later_are_results_too():
    x = ga.asarray(np.arange(64.0))
    shown = x * 3
    total = shown.sum()
    total.compute()
    assert shown._output.value is not None


def test_random_programs_split_in_fact():
    """The strategies of the property test are no replication in disguise."""
    x = ga.from_array(np.zeros((1 << 16, 64)))
    segments = plan_program(program_of((x - x.mean(axis=0)).T @ x).graph, 4, {}).segments
    assert {s.rank for s in segments.segments} == {0, 1, 2, 3}
    assert all(home[0][1] - home[0][0] == 1 << 14 for home in segments.homes["given.0"].values())
