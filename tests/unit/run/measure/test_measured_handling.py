"""What transfers take of cores: both figures from transfers of two sizes, and notes that are no measurement."""

import json

import pytest
import torch

from graphwright.errors import InvalidMeasurement
from graphwright.machine import Store, cluster
from graphwright.run.measure import handling
from graphwright.run.measure.handling import measure_handling
from graphwright.simulate import record_handling
from graphwright.simulate.communication import load_handling


class Here:
    """A world of one rank."""

    size = 1


def test_two_sizes_give_what_a_transfer_takes_and_what_a_byte_does(monkeypatch):
    extra = {"small sum": 3e-4, "large sum": 13e-4, "small gather": 1e-4, "large gather": 1e-4}
    monkeypatch.setattr(handling, "_extra", lambda here, begin: extra[begin])
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda *_: None)
    kinds = [
        (("small sum", 0.0), ("large sum", 1e6)),
        (("small gather", 0.0), ("large gather", 1e6)),
    ]
    each, per_byte = measure_handling(Here(), kinds)
    assert each == pytest.approx(2e-4)
    assert per_byte == pytest.approx(5e-10)


def test_noise_gives_no_negative_figures(monkeypatch):
    extra = {"small": -1e-4, "large": -2e-4}
    monkeypatch.setattr(handling, "_extra", lambda here, begin: extra[begin])
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda *_: None)
    assert measure_handling(Here(), [(("small", 512.0), ("large", 1e6))]) == (0.0, 0.0)


def test_handling_is_kept_by_cluster(tmp_path):
    store = Store(tmp_path / "costs.sqlite")
    two, four = cluster("dgx-h100"), cluster("dgx-h100:4")
    record_handling(store, two, 3e-4, 9e-10)
    assert load_handling(store, two) == (3e-4, 9e-10)
    assert load_handling(store, four) is None


@pytest.mark.parametrize(
    "text", ["", "1", "a b", "-1 0", "nan 0", "0 inf", json.dumps({"each": 1})]
)
def test_a_damaged_note_is_refused(tmp_path, monkeypatch, text):
    monkeypatch.setattr(Store, "load_note", lambda self, key: text)
    with pytest.raises(InvalidMeasurement, match="measure again"):
        load_handling(Store(tmp_path / "costs.sqlite"), cluster("dgx-h100"))


@pytest.mark.parametrize("figures", [(-1.0, 0.0), (float("nan"), 0.0), (0.0, float("inf"))])
def test_what_is_no_measurement_is_not_kept(tmp_path, figures):
    with pytest.raises(InvalidMeasurement, match="no measurement"):
        record_handling(Store(tmp_path / "costs.sqlite"), cluster("dgx-h100"), *figures)
