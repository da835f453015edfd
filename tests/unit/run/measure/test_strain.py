"""What a step takes beyond its parts, and how sure a prediction is."""

import json
import math

import pytest
import torch

import graphwright as gw
from graphwright.errors import InvalidMeasurement
from graphwright.machine import Measurement, Store, cluster
from graphwright.partition import data_parallel
from graphwright.run import calibrate, calls_of_plan, how_sure
from graphwright.run.measure import timing
from graphwright.run.measure.certainty import ESTIMATED, LEFT_OUT
from graphwright.run.measure.links import LinkTime
from graphwright.run.measure.machine import Share, figures_of_machine
from graphwright.run.measure.strain import Strain, load_strain, save_strain
from graphwright.simulate import CostModel, measured_with, spell_types


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "costs.sqlite")


def capture():
    model = torch.nn.Linear(8, 4)
    batch = torch.randn(6, 8), torch.randn(6, 4)
    return gw.capture(model, torch.nn.functional.mse_loss, batch, optimizer=torch.optim.SGD)


def test_a_strain_is_kept_by_the_number_and_kind_of_devices(store):
    two, four = cluster("local:2"), cluster("local:4")
    strain = Strain(share=0.1, delay=2e-5, spread=0.03)
    save_strain(store, two, strain)
    assert load_strain(store, two) == strain
    assert load_strain(store, four) == Strain()


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({"share": -1}), json.dumps({"other": 1}), '{"delay": NaN}'])  # fmt: skip
def test_a_damaged_strain_is_refused(store, text, monkeypatch):
    on = cluster("local:2")
    monkeypatch.setattr(Store, "load_note", lambda self, key: text)
    with pytest.raises(InvalidMeasurement, match="measure again"):
        load_strain(store, on)


def test_calls_of_processes_are_stored_as_a_step_takes_them(tmp_path, monkeypatch):
    graph, on = capture(), cluster("local:2")
    calls = calls_of_plan(graph, data_parallel(graph, on))
    each = Measurement(seconds=1e-5, spread=1e-6, repeats=10)
    monkeypatch.setattr("graphwright.run.measure.calls.operators.try_to_measure", lambda *_: each)
    for share in (0.0, 0.5):
        store = Store(tmp_path / f"{share}.sqlite")
        save_strain(store, on, Strain(share=share))
        found = calibrate(calls, device="local:2", store=store)
        assert found.rows
        for row in found.rows:
            assert row.measured == pytest.approx((1 + share) * 1e-5)
            assert row.spread == pytest.approx((1 + share) * 1e-6)


def test_how_sure_follows_from_the_spread_of_calls_and_of_the_machine(store):
    graph, on = capture(), cluster("local:2")
    plan = data_parallel(graph, on)
    assert how_sure(graph, plan, store) == pytest.approx(
        ESTIMATED + LEFT_OUT
    )  # nothing was measured
    save_strain(store, on, Strain(spread=0.02))
    costs, device = CostModel(measured=False), on.devices[0]
    for op, attrs, types in calls_of_plan(graph, plan):
        if costs.compute(op, attrs, types, device):
            row = Measurement(seconds=1e-3, spread=1e-4, repeats=5)
            store.put_compute(device.name, measured_with(), op, attrs.text, spell_types(types), row)
    assert how_sure(graph, plan, store) == pytest.approx(0.12 + LEFT_OUT)


@pytest.mark.parametrize(
    ("waits", "taken"), [((1.0, 1.03), 0.07), ((1.0, 1.0), 0.1), ((math.nan, math.nan), 0.1), ((0.0, 5.0), 0.1)]
)  # fmt: skip
def test_time_without_a_core_is_taken_off(monkeypatch, waits, taken):
    clock, delays = iter((2.0, 2.1)), iter(waits)
    monkeypatch.setattr(timing, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(timing, "seconds_without_core", lambda: next(delays))
    assert timing._cpu_clock(lambda: None, 3) == pytest.approx(taken)


def test_figures_are_means_over_processes_and_a_line_through_messages():
    before = cluster("local:2")
    shares = [Share(rates={"float32": rate}, bandwidth=rate, launch=1e-5) for rate in (1e9, 3e9)]
    times = [
        LinkTime(kind="send", spans=(2,), contenders=1, nbytes=nbytes, seconds=seconds)
        for nbytes, seconds in ((1 << 10, 1e-4), (1 << 20, 1e-4 + ((1 << 20) - (1 << 10)) / 2e9))
    ]
    made = figures_of_machine(before, shares, times)
    assert made.devices[0].rate("float32") == 2e9
    assert made.levels[0].latency == 1e-4
    assert made.levels[0].bandwidth == pytest.approx(2e9)
    assert made.devices[0].name == before.devices[0].name  # calls that were measured stay known
