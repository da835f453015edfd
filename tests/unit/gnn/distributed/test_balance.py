"""Vertex features by counting, weights by construction, ranges by trying all."""

from itertools import combinations_with_replacement, pairwise
from math import ceil

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import graphwright.gnn as dgl
from gnn_graphs import graphs
from graphwright.gnn.distributed.balance import (
    CostModel,
    InvalidRanges,
    OnlinePartitioner,
    Sample,
    VertexFeatures,
    balanced,
    check_bounds,
    equal_edges,
    equal_vertices,
    imbalance,
    largest,
    refined,
)
from graphwright.gnn.storage import DGLError


def features_of(g, line=16):
    csc = g.relation().csc
    return VertexFeatures(csc.indptr, csc.indices, line)


def counted(g, vertex, width, line):
    """Table 4.2, literally."""
    sources = g.in_edges(vertex)[0].tolist()
    blocks = []
    for source in sorted(set(sources)):
        if blocks and source == blocks[-1][-1] + 1:
            blocks[-1].append(source)
        else:
            blocks.append([source])
    loads = sum(ceil(len(block) / line) for block in blocks)
    rows = sum(ceil(len(block) * width / line) for block in blocks)
    return [1, len(sources), len(blocks), loads, rows]


def test_the_example_of_the_paper():
    g = dgl.graph(([3, 4, 6, 8], [1, 1, 1, 1]), num_nodes=9)
    assert features_of(g, 32).sums(1, 2, 64).tolist() == [1, 4, 3, 3, 4 + 2 + 2]


@given(g=graphs(max_nodes=8), width=st.integers(0, 40), line=st.sampled_from([2, 16]))
def test_features_of_ranges_are_sums_over_vertices(g, width, line):
    features = features_of(g, line)
    expected = np.array([counted(g, v, width, line) for v in range(g.num_nodes())])
    for low, high in combinations_with_replacement(range(g.num_nodes() + 1), 2):
        np.testing.assert_array_equal(
            features.sums(low, high, width), expected[low:high].sum(0) if high > low else 0
        )


@given(
    costs=st.lists(st.floats(0, 100) | st.just(0.0), max_size=9),
    workers=st.integers(1, 4),
)
def test_no_other_ranges_have_a_smaller_largest_cost(costs, workers):
    sums = np.concatenate([[0.0], np.cumsum(costs)])
    cost = lambda vertex: float(sums[vertex])
    found = balanced(cost, len(costs), workers)
    check_bounds(found, len(costs), workers)
    every = combinations_with_replacement(range(len(costs) + 1), workers - 1)
    best = min(largest(cost, (0, *inner, len(costs))) for inner in every)
    assert largest(cost, found) <= best * 1.0011 + 1e-12


@given(
    layers=st.lists(st.lists(st.floats(0, 9), min_size=7, max_size=7), min_size=1, max_size=3),
    workers=st.integers(1, 4),
)
def test_shifted_ranges_take_no_longer_and_no_single_shift_is_better(layers, workers):
    def seconds(bounds):
        return sum(max(sum(row[low:high]) for low, high in pairwise(bounds)) for row in layers)

    start = equal_vertices(7, workers)
    found = refined(seconds, start)
    assert check_bounds(found, 7, workers) == found
    assert seconds(found) <= seconds(start)
    for place in range(1, workers):
        for step in (-1, 1):
            other = (*found[:place], found[place] + step, *found[place + 1 :])
            assert sorted(other) != list(other) or seconds(other) >= seconds(found)


def test_ranges_of_equal_counts():
    assert equal_vertices(10, 3) == (0, 3, 6, 10)
    assert equal_edges(torch.tensor([0, 8, 8, 9, 10, 16]), 2) == (0, 1, 5)
    assert equal_vertices(1, 3) == (0, 0, 0, 1)


@pytest.mark.parametrize("bounds", [(0, 3), (0, 2, 1, 4), (1, 2, 3, 4), (0, 1, 2, 3)])
def test_bounds_that_are_no_ranges(bounds):
    with pytest.raises(InvalidRanges, match=r"bounds"):
        check_bounds(bounds, 4, 3)


TRUE = CostModel(widths=(0, 8), weights=((1e-4, 2e-6, 0, 0, 0, 0), (0, 1e-6, 3e-7, 2e-7, 0, 1e-7)))


def skewed():
    return dgl.data.rmat(9, 6000, seed=3)


def test_weights_are_found_from_exact_times():
    features, rng = features_of(skewed()), np.random.default_rng(0)
    samples = []
    for _ in range(40):
        low, high = sorted(rng.integers(0, features.num_nodes + 1, 2).tolist())
        x = tuple(tuple(features.sums(low, high, width).tolist()) for width in TRUE.widths)
        seconds = TRUE.layer_seconds(features, low, high)
        samples.append(Sample(features=x, seconds=seconds))
    learned = CostModel.learn(TRUE.widths, samples)
    other = features_of(dgl.data.barabasi_albert(700, 5, seed=1))
    bounds = equal_vertices(other.num_nodes, 4)
    expected = TRUE.epoch_seconds(other, bounds)
    assert learned.epoch_seconds(other, bounds) == pytest.approx(expected, rel=0.01)
    assert CostModel.from_dict(learned.to_dict()) == learned


def test_data_that_are_no_cost_model():
    for bad in (
        {},
        {"widths": [1], "weights": [[1, 2, 3]]},
        {"widths": [1], "weights": [[-1] * 6]},
    ):
        with pytest.raises(DGLError, match="this is no cost model"):
            CostModel.from_dict(bad)


def played(features, cost, bounds, epochs, move_seconds=0.0):
    """Epochs whose times are those of a cost model; where the graph was cut in each."""
    online = OnlinePartitioner(features=features, bounds=bounds, probe=(0, 0, 0, 0, 2000))
    cuts = []
    for epoch in range(epochs):
        cuts.append(online.bounds)
        pairs = pairwise(online.bounds)
        online.observe([cost.layer_seconds(features, low, high) for low, high in pairs])
        if online.is_due:
            online.consider(cost.widths, epochs - epoch - 1, move_seconds)
    return cuts


def test_cuts_become_balanced_in_a_few_moves():
    features = features_of(dgl.data.barabasi_albert(2000, 4, seed=2))
    cuts = played(features, TRUE, equal_vertices(2000, 4), 40)
    online = OnlinePartitioner(features=features, bounds=cuts[0])
    best = TRUE.epoch_seconds(features, online.cut(TRUE, 4))
    assert TRUE.epoch_seconds(features, cuts[0]) > 1.2 * best
    assert TRUE.epoch_seconds(features, cuts[-1]) < 1.03 * best
    assert len(set(cuts)) <= 5


def test_imbalance_is_the_slowest_over_the_mean():
    assert imbalance([1.0, 1.0]) == 1
    assert imbalance([3.0, 0.0, 0.0]) == 3
    assert imbalance([0.0, 0.0]) == 1


def test_a_move_that_does_not_pay_is_not_made():
    features = features_of(dgl.data.barabasi_albert(2000, 4, seed=2))
    assert len(set(played(features, TRUE, equal_vertices(2000, 4), 40, move_seconds=1e3))) == 1


def test_a_cut_that_turned_out_slower_is_undone():
    features, first = features_of(dgl.data.barabasi_albert(500, 3)), (0, 250, 500)
    online = OnlinePartitioner(features=features, bounds=first)
    for _ in range(3):
        online.observe([[4.0], [1.0]])
    second = online.consider([8], 1000, 0.0)
    assert second is not None and second != first
    for _ in range(3):
        online.observe([[5.0], [1.0]])
    assert online.consider([8], 1000, 0.0) == first
