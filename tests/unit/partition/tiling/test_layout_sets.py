"""Sets of layouts: all unions of what readers need that keep a bound; what is left out costs no less than is said."""

from itertools import combinations, product

import numpy as np
import pytest

from graphwright.partition.tiling import layout_sets as module
from graphwright.partition.tiling.layout_sets import layout_sets

LAYOUTS = 6
ALONE = np.eye(LAYOUTS, dtype=bool)
TWICE = np.array([[layout in (n, n + 1) for layout in range(LAYOUTS)] for n in range(LAYOUTS - 1)])
FREE = np.zeros((3, LAYOUTS))


def rows(sets):
    return {tuple(row) for row in sets.tolist()}


def unions(kinds):
    """Every union of one choice or more of each kind, at most one for each of its readers."""
    of_each = [
        [
            np.any(some, axis=0)
            for count in range(1, most + 1)
            for some in combinations(choices, count)
        ]
        for choices, most in kinds
    ]
    return rows(np.array([np.any(one, axis=0) for one in product(*of_each)]))


def test_without_a_bound_every_union_is_there():
    kinds = ((ALONE, 2), (TWICE, 1))
    made = layout_sets(kinds, FREE, np.inf)
    assert rows(made.has) == unions(kinds) and len(rows(made.has)) == len(made.has)
    assert made.beyond is None


@pytest.mark.parametrize("seed", range(20))
def test_sets_are_those_within_the_bound(seed):
    rng = np.random.default_rng(seed)
    costs = rng.integers(0, 10, (3, LAYOUTS)).astype(float)
    kinds = ((ALONE, 3), (TWICE, 2), (ALONE[:4], 1))
    bound = float(rng.integers(5, 30))
    made = layout_sets(kinds, costs, bound)
    wanted = {row for row in unions(kinds) if (costs @ np.array(row)).min() <= bound}
    assert rows(made.has) == wanted
    assert made.beyond is None


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("bound", [np.inf, 25.0])
def test_what_is_left_out_takes_at_least_what_is_said(monkeypatch, seed, bound):
    monkeypatch.setattr(module, "MOST_SETS", 12)
    rng = np.random.default_rng(seed)
    costs = rng.integers(0, 10, (3, LAYOUTS)).astype(float)
    kinds = ((ALONE, 4), (TWICE, 2))
    made = layout_sets(kinds, costs, bound)
    assert len(made.has) <= 12 and made.beyond is not None
    assert rows(made.has) <= unions(kinds)
    for row in unions(kinds) - rows(made.has):
        taken = costs @ np.array(row)
        assert taken.min() > bound or (made.beyond <= taken).all()


def test_many_readers_of_a_kind_have_three_choices_unless_there_is_a_bound():
    costs = np.arange(3 * LAYOUTS, dtype=float).reshape(3, LAYOUTS)
    made = layout_sets([(ALONE, 6)], costs, np.inf)
    assert made.has.sum(axis=1).max() == 3
    assert made.beyond is not None
    np.testing.assert_array_equal(made.beyond, costs[:, :4].sum(axis=1))
    assert layout_sets([(ALONE, 6)], costs, 1000.0).beyond is None


def test_a_required_set_is_there():
    required = np.ones(LAYOUTS, dtype=bool)
    made = layout_sets([(ALONE, 1)], FREE + 1, 1.0, required)
    assert rows(made.has) == {*rows(ALONE), tuple(required.tolist())}


def test_readers_that_need_nothing_in_common():
    made = layout_sets([(np.zeros((1, 0), dtype=bool), 2)], np.zeros((3, 0)), np.inf)
    assert made.has.shape == (1, 0) and made.beyond is None
