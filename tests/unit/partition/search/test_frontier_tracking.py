"""Frontier tracking on problems whose frontiers are known, and its kernels."""

from math import inf
from random import Random

import numpy as np
import pytest

from graphwright.partition.estimate.problem import Problem, Table
from graphwright.partition.search.elimination.circuit import all_configurations
from graphwright.partition.search.elimination.weighted import Numbers
from graphwright.partition.search.frontier.bounds import Supporting, find_supported, open_corners
from graphwright.partition.search.frontier.kernels import Points, leaf_points, thin
from graphwright.partition.search.frontier.tracking import track
from random_problems import costs_of, covers, nondominated, random_problem


def table(time, memory) -> Table:
    return Table(np.array(time, float), np.array(memory, float))


def test_no_variables():
    found = track(Problem((), {}))
    assert costs_of(found.points) == [(0.0, 0.0)]
    assert found.exact


def test_nothing_possible_has_no_points():
    problem = Problem((table([[inf], [inf]], [[1], [2]]),), {})
    assert track(problem).points == ()
    assert track(problem, bounds=False).points == ()
    assert track(problem, precision=0.1).points == ()


def test_one_variable():
    problem = Problem((table([[5, 3], [4, inf]], [[1, 2], [3, 0]]),), {})
    found = track(problem)
    assert costs_of(found.points) == [(5, 1), (3, 2)]
    assert [point.options[0, 0] for point in found.points] == [0, 1]
    assert repr(found) == "Tracked(2 points, exact, precision 0)"


def test_equal_variables_give_every_mixture():
    """Ten variables that each trade a second for a byte: eleven points, all on one line of the hull."""
    problem = Problem((table([[1], [0]], [[0], [1]]),) * 10, {})
    for bounds in (True, False):
        found = track(problem, bounds=bounds)
        assert costs_of(found.points) == [(10 - k, k) for k in range(11)]
        assert [int(point.choices.sum()) for point in found.points] == list(range(11))


def test_points_off_the_hull_are_found():
    """No weight leads to (6, 6): it has to be tracked."""
    problem = Problem((table([[10], [6], [0]], [[0], [6], [10]]),), {})
    numbers = Numbers(problem, all_configurations(problem))
    supported = find_supported(Supporting(numbers, 1), 0.0)
    assert costs_of(supported.points) == [(10, 0), (0, 10)]
    (gap,) = supported.gaps
    assert len(open_corners(supported.points, gap.lines, 0.0)) == 1
    assert costs_of(track(problem).points) == [(10, 0), (6, 6), (0, 10)]


def test_precision_closes_corners():
    """Where two points are near, nothing between them matters."""
    problem = Problem((table([[1.0], [0.99]], [[1.0], [1.01]]),), {})
    numbers = Numbers(problem, all_configurations(problem))
    supported = find_supported(Supporting(numbers, 1), 0.05)
    assert supported.gaps == ()
    assert len(find_supported(Supporting(numbers, 1), 0.0).gaps) == 1


def test_negative_costs_are_tracked_without_loss():
    problem = Problem((table([[-1], [-3], [-3.01]], [[-5], [-4], [-3.99]]),) * 3, {})
    exact = costs_of(track(problem).points)
    assert costs_of(track(problem, precision=0.5).points) == exact
    assert len(exact) > 5


def test_threads_change_nothing():
    problem = random_problem(Random(1), "chain", 6, most_configurations=40, whole=False, infinite=0)
    one = track(problem, threads=1, bounds=False)
    two = track(problem, threads=3, bounds=False)
    assert costs_of(one.points) == costs_of(two.points)
    assert [point.choices.tolist() for point in one.points] == [
        point.choices.tolist() for point in two.points
    ]


def test_steps_are_reported():
    problem = random_problem(Random(2), "chain", 5, whole=False, infinite=0)
    seen = []
    track(problem, bounds=False, progress=lambda done, of: seen.append((done, of)))
    assert [done for done, _ in seen] == list(range(1, seen[0][1] + 1))


def test_leaf_points_sort_and_reduce():
    time, memory, option, _, begin = leaf_points(
        np.array([[3.0, 1.0, 3.0, inf], [inf, inf, inf, inf], [1.0, 1.0, 2.0, 2.0]]),
        np.array([[1.0, 2.0, 0.5, 0.0], [1.0, 1.0, 1.0, 1.0], [5.0, 4.0, 4.0, 3.0]]),
    )
    assert begin.tolist() == [0, 2, 2, 4]
    assert list(zip(time, memory, option, strict=True)) == [
        (3, 0.5, 2),
        (1, 2, 1),
        (2, 3, 3),
        (1, 4, 1),
    ]


@pytest.mark.parametrize("factor", [1.0, 1.01, 1.2, 3.0])
def test_thinning_keeps_its_word(factor):
    for seed in range(40):
        rng = Random(seed)
        points = nondominated([(rng.random(), rng.random()) for _ in range(rng.randint(1, 400))])
        time, memory = np.array(points).T.copy()
        number = np.arange(len(points), dtype=np.int32)
        n = thin(Points(time, memory, number, number.copy()), len(points), factor)
        kept = list(zip(time[:n].tolist(), memory[:n].tolist(), strict=True))
        assert [points[i] for i in number[:n]] == kept
        assert (kept[0], kept[-1]) == (points[0], points[-1])
        assert covers(kept, points, factor)
        if factor == 1.0:
            assert kept == points
