"""Substitutions in captured models: what is recognised, where rules apply, and that values stay."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import graphwright as gw
from graphwright.aten import replay
from graphwright.ir import verify
from graphwright.rewrite.substitutions import shipped
from graphwright.rewrite.substitutions.models import find, recognise, replace_match


class Branches(nn.Module):
    """Two convolutions of one tensor side by side, as in Inception; and a product with its weight."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Conv2d(4, 8, 3, padding=1, bias=False)
        self.right = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.grouped = nn.Conv2d(4, 4, 3, padding=1, bias=False, groups=2)
        self.again = nn.Conv2d(4, 4, 3, padding=1, bias=False, groups=2)
        self.with_bias = nn.Conv2d(12, 6, 1)
        self.linear = nn.Linear(6, 5, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = torch.cat([self.left(x).relu(), self.right(x).relu()], 1)
        z = F.avg_pool2d(self.with_bias(y), 3, 1, 1)
        groups = torch.cat([self.grouped(x), self.again(x)], 1)
        return self.linear(z.mean((2, 3)).sigmoid()), groups, F.max_pool2d(z, 3, 2, 1)


class Products(nn.Module):
    """Three products with one matrix, the third of what the first made: TASO's figure 2.6."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(5, 5))

    def forward(self, x: Tensor) -> Tensor:
        first = self.weight @ x
        late = x * x
        return self.weight @ first.relu() + first.tanh() + (self.weight @ late).tanh()


def captured(model: nn.Module, *shape: int):
    torch.manual_seed(0)
    model = model.double()
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -1, 1)
    x = torch.rand(*shape, dtype=torch.float64) - 0.5
    graph = gw.capture(model, inputs=x)
    values = {name: p.detach() for name, p in model.named_parameters()}
    values |= {name: x for name in graph.inputs if name not in values}
    return graph, values


def rules():
    for rule in shipped().rules:
        yield rule.substitution
        if rule.substitution.is_reversible:
            yield rule.substitution.reversed()


def test_a_node_is_an_operator_where_it_is_the_operators_call():
    graph, _ = captured(Branches(), 2, 4, 6, 6)
    model = recognise(graph)
    ops = {name: {t.label for t in terms} for name, terms in model.terms.items()}
    assert {"conv 1 same none"} in ops.values()
    assert {"relu", "conv 1 same relu"} in ops.values()  # a ReLU of a convolution is both
    assert {"concat 1"} in ops.values() and {"pool_avg 3 1 same"} in ops.values()
    assert {"pool_max 3 2 same"} in ops.values()
    assert {"matmul"} in ops.values() and {"transpose"} in ops.values()
    biases = [n for n in graph.nodes if n.op == "aten.add.Tensor"]
    assert biases and not any(n.name in model.terms for n in biases)  # broadcast: left alone


@pytest.mark.parametrize(
    ("model", "shape", "least"), [(Branches(), (2, 4, 6, 6), 12), (Products(), (5, 3), 10)]
)
def test_every_match_keeps_the_values_of_the_model(model, shape, least):
    graph, values = captured(model, *shape)
    before = replay(graph, values)
    tried = 0
    for match in find(recognise(graph), rules()):
        changed = replace_match(graph, match)
        verify(changed)
        after = replay(changed, values)
        assert after.keys() == before.keys()
        for name in before:
            torch.testing.assert_close(after[name], before[name], rtol=1e-9, atol=1e-9)
        tried += 1
    assert tried >= least


def test_branches_become_one_convolution():
    graph, _ = captured(Branches(), 2, 4, 6, 6)
    fused = [
        changed
        for match in find(recognise(graph), rules())
        if count(changed := replace_match(graph, match), "aten.convolution")
        < count(graph, "aten.convolution")
    ]
    assert fused and all(count(g, "aten.convolution") == 4 for g in fused)


def count(graph, op):
    return sum(node.op == op for node in graph.nodes)


def test_grouped_branches_stay_apart():
    """The guard: one convolution by both weights would pair other channels."""
    graph, _ = captured(Branches(), 2, 4, 6, 6)
    grouped = {n.name for n in graph.nodes if n.op == "aten.convolution" and n.attrs["groups"] == 2}
    for match in find(recognise(graph), rules()):
        if match.substitution.guards:
            assert not {str(e) for e in match.binding.values()} & {"grouped.weight", "again.weight"}
    assert len(grouped) == 2


def test_a_product_with_what_the_other_made_is_not_fused_with_it():
    graph, _ = captured(Products(), 5, 3)
    products = [n.name for n in graph.nodes if n.op == "aten.mm"]
    pairs = {
        frozenset(map(str, m.places))
        for m in find(recognise(graph), rules())
        if len(m.places) == 2 and {*map(str, m.places)} <= {*products}
    }
    first, second, third = products
    assert frozenset((first, third)) in pairs  # though `late` is made after the first product
    assert frozenset((first, second)) not in pairs
