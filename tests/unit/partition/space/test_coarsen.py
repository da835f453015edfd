"""Which operators go together."""

from collections import Counter

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from additive import coarse_of
from graphwright.capture import capture
from graphwright.ir import GraphBuilder, Phase, TensorType
from graphwright.partition import Weight, coarsen
from graphwright.partition.space.coarsen import signature
from random_plans import chain, zoo_graph

MODELS = (
    "mlp", "lenet", "gpt2", "bert-base", "resnet50", "rnn-4-8k", "rnnlm-2", "nmt", "dlrm", "candle-uno",
)  # fmt: skip


def group_with(coarse, name):
    """The group that makes a tensor, and the names of all nodes in it."""
    node, _ = coarse.facts.producer[name]
    group = coarse.groups[coarse.group_of[node]]
    return group, {coarse.facts.graph.nodes[i].name for i in group.nodes}


def reader_of(coarse, parameter):
    """The first node that is no view and reads a parameter, or a view of it."""
    node = coarse.facts.readers[parameter][0][0]
    while coarse.facts.is_view[node]:
        node = coarse.facts.readers[coarse.facts.graph.nodes[node].outputs[0]][0][0]
    return coarse.facts.graph.nodes[node]


def step(model, *inputs, optimizer=torch.optim.Adam, **options):
    """The graph of a training step with a loss of one number."""
    inputs = inputs[0] if len(inputs) == 1 else inputs
    batch = (inputs, torch.zeros(()))
    return capture(model, lambda out, _: out.square().sum(), batch, optimizer=optimizer, **options)


@pytest.mark.parametrize("name", MODELS)
def test_every_node_that_is_not_free_is_in_one_slot(name):
    coarse = coarse_of(name)
    nodes = coarse.facts.graph.nodes
    seen = Counter(i for group in coarse.groups for slot in group.slots for i in slot)
    assert set(seen.values()) == {1}
    for i, node in enumerate(nodes):
        g, s = coarse.group_of[i], coarse.slot_of[i]
        assert (g < 0) == (s < 0) == (i not in seen)
        if g < 0:
            assert all(coarse.facts.graph.tensors[n].type.numel <= 1 for n in node.outputs)
        else:
            assert i in coarse.groups[g].slots[s]


@pytest.mark.parametrize("name", MODELS)
def test_nodes_of_a_slot_do_the_same(name):
    coarse = coarse_of(name)
    nodes = coarse.facts.graph.nodes
    for group in coarse.groups:
        assert 0 <= group.lead < len(group.slots)
        for slot in group.slots:
            assert len({(nodes[i].op, coarse.facts.types[i], nodes[i].phase) for i in slot}) == 1
            assert len({nodes[i].step for i in slot}) == len(slot)


@pytest.mark.parametrize("name", MODELS)
def test_backward_operators_are_with_their_forward_ones(name):
    coarse = coarse_of(name)
    position = coarse.facts.position
    apart = 0
    for i, node in enumerate(coarse.facts.graph.nodes):
        if node.phase is Phase.BACKWARD and node.partner and coarse.group_of[i] >= 0:
            partner = coarse.group_of[position[node.partner]]
            apart += partner >= 0 and partner != coarse.group_of[i]
    sums = sum(n.op == "aten.add.Tensor" for n in coarse.facts.graph.nodes)
    assert apart <= sums  # terms of one gradient may be added where they are made


@pytest.mark.parametrize("name", MODELS)
def test_updates_hold_a_parameter_with_all_its_state(name):
    coarse = coarse_of(name)
    graph = coarse.facts.graph
    homes = Counter(n for g in coarse.groups if g.weight is Weight.UPDATE for n in g.inputs)
    large = {old for old in graph.updates if graph.tensors[old].type.numel > 1}
    updated = {old for old in large if graph.updates[old] in coarse.facts.producer}
    written = {
        old
        for old in updated
        if graph.nodes[coarse.facts.producer[graph.updates[old]][0]].phase is Phase.UPDATE
    }
    assert set(homes) == written
    assert set(homes.values()) <= {1}
    for group in coarse.groups:
        if group.weight is Weight.UPDATE:
            assert len({graph.tensors[n].of or n for n in group.inputs}) <= 1


def test_a_cnn():
    coarse = coarse_of("lenet")
    conv, names = group_with(coarse, "convolution_1")
    assert conv.weight is Weight.HEAVY
    assert names == {"convolution_1", "convolution_grad_input", "conv2.weight.grad"}
    light, names = group_with(coarse, "relu_1")
    assert light.weight is Weight.LIGHT
    assert {"add_1", "max_pool_1", "max_pool_grad_input", "conv2.bias.grad"} <= names
    kinds = Counter(group.weight for group in coarse.groups)
    assert kinds == {Weight.HEAVY: 5, Weight.LIGHT: 6, Weight.UPDATE: 10}


def test_a_transformer():
    """Query, key and value are one group; a skip connection joins two; repeated layers have equal groups."""
    coarse = coarse_of("gpt2")
    reader = lambda module: reader_of(coarse, f"layers.0.{module}.weight").name
    attention, names = group_with(coarse, reader("attention.query"))
    assert {reader("attention.key"), reader("attention.value")} <= names
    assert reader("attention.output") not in names
    assert attention.weight is Weight.HEAVY
    _, names = group_with(coarse, reader("feed_forward.expand"))
    assert reader("feed_forward.contract") not in names
    lights = [g for g in coarse.groups if g.weight is Weight.LIGHT]
    norms = [
        sum(coarse.facts.graph.nodes[i].op == "aten.native_layer_norm" for i in g.nodes)
        for g in lights
    ]
    assert max(norms) == 1
    assert sum(norms) == 5  # two in each layer and the last one, none run together by the skips


def test_equal_layers_have_equal_signatures():
    coarse = coarse_of("gpt2")
    by_layer = [
        signature(
            coarse, group_with(coarse, reader_of(coarse, f"layers.{n}.{module}.weight").name)[0]
        )
        for module in ("attention.query", "attention.output", "feed_forward.expand")
        for n in (0, 1)
    ]
    assert by_layer[::2] == by_layer[1::2]
    assert len(set(by_layer)) == 3


def test_time_steps_are_merged():
    coarse = coarse_of("rnnlm-2")
    group, _ = group_with(coarse, reader_of(coarse, "cells.0.input.weight").name)
    assert len(group.slots[group.lead]) == 2
    apart = coarsen(zoo_graph("rnnlm-2"), merge_steps=False)
    assert all(len(slot) == 1 for g in apart.groups for slot in g.slots)
    assert len(apart.groups) > len(coarse.groups)


def test_number_of_groups_does_not_grow_with_time_steps():
    class Unrolled(nn.Module):
        def __init__(self, steps):
            super().__init__()
            self.cell, self.steps = nn.RNNCell(8, 8), steps

        def forward(self, x):
            h = torch.zeros_like(x)
            for _ in range(self.steps):
                h = self.cell(x, h)
            return h

    counts = [len(coarsen(step(Unrolled(steps), torch.zeros(4, 8))).groups) for steps in (3, 6)]
    assert counts[0] == counts[1]


def test_residual_blocks_stay_apart():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            x = x + torch.relu(self.a(x))
            return x + torch.relu(self.b(x))

    coarse = coarsen(step(Residual(), torch.zeros(4, 8)))
    heavy = [g for g in coarse.groups if g.weight is Weight.HEAVY]
    assert len(heavy) == 2
    relus = {
        coarse.group_of[i]
        for i, node in enumerate(coarse.facts.graph.nodes)
        if node.op == "aten.relu"
    }
    assert len(relus) == 2


def test_tied_weights_have_one_home():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(16, 8))

        def forward(self, tokens):
            return F.embedding(tokens, self.weight) @ self.weight.T

    coarse = coarsen(step(Tied(), torch.zeros(4, dtype=torch.int64)))
    homes = [g for g in coarse.groups if g.weight is Weight.UPDATE and "weight" in g.inputs]
    assert len(homes) == 1
    assert len([g for g in coarse.groups if g.weight is Weight.HEAVY]) == 2


def test_inference_has_no_updates():
    graph = capture(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), inputs=torch.zeros(4, 8))
    coarse = coarsen(graph)
    assert {g.weight for g in coarse.groups} == {Weight.HEAVY, Weight.LIGHT}


class Rotary(nn.Module):
    """Layers that share a table of cosines, each with a view of its own of it."""

    def __init__(self, num_layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(num_layers))
        self.register_buffer("frequencies", torch.ones(8))

    def forward(self, x):
        cosines = (torch.arange(x.shape[1])[:, None] * self.frequencies).cos()
        for layer in self.layers:
            x = layer(x) * cosines.unsqueeze(0)
        return x


def test_a_shared_table_does_not_tie_layers_together():
    coarse = coarsen(step(Rotary(3), torch.zeros(2, 4, 8)))
    for group in coarse.groups:
        modules = {coarse.facts.graph.nodes[i].module for i in group.nodes}
        assert sum("layers" in (module or "") for module in modules) <= 1
    products = [
        coarse.group_of[i]
        for i, node in enumerate(coarse.facts.graph.nodes)
        if node.op == "aten.mul.Tensor" and node.phase is Phase.FORWARD and i > 3
    ]
    assert len(set(products)) == 3  # each follows its own layer


def test_gradients_without_an_optimizer():
    coarse = coarsen(step(nn.Linear(8, 8), torch.zeros(4, 8), optimizer=None))
    assert Weight.UPDATE not in {g.weight for g in coarse.groups}
    assert any(
        coarse.facts.graph.nodes[i].phase is Phase.BACKWARD for g in coarse.groups for i in g.nodes
    )


def test_plain_descent_has_no_state():
    graph = step(
        nn.Linear(8, 8), torch.zeros(4, 8), optimizer=torch.optim.SGD, optimizer_options={"lr": 0.1}
    )
    homes = {g.inputs for g in coarsen(graph).groups if g.weight is Weight.UPDATE}
    assert homes == {("weight",), ("bias",)}


def test_one_node():
    (group,) = coarsen(chain(1)).groups
    assert (group.weight, group.slots, group.lead) == (Weight.HEAVY, ((0,),), 0)


def test_an_operator_without_a_description():
    build, square = GraphBuilder(), TensorType((8, 8), "float32")
    x = build.add_input("x", square)
    (y,) = build.add("mine.strange", [x], {}, square)
    (z,) = build.add("aten.relu", [y], {}, square)
    coarse = coarsen(build.build([z]))
    assert sorted(i for g in coarse.groups for i in g.nodes) == [0, 1]


def test_graphs_without_nodes():
    build = GraphBuilder()
    x = build.add_input("x", TensorType((2,), "float32"))
    assert coarsen(build.build([x])).groups == ()


def test_its_repr_says_how_much_smaller_it_is():
    assert repr(coarse_of("mlp")) == "Coarse(69 nodes in 13 groups)"
