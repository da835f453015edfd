"""Whole numbers in buffers that are not saved are settings: a step may go by single ones of them."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import graphwright as gw
from eager import assert_trains_alike
from graphwright.errors import DataDependentControlFlow

X = torch.linspace(-1, 1, 64, dtype=torch.float64).reshape(2, 2, 16)
BATCH = (X, torch.zeros(()).double())


def loss(out, target):
    return (out.square().mean() - target).abs()


class Padded(nn.Module):
    """A convolution that computes its padding from buffers, as audio codecs do."""

    def __init__(self, stride=3, *, persistent=False, dtype=torch.int64):
        super().__init__()
        self.conv = nn.Conv1d(2, 3, 5, stride=stride, dtype=torch.float64)
        size = torch.tensor([5, stride]).to(dtype)
        self.register_buffer("size", size, persistent=persistent)

    def padding(self, length):
        frames = torch.ceil((length - self.size[0]) / self.size[1] + 1) - 1
        return frames * self.size[1] + self.size[0] - length

    def forward(self, x):
        right = self.padding(x.shape[-1]).to(torch.int64)
        if right > 0:
            x = F.pad(x, (0, right))
        return self.conv(x)


class Counted(Padded):
    """Changes its setting, after it went by it or before."""

    def __init__(self, first):
        super().__init__()
        self.first = first

    def forward(self, x):
        if self.first:
            self.size += 1
        made = super().forward(x)
        if not self.first:
            self.size += 1
        return made


@pytest.mark.parametrize("stride", [2, 3])
def test_a_setting_in_a_buffer_decides_shapes(stride):
    model = Padded(stride)
    before = copy.deepcopy(model.state_dict())
    assert_trains_alike(model, loss, BATCH, torch.optim.SGD, {"lr": 0.1}, tolerance=1e-12)
    assert model.size.tolist() == [5, stride] and before.keys() == model.state_dict().keys()


def test_another_setting_is_another_graph():
    graphs = {gw.capture(Padded(stride), loss, BATCH).hash for stride in (2, 2, 3)}
    assert len(graphs) == 2


@pytest.mark.parametrize(
    "options", [{"persistent": True}, {"dtype": torch.float64}], ids=["saved", "no whole number"]
)
def test_other_buffers_are_values(options):
    with pytest.raises(DataDependentControlFlow, match="if right > 0"):
        gw.capture(Padded(**options), loss, BATCH)


@pytest.mark.parametrize("first", [False, True])
def test_a_setting_that_the_step_changes_is_refused(first):
    with pytest.raises(DataDependentControlFlow, match="buffer size, and changes it"):
        gw.capture(Counted(first), loss, BATCH)


def test_a_buffer_without_values_decides_nothing():
    with torch.device("meta"):
        model = Padded()
    with pytest.raises(DataDependentControlFlow, match="if right > 0"):
        gw.capture(model, loss, BATCH)
