"""What a run says at its end."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import graphwright as gw
from graphwright.errors import GraphFileError
from graphwright.partition import replicate
from graphwright.plans import Figures
from graphwright.run.check.outcome import Outcome
from graphwright.run.training import loop
from graphwright.run.training.loop import StepRecord


@pytest.mark.parametrize(
    ("losses", "told"),
    [((2.0, 1.0), None), ((2.0, float("inf"), float("nan")), "from step 2 on the loss is not a finite number")],
)  # fmt: skip
def test_a_loss_that_is_no_number_is_told(losses, told):
    graph = gw.capture(nn.Linear(2, 1), nn.functional.mse_loss, (torch.ones(2, 2), torch.ones(2, 1)))  # fmt: skip
    steps = tuple(
        StepRecord(step=number, loss=loss, seconds=1.0, num_workers=1)
        for number, loss in enumerate(losses, 1)
    )
    lines = Outcome(plan=replicate(graph, "local:1"), steps=steps).lines()
    assert [line.startswith(told or "?") for line in lines] == [False, *[True] * bool(told)]


def test_a_step_far_from_its_prediction_is_told_in_plain_numbers():
    graph = gw.capture(nn.Linear(2, 1), nn.functional.mse_loss, (torch.ones(2, 2), torch.ones(2, 1)))  # fmt: skip
    figures = Figures(time=0.001, memory=1)
    plan = replace(replicate(graph, "local:1"), figures=figures)
    said = {}
    for seconds in (0.0025, 0.27, 1.5):
        steps = (StepRecord(step=1, loss=1.0, seconds=seconds, num_workers=1),) * 2
        (line,) = Outcome(plan=plan, steps=steps).lines()
        said[seconds] = line.partition(", ")[2].partition(" times")[0]
    assert said == {0.0025: "2.5", 0.27: "270", 1.5: "1,500"}


def test_a_temporary_folder_without_room_is_told(tmp_path):
    done = StepRecord(step=1, loss=1.0, seconds=0.1, num_workers=1)
    with pytest.raises(GraphFileError, match=r"log of the steps .*set TMPDIR to another folder"):
        loop._log(tmp_path / "gone" / "steps", done)
