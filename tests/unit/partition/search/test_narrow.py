"""Which configurations are worth tracking."""

import numpy as np
import pytest

from additive import COSTS, coarse_of
from graphwright.machine import cluster
from graphwright.partition import least, make_estimate, narrow, other_plan, track
from graphwright.partition.search.narrow import grow


def fresh(name, on, **options):
    return make_estimate(coarse_of(name), cluster(on), COSTS, **options)


def test_no_width_keeps_everything():
    model = fresh("mlp", "v100-2x8")
    problem = narrow(model, None).problem()
    assert [len(t.time) for t in problem.unary] == [len(found) for found in model.all]


@pytest.mark.parametrize(("name", "on"), [("mlp", "v100-2x8"), ("lenet", "v100-2x8")])
def test_ends_survive_narrowing(name, on):
    whole = fresh(name, on).problem()
    model = fresh(name, on)
    problem = narrow(model, 24).problem()
    assert max(len(t.time) for t in problem.unary) <= 24
    assert least(problem).time <= least(whole).time * 1.02
    assert least(problem, np.inf).memory <= least(whole, np.inf).memory * 1.02


def test_growing_finds_what_all_configurations_have():
    whole = least(fresh("gpt2", "v100-2x8").problem())
    model = fresh("gpt2", "v100-2x8")
    grown = grow(model).problem()
    assert least(grown).time <= whole.time * 1.02
    assert sum(len(t.time) for t in grown.unary) < sum(map(len, model.all))


def test_growing_does_not_stop_at_what_plans_brought():
    coarse, on = coarse_of("gpt2"), cluster("v100-2x8")
    plans = [other_plan(n, coarse, on, COSTS) for n in ("data", "layers", "zero")][::2]
    alone, given = fresh("gpt2", "v100-2x8"), fresh("gpt2", "v100-2x8", plans=plans)
    assert least(grow(given).problem()).time <= least(grow(alone).problem()).time * 1.001


def test_plans_stay_whatever_is_narrowed():
    coarse, on = coarse_of("mlp"), cluster("v100-2x8")
    model = narrow(fresh("mlp", "v100-2x8", plans=[other_plan("data", coarse, on, COSTS)]), 3)
    for g, seeds in enumerate(model.seeds):
        assert seeds[0] in model.active[g].tolist()


def test_equal_groups_keep_equal_configurations():
    model = narrow(fresh("gpt2", "v100-2x8"), 16)
    kept = {}
    for g in range(len(model.all)):
        key = (
            model.all[g].key,
            repr(model.coarse.groups[g].weight),
            len(model.coarse.groups[g].slots),
        )
        kept.setdefault((key, model.key(g)), set()).add(model.active[g].tobytes())
    assert all(len(v) == 1 for v in kept.values())


def test_narrowed_frontiers_are_close():
    whole = track(fresh("mlp", "local:4").problem()).points
    narrowed = track(narrow(fresh("mlp", "local:4"), 6).problem()).points
    for point in whole:
        assert any(p.time <= point.time * 1.1 and p.memory <= point.memory * 1.1 for p in narrowed)
