"""Blocks of random graphs compute what the whole graph computes; edges to predict carry nothing."""

from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st

import graphwright.gnn as dgl
from gnn_graphs import graphs, heterographs, pairs
from graphwright.gnn.dataloading import (
    MultiLayerFullNeighborSampler,
    NeighborSampler,
    SAINTSampler,
    ShaDowKHopSampler,
    as_edge_prediction_sampler,
    find_exclude_eids,
    negative_sampler,
)


def spread(ends, values, count):
    """The sum over edges of what is at their sources."""
    src, dst = ends
    return torch.zeros(count).index_add(0, dst.long(), values[src.long()])


@given(graphs(), st.data(), st.integers(1, 3))
def test_full_blocks_compute_what_the_graph_does(g, data, layers):
    seeds = data.draw(st.lists(st.integers(0, g.num_nodes() - 1), min_size=1, unique=True))
    seeds = torch.tensor(seeds, dtype=g.idtype)
    inputs, outputs, blocks = MultiLayerFullNeighborSampler(layers).sample(g, seeds)
    whole = torch.rand(g.num_nodes())
    part = whole[inputs.long()]
    for block in blocks:
        part = spread(block.edges(), part, block.num_dst_nodes())
        whole = spread(g.edges(), whole, g.num_nodes())
    assert outputs.equal(seeds) and torch.allclose(part, whole[seeds.long()], rtol=1e-4)
    for one, following in pairwise(blocks):
        assert one.dstdata[dgl.NID].equal(following.srcdata[dgl.NID])


@given(heterographs(), st.integers(1, 2))
def test_sampled_blocks_have_edges_of_the_graph(g, fanout):
    seeds = {"game": g.nodes("game"), "user": g.nodes("user")}
    _, _, blocks = NeighborSampler([fanout, fanout]).sample(g, seeds)
    for block in blocks:
        for src, name, dst in g.canonical_etypes:
            u, v = block.edges(etype=(src, name, dst))
            sources, ends = block.srcnodes[src].data[dgl.NID], block.dstnodes[dst].data[dgl.NID]
            ids = block.edges[(src, name, dst)].data[dgl.EID].tolist()
            drawn = zip(sources[u.long()].tolist(), ends[v.long()].tolist(), strict=True)
            assert list(drawn) == [pairs(g, name)[e] for e in ids]
            assert bool((block.in_degrees(etype=(src, name, dst)) <= fanout).all())


@given(graphs(), st.data(), st.sampled_from(["self", "reverse_id", None]))
def test_edges_to_predict_carry_no_messages(g, data, exclude):
    both = dgl.add_reverse_edges(g, exclude_self=False)
    m = g.num_edges()
    if not m:
        return
    seeds = torch.tensor(
        data.draw(st.lists(st.integers(0, m - 1), min_size=1, unique=True)), dtype=g.idtype
    )
    reverse = torch.cat([torch.arange(m, 2 * m), torch.arange(m)])
    sampler = as_edge_prediction_sampler(
        MultiLayerFullNeighborSampler(2),
        exclude,
        reverse,
        negative_sampler=negative_sampler.Uniform(2),
    )
    _, positive, negative, blocks = sampler.sample(both, seeds)
    names = positive.ndata[dgl.NID]
    assert [(int(names[u]), int(names[v])) for u, v in pairs(positive)] == [
        pairs(both)[e] for e in seeds.tolist()
    ]
    assert positive.edata[dgl.EID].equal(seeds) and negative.ndata[dgl.NID].equal(names)
    assert [int(names[u]) for u, _ in pairs(negative)] == [
        u for e in seeds.tolist() for u in [pairs(both)[e][0]] * 2
    ]
    banned = {
        "self": set(seeds.tolist()),
        "reverse_id": set(seeds.tolist()) | set((seeds + m).tolist()),
        None: set(),
    }[exclude]
    used = {e for block in blocks for e in block.edata[dgl.EID].tolist()}
    assert not used & banned
    into = {e for e, (_, v) in enumerate(pairs(both)) if v in names.tolist()}
    assert set(blocks[-1].edata[dgl.EID].tolist()) == into - banned


@given(graphs(), st.data())
def test_shadow_subgraphs_hold_their_neighbourhood(g, data):
    seeds = data.draw(st.lists(st.integers(0, g.num_nodes() - 1), min_size=1, unique=True))
    seeds = torch.tensor(seeds, dtype=g.idtype)
    inputs, outputs, part = ShaDowKHopSampler([-1, -1]).sample(g, seeds)
    expected = dgl.khop_in_subgraph(g, seeds, 2)[0]
    assert sorted(part.ndata[dgl.NID].tolist()) == expected.ndata[dgl.NID].tolist()
    assert inputs[: len(seeds)].equal(seeds) and outputs.equal(seeds)
    assert sorted(part.edata[dgl.EID].tolist()) == expected.edata[dgl.EID].tolist()
    if g.num_edges():
        banned = torch.tensor([0], dtype=g.idtype)
        assert 0 not in ShaDowKHopSampler([-1]).sample(g, seeds, banned)[2].edata[dgl.EID].tolist()


@given(graphs(), st.sampled_from([("node", 3), ("edge", 3), ("walk", (2, 3))]))
def test_saint_subgraphs_are_induced(g, mode):
    if not g.num_edges():
        return
    part = SAINTSampler(*mode).sample(g, 0)
    nodes = part.ndata[dgl.NID].tolist()
    inside = [e for e, (u, v) in enumerate(pairs(g)) if u in nodes and v in nodes]
    assert nodes and sorted(part.edata[dgl.EID].tolist()) == inside
    assert len(nodes) <= {"node": 3, "edge": 6, "walk": 8}[mode[0]]


def test_reverse_types_are_excluded_together():
    g = dgl.heterograph({("a", "x", "b"): ([0, 1], [0, 1]), ("b", "y", "a"): ([0, 1], [0, 1])})
    found = find_exclude_eids(
        g, {"x": torch.tensor([1])}, "reverse_types", reverse_etypes={"x": "y", "y": "x"}
    )
    assert {etype: ids.tolist() for etype, ids in found.items()} == {
        ("a", "x", "b"): [1],
        ("b", "y", "a"): [1],
    }
    assert find_exclude_eids(g, 5, lambda seeds: seeds + 1) == 6


@given(graphs(), st.integers(1, 3))
def test_global_negatives_have_no_edge(g, k):
    if g.num_edges():
        src, dst = negative_sampler.GlobalUniform(k)(g, torch.arange(2).to(g.idtype))
        assert not set(zip(src.tolist(), dst.tolist(), strict=True)) & set(pairs(g))
