"""The search over graphs: cheaper, equal, and never dearer than what it was given."""

from itertools import product

import pytest
import torch

from graphwright.aten import replay
from graphwright.describe import cost as described_cost
from graphwright.describe import types_of
from graphwright.rewrite.substitutions import shipped
from graphwright.rewrite.substitutions.models import (
    cost_of,
    find,
    recognise,
    replace_match,
    search,
)
from substitution_models import Branches, Pools, Products, captured, count, rules


def calls(graph, node):
    """One for each kernel."""
    return 1.0


def work(graph, node):
    """Operations, and a price for each kernel."""
    return described_cost(node.op, node.attrs, types_of(graph, node)).operations + 500.0


CASES = [(Branches, (2, 4, 6, 6)), (Pools, (2, 4, 6, 6)), (Products, (5, 3))]


@pytest.mark.parametrize(("case", "measure"), list(product(CASES, (calls, work))))
def test_what_is_found_computes_the_same_and_costs_no_more(case, measure):
    model, shape = case
    graph, values = captured(model(), *shape)
    found = search(graph, rules(), measure, budget=60)
    assert found.cost <= found.original == cost_of(graph, measure)
    assert found.cost == cost_of(found.graph, measure)
    before, after = replay(graph, values), replay(found.graph, values)
    for name in before:
        torch.testing.assert_close(after[name], before[name], rtol=1e-9, atol=1e-9)


def test_a_pooling_and_a_convolution_are_one_kernel_when_weights_are_folded():
    graph, _ = captured(Pools(), 2, 4, 6, 6)
    found = search(graph, rules(), calls, budget=60)
    assert (found.original, found.cost) == (3, 1)
    assert len(found.applied) == 2
    assert count(found.graph, "aten.avg_pool2d") == 0


def test_alpha_of_one_does_not_go_over_dearer_graphs():
    """Merely turning a pooling into a convolution saves nothing, so greed stops before it."""
    graph, _ = captured(Pools(), 2, 4, 6, 6)
    assert search(graph, rules(), calls, alpha=1.0, budget=60).cost == 3


def test_the_budget_is_kept_and_each_graph_is_seen_once():
    graph, _ = captured(Branches(), 2, 4, 6, 6)
    assert search(graph, rules(), calls, budget=10).seen <= 10
    neighbours = [replace_match(graph, m) for m in find(recognise(graph), rules())]
    greedy = search(graph, rules(), lambda graph, node: 1.0 / len(graph.nodes), alpha=0.0)
    assert greedy.seen == len({graph.hash, *(g.hash for g in neighbours)})


def test_without_rules_the_graph_stays():
    graph, _ = captured(Products(), 5, 3)
    found = search(graph, [], calls)
    assert found.graph is graph and found.applied == () and found.seen == 1
    assert len(shipped()) > 0
