"""Transforms of random graphs against NetworkX, SciPy and brute force."""

from collections import Counter, defaultdict

import networkx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import graphwright.gnn as dgl
from gnn_graphs import graphs, heterographs, pairs, to_networkx
from graphwright.gnn.storage import number_in_order


@given(graphs(), st.sampled_from([2.0, "sum", "mean", "max", "min"]))
def test_added_loops_come_last_with_their_features(g, fill):
    made = dgl.add_self_loop(g, fill_data=fill)
    n, m = g.num_nodes(), g.num_edges()
    assert pairs(made) == pairs(g) + [(v, v) for v in range(n)]
    assert made.edata["w"][:m].equal(g.edata["w"]) and made.idtype == g.idtype
    for v, got in enumerate(made.edata["w"][m:].tolist()):
        into = [w for (_, d), w in zip(pairs(g), g.edata["w"].tolist(), strict=True) if d == v]
        if fill == 2.0:
            assert got == 2.0
        elif not into:
            assert got == 0
        else:
            assert got == pytest.approx(
                {
                    "sum": sum(into),
                    "mean": sum(into) / len(into),
                    "max": max(into),
                    "min": min(into),
                }[fill]
            )


@given(graphs())
def test_removing_loops_leaves_all_others(g):
    made = dgl.remove_self_loop(g)
    kept = [e for e, (u, v) in enumerate(pairs(g)) if u != v]
    assert pairs(made) == [pairs(g)[e] for e in kept]
    assert made.edata["w"].tolist() == [10.0 + e for e in kept]
    assert made.num_nodes() == g.num_nodes()


@given(graphs())
def test_reversing_keeps_ids_and_twice_is_nothing(g):
    made = dgl.reverse(g, copy_edata=True)
    assert pairs(made) == [(v, u) for u, v in pairs(g)]
    assert made.in_degrees().equal(g.out_degrees()) and made.edata["w"].equal(g.edata["w"])
    assert pairs(dgl.reverse(made)) == pairs(g) and "w" not in dgl.reverse(made).edata


@given(heterographs())
def test_reversing_swaps_the_types(g):
    made = g.reverse()
    for src, name, dst in g.canonical_etypes:
        assert pairs(made, (dst, name, src)) == [(v, u) for u, v in pairs(g, (src, name, dst))]
    assert made.nodes["user"].data["h"].equal(g.nodes["user"].data["h"])


@given(graphs(), st.booleans())
def test_reverse_edges_follow_the_edges(g, exclude_self):
    made = dgl.add_reverse_edges(g, copy_edata=True, exclude_self=exclude_self)
    back = [e for e, (u, v) in enumerate(pairs(g)) if u != v or not exclude_self]
    assert pairs(made) == pairs(g) + [pairs(g)[e][::-1] for e in back]
    assert made.edata["w"].tolist() == [10.0 + e for e in [*range(g.num_edges()), *back]]


@given(graphs())
def test_bidirected_is_the_undirected_graph_both_ways(g):
    expected = networkx.DiGraph(to_networkx(g).to_undirected()).edges
    assert pairs(dgl.to_bidirected(g)) == sorted(expected)


@given(graphs(), st.sampled_from(["arbitrary", "sum", "mean"]))
def test_simple_graphs_count_and_map_parallel_edges(g, aggregator):
    made, mapping = dgl.to_simple(g, writeback_mapping=True, copy_edata=True, aggregator=aggregator)
    counts = Counter(pairs(g))
    assert pairs(made) == sorted(counts)
    assert made.edata["count"].tolist() == [counts[pair] for pair in sorted(counts)]
    assert [pairs(made)[e] for e in mapping.tolist()] == pairs(g)
    groups = defaultdict(list)
    for pair, w in zip(pairs(g), g.edata["w"].tolist(), strict=True):
        groups[pair].append(w)
    for pair, got in zip(pairs(made), made.edata["w"].tolist(), strict=True):
        ws = groups[pair]
        assert got == pytest.approx(
            {"arbitrary": ws[0], "sum": sum(ws), "mean": sum(ws) / len(ws)}[aggregator]
        )


@given(heterographs())
def test_types_go_to_features_and_back(g):
    flat, node_counts, edge_counts = dgl.to_homogeneous(
        g, ndata=["h"], edata=["w"], return_count=True
    )
    assert node_counts == [g.num_nodes(t) for t in g.ntypes]
    assert edge_counts == [g.num_edges(t) for t in g.canonical_etypes]
    back = dgl.to_heterogeneous(flat, g.ntypes, g.etypes)
    for etype in g.canonical_etypes:
        if g.num_edges(etype):
            assert pairs(back, etype) == pairs(g, etype)
            assert back.edges[etype].data["w"].equal(g.edges[etype].data["w"])
        else:
            assert etype not in back.canonical_etypes
    for ntype in g.ntypes:
        assert back.nodes[ntype].data["h"].equal(g.nodes[ntype].data["h"])
    told = dgl.to_heterogeneous(flat, g.ntypes, g.etypes, metagraph=g.metagraph())
    assert told.canonical_etypes == g.canonical_etypes
    assert pairs(told, "plays") == pairs(g, "plays") and told.idtype == g.idtype


@given(graphs(), st.integers(0, 3))
def test_khop_graphs_have_an_edge_for_each_path(g, k):
    dense = np.zeros((g.num_nodes(),) * 2, np.int64)
    np.add.at(dense, tuple(np.array(pairs(g), int).reshape(-1, 2).T), 1)
    power = np.linalg.matrix_power(dense, k)
    made = dgl.khop_graph(g, k)
    expected = [p for p in np.ndindex(*power.shape) for _ in range(power[p])]
    assert pairs(made) == expected and made.ndata["h"].equal(g.ndata["h"])
    assert dgl.khop_adj(g, k).numpy().tolist() == power.tolist()


@given(graphs(), st.integers(0, 3), st.booleans(), st.data())
def test_khop_subgraphs_are_induced_by_distance(g, k, inward, data):
    seeds = data.draw(st.lists(st.integers(0, g.num_nodes() - 1), min_size=1, max_size=3))
    nx = to_networkx(g)
    nx = nx.reverse() if inward else nx
    reached = sorted(
        {v for s in seeds for v in networkx.single_source_shortest_path_length(nx, s, k)}
    )
    extract = dgl.khop_in_subgraph if inward else dgl.khop_out_subgraph
    made, places = extract(g, seeds, k)
    assert made.ndata[dgl.NID].tolist() == reached
    assert made.ndata[dgl.NID][places.long()].tolist() == seeds
    kept = [e for e, (u, v) in enumerate(pairs(g)) if u in reached and v in reached]
    assert made.edata[dgl.EID].tolist() == kept
    assert [(reached[u], reached[v]) for u, v in pairs(made)] == [pairs(g)[e] for e in kept]
    assert made.edata["w"].tolist() == [10.0 + e for e in kept]
    unnumbered = extract(g, seeds, k, relabel_nodes=False)
    assert pairs(unnumbered) == [pairs(g)[e] for e in kept]


@given(heterographs())
def test_metapaths_reach_what_walks_reach(g):
    made = dgl.metapath_reachable_graph(g, ["follows", "follows", "plays"])
    reached = {
        (a, d)
        for a, b in pairs(g, "follows")
        for c, e in pairs(g, "follows")
        if b == c
        for f, d in pairs(g, "plays")
        if e == f
    }
    assert pairs(made) == sorted(reached)
    assert made.canonical_etypes == [("user", "_E", "game")]
    assert made.nodes["game"].data["h"].equal(g.nodes["game"].data["h"])


@given(graphs(), st.booleans())
def test_line_graphs_join_edges_that_follow(g, backtracking):
    made = dgl.line_graph(g, backtracking, shared=True)
    edges = pairs(g)
    expected = [
        (a, b)
        for a, (u, v) in enumerate(edges)
        for b, (s, t) in enumerate(edges)
        if v == s and (backtracking or t != u)
    ]
    assert pairs(made) == expected
    assert made.num_nodes() == len(edges) and made.ndata["w"].equal(g.edata["w"])


@given(st.lists(st.integers(0, 2**31 - 1) | st.integers(0, 8), max_size=40), st.booleans())
def test_ids_are_numbered_as_they_appear(ids, narrow):
    distinct, number = number_in_order(
        torch.tensor(ids, dtype=torch.int32 if narrow else torch.int64)
    )
    assert distinct.tolist() == list(dict.fromkeys(ids))
    assert distinct[number.long()].tolist() == ids


@given(heterographs(), st.booleans())
def test_blocks_have_the_edges_between_old_ids(g, include):
    block = dgl.to_block(g, include_dst_in_src=include)
    for src, name, dst in g.canonical_etypes:
        etype = (src, name, dst)
        sources, ends = block.srcnodes[src].data[dgl.NID], block.dstnodes[dst].data[dgl.NID]
        u, v = block.edges(etype=etype)
        assert list(zip(sources[u.long()].tolist(), ends[v.long()].tolist(), strict=True)) == pairs(
            g, etype
        )
        assert block.edges[etype].data[dgl.EID].tolist() == list(range(g.num_edges(etype)))
    for ntype in g.ntypes:
        sources, ends = (
            block.srcnodes[ntype].data[dgl.NID].tolist(),
            block.dstnodes[ntype].data[dgl.NID].tolist(),
        )
        into = {v for e in g.canonical_etypes if e[2] == ntype for _, v in pairs(g, e)}
        out = [u for e in g.canonical_etypes if e[0] == ntype for u, _ in pairs(g, e)]
        assert ends == sorted(into)
        assert sources == list(dict.fromkeys([*(ends if include else []), *out]))
        assert block.srcnodes[ntype].data["h"].tolist() == [float(v) for v in sources]


@given(heterographs(), st.data())
def test_compacting_drops_nodes_without_edges(g, data):
    kept = data.draw(st.lists(st.integers(0, g.num_nodes("user") - 1), unique=True, max_size=2))
    made = dgl.compact_graphs(g, always_preserve={"user": torch.tensor(kept, dtype=g.idtype)})
    touched = set(kept)
    for etype in g.canonical_etypes:
        sources = made.nodes[etype[0]].data[dgl.NID].tolist()
        ends = made.nodes[etype[2]].data[dgl.NID].tolist()
        assert [(sources[u], ends[v]) for u, v in pairs(made, etype)] == pairs(g, etype)
        touched |= {u for u, _ in pairs(g, etype) if etype[0] == "user"}
        touched |= {v for _, v in pairs(g, etype) if etype[2] == "user"}
    users = made.nodes["user"].data[dgl.NID].tolist()
    assert users[: len(kept)] == kept and set(users) == touched
    one, same = dgl.compact_graphs([g, g.reverse()])
    assert one.num_nodes() == same.num_nodes()


@given(graphs(), st.data())
def test_any_order_of_nodes_is_the_same_graph(g, data):
    order = data.draw(st.permutations(range(g.num_nodes())))
    algorithm = data.draw(st.sampled_from([None, "rcmk", "custom"]))
    by = data.draw(st.sampled_from(["src", "dst"]))
    made = dgl.reorder_graph(g, algorithm, by, permute_config={"nodes_perm": order})
    old = made.ndata[dgl.NID].tolist()
    assert sorted(old) == list(range(g.num_nodes()))
    assert [(old[u], old[v]) for u, v in pairs(made)] == [
        pairs(g)[e] for e in made.edata[dgl.EID].tolist()
    ]
    ends = [pair[0 if by == "src" else 1] for pair in pairs(made)]
    assert ends == sorted(ends) and sorted(made.edata[dgl.EID].tolist()) == list(
        range(g.num_edges())
    )
    assert made.ndata["h"].tolist() == [float(v) for v in old]


@given(graphs())
def test_distances_and_paths_are_shortest(g):
    dist, paths = dgl.shortest_dist(g, return_paths=True)
    expected = dict(networkx.all_pairs_shortest_path_length(to_networkx(g)))
    for u, v in np.ndindex(g.num_nodes(), g.num_nodes()):
        length = expected[u].get(v, -1)
        assert int(dist[u, v]) == length
        steps = [e for e in paths[u, v].tolist() if e >= 0]
        assert len(steps) == max(length, 0)
        at = u
        for e in steps:
            assert pairs(g)[e][0] == at
            at = pairs(g)[e][1]
        assert length <= 0 or at == v
    assert dgl.shortest_dist(g, root=0).equal(dist[0])


@given(graphs(), st.integers(1, 4))
def test_returning_walks_are_powers_of_the_transition_matrix(g, k):
    dense = np.zeros((g.num_nodes(),) * 2)
    np.add.at(dense, tuple(np.array(pairs(g), int).reshape(-1, 2).T), 1)
    step = dense / np.maximum(dense.sum(1, keepdims=True), 1)
    expected = np.stack([np.diagonal(np.linalg.matrix_power(step, i + 1)) for i in range(k)], -1)
    assert np.allclose(dgl.random_walk_pe(g, k).numpy(), expected, atol=1e-6)


@given(graphs(min_nodes=2))
def test_spectra_are_those_of_the_normalised_laplacian(g):
    both = dgl.to_bidirected(g)
    n = both.num_nodes()
    dense = np.zeros((n, n))
    np.add.at(dense, tuple(np.array(pairs(both), int).reshape(-1, 2).T), 1)
    scale = np.diag(np.maximum(dense.sum(0), 1) ** -0.5)
    laplacian = np.eye(n) - scale @ dense @ scale
    values = np.linalg.eigvalsh(laplacian)
    assert dgl.laplacian_lambda_max(both)[0] == pytest.approx(values[-1], abs=1e-6)
    vectors, found = dgl.lap_pe(both, n - 1, return_eigval=True)
    assert np.allclose(found.numpy(), values[1:], atol=1e-5)
    assert np.allclose(laplacian @ vectors.numpy(), vectors.numpy() * found.numpy(), atol=1e-4)
    padded = dgl.lap_pe(both, n + 2, padding=True)
    assert padded.shape == (n, n + 2) and bool((padded[:, n - 1 :] == 0).all())
    singular = dgl.svd_pe(both, n, random_flip=False).double()
    assert np.allclose((singular[:, :n] @ singular[:, n:].T).numpy(), dense, atol=1e-5)
