"""Samples of random graphs: what may be in them, and how many. Frequencies are tested elsewhere."""

import torch
from hypothesis import given
from hypothesis import strategies as st

import graphwright.gnn as dgl
from gnn_graphs import graphs, heterographs, pairs
from graphwright.gnn.sampling import (
    global_uniform_negative_sampling,
    node2vec_random_walk,
    pack_traces,
    random_walk,
)


def nodes_of(g):
    return st.lists(st.integers(0, g.num_nodes() - 1), min_size=1, max_size=4, unique=True)


@given(graphs(), st.data(), st.integers(-1, 4), st.booleans(), st.booleans(), st.booleans())
def test_samples_are_edges_of_the_nodes(g, data, fanout, replace, inward, weighted):
    nodes = data.draw(nodes_of(g))
    banned = (
        data.draw(st.sets(st.integers(0, g.num_edges() - 1), max_size=3))
        if g.num_edges()
        else set()
    )
    g.edata["p"] = torch.arange(g.num_edges()) % 3 / 2.0
    made = dgl.sample_neighbors(
        g, nodes, fanout, "in" if inward else "out", "p" if weighted else None, replace,
        exclude_edges=sorted(banned) if banned else None,
    )  # fmt: skip
    ids = made.edata[dgl.EID].tolist()
    assert pairs(made) == [pairs(g)[e] for e in ids] and made.num_nodes() == g.num_nodes()
    assert made.edata["w"].tolist() == [10.0 + e for e in ids] and made.idtype == g.idtype
    assert made.ndata["h"].equal(g.ndata["h"])
    for v in range(g.num_nodes()):
        mine = [e for e in ids if pairs(g)[e][1 if inward else 0] == v]
        may = [
            e
            for e, pair in enumerate(pairs(g))
            if pair[1 if inward else 0] == v and e not in banned and (e % 3 or not weighted)
        ]
        if v not in nodes:
            assert mine == []
            continue
        assert set(mine) <= set(may)
        if fanout < 0:
            assert sorted(mine) == may
        elif replace:
            assert len(mine) == (fanout if may else 0)
        else:
            assert len(set(mine)) == len(mine) == min(fanout, len(may))


@given(heterographs())
def test_types_have_fan_outs_of_their_own(g):
    fanouts = {
        ("user", "follows", "user"): 0,
        ("user", "plays", "game"): 1,
        ("dev", "makes", "game"): -1,
    }
    made = dgl.sample_neighbors(g, {"game": g.nodes("game"), "user": g.nodes("user")}, fanouts)
    assert made.num_edges("follows") == 0
    assert made.in_degrees(etype="plays").equal(g.in_degrees(etype="plays").clamp(max=1))
    assert sorted(pairs(made, "makes")) == sorted(pairs(g, "makes"))
    only = dgl.sample_neighbors(g, {"user": g.nodes("user")}, -1)
    assert only.num_edges("plays") == 0 and only.num_edges("follows") == g.num_edges("follows")


@given(graphs(), st.integers(-1, 3), st.booleans(), st.booleans())
def test_the_heaviest_edges_are_kept(g, k, ascending, inward):
    g.edata["w"] = (torch.arange(g.num_edges()) * 7 % 5).float()
    made = dgl.select_topk(g, k, "w", edge_dir="in" if inward else "out", ascending=ascending)
    for v in range(g.num_nodes()):
        mine = [
            made.edata["w"][e].item()
            for e, p in enumerate(pairs(made))
            if p[1 if inward else 0] == v
        ]
        may = [g.edata["w"][e].item() for e, p in enumerate(pairs(g)) if p[1 if inward else 0] == v]
        assert mine == sorted(may, reverse=not ascending)[: k if k >= 0 else None]
    ids = made.edata[dgl.EID]
    assert len(ids.unique()) == len(ids)


@given(graphs(), st.data(), st.integers(0, 5), st.sampled_from([None, 0.3, 1.0]), st.booleans())
def test_walks_follow_edges_until_they_end(g, data, length, restart, weighted):
    g.edata["p"] = torch.arange(g.num_edges()) % 2 * 1.0
    nodes = data.draw(nodes_of(g))
    traces, edges, types = random_walk(
        g,
        nodes,
        length=length,
        restart_prob=restart,
        prob="p" if weighted else None,
        return_eids=True,
    )
    assert traces.shape == (len(nodes), length + 1) and types.tolist() == [0] * (length + 1)
    assert traces.dtype == edges.dtype == g.idtype
    check_walks(g, nodes, traces, edges, lambda e: not weighted or e % 2, restart is None)
    if restart == 1.0:
        assert bool((traces[:, 1:] == -1).all())
    concat, kinds, lengths, offsets = pack_traces(traces, types)
    for row, start, count in zip(traces.tolist(), offsets.tolist(), lengths.tolist(), strict=True):
        assert concat[start : start + count].tolist() == [v for v in row if v >= 0]
    assert kinds.tolist() == [0] * len(concat)


def check_walks(g, nodes, traces, edges, may, endless):
    for node, walk, steps in zip(nodes, traces.tolist(), edges.tolist(), strict=True):
        assert walk[0] == node
        for at, (e, after) in enumerate(zip(steps, walk[1:], strict=True)):
            if after == -1:
                assert set(walk[at + 1 :]) == {-1} and set(steps[at:]) == {-1}
                if endless:
                    assert not any(u == walk[at] and may(e) for e, (u, _) in enumerate(pairs(g)))
                break
            assert pairs(g)[e] == (walk[at], after) and may(e)


@given(graphs(), st.data(), st.sampled_from([0.1, 1.0, 10.0]), st.sampled_from([0.1, 1.0, 10.0]))
def test_biased_walks_follow_edges(g, data, p, q):
    nodes = data.draw(nodes_of(g))
    traces, edges = node2vec_random_walk(g, nodes, p, q, 4, return_eids=True)
    check_walks(g, nodes, traces, edges, lambda e: True, True)


@given(heterographs())
def test_walks_along_types(g):
    traces, types = random_walk(g, g.nodes("user"), metapath=["follows", "plays"])
    assert types.tolist() == [g.get_ntype_id(t) for t in ("user", "user", "game")]
    for a, b, c in traces.tolist():
        assert b == -1 or (a, b) in pairs(g, "follows")
        assert c == -1 or (b, c) in pairs(g, "plays")


@given(graphs(), st.integers(0, 12), st.booleans(), st.booleans())
def test_negative_pairs_have_no_edge(g, count, loops, replace):
    src, dst = global_uniform_negative_sampling(g, count, loops, replace)
    drawn = list(zip(src.tolist(), dst.tolist(), strict=True))
    assert not set(drawn) & set(pairs(g)) and src.dtype == g.idtype and len(drawn) <= count
    assert not loops or all(u != v for u, v in drawn)
    assert replace or len(set(drawn)) == len(drawn)
    if not g.num_edges() and g.num_nodes() > 4:
        assert len(drawn) == count
