"""How often each choice is made, under fixed seeds; reproducibility; what is refused."""

from collections import Counter

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

import graphwright.gnn as dgl
from gnn_graphs import pairs
from graphwright.gnn import DGLError
from graphwright.gnn.sampling import (
    PinSAGESampler,
    RandomWalkNeighborSampler,
    global_uniform_negative_sampling,
    node2vec_random_walk,
    pack_traces,
    random_walk,
)


def star(leaves):
    """Edges from each leaf to node 0, in no particular order of ids."""
    return dgl.graph((torch.arange(1, leaves + 1).flip(0), torch.zeros(leaves, dtype=torch.long)))


def fits(counts, expected):
    """Whether counts could be draws of these probabilities; a right sampler fails once in 10,000 seeds."""
    expected = np.asarray(expected, float)
    return chisquare(counts, expected / expected.sum() * np.sum(counts)).pvalue > 1e-4


def frequencies(draw, size, times):
    counts = np.zeros(size)
    for _ in range(times):
        np.add.at(counts, draw(), 1)
    return counts


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("fanout", [3, 40])
def test_every_edge_is_as_likely(replace, fanout):
    dgl.seed(1)
    g = star(60)
    counts = frequencies(
        lambda: dgl.sample_neighbors(g, [0], fanout, replace=replace).edata[dgl.EID].numpy(),
        60,
        3000,
    )
    if replace:
        assert fits(counts, np.ones(60))
    else:  # draws exclude each other: the variance is smaller by 1 - share
        share = fanout / 60
        spread = np.sqrt(3000 * share * (1 - share))
        assert abs(counts - 3000 * share).max() < 4.5 * spread


def test_pairs_drawn_without_replacement_are_as_likely():
    dgl.seed(2)
    g = star(5)
    pairs_drawn = Counter(
        tuple(sorted(dgl.sample_neighbors(g, [0], 2).edata[dgl.EID].tolist())) for _ in range(4000)
    )
    assert len(pairs_drawn) == 10 and fits(list(pairs_drawn.values()), np.ones(10))


def test_weights_are_probabilities():
    dgl.seed(3)
    g = star(6)
    weights = torch.tensor([0.0, 1.0, 2.0, 3.0, 0.5, 1.5])
    g.edata["p"] = weights
    counts = frequencies(
        lambda: dgl.sample_neighbors(g, [0], 4, prob="p", replace=True).edata[dgl.EID].numpy(),
        6,
        2000,
    )
    assert counts[0] == 0 and fits(counts[1:], weights[1:].numpy())


def test_weighted_draws_without_replacement_go_one_after_another():
    dgl.seed(4)
    g = star(3)
    w = np.array([1.0, 2.0, 5.0])
    g.edata["p"] = torch.from_numpy(w)
    left_out = frequencies(
        lambda: [3 - dgl.sample_neighbors(g, [0], 2, prob="p").edata[dgl.EID].sum().item()], 3, 6000
    )
    first = w / w.sum()
    expected = [
        sum(
            first[a] * w[b] / (w.sum() - w[a])
            for a in range(3)
            for b in range(3)
            if len({a, b, c}) == 3
        )
        for c in range(3)
    ]
    assert fits(left_out, expected)


def test_a_mask_is_a_weight():
    g = star(4)
    g.edata["on"] = torch.tensor([True, False, True, False])
    assert sorted(dgl.sample_neighbors(g, [0], -1, prob="on").edata[dgl.EID].tolist()) == [0, 2]


def test_steps_of_walks_are_as_likely_as_their_weights():
    dgl.seed(5)
    g = dgl.reverse(star(4))
    g.edata["p"] = torch.tensor([4.0, 0.0, 1.0, 2.0])
    start = torch.zeros(8000, dtype=torch.long)
    _, edges, _ = random_walk(g, start, length=1, return_eids=True)
    assert fits(np.bincount(edges[:, 0], minlength=4), np.ones(4))
    _, edges, _ = random_walk(g, start, length=1, return_eids=True, prob="p")
    counts = np.bincount(edges[:, 0], minlength=4)
    assert counts[1] == 0 and fits(counts[[0, 2, 3]], [4, 1, 2])


def test_walks_end_as_often_as_asked():
    dgl.seed(6)
    loop = dgl.graph(([0], [0]))
    traces, _ = random_walk(loop, torch.zeros(10000, dtype=torch.long), length=2, restart_prob=0.25)
    lengths = (traces >= 0).sum(1).numpy()
    assert fits(np.bincount(lengths, minlength=4)[1:], [0.25, 0.75 * 0.25, 0.75**2])
    traces, _ = random_walk(loop, [0] * 10, length=3, restart_prob=torch.tensor([0.0, 0.0, 1.0]))
    assert (traces >= 0).sum(1).tolist() == [3] * 10


@pytest.mark.parametrize("weighted", [False, True])
def test_biased_walks_have_the_bias_of_the_paper(weighted):
    """From 0 over 1: back to 0, on to 2 (a neighbour of 0), or away to 3."""
    dgl.seed(7)
    g = dgl.graph(([0, 0, 1, 1, 1], [1, 2, 0, 2, 3]))
    g.edata["p"] = torch.tensor([1.0, 0.0, 1.0, 2.0, 4.0])
    p, q = 0.5, 4.0
    traces = node2vec_random_walk(g, [0] * 20000, p, q, 2, prob="p" if weighted else None)
    last = traces[traces[:, 1] == 1][:, 2].numpy()
    weights = np.array([1 / p, 1.0, 1 / q]) * (np.array([1, 2, 4]) if weighted else 1)
    assert fits(np.bincount(last, minlength=4)[[0, 2, 3]], weights)


def test_pinsage_neighbours_are_the_most_visited():
    dgl.seed(8)
    g = dgl.heterograph(
        {
            ("item", "in", "list"): ([0, 0, 0, 1, 1, 2, 3], [0, 1, 2, 0, 1, 2, 3]),
            ("list", "has", "item"): ([0, 1, 2, 0, 1, 2, 3], [0, 0, 0, 1, 1, 2, 3]),
        }
    )
    made = PinSAGESampler(g, "item", "list", 2, 0.1, 500, 2)([0, 3])
    assert pairs(made) == [(0, 0), (1, 0), (3, 3)]  # item 0 is in two lists with item 1
    weights = made.edata["weights"].tolist()
    assert weights[0] > weights[1] and 900 < weights[2] < 1000 and made.ntypes == ["item"]
    plain = RandomWalkNeighborSampler(dgl.graph(([0, 1], [1, 0])), 1, 0.0, 3, 5)
    assert plain([0]).edata["weights"].tolist() == [3]


def test_negative_pairs_are_as_likely():
    dgl.seed(9)
    g = dgl.graph(([0, 1], [1, 2]))
    drawn = Counter()
    for _ in range(500):
        src, dst = global_uniform_negative_sampling(g, 2)
        drawn.update(zip(src.tolist(), dst.tolist(), strict=True))
    assert set(drawn) == {(0, 2), (1, 0), (2, 0), (2, 1)} and fits(list(drawn.values()), np.ones(4))


def test_a_seed_makes_everything_again():
    g = dgl.graph((torch.randint(0, 50, (500,)), torch.randint(0, 50, (500,))))

    def draw():
        return (
            dgl.sample_neighbors(g, g.nodes(), 3).edata[dgl.EID].tolist(),
            random_walk(g, g.nodes(), length=4)[0].tolist(),
            node2vec_random_walk(g, g.nodes(), 1, 2, 4).tolist(),
            [ends.tolist() for ends in global_uniform_negative_sampling(g, 9)],
        )

    dgl.seed(11)
    first, other = draw(), draw()
    dgl.seed(11)
    assert draw() == first and all(a != b for a, b in zip(first, other, strict=True))


def test_traces_of_the_documentation():
    g = dgl.heterograph(
        {
            ("user", "follow", "user"): ([0, 1, 1, 2, 3], [1, 2, 3, 0, 0]),
            ("user", "view", "item"): ([0, 0, 1, 2, 3, 3], [0, 1, 1, 2, 2, 1]),
            ("item", "viewed-by", "user"): ([0, 1, 1, 2, 2, 1], [0, 0, 1, 2, 3, 3]),
        }
    )
    traces, types = random_walk(
        g,
        [0, 0],
        metapath=["follow", "view", "viewed-by"] * 2,
        restart_prob=torch.FloatTensor([0, 0.5, 0, 0, 0.5, 0]),
    )
    assert types.tolist() == [1, 1, 0, 1, 1, 0, 1]
    traces = torch.tensor([[0, 1, -1, -1], [0, 1, 1, 3]])
    concat, kinds, lengths, offsets = pack_traces(traces, types[:4])
    assert (concat.tolist(), kinds.tolist()) == ([0, 1, 0, 1, 1, 3], [1, 1, 1, 1, 0, 1])
    assert (lengths.tolist(), offsets.tolist()) == ([2, 4], [0, 2])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g, h: dgl.sample_neighbors(g, [9], 1), "has id 9, but ids go from 0 to 4"),
        (lambda g, h: dgl.sample_neighbors(g, [0], 1, edge_dir="up"), '"in" or "out"'),
        (lambda g, h: dgl.sample_neighbors(g, [0], 1, prob="bad"), "negative or not finite"),
        (lambda g, h: dgl.sample_neighbors(g, [0], 1, prob="wide"), r"rows of shape \(2,\)"),
        (lambda g, h: dgl.sample_neighbors(h, {"a": [0]}, {"x": 1}), "for each edge type"),
        (lambda g, h: dgl.sample_neighbors(h, [0], 1), "has to be a dictionary"),
        (lambda g, h: random_walk(h, [0], length=2), "metapath not specified"),
        (lambda g, h: random_walk(h, [0], metapath=["x", "x"]), "node types differ"),
        (
            lambda g, h: random_walk(g, [0], length=2, restart_prob=torch.zeros(3)),
            "3 entries, but walks have 2",
        ),
        (lambda g, h: random_walk(g, [0], length=2, restart_prob=1.5), "from 0 to 1"),
        (lambda g, h: node2vec_random_walk(g, [0], 0, 1, 3), "have to be positive"),
        (lambda g, h: PinSAGESampler(h, "a", "b", 1, 0.5, 2, 3), "one edge type from 'b' to 'a'"),
        (lambda g, h: dgl.select_topk(g, 1, "none"), "no edge feature 'none'"),
    ],
)
def test_what_is_refused(call, message):
    g = star(4)
    g.edata["bad"] = torch.tensor([1.0, -1.0, 0.0, 0.0])
    g.edata["wide"] = torch.ones(4, 2)
    h = dgl.heterograph({("a", "x", "b"): ([0], [0]), ("a", "y", "a"): ([0], [0])})
    with pytest.raises(DGLError, match=message):
        call(g, h)
