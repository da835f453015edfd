"""Examples that DGL documents, options, and what transforms refuse."""

import pytest
import torch

import graphwright.gnn as dgl
from gnn_graphs import pairs
from graphwright.gnn import DGLError


def social():
    return dgl.heterograph(
        {
            ("user", "follows", "user"): ([0, 1], [1, 1]),
            ("user", "plays", "game"): ([0, 1], [0, 1]),
        }
    )


def test_line_graph_of_the_documentation():
    g = dgl.graph(([0, 0, 1, 1, 2, 2], [2, 1, 0, 2, 0, 1]))
    assert pairs(g.line_graph(backtracking=False)) == [
        (0, 5),
        (1, 3),
        (2, 0),
        (3, 4),
        (4, 1),
        (5, 2),
    ]


def test_personalised_pagerank_of_the_documentation():
    g = dgl.graph(([0, 1, 2, 3, 4], [2, 3, 4, 5, 3]))
    g.edata["w"] = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5])
    made = dgl.PPR(avg_degree=2)(g)
    assert made.edata["w"][:6].tolist() == pytest.approx(
        [0.15, 0.15, 0.15, 0.0255, 0.0163, 0.15], abs=5e-5
    )
    assert made.num_edges() == 12 and pairs(made)[3] == (1, 3)


def test_diffusions_agree_where_they_are_the_same_series():
    torch.manual_seed(0)
    g = dgl.GCNNorm()(
        dgl.to_bidirected(dgl.graph((torch.randint(0, 9, (20,)), torch.randint(0, 9, (20,)))))
    )
    alpha = 0.3
    series = dgl.GDC([alpha * (1 - alpha) ** k for k in range(200)], eps=-1)(g)
    closed = dgl.PPR(alpha, eps=-1)(g)
    assert pairs(series) == pairs(closed)
    assert torch.allclose(series.edata["w"], closed.edata["w"], atol=1e-6)
    heat = dgl.HeatKernel(t=1.0, eps=-1)(g)
    terms, term = [], 1.0
    for k in range(40):
        terms.append(term)
        term /= k + 1
    taylor = dgl.GDC([t * 2.718281828459045**-1 for t in terms], eps=-1)(g)
    assert torch.allclose(heat.edata["w"], taylor.edata["w"], atol=1e-6)


def test_gcn_norm_is_symmetric_and_knows_two_sides():
    g = dgl.GCNNorm()(dgl.graph(([0, 1, 2, 0], [1, 1, 1, 2])))
    assert g.edata["w"].tolist() == pytest.approx([0.0, 1 / 3, 3**-0.5, 0.0])
    made = dgl.GCNNorm()(dgl.heterograph({("a", "x", "b"): ([0, 0, 1], [0, 1, 1])}))
    assert made.edata["w"].tolist() == pytest.approx([2**-0.5, 0.5, 2**-0.5])


def test_reverse_edges_as_documented():
    g = dgl.graph(([0], [1]))
    g.edata["w"] = torch.ones(1, 2)
    assert dgl.AddReverse()(g).edata["w"].tolist() == [[1, 1], [0, 0]]
    assert dgl.AddReverse(copy_edata=True)(g).edata["w"].tolist() == [[1, 1], [1, 1]]
    g = social()
    g.edges["plays"].data["w"] = torch.tensor([1.0, 2.0])
    made = dgl.AddReverse(copy_edata=True)(g)
    assert made.canonical_etypes == [
        ("game", "rev_plays", "user"), ("user", "follows", "user"), ("user", "plays", "game"),
    ]  # fmt: skip
    assert pairs(made, "rev_plays") == [(0, 0), (1, 1)]
    assert made.edges["rev_plays"].data["w"].tolist() == [1, 2]
    assert pairs(made, "follows") == [(0, 1), (1, 1), (1, 0), (1, 1)]
    apart = dgl.AddReverse(sym_new_etype=True)(g)
    assert pairs(apart, "rev_follows") == [(1, 0), (1, 1)] and apart.num_edges("follows") == 2


def test_objects_in_a_row():
    transform = dgl.Compose([dgl.AddReverse(), dgl.ToSimple(), dgl.AddSelfLoop()])
    g = transform(dgl.graph(([0, 0, 1], [1, 1, 1])))
    assert pairs(g) == [(0, 1), (1, 0), (0, 0), (1, 1)]
    assert "AddReverse()" in repr(transform)
    typed = dgl.AddSelfLoop(new_etypes=True)(social())
    assert ("game", "self", "game") in typed.canonical_etypes and typed.num_edges(
        ("user", "self", "user")
    ) == 2
    assert pairs(dgl.RemoveSelfLoop()(social()), "follows") == [(0, 1)]
    assert pairs(dgl.KHopGraph(2)(dgl.graph(([0, 1], [1, 2])))) == [(0, 2)]
    assert dgl.LineGraph()(dgl.graph(([0, 1], [1, 2]))).num_nodes() == 2
    paths = dgl.AddMetaPaths({"watches": ["follows", "plays"]})(social())
    assert pairs(paths, "watches") == [(0, 1), (1, 1)] and "plays" in paths.etypes
    assert dgl.AddMetaPaths({"watches": ["follows", "plays"]}, False)(social()).etypes == [
        "watches"
    ]


def test_levi_graph():
    g = dgl.graph(([0, 1], [1, 0]))
    g.ndata["h"], g.edata["w"] = torch.ones(2, 3), torch.ones(2)
    made = dgl.ToLevi()(g)
    assert pairs(made, "n2e") == [(0, 0), (1, 1)] and pairs(made, "e2n") == [(0, 1), (1, 0)]
    assert made.nodes["edge"].data["w"].tolist() == [1, 1] and made.nodes["node"].data[
        "h"
    ].shape == (2, 3)


def test_sign_diffusion_is_repeated_multiplication():
    torch.manual_seed(1)
    g = dgl.graph((torch.randint(0, 6, (15,)), torch.randint(0, 6, (15,))), num_nodes=6)
    g.ndata["feat"], g.edata["w"] = torch.randn(6, 2), torch.rand(15)
    transition = torch.zeros(6, 6).index_put(
        tuple(reversed(g.edges())), g.edata["w"], accumulate=True
    )
    made = dgl.SIGNDiffusion(2, eweight_name="w")(g)
    assert torch.allclose(
        made.ndata["out_feat_2"], transition @ transition @ g.ndata["feat"], atol=1e-5
    )
    into = transition.sum(1, keepdim=True)
    walk = dgl.SIGNDiffusion(1, eweight_name="w", diffuse_op="rw")(g).ndata["out_feat_1"]
    assert torch.allclose(walk, (transition / into.clamp(min=1e-9)) @ g.ndata["feat"], atol=1e-5)
    scale = torch.where(into > 0, into, 1.0) ** -0.5
    gcn = scale * transition * scale.T
    ppr = dgl.SIGNDiffusion(1, eweight_name="w", diffuse_op="ppr", alpha=0.1)(g).ndata["out_feat_1"]
    sources = into.squeeze(1) > 0
    expected = 0.9 * gcn @ g.ndata["feat"] + 0.1 * g.ndata["feat"]
    if bool(sources.all()):
        assert torch.allclose(ppr, expected, atol=1e-5)


def test_random_changes_have_the_probability_asked_for():
    torch.manual_seed(0)
    g = dgl.graph((torch.arange(4000) % 50, torch.arange(4000) % 37))
    g.ndata["h"] = torch.arange(50.0)[:, None].expand(50, 400).clone()
    assert 900 < 4000 - dgl.DropEdge(0.25)(g).num_edges() < 1100
    assert 20 < dgl.DropNode(0.4)(g).num_nodes() < 40
    assert dgl.AddEdge(0.5)(g).num_edges() == 6000
    assert sorted(dgl.NodeShuffle()(g).ndata["h"][:, 0].tolist()) == list(range(50))
    masked = dgl.FeatMask(0.25, node_feat_names=["h"])(g).ndata["h"]
    assert 60 < int((masked[1] == 0).sum()) < 140
    assert dgl.RowFeatNormalizer(node_feat_names=["h"])(g).ndata["h"][1:].sum(
        1
    ).tolist() == pytest.approx([1] * 49)


def test_encodings_as_features():
    g = dgl.to_bidirected(dgl.graph(([0, 1, 2], [1, 2, 3])))
    made = dgl.Compose([dgl.LapPE(2, eigval_name="v"), dgl.RandomWalkPE(2, "rw"), dgl.SVDPE(2)])(g)
    assert made.ndata["PE"].shape == made.ndata["v"].shape == made.ndata["rw"].shape == (4, 2)
    assert made.ndata["svd_pe"].shape == (4, 4)
    assert made.ndata["rw"][:, 1].tolist() == pytest.approx([0.5, 0.75, 0.75, 0.5])


def test_labels_of_link_prediction():
    g = dgl.to_bidirected(dgl.graph(([0, 0, 0, 0, 1, 1, 2, 4], [1, 2, 3, 6, 3, 4, 4, 5])))
    assert dgl.double_radius_node_labeling(g, 0, 1).tolist() == [1, 1, 3, 2, 3, 7, 0]


def test_points():
    x = torch.tensor([[0.0], [1.0], [3.0], [3.5]])
    assert pairs(dgl.knn_graph(x, 2)) == [
        (0, 0),
        (1, 0),
        (1, 1),
        (0, 1),
        (2, 2),
        (3, 2),
        (3, 3),
        (2, 3),
    ]
    assert pairs(dgl.knn_graph(x, 1, exclude_self=True)) == [(1, 0), (0, 1), (3, 2), (2, 3)]
    sets = dgl.segmented_knn_graph(x, 1, [2, 2], exclude_self=True)
    assert pairs(sets) == [(1, 0), (0, 1), (3, 2), (2, 3)]
    g, lengths = dgl.radius_graph(x, 1.0, get_distances=True)
    assert pairs(g) == [(0, 1), (1, 0), (2, 3), (3, 2)] and lengths.tolist() == [
        [1],
        [1],
        [0.5],
        [0.5],
    ]
    assert dgl.radius_graph(x, 1.0, self_loop=True).num_edges() == 8


def test_rows_sorted_by_tag():
    g = dgl.graph(([0, 0, 0, 0, 1], [0, 1, 2, 1, 0]))
    made = dgl.sort_csr_by_tag(g, torch.tensor([1, 1, 0]))
    assert made.adj_tensors("csr")[1].tolist() == [2, 0, 1, 1, 0]
    assert made.ndata["_TAG_OFFSET"].tolist() == [[0, 1, 4], [0, 0, 1], [0, 0, 0]]
    assert pairs(made) == pairs(g)
    by_edge = dgl.sort_csc_by_tag(g, torch.tensor([1, 1, 0, 0, 0]), tag_type="edge")
    assert by_edge.adj_tensors("csc")[2].tolist() == [4, 0, 3, 1, 2]


def test_removing_edges_knows_the_batch():
    g = dgl.graph(([0, 1, 2], [1, 0, 2]))
    g.set_batch_num_nodes(torch.tensor([2, 1]))
    g.set_batch_num_edges(torch.tensor([2, 1]))
    made = dgl.remove_self_loop(g)
    assert made.batch_num_edges().tolist() == [2, 0] and made.batch_num_nodes().tolist() == [2, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: dgl.add_self_loop(social(), etype="plays"),
            "does not support unidirectional bipartite",
        ),
        (lambda: dgl.add_self_loop(dgl.graph(([0], [1])), ["w"]), "no edge feature 'w'"),
        (lambda: dgl.to_bidirected(social()), "types of head node and tail node are identical"),
        (lambda: dgl.add_reverse_edges(social()), "bipartite"),
        (lambda: dgl.khop_graph(social(), 2), "takes a homogeneous graph"),
        (lambda: dgl.metapath_reachable_graph(social(), ["plays", "follows"]), "node types differ"),
        (lambda: dgl.to_block(dgl.graph(([0], [1])), [0]), "node 1 of type '_N' is missing"),
        (lambda: dgl.to_block(dgl.graph(([0], [1])), [1, 1]), "several times"),
        (lambda: dgl.reverse(dgl.to_block(dgl.graph(([0], [1])))), "Reversing a block graph"),
        (lambda: dgl.to_simple(dgl.graph(([0], [1])), aggregator="max"), "Got 'max'"),
        (
            lambda: dgl.lap_pe(dgl.graph(([0], [1])), 2),
            "k must be smaller than the number of nodes n, 2 and 2",
        ),
        (lambda: dgl.knn_graph(torch.zeros(2, 1), 3), "at least 3 points"),
        (
            lambda: dgl.reorder_graph(dgl.graph(([0], [1])), "custom"),
            'needs permute_config\\["nodes_perm"\\]',
        ),
        (lambda: dgl.khop_in_subgraph(social(), [0], 1), "has to be a dictionary"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(DGLError, match=message):
        call()


def test_bipartite_types_may_be_ignored():
    made = dgl.add_reverse_edges(social(), ignore_bipartite=True)
    assert pairs(made, "follows") == [(0, 1), (1, 1), (1, 0)] and pairs(made, "plays") == [
        (0, 0),
        (1, 1),
    ]
