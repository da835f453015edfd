"""Orders of visits: DGL's documented example, NetworkX on random graphs, and cycles."""

from itertools import pairwise

import networkx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import graphwright.gnn as dgl
from gnn_graphs import graphs, pairs, to_networkx
from graphwright.gnn.storage import CyclicGraph


def lists(frontiers):
    return [frontier.tolist() for frontier in frontiers]


def test_the_example_of_the_documentation():
    g = dgl.graph(([0, 1, 1, 2, 2, 3], [1, 2, 3, 3, 4, 5]))
    assert lists(dgl.bfs_nodes_generator(g, 0)) == [[0], [1], [2, 3], [4, 5]]
    assert lists(dgl.bfs_edges_generator(g, 0)) == [[0], [1, 2], [4, 5]]
    assert lists(dgl.topological_nodes_generator(g)) == [[0], [1], [2], [3, 4], [5]]
    assert lists(dgl.dfs_edges_generator(g, 0)) == [[0], [1], [3], [5], [4]]
    edges, labels = dgl.dfs_labeled_edges_generator(g, 0, has_nontree_edge=True)
    assert (lists(edges), lists(labels)) == (
        [[0], [1], [3], [5], [4], [2]],
        [[0], [0], [0], [0], [0], [2]],
    )
    assert lists(dgl.bfs_nodes_generator(g, [5, 4], reverse=True)) == [[5, 4], [3, 2], [1], [0]]
    assert lists(dgl.dfs_edges_generator(g, [2, 3])) == [[3, 5], [5], [4]]


@given(graphs(), st.data(), st.booleans())
def test_breadth_first_layers(g, data, reverse):
    sources = data.draw(st.lists(st.integers(0, g.num_nodes() - 1), min_size=1, unique=True))
    nx = to_networkx(g).reverse() if reverse else to_networkx(g)
    layers = lists(dgl.bfs_nodes_generator(g, sources, reverse))
    assert [set(layer) for layer in layers] == [
        set(layer) for layer in networkx.bfs_layers(nx, sources)
    ]
    assert sum(map(len, layers)) == len(set().union(*layers))
    reached = set(sources)
    for layer, edges in zip(
        layers[1:], lists(dgl.bfs_edges_generator(g, sources, reverse)), strict=True
    ):
        ends = [pairs(g)[e][::-1] if reverse else pairs(g)[e] for e in edges]
        assert [v for _, v in ends] == layer and {u for u, _ in ends} <= reached
        reached |= set(layer)


@given(graphs())
def test_depth_first_search_is_that_of_networkx(g):
    g = dgl.to_simple(g)
    kinds = {"forward": 0, "reverse": 1, "nontree": 2}
    for source in range(g.num_nodes()):
        edges, labels = dgl.dfs_labeled_edges_generator(g, source, False, True, True)
        found = [
            (*pairs(g)[e.item()], label.item()) for e, label in zip(edges, labels, strict=True)
        ]
        expected = [
            (u, v, kinds[kind])
            for u, v, kind in networkx.dfs_labeled_edges(networkx.DiGraph(to_networkx(g)), source)
            if u != v or kind == "nontree"
        ]
        assert found == expected


@given(graphs(), st.booleans())
def test_topological_generations(g, reverse):
    src, dst = g.edges()
    kept = (src < dst).nonzero().reshape(-1).to(g.idtype)
    g = dgl.edge_subgraph(g, kept, relabel_nodes=False)
    nx = to_networkx(g).reverse() if reverse else to_networkx(g)
    found = lists(dgl.topological_nodes_generator(g, reverse))
    assert [sorted(layer) for layer in found] == [
        sorted(layer) for layer in networkx.topological_generations(nx)
    ]


@given(graphs())
def test_a_cycle_is_named(g):
    if networkx.is_directed_acyclic_graph(to_networkx(g)):
        dgl.topological_nodes_generator(g)
        return
    with pytest.raises(CyclicGraph, match="loop detected in the given graph") as caught:
        dgl.topological_nodes_generator(g)
    shown = str(caught.value).split("edges: ")[1].split(".")[0]
    cycle = [int(node) for node in shown.split(" -> ")]
    assert cycle[0] == cycle[-1] and set(pairwise(cycle)) <= set(pairs(g))


def test_types_are_refused():
    g = dgl.heterograph({("a", "x", "b"): ([0], [0])})
    with pytest.raises(dgl.DGLError, match="takes a homogeneous graph"):
        dgl.bfs_nodes_generator(g, 0)
    with pytest.raises(dgl.DGLError, match='"source" has id 9'):
        dgl.bfs_nodes_generator(dgl.graph(([0], [1])), torch.tensor([9]))


@given(graphs())
def test_messages_along_a_topological_order_find_the_longest_paths(g):
    src, dst = g.edges()
    g = dgl.edge_subgraph(g, (src < dst).nonzero().reshape(-1).to(g.idtype), relabel_nodes=False)
    g.ndata["depth"] = torch.zeros(g.num_nodes())
    g.prop_nodes(
        dgl.topological_nodes_generator(g),
        lambda edges: {"m": edges.src["depth"] + 1},
        lambda nodes: {"depth": nodes.mailbox["m"].max(1)[0]},
    )
    nx = networkx.DiGraph(to_networkx(g))
    depth = dict.fromkeys(nx, 0)
    for node in networkx.topological_sort(nx):
        for following in nx[node]:
            depth[following] = max(depth[following], depth[node] + 1)
    assert g.ndata["depth"].tolist() == [float(depth[v]) for v in range(g.num_nodes())]
