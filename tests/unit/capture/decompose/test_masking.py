"""Assignment through a mask is captured where the value does not depend on how many places it is."""

import pytest
import torch
from torch import nn

import graphwright as gw
from graphwright.capture import bind, replay
from graphwright.errors import DynamicShapeOperator


class Assigns(nn.Module):
    def __init__(self, assign):
        super().__init__()
        self.assign = assign
        self.row = nn.Parameter(torch.randn(6, dtype=torch.float64))
        self.rows = nn.Parameter(torch.randn(4, 1, 6, dtype=torch.float64))

    def forward(self, x):
        h = x * self.row
        self.assign(self, h, x > 0, x.sum(-1) > 0)
        return h.square().sum()


def by_rows(self, h, mask, rows):
    h[rows] = self.row


def by_one(self, h, mask, rows):
    h[mask] = self.row[0]


def by_column(self, h, mask, rows):
    h[:, rows[0]] = self.row


def by_first_dim(self, h, mask, rows):
    h[:, rows[0]] = self.rows


def by_number(self, h, mask, rows):
    h[mask] = 2.0


@pytest.mark.parametrize("assign", [by_rows, by_one, by_column, by_first_dim, by_number])
def test_it_is_what_eager_pytorch_does(assign):
    torch.manual_seed(0)
    model, x = Assigns(assign), torch.randn(4, 5, 6, dtype=torch.float64)
    graph = gw.capture(model, None, x)
    results = replay(graph, bind(graph, model, x))
    loss = model(x)
    loss.backward()
    assert torch.equal(results["loss"], loss.detach())
    assert torch.allclose(results["row.grad"], model.row.grad, rtol=1e-14)


def test_values_one_by_one_are_refused():
    def assign(self, h, mask, rows):
        h[rows] = h[rows] + 1

    with pytest.raises(DynamicShapeOperator, match="depends on values"):
        gw.capture(Assigns(assign), None, torch.randn(4, 5, 6, dtype=torch.float64))
