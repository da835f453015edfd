"""What a run says at its end."""

import pytest
import torch
from torch import nn

import graphwright as gw
from graphwright.partition import replicate
from graphwright.run.check.outcome import Outcome
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
