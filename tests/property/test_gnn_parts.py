"""Training on parts of a graph is training on the graph, however it is cut."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright.gnn as dgl
from gnn_graphs import idtypes
from gnn_parts import MODELS, add_features, largest_difference, train_in_parts, train_whole


@st.composite
def cut_graphs(draw):
    """A graph with isolated nodes, loops and parallel edges, and ranges, some of them empty."""
    count, num_edges = draw(st.integers(3, 12)), draw(st.sampled_from([30, 18, 6, 0]))
    random = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    ends = (torch.randint(count - 1, (num_edges,), generator=random) for _ in "uv")
    g = dgl.graph(tuple(ends), num_nodes=count, idtype=draw(idtypes))
    workers = draw(st.integers(2, 4))
    inner = sorted(
        draw(st.lists(st.integers(0, count), min_size=workers - 1, max_size=workers - 1))
    )
    return g, (0, *inner, count)


@pytest.mark.parametrize("name", MODELS)
@given(cut=cut_graphs(), seed=st.integers(0, 99))
@settings(max_examples=10, deadline=None)
def test_losses_and_parameters_are_those_of_one_process(name, cut, seed):
    g, bounds = cut
    add_features(g, seed, torch.float64)
    torch.manual_seed(seed)
    model = MODELS[name]().double()
    whole = copy.deepcopy(model)
    expected = train_whole(whole, g, 3)
    for losses, part in train_in_parts(model, g, bounds, 3):
        torch.testing.assert_close(losses, expected, rtol=1e-10, atol=1e-10)
        assert largest_difference(part, whole) < 1e-10
