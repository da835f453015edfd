"""Every spelling of a draw is one that has a description, so that all devices draw the same."""

import pytest
import torch
from torch import nn

import graphwright as gw
from graphwright.describe import is_described, is_random
from graphwright.errors import UnsupportedModel
from graphwright.ir import CONSTANT_OP
from graphwright.plans import make_plan

GIVEN = torch.rand(8, 8)  # a plain tensor: neither a parameter nor a buffer


class Draws(nn.Module):
    def __init__(self, draw):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.draw = draw

    def forward(self, x):
        drawn = self.draw(x)
        return self.scale * torch.stack([drawn.double().amin(), drawn.double().amax()]).sum()


DRAWS = {  # what is drawn, and bounds of the sum of its least and largest element
    "rand": (lambda x: torch.rand(40, 50, generator=None), 0.9, 1.1),
    "randn": (lambda x: torch.randn(40, 50, generator=None), -3, 3),
    "randint": (lambda x: torch.randint(7, (40, 50), generator=None), 6, 6),
    "randint from": (lambda x: torch.randint(3, 7, (40, 50), generator=None), 9, 9),
    "randperm": (lambda x: torch.randperm(9, generator=None), 8, 8),
    "normal": (lambda x: torch.normal(50.0, 0.1, (40, 50)), 99, 101),
    "bernoulli_": (lambda x: torch.empty(8, 8).bernoulli_(GIVEN), 1, 1),
    "random_ between": (lambda x: torch.empty(40, 50).random_(3, 7), 9, 9),
    "random_ below": (lambda x: torch.empty(40, 50, dtype=torch.int8).random_(5), 4, 4),
    "random_": (lambda x: torch.empty(400, 50, dtype=torch.uint8).random_(), 255, 255),
    "like a constant": (lambda x: torch.rand_like(GIVEN), 0.5, 1.5),
    "by a constant": (lambda x: torch.bernoulli(GIVEN), 1, 1),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_have_a_description_and_go_on_drawing(name):
    draw, low, high = DRAWS[name]
    model = Draws(draw)
    graph = gw.capture(model, None, torch.zeros(2), optimizer=torch.optim.SGD)
    assert any(is_random(graph, node) for node in graph.nodes)
    assert all(is_described(node.op) or node.op == CONSTANT_OP for node in graph.nodes)
    plan = make_plan(graph, gw.cluster("local:1"), {})
    step = gw.compile(plan, model, None, torch.optim.SGD, graph=graph, optimizer_options={"lr": 0})
    losses = {float(step(torch.zeros(2))) for _ in range(4)}
    step.close()
    assert all(low <= loss <= high for loss in losses)
    assert low == high or len(losses) == 4


def test_a_draw_without_a_description_is_refused():
    model = Draws(lambda x: torch.binomial(torch.full((8, 8), 5.0), GIVEN))
    with pytest.raises(UnsupportedModel, match=r"aten.binomial draws random numbers and has no"):
        gw.capture(model, None, torch.zeros(2))


def test_a_generator_of_ones_own_is_refused():
    model = Draws(lambda x: torch.randn(4, generator=torch.Generator()))
    with pytest.raises(UnsupportedModel, match="draws from a generator of its own"):
        gw.capture(model, None, torch.zeros(2))
