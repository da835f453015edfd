"""What each group costs under a plan, and what the next best would cost."""

import pytest

from _reference_searches.seeded import assignment_of
from additive import COSTS, coarse_of
from graphwright.errors import PlanMismatch
from graphwright.machine import cluster
from graphwright.partition import explain, layers, least, make_estimate, other_plan
from random_plans import zoo_graph


def fastest(name, on):
    model = make_estimate(coarse_of(name), cluster(on), COSTS)
    found = least(model.problem())
    return model.plan(found, "fastest"), found


@pytest.mark.parametrize(("name", "on"), [("mlp", "p2.8xlarge"), ("lenet", "local:4")])
def test_costs_add_up_to_the_estimate(name, on):
    plan, found = fastest(name, on)
    reasons = explain(coarse_of(name), plan, COSTS)
    assert len(reasons) == len(coarse_of(name).groups)
    assert sum(r.compute_time + r.moving_time for r in reasons) == pytest.approx(found.time)


def test_nothing_is_better_than_the_fastest():
    plan, _ = fastest("mlp", "p2.8xlarge")
    for reason in explain(coarse_of("mlp"), plan, COSTS):
        assert reason.extra_time >= -1e-12
        assert (
            reason.instead != reason.strategy or reason.extra_memory != 0 or reason.extra_time >= 0
        )


def test_the_runner_up_costs_what_is_said():
    """Data parallelism has better neighbours: taking one of them changes the whole by what was said."""
    coarse, on = coarse_of("mlp"), cluster("p2.8xlarge")
    plan = other_plan("data", coarse, on, COSTS)
    model = make_estimate(coarse, on, COSTS, plans=[plan])
    choices = assignment_of(model, 0).choices
    problem = model.problem()
    before = problem.evaluate(choices.tolist(), {})
    for g, reason in enumerate(explain(coarse, plan, COSTS)):
        others = []
        for c in range(len(model.all[g])):
            if c != choices[g]:
                changed = [*choices[:g].tolist(), c, *choices[g + 1 :].tolist()]
                others.append(problem.evaluate(changed, {})[0] - before[0])
        assert reason.extra_time == pytest.approx(min(others), abs=1e-12)


def test_plans_on_some_of_the_devices_have_no_estimate():
    plan = layers(zoo_graph("mlp"), "local:4")
    with pytest.raises(PlanMismatch, match="runs on some of the devices only"):
        explain(coarse_of("mlp"), plan, COSTS)
    model = make_estimate(coarse_of("mlp"), cluster("local:4"), COSTS, plans=[plan])
    assert assignment_of(model, 0) is None


def test_one_device_has_no_runner_up():
    plan, _ = fastest("mlp", "local:1")
    for reason in explain(coarse_of("mlp"), plan, COSTS):
        assert (reason.instead, reason.extra_time, reason.extra_memory) == (None, 0.0, 0.0)
