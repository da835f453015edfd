"""Graphs from formulas: reproducible, and with the statistics that define them."""

from collections import Counter

import networkx
import numpy as np
import pytest
import torch

import graphwright.gnn as dgl
from gnn_graphs import pairs
from graphwright.gnn import data


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: data.erdos_renyi(40, 0.1, seed=seed),
        lambda seed: data.erdos_renyi(40, 0.1, seed=seed, directed=False),
        lambda seed: data.rmat(6, 200, seed=seed),
        lambda seed: data.planted_partition(4, 10, 0.5, 0.05, seed=seed),
        lambda seed: data.barabasi_albert(50, 3, seed=seed),
        lambda seed: data.MiniGCDataset(16, 8, 20, seed=seed)[0][0],
        lambda seed: data.BAShapeDataset(seed=seed)[0],
        lambda seed: data.TreeCycleDataset(seed=seed)[0],
        lambda seed: data.TreeGridDataset(seed=seed)[0],
    ],
)
def test_the_same_seed_makes_the_same_graph(make):
    assert pairs(make(1)) == pairs(make(1)) and pairs(make(1)) != pairs(make(2))


@pytest.mark.parametrize("directed", [True, False])
def test_pairs_of_erdos_renyi_are_as_likely(directed):
    counts = Counter()
    for seed in range(2000):
        g = data.erdos_renyi(4, 0.3, seed=seed, directed=directed)
        counts.update(pairs(g))
        assert len(set(pairs(g))) == g.num_edges() and all(u != v for u, v in pairs(g))
        assert directed or set(pairs(g)) == {(v, u) for u, v in pairs(g)}
    spread = np.sqrt(2000 * 0.3 * 0.7)
    assert len(counts) == 12 and all(abs(count - 600) < 4.5 * spread for count in counts.values())


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_all_pairs_and_none(n):
    assert data.erdos_renyi(n, 1.0).num_edges() == max(n * (n - 1), 0)
    assert data.erdos_renyi(n, 1.0, directed=False).num_edges() == max(n * (n - 1), 0)
    assert data.erdos_renyi(n, 0.0).num_edges() == 0 and data.erdos_renyi(n, 0.0).num_nodes() == n


def test_rmat_is_skewed():
    g = data.rmat(10, 20000, seed=1)
    degrees = g.out_degrees().sort(descending=True)[0]
    assert g.num_nodes() == 1024 and g.num_edges() == 20000
    assert degrees[:10].sum() > 15 * 10 * 20000 / 1024 and int(degrees[-100:].sum()) < 200
    even = data.rmat(10, 20000, a=0.25, b=0.25, c=0.25, seed=1).out_degrees()
    assert int(even.max()) < 50


def test_planted_blocks():
    g = data.planted_partition(5, 40, 0.3, 0.02, seed=2)
    src, dst = g.edges()
    same = g.ndata["label"][src] == g.ndata["label"][dst]
    within, between = 5 * 40 * 39, 200 * 160
    assert abs(same.sum().item() / within - 0.3) < 0.02
    assert abs((~same).sum().item() / between - 0.02) < 0.003
    assert set(pairs(g)) == {(v, u) for u, v in pairs(g)} and len(set(pairs(g))) == g.num_edges()


def test_preferential_attachment():
    g = data.barabasi_albert(3000, 2, seed=3)
    assert g.num_edges() == 2 * 2 * 2998 and len(set(pairs(g))) == g.num_edges()
    degrees = g.in_degrees().numpy()
    assert degrees.min() >= 1 and degrees.max() > 60  # an even graph of this size stays below 20
    share = (degrees == 2).mean()
    assert 0.45 < share < 0.55  # 2 m (m + 1) / (d (d + 1) (d + 2)) at d = m = 2 is one half


def test_random_graphs_by_dgl_seed():
    dgl.seed(4)
    g = dgl.rand_graph(10, 30)
    h = dgl.rand_bipartite("a", "x", "b", 5, 4, 20, idtype=torch.int32)
    dgl.seed(4)
    assert pairs(dgl.rand_graph(10, 30)) == pairs(g) and len(set(pairs(g))) == 30
    assert len(set(pairs(h))) == 20 and h.idtype == torch.int32 and h.num_nodes("b") == 4
    with pytest.raises(dgl.DGLError, match="only 4 pairs"):
        dgl.rand_graph(2, 5)


def test_the_karate_club_is_that_of_networkx():
    g = data.KarateClubDataset()[0]
    club = networkx.karate_club_graph()
    assert set(pairs(g)) == set(club.to_directed().edges) and g.num_edges() == 156
    assert g.ndata["label"].tolist() == [int(club.nodes[v]["club"] != "Mr. Hi") for v in range(34)]
    assert data.KarateClubDataset.num_classes == 2
    with pytest.raises(IndexError):
        data.KarateClubDataset()[1]
    assert data.KarateClubDataset(transform=dgl.add_self_loop)[0].num_edges() == 190


def test_eight_kinds_of_graphs():
    made = data.MiniGCDataset(80, 9, 9, seed=0)
    assert len(made) == 80 and torch.bincount(made.labels).tolist() == [10] * 8
    expected = [
        networkx.cycle_graph(9), networkx.star_graph(8), networkx.wheel_graph(9),
        networkx.lollipop_graph(4, 5), networkx.hypercube_graph(3), networkx.grid_graph([3, 3]),
        networkx.complete_graph(9), networkx.circular_ladder_graph(4),
    ]  # fmt: skip
    for kind, graph in enumerate(expected):
        g, label = made[10 * kind]
        plain = networkx.Graph(pairs(dgl.remove_self_loop(g)))
        assert int(label) == kind and networkx.is_isomorphic(plain, graph)
        assert g.num_edges() == 2 * graph.number_of_edges() + graph.number_of_nodes()


def test_roles_in_motifs():
    g = data.BAShapeDataset(num_base_nodes=50, num_motifs=10, perturb_ratio=0, seed=1)[0]
    assert torch.bincount(g.ndata["label"]).tolist() == [50, 20, 20, 10]
    tops = (g.ndata["label"] == 3).nonzero().reshape(-1)
    assert g.in_degrees(tops).tolist() == [2] * 10
    g = data.TreeCycleDataset(tree_height=3, num_motifs=4, perturb_ratio=0, seed=1)[0]
    assert g.num_nodes() == 15 + 24 and g.num_edges() == 2 * (14 + 24 + 4)
    g = data.TreeGridDataset(tree_height=3, num_motifs=4, perturb_ratio=0, seed=1)[0]
    assert g.num_nodes() == 15 + 36 and g.num_edges() == 2 * (14 + 4 * 12 + 4)
    assert g.ndata["feat"].shape == (51, 1)
