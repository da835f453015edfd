"""Any sequence of rules, applied anywhere in a model, keeps its values in float64."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.capture import export
from graphwright.ir import GraphBuilder
from graphwright.rewrite.optimize import (
    Matcher,
    Pool,
    Reader,
    Writer,
    cut,
    fixed_tensors,
    patterns_of,
    rewrite_graph,
)
from graphwright.rewrite.substitutions import every_rule
from inference_models import Heads, Random, flops, settled, values_of

PATTERNS = patterns_of(every_rule())


def changed_at_random(graph, rng, steps):
    """The graph after changes that nobody chose, and how many there were."""
    fixed = fixed_tensors(graph)
    pool, build = Pool(flops), GraphBuilder()
    matcher = Matcher(pool, PATTERNS)
    names = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        names[name] = build.add_input(name, tensor.type, tensor.role)
    writer, applied = Writer(pool, build), 0
    for region in cut(graph, fixed):
        reader = Reader(pool, graph, fixed)
        outputs = reader.read(region)
        for _ in range(steps):
            changes = list(matcher.changes(outputs))
            for number in rng.permutation(len(changes))[:20]:
                made = pool.replace(outputs, changes[number].replaced)
                if made is not None and made != outputs:
                    outputs, applied = made, applied + 1
                    break
        written = writer.write(outputs, [names[leaf] for leaf in reader.leaves])
        names.update(zip(region.outputs, written, strict=True))
    return build.build([names[name] for name in graph.outputs]), applied


def check(model, x, rng, steps):
    exported = export(model, x)
    given = {**exported.weights, exported.inputs[0]: x}
    changed, applied = changed_at_random(exported.graph, rng, steps)
    wanted, made = values_of(exported.graph, given), values_of(changed, given)
    for a, b in zip(wanted, made, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-8, atol=1e-8 * a.abs().max().item())
    return applied


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1))
def test_any_changes_of_a_random_model_keep_its_values(seed):
    rng = np.random.default_rng(seed)
    model = settled(Random(seed), seed)
    x = torch.from_numpy(rng.uniform(-1, 1, (int(rng.integers(1, 3)), 4, 5, 6)))
    check(model, x, rng, 6)


@settings(max_examples=6)
@given(seed=st.integers(0, 2**32 - 1))
def test_any_changes_of_products_keep_their_values(seed):
    rng = np.random.default_rng(seed)
    x = torch.from_numpy(rng.uniform(-1, 1, (1, 5, 6)))
    assert check(settled(Heads(), seed), x, rng, 8) > 0


@settings(max_examples=6)
@given(seed=st.integers(0, 2**32 - 1))
def test_what_the_search_finds_keeps_the_values_and_costs_no_more(seed):
    model = settled(Random(seed, layers=14), seed)
    x = torch.rand(1, 4, 5, 6, dtype=torch.float64)
    exported = export(model, x)
    found = rewrite_graph(exported.graph, flops, budget=60)
    assert found.cost <= found.merged
    given = {**exported.weights, exported.inputs[0]: x}
    for a, b in zip(values_of(exported.graph, given), values_of(found.graph, given), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-8, atol=1e-8 * a.abs().max().item())
