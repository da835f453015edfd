"""Attention under plans: along queries although causal (context parallelism), along heads although keys are shared."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from eager import assert_trains_alike
from graphwright.capture import bind, capture
from graphwright.describe import node_splits
from graphwright.machine import cluster
from graphwright.plans import make_plan
from graphwright.simulate import CostModel
from threads import largest_difference

COSTS = CostModel(measured=False)
TWO, THREE = cluster("local:2"), cluster("local:3")


class Attention(nn.Module):
    """Six query heads of width 4 over three key heads, or as many."""

    def __init__(self, is_causal, num_key_heads):
        super().__init__()
        self.is_causal, self.num_key_heads = is_causal, num_key_heads
        self.queries = nn.Linear(8, 24)
        self.keys, self.values = (nn.Linear(8, 4 * num_key_heads) for _ in range(2))

    def forward(self, x):
        q, k, v = (
            layer(x).view(*x.shape[:2], -1, 4).transpose(1, 2)
            for layer in (self.queries, self.keys, self.values)
        )
        shared = self.num_key_heads != 6
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal, enable_gqa=shared)


def loss_fn(out, target):
    return (out.sum(1).mean(-1) - target).square().mean()


def worst_under(is_causal, num_key_heads, on, ways):
    torch.manual_seed(0)
    model = Attention(is_causal, num_key_heads).double()
    batch = torch.randn(2, 10, 8).double(), torch.randn(2, 10).double()
    graph = capture(model, loss_fn, batch, optimizer=torch.optim.SGD)
    both = [node for node in graph.nodes if "attention" in node.op]
    assert len(both) == 2
    assert all(node.op.startswith("graphwright.causal") == is_causal for node in both)
    for node, index in zip(both, ways, strict=True):
        assert index in {s.index for s in node_splits(graph, node)}
    strategies = {node.name: index for node, index in zip(both, ways, strict=True)}
    values = bind(graph, model, batch, optimizer=torch.optim.SGD)
    return largest_difference(graph, make_plan(graph, on, strategies), values, costs=COSTS)[0]


@pytest.mark.parametrize("num_key_heads", [3, 6])
@pytest.mark.parametrize("ways", [("l", "l"), ("l", "m"), ("h", "h"), ("b", "l")])
@pytest.mark.parametrize("is_causal", [True, False])
def test_queries_keys_and_heads_split(is_causal, num_key_heads, ways):
    assert worst_under(is_causal, num_key_heads, TWO, ways) < 1e-12


@pytest.mark.parametrize("ways", [("l", "l"), ("l", "m"), ("h", "h")])
def test_uneven_parts(ways):
    assert worst_under(True, 3, THREE, ways) < 1e-12


class Masked(nn.Module):
    """A mask that is made from shapes alone."""

    def __init__(self, mask):
        super().__init__()
        self.mask, self.project = mask, nn.Linear(8, 24)

    def forward(self, x):
        q, k, v = self.project(x).view(*x.shape[:2], 3, 2, 4).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask(x.shape[1]))


MASKS = {
    "all": lambda n: torch.ones(2, 1, n, n, dtype=torch.bool),
    "nothing added": lambda n: torch.zeros(n, n).double(),
    "causal": lambda n: torch.arange(n)[:, None] >= torch.arange(n),
    "band": lambda n: (torch.arange(n)[:, None] - torch.arange(n)).abs() < 2,
    "distances": lambda n: torch.arange(n).double() - torch.arange(n)[:, None],
}


@pytest.mark.parametrize("kind", MASKS)
def test_a_mask_that_says_nothing_new_is_no_operand(kind):
    torch.manual_seed(0)
    model = Masked(MASKS[kind]).double()
    batch = torch.randn(2, 10, 8).double(), torch.randn(2, 2).double()
    graph = capture(model, loss_of_heads, batch, optimizer=torch.optim.SGD)
    node = next(node for node in graph.nodes if "attention" in node.op)
    assert node.op.startswith("graphwright.causal") == (kind == "causal")
    assert (node.inputs[3:] not in ((), (None,))) == (kind in ("band", "distances"))
    assert_trains_alike(model, loss_of_heads, batch, torch.optim.SGD, tolerance=1e-9)


def loss_of_heads(out, target):
    return (out.mean((2, 3)) - target).square().mean()
