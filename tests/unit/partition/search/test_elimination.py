"""Orders of elimination, and the least of a weighed sum."""

from itertools import pairwise
from math import inf, isinf

import numpy as np
import pytest

from graphwright.partition.estimate.problem import Problem, Table
from graphwright.partition.search.elimination.circuit import all_configurations, compile_problem
from graphwright.partition.search.elimination.fixing import choose_fixed
from graphwright.partition.search.elimination.order import find_order, find_steps
from graphwright.partition.search.elimination.weighted import Numbers, least, sweep


def table(time, memory) -> Table:
    return Table(np.array(time, float), np.array(memory, float))


def free(*sizes: int) -> Table:
    return Table(np.zeros((*sizes, 1)), np.zeros((*sizes, 1)))


def problem_of(size: int, num_variables: int, edges) -> Problem:
    return Problem((free(size),) * num_variables, {edge: free(size, size) for edge in edges})


def test_no_variables():
    found = least(Problem((), {}))
    assert (found.time, found.memory, found.exact) == (0.0, 0.0, True)
    assert len(found.choices) == 0


def test_one_variable_and_its_options():
    problem = Problem((table([[5, 3], [4, inf]], [[1, 2], [3, 0]]),), {})
    fastest, smallest, middle = sweep(problem, (0.0, inf, 1.0))
    assert (fastest.time, fastest.memory) == (3, 2)
    assert (fastest.choices.tolist(), dict(fastest.options)) == ([0], {(0, 0): 1})
    assert (smallest.time, smallest.memory) == (5, 1)  # the option of no memory does not exist
    assert (middle.time, middle.memory) == (3, 2)


def test_nothing_possible_takes_infinite_time():
    problem = Problem(
        (free(2), free(2)), {(0, 1): table(np.full((2, 2, 1), inf), np.zeros((2, 2, 1)))}
    )
    assert isinf(least(problem).time)
    assert isinf(least(problem, inf).time)


def test_a_weight_moves_the_choice():
    problem = Problem((table([[1], [4]], [[9], [1]]), table([[1], [4]], [[9], [1]])), {})
    assert least(problem, 0.1).choices.tolist() == [0, 0]
    assert least(problem, 1.0).choices.tolist() == [1, 1]


def test_a_chain_of_blocks_becomes_a_tree():
    """Inner vertices first, then from both ends: no step of a chain is wider than a pair."""
    edges = [(u + 3 * b, v + 3 * b) for b in range(4) for u, v in ((0, 1), (0, 2), (1, 3), (2, 3))]
    sizes = dict.fromkeys(range(13), 10)
    order = find_order(sizes, edges, "ldp")
    inner = {v for v in sizes if v % 3}
    assert set(order.variables[: len(inner)]) == inner
    assert order.widest == 10**3
    assert order.total == 8 * 10**3 + 4 * 10**2 + 10
    steps = find_steps(sizes, [*((v,) for v in sizes), *edges], order.variables)
    assert steps[-1].scope == ()


def test_chains_by_elimination_cost_a_power_more():
    sizes, edges = dict.fromkeys(range(9), 10), list(pairwise(range(9)))
    assert find_order(sizes, edges, "ldp").total == 8 * 10**2 + 10
    assert find_order(sizes, edges, "elimination").total == 7 * 10**3 + 10**2 + 10


def test_leaves_do_not_keep_their_neighbours():
    """A weight hangs on an operator inside a block: the operator is inside all the same."""
    edges = [(0, 1), (0, 2), (1, 3), (2, 3), (1, 4), (3, 5)]
    order = find_order(dict.fromkeys(range(6), 4), edges, "ldp").variables
    assert order.index(1) < order.index(3)
    assert find_order(dict.fromkeys(range(6), 4), edges, "ldp").widest == 4**3


def test_a_hub_is_what_is_fixed():
    edges = [*pairwise(range(1, 8)), *((0, v) for v in range(1, 8))]
    problem = problem_of(6, 8, edges)
    assert choose_fixed(problem, all_configurations(problem), "ldp", 6**3) == ()
    assert choose_fixed(problem, all_configurations(problem), "ldp", 6**3 - 1) == (0,)
    assert least(problem, limit=6**2).exact


def test_equal_tables_are_one_slot():
    problem = problem_of(3, 12, [(v, v + 1) for v in range(0, 12, 2)])
    shared = compile_problem(problem, all_configurations(problem))
    apart = compile_problem(problem, all_configurations(problem), share=False)
    assert (len(shared.leaves), len(apart.leaves)) == (2, 18)
    assert len(apart.operations) == 6 * 3 + 5  # a pair and its end each, then all six
    assert len(shared.operations) == 3 + 3


def test_a_variable_with_one_configuration_left_is_none():
    problem = problem_of(5, 3, [(0, 1), (1, 2)])
    domains = {**all_configurations(problem), 1: np.array([3])}
    numbers = Numbers(problem, domains)
    assert sorted(numbers.circuit.order.variables) == [0, 2]
    assert numbers.least(0.0).choices[1] == 3


def test_bounds_of_entries_are_what_an_assignment_with_them_takes():
    rng = np.random.default_rng(3)
    draw = lambda *shape: Table(rng.random((*shape, 1)), rng.random((*shape, 1)))
    edges = [(0, 1), (1, 2), (0, 2), (2, 3)]
    problem = Problem(tuple(draw(3) for _ in range(4)), {edge: draw(3, 3) for edge in edges})
    numbers = Numbers(problem, all_configurations(problem))
    values = numbers.values(1.0, 0.5)
    total = values + numbers.outside(values)
    for v in range(4):
        begin = numbers.slot_begin[numbers.circuit.instance_slot[1 + v]]
        for c in range(3):
            fixed = Numbers(problem, {**all_configurations(problem), v: np.array([c])})
            assert total[begin + c] == pytest.approx(fixed.total(fixed.values(1.0, 0.5)))
