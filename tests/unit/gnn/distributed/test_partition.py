"""Parts of a graph: all of it, once, with few edges between; and what files may not do."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright.gnn as dgl
from gnn_graphs import graphs, heterographs, pairs
from graphwright.gnn import data
from graphwright.gnn.data import InvalidDataFile, MissingData
from graphwright.gnn.distributed import (
    edge_cut,
    load_partition,
    load_partition_book,
    partition_graph,
)


@settings(max_examples=20)
@given(
    graphs() | heterographs(),
    st.integers(1, 3),
    st.integers(1, 2),
    st.sampled_from(["metis", "random", "range"]),
)
def test_parts_are_the_whole_graph(tmp_path_factory, g, num_parts, hops, method):
    out = tmp_path_factory.mktemp("parts")
    old_nodes, old_edges = partition_graph(
        g, "test", num_parts, str(out), hops, method, return_mapping=True
    )
    if g.is_homogeneous:
        old_nodes, old_edges = {g.ntypes[0]: old_nodes}, {g.canonical_etypes[0]: old_edges}
    for ntype in g.ntypes:
        assert sorted(old_nodes[ntype].tolist()) == list(range(g.num_nodes(ntype)))
    seen_edges = {etype: [] for etype in g.canonical_etypes}
    for part in range(num_parts):
        made, node_feats, edge_feats, book, name, ntypes, etypes = load_partition(
            str(out / "test.json"), part
        )
        assert (name, ntypes, etypes, book.num_partitions()) == (
            "test",
            g.ntypes,
            g.canonical_etypes,
            num_parts,
        )
        inner = made.ndata["inner_node"].nonzero().reshape(-1)
        assert made.ndata[dgl.NID][inner].tolist() == book.partid2nids(part).tolist()
        assert book.nid2partid(made.ndata[dgl.NID]).tolist() == made.ndata["part_id"].tolist()
        kinds, own = book.map_to_per_ntype(made.ndata[dgl.NID])
        assert kinds.tolist() == made.ndata[dgl.NTYPE].tolist()
        for at, ntype in enumerate(ntypes):
            mine = kinds == at
            assert old_nodes[ntype][own[mine]].tolist() == made.ndata["orig_id"][mine].tolist()
            assert (
                book.map_to_homo_nid(own[mine], ntype).tolist()
                == made.ndata[dgl.NID][mine].tolist()
            )
            rows = (
                old_nodes[ntype][book.partid2nids(part, ntype)].long()
                if len(ntypes) > 1
                else old_nodes[ntype][book.partid2nids(part)].long()
            )
            assert node_feats[f"{ntype}/h"].equal(g.nodes[ntype].data["h"][rows])
        src, dst = made.edges()
        into = {int(v) for v in inner}
        for e, (u, v) in enumerate(zip(src.tolist(), dst.tolist(), strict=True)):
            etype = etypes[int(made.edata[dgl.ETYPE][e])]
            old = int(made.edata["orig_id"][e])
            assert pairs(g, etype)[old] == (
                int(made.ndata["orig_id"][u]),
                int(made.ndata["orig_id"][v]),
            )
            assert bool(made.edata["inner_edge"][e]) == (v in into)
            if v in into:
                seen_edges[etype].append(old)
        assert book.metadata()[part]["num_nodes"] == len(inner)
        for etype in etypes:
            rows = made.edata["orig_id"][
                made.edata["inner_edge"] & (made.edata[dgl.ETYPE] == etypes.index(etype))
            ]
            assert edge_feats[":".join(etype) + "/w"].equal(g.edges[etype].data["w"][rows.long()])
    for etype in g.canonical_etypes:  # every edge is in the part of its destination, once
        assert sorted(seen_edges[etype]) == list(range(g.num_edges(etype)))


def test_halos_reach_as_far_as_asked(tmp_path):
    g = dgl.graph(([0, 1, 2, 3], [1, 2, 3, 4]))
    for hops, around in ((1, [2]), (2, [2, 1])):
        partition_graph(g, "path", 2, str(tmp_path), hops, "range")
        made = load_partition(str(tmp_path / "path.json"), 1)[0]
        assert made.ndata["orig_id"].tolist() == [3, 4, *around]
        assert (
            made.edata["inner_edge"].tolist() == [True, True]
            if hops == 1
            else sum(made.edata["inner_edge"].tolist()) == 2
        )


@pytest.mark.parametrize("k", [2, 4, 7])
def test_few_edges_are_cut_and_parts_are_even(k):
    g = dgl.to_bidirected(
        dgl.graph(
            (
                torch.arange(1600).repeat(2),
                torch.cat([(torch.arange(1600) + 1) % 1600, (torch.arange(1600) + 40) % 1600]),
            )
        )
    )
    parts = dgl.metis_partition_assignment(g, k)
    counts = torch.bincount(parts, minlength=k)
    assert counts.max() <= 1.1 * 1600 / k and counts.min() >= 0.8 * 1600 / k
    random = edge_cut(g, torch.randint(0, k, (1600,)))
    assert edge_cut(g, parts) < 0.25 * random  # a grid of 40 by 40
    assert dgl.metis_partition_assignment(g, k).equal(parts)


def test_planted_blocks_are_found():
    g = data.planted_partition(4, 100, 0.2, 0.002, seed=0)
    parts = dgl.metis_partition_assignment(g, 4)
    src, dst = g.edges()
    planted = int((g.ndata["label"][src] != g.ndata["label"][dst]).sum())
    assert edge_cut(g, parts) <= 1.1 * planted


def test_parts_balanced_by_edges():
    g = data.barabasi_albert(2000, 4, seed=0)
    parts = dgl.metis_partition_assignment(g, 4, balance_edges=True)
    loads = torch.bincount(parts, 1.0 + g.in_degrees(), minlength=4)
    assert loads.max() < 1.1 * loads.mean()


@pytest.mark.parametrize(
    "g", [dgl.graph(([], []), num_nodes=3), dgl.graph(([0], [0])), dgl.graph(([], []), num_nodes=0)]
)
def test_graphs_of_almost_nothing(g):
    parts = dgl.metis_partition_assignment(g, 2)
    assert len(parts) == g.num_nodes() and set(parts.tolist()) <= {0, 1}


def test_what_is_refused(tmp_path):
    g = dgl.graph(([0, 1], [1, 2]))
    with pytest.raises(dgl.DGLError, match='"metis", "random" or "range"'):
        partition_graph(g, "x", 2, str(tmp_path), part_method="magic")
    with pytest.raises(dgl.DGLError, match="at least 1"):
        partition_graph(g, "x", 0, str(tmp_path))
    partition_graph(g, "x", 2, str(tmp_path))
    config = tmp_path / "x.json"
    with pytest.raises(dgl.DGLError, match="parts 0 to 1"):
        load_partition(str(config), 2)
    with pytest.raises(MissingData, match="No such file"):
        load_partition_book(str(tmp_path / "y.json"), 0)
    about = json.loads(config.read_text())
    about["part-0"]["part_graph"] = "../../etc/passwd"
    config.write_text(json.dumps(about))
    with pytest.raises(InvalidDataFile, match="not in its folder"):
        load_partition(str(config), 0)
    assert load_partition_book(str(config), 1)[0].partid == 1
    config.write_text("[]")
    with pytest.raises(InvalidDataFile, match="does not describe parts"):
        load_partition(str(config), 0)


def test_hubs_and_lonely_nodes_are_merged_too():
    g = data.rmat(12, 20000, seed=0)
    counts = torch.bincount(dgl.metis_partition_assignment(g, 8), minlength=8)
    assert counts.max() <= 1.1 * 4096 / 8
