"""Measurements that cannot be are refused with what is wrong, before anything is stored."""

import sys

import pytest

from graphwright.errors import GraphFileError, InvalidMeasurement, StoreError
from graphwright.machine import Store, cluster
from graphwright.report import plot
from graphwright.run.measure import machine
from graphwright.run.measure.calls.operators import calibrate
from graphwright.simulate.communication import record_collectives

LOCAL = cluster("local:2")


@pytest.mark.parametrize(
    ("kind", "spans", "contenders", "seconds", "message"),
    [
        ("compute", (2,), 1, {1: 1.0}, "there is no collective 'compute'; there are all_gather"),
        ("gather", (2,), 1, {1: 1.0}, "there is no collective 'gather'"),
        ("send", (2, 2), 1, {1: 1.0}, "give one span, 1 or more, for each of the levels process; got (2, 2)"),
        ("send", (0,), 1, {1: 1.0}, "give one span, 1 or more"),
        ("send", (2,), 0, {1: 1.0}, "0 groups on a link; 1 is the least"),
        ("send", (2,), 1, {3: 1.0}, "measured at 3 bytes; sizes are powers of 2"),
        ("send", (2,), 1, {0: 1.0}, "measured at 0 bytes"),
        ("send", (2,), 1, {1: 1.0, 2: 0.0}, "2 bytes in 0.0 seconds is no measurement"),
        ("send", (2,), 1, {1: float("nan")}, "1 bytes in nan seconds is no measurement"),
        ("send", (2,), 1, {1: float("inf")}, "send over 2, 1 contenders of local:2: 1 bytes in inf"),
    ],
)  # fmt: skip
def test_collectives(tmp_path, kind, spans, contenders, seconds, message):
    store = Store(tmp_path / "costs.sqlite")
    with pytest.raises(InvalidMeasurement) as caught:
        record_collectives(store, LOCAL, kind, spans, contenders, seconds)
    assert message in str(caught.value)
    assert not store.load_collective(LOCAL.hash)


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("tpu", "there is no device 'tpu' to calibrate; give cpu, local:4"),
        ("cuda:x", "there is no device 'cuda:x'"),
        ("cuda:999", "cuda:999 is not there: PyTorch"),
        ("local:100000", "take turns, so none can be timed alone"),
    ],
)
def test_devices(device, message):
    with pytest.raises(InvalidMeasurement) as caught:
        calibrate([], device=device)
    assert message in str(caught.value)


def test_a_plot_has_to_be_a_picture(tmp_path):
    with pytest.raises(GraphFileError, match=r"has to end in \.png or \.svg"):
        plot(calibrate([]), tmp_path / "plot.pdf")


def test_a_store_that_cannot_be_written_is_said_in_a_line(monkeypatch, capsys):
    def refused(processes):
        raise StoreError("cannot write the measured costs in costs.sqlite: disk is full")

    monkeypatch.setattr(machine, "measure_machine", refused)
    monkeypatch.setattr(sys, "argv", ["machine", "2"])
    assert machine.main() == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("graphwright: StoreError: cannot write the measured costs")
