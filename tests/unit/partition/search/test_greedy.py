"""Greedy orders: each group for the least cost, given what has been decided."""

import numpy as np
import pytest

from additive import coarse_of, model_of, problem_of
from graphwright.partition import Problem, Table, greedy, least
from graphwright.partition.search.greedy import largest_of_groups


def table(time) -> Table:
    return Table(np.array(time, float)[..., None], np.zeros((*np.shape(time), 1)))


def trap(cheap_first: float = 0.9) -> Problem:
    """The second variable would rather be 0, but then the first had better be 0 as well."""
    return Problem(
        (table([1.0, cheap_first]), table([0.0, 5.0])), {(0, 1): table([[0, 9], [9, 0]])}
    )


def test_the_largest_is_decided_first():
    assert greedy(trap(), [2.0, 1.0]).choices.tolist() == [1, 1]
    assert greedy(trap(), [1.0, 2.0]).choices.tolist() == [0, 0]
    assert greedy(trap(), [2.0, 1.0]).time == pytest.approx(5.9)


def test_the_best_connected_is_decided_next():
    star = Problem(
        (table([0, 0]), table([0, 0]), table([0, 1]), table([0, 0])),
        {(0, 1): table([[0, 1], [1, 0]]), (0, 3): table([[0, 1], [1, 0]])},
    )
    found = greedy(star, [9.0, 1.0, 8.0, 2.0], "connected")
    assert found.time == 0
    assert greedy(Problem((), {}), []).time == 0


@pytest.mark.parametrize("order", ["largest", "connected"])
@pytest.mark.parametrize("name", ["mlp", "lenet", "gpt2"])
def test_never_better_than_the_best(name, order):
    problem = problem_of(name, "p2.8xlarge")
    found = greedy(problem, largest_of_groups(model_of(name, "p2.8xlarge")), order)
    assert found.time >= least(problem).time * (1 - 1e-9)
    assert problem.evaluate(found.choices.tolist(), {}) == (found.time, found.memory)


def test_sizes_are_of_what_groups_make_or_keep():
    sizes = largest_of_groups(model_of("mlp", "p2.8xlarge"))
    coarse = coarse_of("mlp")
    graph = coarse.facts.graph
    for size, group in zip(sizes, coarse.groups, strict=True):
        made = [graph.tensors[n].type.nbytes for i in group.nodes for n in graph.nodes[i].outputs]
        assert size >= max(made)
