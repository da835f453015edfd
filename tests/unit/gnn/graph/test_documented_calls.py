"""Calls of DGL's documentation whose results were others, or errors: the results are those that it prints."""

import pytest
import torch

import graphwright.gnn as dgl
from graphwright.gnn.storage import UnknownType


def typed():
    return dgl.heterograph(
        {
            ("A1", "AB1", "B"): ([0, 1, 2], [1, 2, 3]),
            ("A1", "AB2", "B"): ([1, 2, 3], [3, 4, 5]),
            ("A2", "AB2", "B"): ([1, 3, 5], [2, 4, 6]),
        }
    )


def test_edge_types_that_match_are_combined():
    g = typed()
    between = g["A1", :, "B"]
    assert between.etypes == ["AB1+AB2"] and between.ntypes == ["A1", "B"]
    src, dst = between.edges()
    assert src.tolist() == [0, 1, 2, 1, 2, 3] and dst.tolist() == [1, 2, 3, 3, 4, 5]
    assert between.edata[dgl.ETYPE].tolist() == [0, 0, 0, 1, 1, 1]
    assert between.edata[dgl.EID].tolist() == [0, 1, 2, 0, 1, 2]
    named = g[:, "AB2", "B"]
    assert named.ntypes == ["A1+A2", "B"]
    assert named.edges()[0].tolist() == [1, 2, 3, 5, 7, 9]
    assert named.nodes["A1+A2"].data[dgl.NTYPE].tolist() == [0] * 4 + [1] * 6
    assert g["A2", :, "B"].etypes == ["AB2"]
    with pytest.raises(UnknownType, match="no edge type matches"):
        g["B", :, "B"]


def test_edge_features_by_the_names_of_types():
    g = dgl.heterograph(
        {("user", "follows", "user"): ([0, 1], [1, 2]), ("user", "plays", "game"): ([0, 3], [3, 4])}
    )
    g.edata["e"] = {("user", "follows", "user"): torch.zeros(2, 1), "plays": torch.ones(2, 1)}
    assert g.edges["plays"].data["e"].tolist() == [[1], [1]]
    with pytest.raises(dgl.DGLError, match="no type 'buys'"):
        g.edata["e"] = {"buys": torch.zeros(2, 1)}


def test_removal_keeps_what_was_batched():
    g, h = dgl.graph(([0, 2, 2], [0, 1, 2])), dgl.graph(([1, 1, 0], [2, 3, 1]))
    batched = dgl.batch([g, h])
    kept = dgl.remove_edges(batched, [1, 4])
    assert kept.batch_num_edges().tolist() == [2, 2]
    assert batched.batch_num_edges().tolist() == [3, 3]
    batched.remove_nodes([1, 4])
    assert batched.batch_num_nodes().tolist() == [2, 3]
    assert batched.batch_num_edges().tolist() == [2, 0]


def test_networkx_with_types():
    g = dgl.heterograph(
        {("user", "follows", "user"): ([0, 1], [1, 2]), ("user", "plays", "game"): ([0, 2], [1, 0])}
    )
    g.nodes["game"].data["n"] = torch.zeros(2, 1)
    made = dgl.to_networkx(g, node_attrs=["n"])
    assert [data["ntype"] for _, data in made.nodes(data=True)] == ["game"] * 2 + ["user"] * 3
    found = {(u, v, data["id"], data["etype"][1]) for u, v, data in made.edges(data=True)}
    assert found == {
        (2, 3, 0, "follows"), (3, 4, 1, "follows"), (2, 1, 2, "plays"), (4, 0, 3, "plays")
    }  # fmt: skip


def test_bipartite_networkx():
    networkx = pytest.importorskip("networkx")
    made = networkx.DiGraph()
    made.add_nodes_from([1, 3], bipartite=0, feat1=1.0)
    made.add_nodes_from([2, 4, 5], bipartite=1)
    made.add_edge(1, 4, weight=0.5)
    made.add_edge(3, 5, weight=0.25)
    g = dgl.bipartite_from_networkx(made, "u", "e", "v", u_attrs=["feat1"], e_attrs=["weight"])
    assert [ends.tolist() for ends in g.edges()] == [[0, 1], [1, 2]]
    assert g.num_nodes("u") == 2 and g.edata["weight"].tolist() == [0.5, 0.25]
    with pytest.raises(dgl.DGLError, match="directed"):
        dgl.bipartite_from_networkx(made.to_undirected(), "u", "e", "v")


def test_products_and_sums_of_weighted_adjacency():
    a = dgl.heterograph({("A", "AB", "B"): ([2, 0, 0, 1], [1, 0, 2, 2])}, {"A": 3, "B": 4})
    b = dgl.heterograph({("B", "BA", "A"): ([0, 3, 2, 1], [1, 2, 0, 2])}, {"A": 3, "B": 4})
    for g in (a, b):
        g.edata["w"] = torch.rand(4, dtype=torch.float64).requires_grad_()
    dense = lambda g: g.adj(eweight_name="w").to_dense()
    product = dgl.adj_product_graph(a, b, "w")
    torch.testing.assert_close(dense(product), dense(a) @ dense(b))
    assert product.ntypes == ["A"]
    product.edata["w"].sum().backward()
    assert float(a.edata["w"].grad.abs().sum()) > 0
    c = dgl.heterograph({("A", "AB", "B"): ([2, 1], [1, 3])}, {"A": 3, "B": 4})
    c.edata["w"] = torch.rand(2, dtype=torch.float64)
    torch.testing.assert_close(dense(dgl.adj_sum_graph([a, c], "w")), dense(a) + dense(c))


def test_merged_graphs_have_the_edges_of_all():
    g, h = dgl.graph(([0, 1], [1, 2])), dgl.graph(([0, 1], [1, 3]))
    h.edata["h"], h.ndata["x"] = torch.ones(2, 1), torch.ones(4, 1)
    made = dgl.merge([g, h])
    assert made.num_nodes() == 4 and made.edges()[1].tolist() == [1, 2, 1, 3]
    assert made.edata["h"].flatten().tolist() == [0, 0, 1, 1]


def test_block_as_a_graph():
    block = dgl.to_block(dgl.graph(([1, 2], [2, 3])), torch.LongTensor([3, 2]))
    g = dgl.block_to_graph(block)
    assert g.ntypes == ["_N_src", "_N_dst"] and g.num_nodes("_N_dst") == 2
    assert [e.tolist() for e in g.edges()] == [e.tolist() for e in block.edges()]


def test_methods_of_a_graph_that_are_functions_elsewhere():
    g = dgl.graph(([0, 1, 2], [1, 2, 0]))
    g.edata["w"] = torch.tensor([1.0, 2.0, 3.0])
    assert g.sample_neighbors([1], -1).num_edges() == 1
    assert g.select_topk(1, "w").num_edges() == 3
    assert len(g.global_uniform_negative_sampling(2)[0]) == 2
    assert dgl.random.seed is dgl.seed
