"""Substitutions in captured models: what is recognised, where rules apply, and that values stay."""

import numpy as np
import pytest
import torch

from graphwright.aten import call_kernel, replay
from graphwright.ir import verify
from graphwright.rewrite.substitutions import parse
from graphwright.rewrite.substitutions.models import constant_calls, find, recognise, replace_match
from graphwright.rewrite.substitutions.values import constant_value
from substitution_models import Branches, Pools, Products, captured, count, rules


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


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("C_pool(3)", (4, 1, 3, 3)),
        ("I_conv(3)", (4, 4, 3, 3)),
        ("I_conv(1)", (2, 2, 1, 1)),
        ("I_matmul()", (3, 3)),
        ("I_matmul()", (2, 3, 3)),
        ("I_ewmul()", (2, 5)),
    ],
)
def test_a_constant_is_made_by_aten_calls(text, shape):
    made = []
    for call in constant_calls(parse(text), shape, "float64"):
        made.append(call_kernel(call.op, [made[i] for i in call.inputs], call.attrs)[0])
        assert tuple(made[-1].shape) == call.shapes[0]
    wanted = torch.tensor(np.asarray(constant_value(parse(text), shape), np.float64))
    torch.testing.assert_close(made[-1], wanted, rtol=1e-15, atol=0)


def test_a_pooling_and_a_convolution_become_one_convolution():
    """In two steps: the pooling becomes a convolution by C_pool, then both are added up."""
    graph, values = captured(Pools(), 2, 4, 6, 6)
    graphs = [graph]
    for _ in range(2):
        graphs = [replace_match(g, m) for g in graphs for m in find(recognise(g), rules())]
    fused = [
        g for g in graphs if count(g, "aten.convolution") == 1 and not count(g, "aten.avg_pool2d")
    ]
    assert fused
    (before,) = replay(graph, values).values()
    (after,) = replay(fused[0], values).values()
    torch.testing.assert_close(after, before, rtol=1e-9, atol=1e-9)
