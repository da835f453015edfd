"""A graph: how it is made, what it answers, how it changes, and what it refuses."""

import copy
import io
import pickle

import pytest
import torch

import graphwright.gnn as dgl
from graphwright.gnn.storage import FeatureMismatch, InvalidIds, MissingFeature, UnknownType


def triangle():
    return dgl.graph(([0, 0, 1, 2, 0], [1, 2, 2, 2, 1]))  # parallel edges and a loop


def follows():
    return dgl.heterograph(
        {
            ("user", "follows", "user"): ([0, 1], [1, 2]),
            ("user", "plays", "game"): ([0, 2, 2], [0, 0, 1]),
            ("dev", "makes", "game"): ([0], [1]),
        }
    )


@pytest.mark.parametrize(
    "data",
    [
        ([0, 0, 1], [1, 2, 2]),
        (torch.tensor([0, 0, 1]), torch.tensor([1, 2, 2])),
        [(0, 1), (0, 2), (1, 2)],
        ("coo", (torch.tensor([0, 0, 1]), torch.tensor([1, 2, 2]))),
        ("csr", ([0, 2, 3, 3], [1, 2, 2], [])),
        ("csc", ([0, 0, 1, 3], [0, 0, 1], [0, 1, 2])),
        ("csc", ([0, 0, 1, 3], [0, 1, 0], [0, 2, 1])),
    ],
)
def test_every_form_of_edges_gives_the_same_graph(data):
    g = dgl.graph(data)
    assert g.num_nodes() == 3 and g.num_edges() == 3
    src, dst, ids = g.edges(form="all")
    assert (src.tolist(), dst.tolist(), ids.tolist()) == ([0, 0, 1], [1, 2, 2], [0, 1, 2])
    assert g.in_degrees().tolist() == [0, 1, 2] and g.out_degrees().tolist() == [2, 1, 0]
    assert g.in_edges([1, 2], form="eid").sort()[0].tolist() == [0, 1, 2]


def test_ids_keep_their_type():
    g = dgl.graph((torch.tensor([0], dtype=torch.int32), torch.tensor([1], dtype=torch.int32)))
    assert g.idtype == torch.int32 and g.long().idtype == torch.int64 and g.int() is g
    assert dgl.graph(([], []), idtype=torch.int32, num_nodes=2).nodes().dtype == torch.int32
    assert g.in_degrees().dtype == torch.int32
    with pytest.raises(InvalidIds, match=r'"v" to have data type torch.int32. But got torch.int64'):
        g.in_edges(torch.tensor([0]))


def test_edges_between_nodes():
    g = triangle()
    assert g.has_edges_between(0, 1) is True and g.has_edges_between(1, 0) is False
    assert g.has_edges_between([0, 1], [2, 0]).tolist() == [True, False]
    assert g.edge_ids(0, 1) == 0
    assert g.edge_ids([0, 0], [1, 2]).tolist() == [0, 1]
    assert [x.tolist() for x in g.edge_ids([0], [1], return_uv=True)] == [[0, 0], [1, 1], [0, 4]]
    assert g.find_edges([3, 4])[0].tolist() == [2, 0]
    assert g.predecessors(2).tolist() == [0, 1, 2] and g.successors(0).tolist() == [1, 2, 1]
    assert g.is_multigraph and not dgl.graph(([0, 1], [1, 0])).is_multigraph
    assert g.edges(order="srcdst", form="eid").tolist() == [0, 4, 1, 2, 3]
    with pytest.raises(InvalidIds, match=r"\(1, 0\) does not form a valid edge"):
        g.edge_ids(1, 0)
    with pytest.raises(InvalidIds, match="has id 3, but ids go from 0 to 2"):
        g.has_edges_between(0, 3)


def test_features_fit_or_are_refused():
    g = triangle()
    g.ndata["h"] = torch.arange(6.0).reshape(3, 2)
    g.edata["w"] = torch.ones(5)
    assert g.nodes[[0, 2]].data["h"].tolist() == [[0.0, 1.0], [4.0, 5.0]]
    g.nodes[[1]].data["h"] = torch.full((1, 2), 9.0)
    assert g.ndata["h"][1].tolist() == [9.0, 9.0]
    g.edges[0, 2].data["x"] = torch.ones(1, 3)
    assert g.edata["x"].sum(1).tolist() == [0, 3, 0, 0, 0]
    with pytest.raises(
        FeatureMismatch,
        match=r"match number of nodes. Got 2 rows in field 'h' for 3 nodes",
    ):
        g.ndata["h"] = torch.ones(2)
    with pytest.raises(MissingFeature, match=r"no edge feature 'q'; the fields are \['w', 'x'\]"):
        g.edata["q"]
    with pytest.raises(KeyError):
        g.ndata.pop("q")
    assert list(g.ndata) == ["h"] and "h" in g.ndata
    with g.local_scope():
        g.ndata["h"] = torch.zeros(3)
        del g.edata["w"]
    assert g.ndata["h"].shape == (3, 2) and "w" in g.edata


def test_types_of_a_heterogeneous_graph():
    g = follows()
    assert g.ntypes == ["dev", "game", "user"]
    assert g.canonical_etypes == [
        ("dev", "makes", "game"), ("user", "follows", "user"), ("user", "plays", "game")
    ]  # fmt: skip
    assert g.num_nodes("user") == 3 and g.num_nodes() == 6 and g.num_edges("plays") == 3
    assert g.to_canonical_etype("plays") == ("user", "plays", "game")
    assert not g.is_unibipartite and g.srctypes == g.ntypes
    g.nodes["user"].data["h"] = torch.ones(3, 1)
    g.ndata["x"] = {"game": torch.ones(2), "dev": torch.ones(1)}
    assert set(g.ndata["x"]) == {"game", "dev"} and set(g.ndata["h"]) == {"user"}
    assert g.edges(etype="plays")[1].tolist() == [0, 0, 1]
    assert sorted(g.metagraph().edges(keys=True))[0] == ("dev", "game", "makes")
    with pytest.raises(UnknownType, match='Node type "film" does not exist'):
        g.num_nodes("film")
    with pytest.raises(dgl.DGLError, match="Edge type name must be specified"):
        g.edges()
    bipartite = dgl.heterograph({("user", "plays", "game"): ([0, 2], [0, 0])})
    assert bipartite.is_unibipartite and bipartite.srctypes == ["user"]
    assert bipartite.num_src_nodes() == 3 and bipartite.dstdata is not None


def test_blocks_number_their_sides_apart():
    block = dgl.create_block(([0, 1, 2, 3], [0, 0, 1, 1]), num_src_nodes=4, num_dst_nodes=2)
    assert block.is_block and block.num_src_nodes() == 4 and block.num_dst_nodes() == 2
    block.srcdata["h"] = torch.ones(4, 2)
    block.dstdata["h"] = torch.zeros(2, 2)
    assert block.srcdata["h"].shape[0] == 4 and block.dstdata["h"].shape[0] == 2
    assert block.srcnodes["_N"].data["h"] is block.srcdata["h"]
    assert block.dstnodes().tolist() == [0, 1]
    assert repr(block) == "Block(num_src_nodes=4, num_dst_nodes=2, num_edges=4)"
    with pytest.raises(dgl.DGLError, match="destination side"):
        dgl.create_block(([0], [3]))
    with pytest.raises(dgl.DGLError, match="not allowed on a block"):
        block.add_nodes(1)


def test_changes_keep_features():
    g = triangle()
    g.ndata["h"], g.edata["w"] = torch.arange(3.0), torch.arange(5.0)
    g.add_nodes(1, {"h": torch.tensor([7.0])})
    g.add_edges([3, 3], [0, 5], {"w": torch.tensor([8.0, 9.0])})
    assert g.num_nodes() == 6 and g.ndata["h"].tolist() == [0, 1, 2, 7, 0, 0]
    assert g.edata["w"].tolist() == [0, 1, 2, 3, 4, 8, 9]
    g.remove_edges([0, 6], store_ids=True)
    assert g.edata["w"].tolist() == [1, 2, 3, 4, 8] and g.edata[dgl.EID].tolist() == [1, 2, 3, 4, 5]
    g.remove_nodes([1, 4])
    assert g.ndata["h"].tolist() == [0, 2, 7, 0]
    src, dst = g.edges()
    assert list(zip(src.tolist(), dst.tolist(), strict=True)) == [(0, 1), (1, 1), (2, 0)]
    assert g.edata["w"].tolist() == [1, 3, 8]
    g.set_n_initializer(lambda shape, dtype, ctx, ids: torch.full(shape, 5, dtype=dtype), "h")
    g.add_nodes(1)
    assert g.ndata["h"][-1] == 5
    with pytest.raises(FeatureMismatch, match="Got 2 rows in field 'h' for 1 new nodes"):
        g.add_nodes(1, {"h": torch.ones(2)})


def test_changes_of_one_graph_do_not_reach_another():
    g = triangle()
    g.ndata["h"] = torch.zeros(3)
    for other in (g.clone(), copy.copy(g), copy.deepcopy(g), pickle.loads(pickle.dumps(g))):
        other.add_edges(0, 0)
        other.ndata["h"] = torch.ones(3)
        assert g.num_edges() == 5 and g.ndata["h"].sum() == 0
        assert other.num_edges() == 6
    stream = io.BytesIO()
    torch.save(g, stream)
    stream.seek(0)
    assert torch.load(stream, weights_only=False).num_edges() == 5


def test_forms_are_made_on_demand_and_can_be_restricted():
    g = triangle()
    assert g.formats() == {"created": ["coo"], "not created": ["csr", "csc"]}
    g.create_formats_()
    assert g.formats()["not created"] == []
    csc = g.formats("csc")
    assert csc.formats() == {"created": ["csc"], "not created": []}
    assert csc.edges()[0].tolist() == g.edges()[0].tolist()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dgl.graph(([0, 1], [1])), "same length. Got 2 and 1"),
        (lambda: dgl.graph(([0, 5], [1, 2]), num_nodes=3), "got 3 nodes and an id of 5"),
        (lambda: dgl.graph(([-1], [0])), "at least 0"),
        (lambda: dgl.graph(([0.5], [0])), "integers"),
        (lambda: dgl.graph((torch.ones(1), torch.ones(1))), "torch.int32 or torch.int64"),
        (lambda: dgl.graph(("csr", ([0, 2], [0], []))), "end with the number of indices, 1"),
        (lambda: dgl.heterograph({"follows": ([0], [1])}), "source type, edge type"),
        (lambda: dgl.heterograph({}), "at least one"),
        (lambda: dgl.graph(([0], [1])).ndata.__setitem__("h", torch.tensor(3)), "a scalar"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(dgl.DGLError, match=message):
        make()


def test_matrices():
    g = triangle()
    dense = g.adj().to_dense()
    assert dense.tolist() == [[0, 2, 1], [0, 0, 1], [0, 0, 1]]
    assert (g.adj_external(scipy_fmt="csr").toarray() == dense.numpy()).all()
    assert (g.adj_external(transpose=True).to_dense() == dense.T).all()
    both = g.inc("both").to_dense()
    assert both.sum(0).tolist() == [0] * 5 and both[:, 3].tolist() == [0, 0, 0]
    indptr, _, ids = g.adj_tensors("csc")
    assert indptr.tolist() == [0, 0, 2, 5] and ids.tolist() == [0, 4, 1, 2, 3]
