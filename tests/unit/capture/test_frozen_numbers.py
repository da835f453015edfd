"""Plain numbers that change with every step are told: a captured step has them as they were."""

import random

import numpy as np
import pytest
import torch
from torch import nn

import graphwright as gw
from graphwright.capture.record.functional import FrozenNumber
from graphwright.errors import UnsupportedOptimizer


class Annealed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.inner.temperature = 1.0
        self.count = 0
        self.name = "x"

    def forward(self, x):
        self.count += 1
        self.inner.temperature *= 0.5
        self.name += "x"
        return self.inner(x) / self.inner.temperature


def test_a_module_that_counts_is_told():
    model = Annealed()
    with pytest.warns(FrozenNumber, match=r"changes count from 0 to 1, inner.temperature from 1.0 to 0.5: a number of Python"):  # fmt: skip
        gw.capture(model, nn.functional.mse_loss, (torch.randn(2, 3), torch.randn(2, 3)))
    assert (model.count, model.inner.temperature) == (0, 1.0)


class Counting(torch.optim.SGD):
    def __init__(self, params, lr=0.1):
        super().__init__(params, lr=lr)
        self.n = 0

    def step(self, closure=None):
        self.n += 1
        return super().step(closure)


def test_an_optimizer_that_counts_is_refused():
    batch = torch.randn(2, 3), torch.randn(2, 3)
    with pytest.raises(UnsupportedOptimizer, match="Counting keeps a plain number in its state or as an attribute"):  # fmt: skip
        gw.capture(nn.Linear(3, 3), nn.functional.mse_loss, batch, optimizer=Counting)


class DrawsOutside(nn.Module):
    def __init__(self, draw):
        super().__init__()
        self.inner, self.draw = nn.Linear(3, 3), draw
        self.seen, self.words = np.zeros(2), bytearray(b"ab")

    def forward(self, x):
        self.seen += 1
        self.words += b"c"
        return self.inner(x).sum() * self.draw()


@pytest.mark.parametrize(
    ("draw", "whose"), [(random.random, "Python's random"), (np.random.rand, "numpy.random")]
)
def test_draws_from_other_generators_are_told(draw, whose):
    model, before = DrawsOutside(draw), (random.getstate(), np.random.get_state()[1].tolist())
    with pytest.warns(FrozenNumber, match=f"draws from {whose}, so every captured step has"):
        gw.capture(model, None, torch.randn(2, 3))
    assert before == (random.getstate(), np.random.get_state()[1].tolist())
    assert model.seen.tolist() == [0, 0] and model.words == b"ab"
