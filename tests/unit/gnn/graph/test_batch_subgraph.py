"""Batches, parts, readouts and conversions: what goes in comes out."""

import networkx
import pytest
import scipy.sparse
import torch

import graphwright.gnn as dgl


def small(count, seed, edges=4):
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(count, (2, edges), generator=generator)
    g = dgl.graph((ends[0], ends[1]), num_nodes=count)
    g.ndata["h"] = torch.rand(count, 2, generator=generator)
    g.edata["w"] = torch.rand(edges, generator=generator)
    return g


def same(a, b):
    assert a.num_nodes() == b.num_nodes()
    for x, y in zip(a.edges(), b.edges(), strict=True):
        assert x.tolist() == y.tolist()
    for mine, other in ((a.ndata, b.ndata), (a.edata, b.edata)):
        for name in mine:
            torch.testing.assert_close(mine[name], other[name])


def test_batches_come_apart_again():
    graphs = [small(3, 0), small(1, 1, 0), small(5, 2, 7)]
    batched = dgl.batch(graphs)
    assert batched.batch_size == 3 and batched.batch_num_nodes().tolist() == [3, 1, 5]
    assert batched.batch_num_edges().tolist() == [4, 0, 7]
    for a, b in zip(graphs, dgl.unbatch(batched), strict=True):
        same(a, b)
    nested = dgl.batch([batched, small(2, 5)])
    assert nested.batch_size == 4 and nested.num_nodes() == 11
    part = dgl.slice_batch(batched, 2, store_ids=True)
    same(graphs[2], part)
    assert part.ndata[dgl.NID].tolist() == [4, 5, 6, 7, 8]
    halves = dgl.unbatch(batched, torch.tensor([4, 5]), torch.tensor([4, 7]))
    assert [g.num_nodes() for g in halves] == [4, 5]
    with pytest.raises(dgl.DGLError, match=r"sum up to 9\. Got 3"):
        dgl.unbatch(batched, torch.tensor([1, 2]), torch.tensor([4, 7]))
    graphs[0].ndata["extra"] = torch.ones(3)
    with pytest.raises(dgl.DGLError, match="to have the node feature 'extra'"):
        dgl.batch(graphs)
    assert list(dgl.batch(graphs, ndata=["h"]).ndata) == ["h"]


def test_typed_graphs_are_batched_by_type():
    one = dgl.heterograph({("a", "to", "b"): ([0, 1], [0, 0]), ("b", "back", "a"): ([0], [1])})
    two = dgl.batch([one, one])
    assert two.num_nodes("a") == 4 and two.edges(etype="to")[0].tolist() == [0, 1, 2, 3]
    assert two.edges(etype="back")[1].tolist() == [1, 3] and two.batch_num_nodes("b").tolist() == [
        1,
        1,
    ]
    assert dgl.unbatch(two)[1].edges(etype="to")[0].tolist() == [0, 1]


def test_readouts():
    graphs = [small(3, 0), small(2, 1), small(5, 2)]
    g = dgl.batch(graphs)
    for how in ("sum", "mean", "max", "min"):
        ours = dgl.readout_nodes(g, "h", op=how)
        for row, graph in zip(ours, graphs, strict=True):
            theirs = getattr(graph.ndata["h"], how)(0)
            torch.testing.assert_close(row, theirs if how in ("sum", "mean") else theirs.values)
    torch.testing.assert_close(dgl.sum_edges(g, "w")[2], graphs[2].edata["w"].sum())
    torch.testing.assert_close(dgl.softmax_nodes(g, "h")[3:5], graphs[1].ndata["h"].softmax(0))
    assert dgl.broadcast_nodes(g, torch.arange(3)).tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 2, 2]
    values, order = dgl.topk_nodes(g, "h", 3, sortby=1)
    assert values.shape == (3, 3, 2) and values[1, 2].tolist() == [0, 0]
    best = graphs[2].ndata["h"][:, 1].argmax()
    assert int(order[2, 0]) == int(best)
    torch.testing.assert_close(values[2, 0], graphs[2].ndata["h"][best])


def test_parts_keep_features_and_ids():
    g = dgl.graph(([0, 0, 1, 2, 3], [1, 2, 2, 3, 0]))
    g.ndata["h"], g.edata["w"] = torch.arange(4.0), torch.arange(5.0)
    part = g.subgraph([2, 0, 3])
    assert part.ndata[dgl.NID].tolist() == [2, 0, 3] and part.ndata["h"].tolist() == [2, 0, 3]
    assert part.edata[dgl.EID].tolist() == [1, 3, 4] and part.edata["w"].tolist() == [1, 3, 4]
    assert [x.tolist() for x in part.edges()] == [[1, 0, 2], [0, 2, 1]]
    assert g.subgraph(torch.tensor([True, False, True, False])).num_nodes() == 2
    edges = dgl.edge_subgraph(g, [4, 0])
    assert edges.num_nodes() == 3 and edges.ndata[dgl.NID].tolist() == [0, 1, 3]
    assert [x.tolist() for x in edges.edges()] == [[2, 0], [0, 1]]
    into = dgl.in_subgraph(g, [2])
    assert into.num_nodes() == 4 and into.edata[dgl.EID].tolist() == [1, 2]
    assert dgl.out_subgraph(g, [0], relabel_nodes=True).num_nodes() == 3
    h = dgl.heterograph({("a", "to", "b"): ([0], [0]), ("b", "back", "a"): ([0], [1])})
    assert dgl.edge_type_subgraph(h, ["to"]).canonical_etypes == [("a", "to", "b")]
    assert dgl.node_subgraph(h, {"a": [1], "b": [0]}).num_edges("back") == 1


def test_one_type_and_many():
    h = dgl.heterograph({("a", "to", "b"): ([0, 1], [0, 0]), ("b", "back", "a"): ([0], [1])})
    h.ndata["x"] = {"a": torch.tensor([1.0, 2]), "b": torch.tensor([3.0])}
    one = dgl.to_homogeneous(h, ndata=["x"])
    assert one.ndata["x"].tolist() == [1, 2, 3] and one.edata[dgl.ETYPE].tolist() == [0, 0, 1]
    again = dgl.to_heterogeneous(one, h.ntypes, h.etypes)
    assert again.canonical_etypes == h.canonical_etypes
    assert again.nodes["b"].data["x"].tolist() == [3]
    assert again.edges(etype="to")[0].tolist() == [0, 1]


def test_other_libraries():
    g = small(5, 3, 6)
    back = dgl.from_networkx(dgl.to_networkx(g, ["h"], ["w"]), ["h"], ["w"], "id")
    same(g, back)
    assert dgl.from_networkx(networkx.path_graph(3)).num_edges() == 4
    matrix = scipy.sparse.coo_matrix(([2.0, 3.0], ([0, 1], [1, 1])), shape=(3, 3))
    made = dgl.from_scipy(matrix, eweight_name="w")
    assert made.num_nodes() == 3 and made.edata["w"].tolist() == [2, 3]
    assert made.idtype == torch.int64
    pair = dgl.bipartite_from_scipy(matrix, "u", "e", "v")
    assert pair.num_nodes("v") == 3 and pair.edges()[1].tolist() == [1, 1]
