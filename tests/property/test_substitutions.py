"""Laws of the shipped substitutions: wherever they are applied, PyTorch's kernels give the same.

Values are float64, every ATen call runs the kernel that PyTorch has for it, and shapes are drawn
anew for every graph: groups, batches, kernels and strides of all kinds come up.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.rewrite.substitutions.graphs import Input, apply, matches, substitute
from graphwright.rewrite.substitutions.library import Rule, every_rule
from graphwright.rewrite.substitutions.validate import check
from graphwright.rewrite.substitutions.values import draw_shapes, place, shapes_of
from graphwright.symbolic.prove import Verdict
from substitution_graphs import dressed, random_tensors, run_kernels

CHUNKS = 24
SMALL = {
    "scalar": (),
    "image": ((1, 2), (1, 2, 4), (1, 3, 4), (1, 3, 5)),
    "weight": ((1, 2, 4), (1, 2, 4), (1, 3), (1, 3)),
    "matrix": ((1, 2, 3), (1, 2, 3)),
    "matrices": ((1, 2), (1, 2), (1, 2)),
}


def random_graph(rule: Rule, rng: np.random.Generator):
    """A graph that has the rule's source in it: between other operators, before and after."""
    item = rule.substitution
    leaves = next(filter(None, (draw_shapes(item, rng) for _ in range(8))), None)
    assert leaves is not None, rule
    shapes = dict(leaves)
    inside = {
        Input(name): dressed(Input(name), shapes, shapes[Input(name)], rng) for name in item.inputs
    }
    known = shapes_of(item.source, leaves)
    outputs = []
    for output in item.source:
        here = known[output]
        outputs.append(dressed(substitute(output, inside), shapes, here, rng))
    return tuple(outputs), shapes


def fitting(graph, item, shapes):
    """Where a substitution fits, and splits behind it still know where their input was joined."""
    return [
        (match, more)
        for match in matches(graph, item)
        if (more := place(match, shapes)) is not None
        and shapes_of(apply(graph, match), more) is not None
    ]


def same_values(before, after, shapes, rng) -> None:
    values = random_tensors(shapes, rng)
    made = run_kernels([*before, *after], values, shapes)
    for a, b in zip(made[: len(before)], made[len(before) :], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_rule_keeps_the_values(chunk):
    """In both directions where it has two."""
    applied = 0
    for rule in every_rule()[chunk::CHUNKS]:
        rng = np.random.default_rng(rule.number)
        graph, shapes = random_graph(rule, rng)
        directions = [rule.substitution]
        if rule.substitution.is_reversible:
            directions.append(rule.substitution.reversed())
        for direction in directions:
            places = fitting(graph, direction, shapes)
            if direction is rule.substitution:
                assert places, f"{rule} does not apply to {graph} of {shapes}"
            if not places:
                continue
            match, more = places[rng.integers(len(places))]
            changed = apply(graph, match)
            same_values(graph, changed, more, rng)
            applied += 1
            graph, shapes = changed, dict(more)
    assert applied >= len(every_rule()[chunk::CHUNKS])


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1))
def test_any_sequence_of_rules_keeps_the_values(seed):
    """Rules that nobody chose for the graph, one after the other, wherever they match."""
    rng = np.random.default_rng(seed)
    rules = every_rule()
    graph, shapes = random_graph(rules[rng.integers(len(rules))], rng)
    first = graph
    for _ in range(6):
        for number in rng.permutation(len(rules))[:150]:
            item = rules[number].substitution
            if item.is_reversible and rng.random() < 0.5:
                item = item.reversed()
            places = fitting(graph, item, shapes)
            if places:
                match, more = places[rng.integers(len(places))]
                graph, shapes = apply(graph, match), dict(more)
                break
    same_values(first, graph, shapes, rng)


def holds_over_the_reals(rule: Rule) -> None:
    rng = np.random.default_rng(rule.number)
    leaves = draw_shapes(rule.substitution, rng, SMALL) or draw_shapes(rule.substitution, rng)
    assert leaves is not None
    assert check(rule.substitution, leaves, seconds=60).verdict is Verdict.PROVED, (rule, leaves)


def test_rules_hold_over_the_reals():
    """Symbolic execution of both graphs, for some of the rules at one small choice of shapes."""
    for rule in every_rule()[::40]:
        holds_over_the_reals(rule)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_all_rules_hold_over_the_reals(chunk):
    for rule in every_rule()[chunk::CHUNKS]:
        holds_over_the_reals(rule)
