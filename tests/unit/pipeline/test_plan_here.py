"""Plans for processes of this machine go by what their own calls take here."""

from dataclasses import replace

import pytest

from graphwright import zoo
from graphwright.machine import (
    Store,
    cluster,
    estimated_cluster,
    local,
    note_of,
    num_cores,
    to_toml,
)
from graphwright.pipeline import choose_plan, measured
from graphwright.plans import figures_of
from graphwright.run import calls_of_plan
from graphwright.simulate import CostModel

pytestmark = pytest.mark.skipif(num_cores() < 2, reason="two processes take turns on one core")


@pytest.fixture
def known(monkeypatch):
    """A machine that was measured, and that may measure more."""
    before = estimated_cluster(2)
    slow = replace(before.devices[0], launch=0.1)
    Store().put_note(note_of(2), to_toml(replace(before, devices=(slow,) * 2)))
    monkeypatch.setenv(local.SWITCH, "1")
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(measured, "CALL_SECONDS", 0.001)
    monkeypatch.setattr(measured, "LONG_CALL", 1.0)
    return cluster("local:2")


def unmeasured(graph, plan, on):
    costs = CostModel()
    return [
        call
        for call in calls_of_plan(graph, plan)
        if costs.roofline(*call, on.devices[0]) and costs.measurement(*call, on.devices[0]) is None
    ]


def test_the_calls_of_the_plan_are_measured_on_first_use(known, monkeypatch):
    graph = zoo.load("mlp", small=True).capture()
    plan = choose_plan(graph, 2, "data")
    assert unmeasured(graph, plan, known) == []
    monkeypatch.setattr(measured, "calibrate", None)  # nothing is measured again
    monkeypatch.setenv(local.SWITCH, "0")
    again = choose_plan(graph, 2, "data")
    assert figures_of(again).time == figures_of(plan).time


def test_figures_alone_count_where_measuring_is_switched_off(known, monkeypatch):
    monkeypatch.setenv(local.SWITCH, "0")
    graph = zoo.load("mlp", small=True).capture()
    assert unmeasured(graph, choose_plan(graph, 2, "data"), known)


def test_calls_that_take_long_go_by_the_figures(known, monkeypatch):
    monkeypatch.setattr(measured, "LONG_CALL", 1e-9)
    graph = zoo.load("mlp", small=True).capture()
    assert unmeasured(graph, choose_plan(graph, 2, "data"), known)


@pytest.mark.parametrize("change", [{"RANK": "0"}, {"GRAPHWRIGHT_MEASURE": "0"}])
def test_ranks_measure_nothing(known, monkeypatch, change):
    assert local.measures_itself(known)
    assert local.measures_itself(replace(known, price=1.0))
    assert not local.measures_itself(replace(known, name="two-hosts"))
    assert not local.measures_itself(estimated_cluster(2))
    for name, value in change.items():
        monkeypatch.setenv(name, value)
    assert not local.measures_itself(known)
