"""Pictures of trainings: lines for workers and runs, marks for new cuts, refusals without data."""

import pytest

from graphwright.errors import GraphFileError, InvalidMeasurement
from graphwright.gnn.distributed import Epoch
from graphwright.report import plot_accuracy, plot_balance


def make_epochs(accuracy=True):
    return [
        Epoch(
            number=number, loss=1 / number, seconds=0.1, busy=((0.02, 0.03), (0.01, 0.1 / number)),
            bounds=(0, 5, 9) if number < 3 else (0, 6, 9), since_start=0.1 * number,
            accuracy={"test": 1 - 1 / number} if accuracy else {},
        )
        for number in range(1, 6)
    ]  # fmt: skip


def test_balance_has_a_line_for_each_worker(tmp_path):
    plot_balance(make_epochs(), tmp_path / "balance.svg", caption="seed 0")
    text = (tmp_path / "balance.svg").read_text()
    for word in ("worker 0", "worker 1", "busy, ms", "Load balance: the slowest worker takes 1.25"):
        assert word in text


def test_accuracy_against_time_has_a_line_for_each_training(tmp_path):
    runs = {"whole graph": make_epochs(), "sampled": make_epochs()}
    plot_accuracy(runs, tmp_path / "accuracy.svg")
    text = (tmp_path / "accuracy.svg").read_text()
    for word in (
        "whole graph",
        "sampled",
        "Time to accuracy: 80.0% at best",
        "seconds of training",
    ):
        assert word in text


def test_what_cannot_be_drawn(tmp_path):
    with pytest.raises(InvalidMeasurement, match="without epochs"):
        plot_balance([], tmp_path / "x.svg")
    with pytest.raises(InvalidMeasurement, match="no epoch says"):
        plot_accuracy({"": make_epochs(accuracy=False)}, tmp_path / "x.svg")
    with pytest.raises(GraphFileError, match=r"x\.pdf"):
        plot_accuracy({"": make_epochs()}, tmp_path / "x.pdf")
    assert not list(tmp_path.iterdir())
