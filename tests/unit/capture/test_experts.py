"""A layer of experts: what is captured for grouped products, and that rows, columns and experts split exactly."""

import pytest
import torch
from torch import nn

from eager import assert_trains_alike
from graphwright.aten.grouped import (
    fused_grouped_mm,
    fused_grouped_mm_grad_weight,
    grouped_mm,
    grouped_mm_grad_weight,
)
from graphwright.capture import bind, capture
from graphwright.machine import cluster
from graphwright.plans import make_plan
from graphwright.simulate import CostModel
from threads import largest_difference

COSTS = CostModel(measured=False)
TWO = cluster("local:2")


class Experts(nn.Module):
    """Each row goes to the expert that it scores highest."""

    def __init__(self, num_experts=4, width=8, hidden=16):
        super().__init__()
        self.num_experts = num_experts
        self.score = nn.Linear(width, num_experts)
        self.up = nn.Parameter(torch.randn(num_experts, width, hidden) / 4)
        self.down = nn.Parameter(torch.randn(num_experts, hidden, width) / 4)

    def forward(self, x):
        weight, expert = self.score(x).softmax(-1).max(-1)
        order = expert.argsort(stable=True)
        ends = nn.functional.one_hot(expert, self.num_experts).sum(0).cumsum(0).to(torch.int32)
        hidden = torch._grouped_mm(x[order], self.up, offs=ends).relu()
        made = torch._grouped_mm(hidden, self.down, offs=ends)
        back = torch.empty_like(order).scatter(0, order, torch.arange(len(order)))
        return x + made[back] * weight[:, None]


def loss_fn(out, target):
    return (out - target).square().mean()


def experts():
    torch.manual_seed(0)
    model, x = Experts(), torch.randn(12, 8)
    graph = capture(model, loss_fn, (x, 2 * x), optimizer=torch.optim.SGD)
    return model, (x, 2 * x), graph


def test_a_step_of_experts_is_captured_and_exact():
    torch.manual_seed(0)
    x = torch.randn(12, 8)
    options = {"lr": 0.1}
    graph = assert_trains_alike(
        Experts(), loss_fn, (x, 2 * x), torch.optim.SGD, options, tolerance=1e-6
    )
    ops = [node.op for node in graph.nodes if "grouped" in node.op]
    assert ops.count("graphwright.grouped_mm") == 3  # the input needs no gradient
    assert ops.count("graphwright.grouped_mm_grad_weight") == 2


@pytest.mark.parametrize(
    ("forward", "backward"), [("e", "e"), ("m", "m"), ("n", "n"), ("k", "k"), ("e", "k")]
)
def test_experts_rows_and_columns_split(forward, backward):
    model, batch, graph = experts()
    values = bind(graph, model, batch, optimizer=torch.optim.SGD)
    ways = {"graphwright.grouped_mm": forward, "graphwright.grouped_mm_grad_weight": backward}
    plan = make_plan(graph, TWO, {n.name: ways[n.op] for n in graph.nodes if n.op in ways})
    worst, name = largest_difference(graph, plan, values, costs=COSTS)
    assert worst < 1e-5, name


@pytest.mark.parametrize("bounds", [[0, 3, 3, 8], [2, 5, 7, 8], [0, 0, 0, 0], [1, 1, 6, 7]])
def test_one_kernel_for_all_groups_does_the_same(bounds):
    generator = torch.Generator().manual_seed(0)
    shapes = (8, 16), (3, 16, 24), (8, 24)
    a, b, g = (torch.randn(s, generator=generator).bfloat16() for s in shapes)
    ends = torch.tensor(bounds, dtype=torch.int32)
    torch.testing.assert_close(fused_grouped_mm(a, b, ends), grouped_mm(a, b, ends))
    torch.testing.assert_close(
        fused_grouped_mm_grad_weight(a, g, ends), grouped_mm_grad_weight(a, g, ends)
    )
