"""Every class of an e-graph has one value, and what is extracted keeps the model's in float64."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.capture import export
from graphwright.ir import GraphBuilder
from graphwright.rewrite.optimize import (
    Pool,
    Reader,
    Writer,
    cut,
    fixed_tensors,
    patterns_of,
    rewrite_graph,
)
from graphwright.rewrite.optimize.saturation import saturating
from graphwright.rewrite.optimize.saturation.saturate import Saturation
from graphwright.rewrite.substitutions import every_rule
from inference_models import Heads, Inception, Random, flops, settled, values_of

EVERY = patterns_of(every_rule())
TAKEN = saturating(EVERY)


def check_classes(model, x, patterns, nodes):
    """Compute every node of the e-graph of each piece: those of one class agree."""
    exported = export(model, x)
    graph = exported.graph
    fixed = fixed_tensors(graph)
    values = {**exported.weights, exported.inputs[0]: x}
    values.update(zip(graph.outputs, values_of(graph, values), strict=True))
    pool, several = Pool(flops), 0
    for region in cut(graph, fixed):
        reader = Reader(pool, graph, fixed)
        state = Saturation(pool, patterns, reader.read(region))
        while len(state.egraph) < nodes and state.round(nodes):
            pass
        classes = [
            [n for n in state.egraph.nodes(c) if pool.entries[n].op != "call"]
            for c in state.egraph.below(state.graph)
        ]
        classes = [nodes for nodes in classes if len(nodes) > 1]
        several += len(classes)
        build = GraphBuilder()
        for name in graph.inputs:
            build.add_input(name, graph.tensors[name].type, graph.tensors[name].role)
        every = [n for nodes in classes for n in nodes]
        if every and all(leaf in graph.inputs for leaf in reader.leaves):
            names = Writer(pool, build).write(every, reader.leaves)
            outputs = list(dict.fromkeys(n for n in names if n not in graph.inputs))
            made = dict(zip(outputs, values_of(build.build(outputs), values), strict=True))
            made.update((name, values[name]) for name in graph.inputs)
            value = dict(zip(every, (made[name] for name in names), strict=True))
            for nodes in classes:
                first = value[nodes[0]]
                for other in nodes[1:]:
                    torch.testing.assert_close(
                        value[other], first, rtol=1e-8, atol=1e-8 * first.abs().max().item()
                    )
    return several


@settings(max_examples=12)
@given(seed=st.integers(0, 2**32 - 1), every=st.booleans())
def test_the_nodes_of_a_class_have_one_value(seed, every):
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.uniform(-1, 1, (int(rng.integers(1, 3)), 4, 5, 6)))
    check_classes(settled(Random(seed), seed), x, EVERY if every else TAKEN, 250)


def test_the_nodes_of_a_class_have_one_value_where_much_is_merged():
    x = torch.rand(1, 5, 6, dtype=torch.float64)
    assert check_classes(settled(Heads()), x, EVERY, 400) > 8
    x = torch.rand(1, 4, 6, 6, dtype=torch.float64)
    assert check_classes(settled(Inception()), x, EVERY, 600) > 8
    assert check_classes(settled(Inception()), x, TAKEN, 600) > 8


@settings(max_examples=6)
@given(seed=st.integers(0, 2**32 - 1))
def test_what_saturation_finds_keeps_the_values_and_costs_no_more(seed):
    model = settled(Random(seed, layers=14), seed)
    x = torch.rand(1, 4, 5, 6, dtype=torch.float64)
    exported = export(model, x)
    result = rewrite_graph(exported.graph, flops, algorithm="saturation", budget=60)
    assert result.cost <= result.merged
    given = {**exported.weights, exported.inputs[0]: x}
    for a, b in zip(values_of(exported.graph, given), values_of(result.graph, given), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-8, atol=1e-8 * a.abs().max().item())
