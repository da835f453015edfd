"""The pass for training graphs: what it merges, when it does nothing, what it refuses."""

from collections import Counter

import pytest
import torch

from graphwright.errors import InvalidOption, UnknownCluster
from graphwright.rewrite import Optimize, read_pass, rules_of
from inference_models import Heads
from training_models import MODELS, Gates, assert_same, captured


def products(graph):
    names = ("aten.mm", "aten.matmul", "aten.tensordot", "aten.convolution")
    return sum(node.op in names for node in graph.nodes)


@pytest.mark.parametrize("name", MODELS)
def test_known_models_are_cheaper_and_train_alike(name):
    make, shape = MODELS[name]
    graph = captured(make(), shape)
    changed = Optimize().apply(graph)
    assert_same(graph, changed)
    applied = rules_of(changed)
    assert applied.after <= applied.before
    if name != "inception":
        assert applied.rules and products(changed) < products(graph)


def test_query_key_and_value_become_one_product_and_keep_their_dims():
    graph = captured(Heads(), (2, 5, 6))
    changed = Optimize().apply(graph)
    ops = Counter(node.op for node in changed.nodes)
    assert ops["aten.matmul"] == 1 and "aten.view" not in ops
    weights = [n for n in changed.inputs if changed.tensors[n].role == "parameter"]
    assert weights == [n for n in graph.inputs if graph.tensors[n].role == "parameter"]
    assert all(changed.tensors[f"{n}.grad"].of == n for n in weights)
    assert {node.module for node in changed.nodes} <= {node.module for node in graph.nodes}


def test_gates_of_all_steps_become_fewer_products():
    graph = captured(Gates(steps=5), (2, 5, 4))
    changed = Optimize().apply(graph)
    assert products(changed) < 0.7 * products(graph)


def test_where_nothing_is_cheaper_the_graph_stays():
    graph = captured(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), (2, 4))
    changed = Optimize().apply(graph)
    assert changed == graph and not rules_of(changed).rules
    assert [record.name for record in changed.passes] == ["unmerge", "optimize"]


def test_a_record_makes_the_same_pass():
    made = Optimize(budget=7, prices="dgx-h100")
    assert read_pass(made.record) == made


def test_options_are_checked():
    for wrong, message in (
        ({"alpha": 0.5}, "alpha=0.5"),
        ({"budget": 0}, "budget=0"),
        ({"prices": 3}, "prices=3"),
    ):
        with pytest.raises(InvalidOption, match=message):
            Optimize(**wrong)
    with pytest.raises(UnknownCluster):
        Optimize(prices="dgx-h1000")
