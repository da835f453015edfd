"""Layers against dense algebra, on a graph with parallel edges and loops, and as blocks."""

import math

import pytest
import torch
from torch.nn import functional as F

import graphwright.gnn as dgl
from graphwright.gnn import nn
from graphwright.gnn.storage import DGLError, ZeroInDegree

SIZE, IN, OUT = 7, 5, 3


@pytest.fixture
def g():
    torch.manual_seed(0)
    src = torch.cat([torch.randint(SIZE, (20,)), torch.arange(SIZE)])
    dst = torch.cat([torch.randint(SIZE, (20,)), torch.arange(SIZE)])
    return dgl.graph((src, dst), num_nodes=SIZE)


@pytest.fixture
def x():
    torch.manual_seed(1)
    return torch.randn(SIZE, IN, requires_grad=True)


def adjacency(g):
    return g.adj().to_dense().T  # rows are destinations


def each(g, x, function):
    """A function of the features of each node's in-neighbours, in the order of edges."""
    src, dst = g.edges()
    return torch.stack([function(node, x[src[dst == node]]) for node in range(g.num_nodes())])


def close(made, expected, *inputs):
    torch.testing.assert_close(made, expected, rtol=1e-4, atol=1e-5)
    weight = torch.randn_like(made)
    for tensor in inputs:
        mine = torch.autograd.grad((made * weight).sum(), tensor, retain_graph=True)[0]
        other = torch.autograd.grad((expected * weight).sum(), tensor, retain_graph=True)[0]
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("norm", ["both", "right", "left", "none"])
@pytest.mark.parametrize("out", [OUT, 2 * IN])
def test_graph_conv(g, x, norm, out):
    a = adjacency(g)
    scale = {
        "both": a.sum(1).pow(-0.5)[:, None] * a * a.sum(0).clamp(min=1).pow(-0.5),
        "right": a / a.sum(1, keepdim=True),
        "left": a / a.sum(0).clamp(min=1),
        "none": a,
    }[norm]
    layer = nn.GraphConv(IN, out, norm=norm, activation=torch.tanh)
    close(layer(g, x), torch.tanh(scale @ x @ layer.weight + layer.bias), x, layer.weight)
    weight = torch.rand(g.num_edges())
    g.edata["w"] = weight
    heavy = g.adj(eweight_name="w").to_dense().T
    weighted = nn.GraphConv(IN, out, norm="none")
    close(weighted(g, x, edge_weight=weight), heavy @ x @ weighted.weight + weighted.bias, x)


def test_layers_refuse_nodes_without_in_edges(x):
    lonely = dgl.graph(([0], [1]), num_nodes=SIZE)
    with pytest.raises(
        ZeroInDegree, match=r"0-in-degree nodes in the graph \(6 of 7\).*add_self_loop"
    ):
        nn.GraphConv(IN, OUT)(lonely, x)
    assert nn.GraphConv(IN, OUT, allow_zero_in_degree=True)(lonely, x).shape == (SIZE, OUT)


def test_smoothing_layers(g, x):
    a = adjacency(g)
    root = a.sum(1).pow(-0.5)
    s = root[:, None] * a * root
    sgc = nn.SGConv(IN, OUT, k=2)
    close(sgc(g, x), sgc.fc(s @ s @ x), x)
    tag = nn.TAGConv(IN, OUT, k=2)
    close(tag(g, x), tag.lin(torch.cat([x, s @ x, s @ s @ x], 1)), x)
    cheb = nn.ChebConv(IN, OUT, 3)
    laplacian = 2 * (torch.eye(SIZE) - s) / 1.7 - torch.eye(SIZE)
    terms = [x, laplacian @ x, 2 * laplacian @ laplacian @ x - x]
    close(cheb(g, x, [1.7]), F.relu(cheb.linear(torch.cat(terms, 1))), x)
    out_root = a.sum(0).clamp(min=1).pow(-0.5)
    step = root[:, None] * a * out_root
    one = 0.9 * step @ x + 0.1 * x
    close(nn.APPNPConv(2, 0.1)(g, x), 0.9 * step @ one + 0.1 * x, x)


def test_attention(g, x):
    layer = nn.GATConv(IN, OUT, 2, residual=True)
    h = layer.fc(x).view(SIZE, 2, OUT)

    def attend(node, near):
        near = layer.fc(near).view(-1, 2, OUT)
        score = (near * layer.attn_l).sum(-1) + (h[node] * layer.attn_r).sum(-1)
        return (F.leaky_relu(score, 0.2).softmax(0)[..., None] * near).sum(0)

    torch.nn.init.normal_(layer.res_fc.bias)
    expected = each(g, x, attend) + layer.res_fc(x).view(SIZE, 2, OUT)
    plain = nn.GATConv(IN, OUT, 2)
    plain.load_state_dict({**plain.state_dict(), "bias": layer.res_fc.bias.detach()})
    for name in ("attn_l", "attn_r", "fc.weight"):
        plain.get_parameter(name).data.copy_(layer.get_parameter(name))
    shifted = each(g, x, attend) + layer.res_fc.bias.view(1, 2, OUT)
    close(plain(g, x), shifted, x)
    close(layer(g, x), expected, x, layer.attn_l, layer.attn_r, layer.fc.weight)
    _, attention = layer(g, x, get_attention=True)
    assert attention.shape == (g.num_edges(), 2, 1)
    second = nn.GATv2Conv(IN, OUT, 2)
    near_dst = second.fc_dst(x).view(SIZE, 2, OUT)

    def attend2(node, near):
        near = second.fc_src(near).view(-1, 2, OUT)
        score = (F.leaky_relu(near + near_dst[node], 0.2) * second.attn).sum(-1)
        return (score.softmax(0)[..., None] * near).sum(0)

    close(second(g, x), each(g, x, attend2), x, second.attn)
    dot = nn.DotGatConv(IN, OUT, 2)
    hd = dot.fc(x).view(SIZE, 2, OUT)

    def attend3(node, near):
        near = dot.fc(near).view(-1, 2, OUT)
        return (((near * hd[node]).sum(-1) / OUT**0.5).softmax(0)[..., None] * near).sum(0)

    close(dot(g, x), each(g, x, attend3), x)


@pytest.mark.parametrize("kind", ["mean", "gcn", "pool", "lstm"])
@pytest.mark.parametrize("out", [OUT, 2 * IN])
def test_sage(g, x, kind, out):
    layer = nn.SAGEConv(IN, out, kind)
    near = {
        "mean": lambda node, h: h.mean(0),
        "gcn": lambda node, h: (h.sum(0) + x[node]) / (len(h) + 1),
        "pool": lambda node, h: F.relu(layer.fc_pool(h)).max(0).values,
        "lstm": lambda node, h: layer.lstm(h[None])[1][0][0, 0],
    }[kind]
    expected = layer.fc_neigh(each(g, x, near))
    expected = expected + (layer.bias if kind == "gcn" else layer.fc_self(x))
    close(layer(g, x), expected, x, layer.fc_neigh.weight)


def test_layers_on_blocks_see_the_first_sources_as_destinations(x):
    block = dgl.create_block(
        ([0, 2, 3, 4, 6], [0, 1, 1, 2, 2]), num_src_nodes=SIZE, num_dst_nodes=3
    )
    for layer in (
        nn.SAGEConv(IN, OUT, "mean"), nn.SAGEConv(IN, OUT, "gcn"), nn.GATConv(IN, OUT, 2), nn.GraphConv(IN, OUT),
        nn.GINConv(torch.nn.Linear(IN, OUT)), nn.GATv2Conv(IN, OUT, 2), nn.SAGEConv(IN, OUT, "lstm"),
    ):  # fmt: skip
        made = layer(block, x)
        assert made.shape[0] == 3
        pair = layer(block, (x, x[:3]))
        torch.testing.assert_close(made, pair)


def test_gin(g, x):
    a = adjacency(g)
    mlp = torch.nn.Linear(IN, OUT)
    close(nn.GINConv(mlp, "sum", init_eps=0.5)(g, x), mlp(1.5 * x + a @ x), x)
    learned = nn.GINConv(mlp, "max", learn_eps=True)
    expected = mlp(x + each(g, x, lambda node, near: near.max(0).values))
    close(learned(g, x), expected, x)
    assert learned.eps.requires_grad
    e = torch.randn(g.num_edges(), IN)
    src, dst = g.edges()
    messages = F.relu(x[src] + e)
    total = torch.zeros(SIZE, IN).index_add(0, dst, messages)
    close(nn.GINEConv(mlp)(g, x, e), mlp(x + total), x)


@pytest.mark.parametrize("regularizer", [None, "basis", "bdd"])
def test_relations(g, x, regularizer):
    kinds = torch.randint(4, (g.num_edges(),))
    norm = torch.rand(g.num_edges(), 1)
    layer = nn.RelGraphConv(IN + 1, 6, 4, regularizer, 2)
    wide = F.pad(x, (0, 1))
    matrices = layer.linear_r.get_weight()
    src, dst = g.edges()
    messages = torch.einsum("ei,eio->eo", wide[src], matrices[kinds]) * norm
    expected = torch.zeros(SIZE, 6).index_add(0, dst, messages)
    expected = expected + layer.h_bias + wide @ layer.loop_weight
    close(layer(g, wide, kinds, norm), expected, x, layer.linear_r.W)
    rows = layer.linear_r(wide[src], kinds)
    torch.testing.assert_close(rows * norm, messages)
    order = kinds.argsort()
    torch.testing.assert_close(layer.linear_r(wide[src][order], kinds[order], True), rows[order])


def test_typed_graphs():
    g = dgl.heterograph(
        {
            ("user", "follows", "user"): ([0, 1], [1, 2]),
            ("user", "plays", "game"): ([0, 2, 2], [0, 0, 1]),
            ("dev", "makes", "game"): ([0], [1]),
        }
    )
    x = {"user": torch.randn(3, IN), "game": torch.randn(2, IN), "dev": torch.randn(1, IN)}
    layers = {name: nn.GraphConv(IN, OUT, norm="none", bias=False) for name in g.etypes}
    made = nn.HeteroGraphConv(layers, "sum")(g, x)
    assert set(made) == {"user", "game"}
    plays, makes = layers["plays"].weight, layers["makes"].weight
    expected = torch.stack([
        (x["user"][0] + x["user"][2]) @ plays, x["user"][2] @ plays + x["dev"][0] @ makes
    ])  # fmt: skip
    torch.testing.assert_close(made["game"], expected)
    sage = {name: nn.SAGEConv((IN, IN), OUT, "mean") for name in g.etypes}
    assert nn.HeteroGraphConv(sage, "mean")(g, (x, x))["game"].shape == (2, OUT)
    sizes = nn.HeteroLinear({"user": IN, "dev": IN}, 2)({"user": x["user"], "dev": x["dev"]})
    assert sizes["user"].shape == (3, 2)
    table = nn.HeteroEmbedding({"user": 3, ("a", "b", "c"): 2}, 4)
    assert table({"user": torch.tensor([0, 2])})["user"].shape == (2, 4)
    assert table.weight["a", "b", "c"].shape == (2, 4)


def test_edges_and_gates(g, x):
    src, dst = g.edges()
    conv = nn.EdgeConv(IN, OUT)
    messages = conv.theta(x[dst] - x[src]) + conv.phi(x[dst])
    expected = torch.stack([messages[dst == node].max(0).values for node in range(SIZE)])
    close(conv(g, x), expected, x, conv.theta.weight, conv.theta.bias)
    normed = nn.EdgeConv(IN, OUT, batch_norm=True)
    messages = normed.theta(x[dst] - x[src]) + normed.phi(x[dst])
    messages = F.batch_norm(messages, None, None, training=True)
    expected = torch.stack([messages[dst == node].max(0).values for node in range(SIZE)])
    close(normed(g, x), expected, x, normed.theta.weight)
    edge = torch.nn.Linear(2, IN * OUT)
    e = torch.randn(g.num_edges(), 2)
    for how in ("sum", "mean"):
        layer = nn.NNConv(IN, OUT, edge, how)
        messages = torch.einsum("ei,eio->eo", x[src], edge(e).view(-1, IN, OUT))
        total = torch.stack([getattr(messages[dst == node], how)(0) for node in range(SIZE)])
        close(layer(g, x, e), total + layer.bias, x, edge.weight)
    kinds = torch.randint(2, (g.num_edges(),))
    gated = nn.GatedGraphConv(IN, 6, 2, 2)
    h = F.pad(x, (0, 1))
    for _ in range(2):
        moved = torch.stack([layer(h[src]) for layer in gated.linears])[
            kinds, torch.arange(len(src))
        ]
        h = gated.gru(torch.zeros(SIZE, 6).index_add(0, dst, moved), h)
    close(gated(g, x, kinds), h, x)


def test_pooling():
    torch.manual_seed(0)
    graphs = [dgl.graph(([], []), num_nodes=count) for count in (3, 1, 4)]
    g, x = dgl.batch(graphs), torch.randn(8, IN)
    parts = x.split([3, 1, 4])
    torch.testing.assert_close(nn.SumPooling()(g, x), torch.stack([p.sum(0) for p in parts]))
    torch.testing.assert_close(nn.AvgPooling()(g, x), torch.stack([p.mean(0) for p in parts]))
    torch.testing.assert_close(nn.MaxPooling()(g, x), torch.stack([p.max(0).values for p in parts]))
    assert nn.SortPooling(2)(g, x).shape == (3, 2 * IN)
    gate = torch.nn.Linear(IN, 1)
    expected = torch.stack([(gate(p).softmax(0) * p).sum(0) for p in parts])
    torch.testing.assert_close(nn.GlobalAttentionPooling(gate)(g, x), expected)
    torch.manual_seed(0)
    read = nn.Set2Set(IN, 2, 1)
    whole = read(g, x)
    alone = torch.cat([read(graph, part) for graph, part in zip(graphs, parts, strict=True)])
    torch.testing.assert_close(whole, alone)
    assert nn.WeightAndSum(IN)(g, x).shape == (3, IN)
    layers = [torch.randn(4, IN) for _ in range(3)]
    assert nn.JumpingKnowledge("cat")(layers).shape == (4, 15)
    assert nn.JumpingKnowledge("lstm", IN, 3)(layers).shape == (4, IN)
    torch.testing.assert_close(
        nn.JumpingKnowledge("max")(layers), torch.stack(layers).max(0).values
    )


def test_weight_norm_and_sequences(g, x):
    weight = torch.rand(g.num_edges()) + 0.5
    g.edata["w"] = weight
    a = g.adj(eweight_name="w").to_dense().T
    expected = a.sum(1).pow(-0.5)[:, None] * a * a.sum(0).pow(-0.5)
    g.edata["n"] = nn.EdgeWeightNorm()(g, weight)
    torch.testing.assert_close(g.adj(eweight_name="n").to_dense().T, expected)
    model = nn.Sequential(nn.GraphConv(IN, 4), nn.GraphConv(4, OUT))
    torch.testing.assert_close(model(g, x), model[1](g, model[0](g, x)))


def test_cosine_attention(g, x):
    layer = nn.AGNNConv(0.7)

    def attend(node, near):
        cosine = F.cosine_similarity(near, x[node][None])
        return (layer.beta * cosine).softmax(0) @ near

    close(layer(g, x), each(g, x, attend), x, layer.beta)
    assert not list(nn.AGNNConv(learn_beta=False).parameters())


def test_deep_convolution(g, x):
    first, weight = torch.randn(SIZE, IN), torch.rand(g.num_edges())
    a = adjacency(g)
    root = a.sum(1).pow(-0.5)
    beta = math.log(1.5 / 3 + 1)
    shared = nn.GCN2Conv(IN, 3, 0.2, 1.5)
    blend = 0.8 * root[:, None] * a * root @ x + 0.2 * first
    expected = (1 - beta) * blend + beta * blend @ shared.weight1 + shared.bias
    close(shared(g, x, first), expected, x, shared.weight1)
    own = nn.GCN2Conv(IN, 3, 0.2, 1.5, project_initial_features=False, activation=torch.tanh)
    near = 0.8 * root[:, None] * a * root @ x
    expected = (1 - beta) * blend + beta * (near @ own.weight1 + 0.2 * first @ own.weight2)
    close(own(g, x, first), torch.tanh(expected + own.bias), x, own.weight2)
    g.edata["w"] = weight
    heavy = g.adj(eweight_name="w").to_dense().T
    heavy = heavy / heavy.sum(1, keepdim=True).sqrt() / heavy.sum(0).sqrt()
    blend = 0.8 * heavy @ x + 0.2 * first
    expected = (1 - beta) * blend + beta * blend @ shared.weight1 + shared.bias
    close(shared(g, x, first, edge_weight=weight), expected, x)


@pytest.mark.parametrize("norm", ["sym", "row"])
def test_labels_spread_from_known_nodes(g, norm):
    a = adjacency(g)
    into, out = a.sum(1, keepdim=True), a.sum(0).clamp(min=1)
    step = a / into if norm == "row" else a / into.sqrt() / out.sqrt()
    labels, known = torch.tensor([2, 0, 1, 1, 0, 2, 1]), torch.arange(SIZE) % 2 == 0
    exact = F.one_hot(labels).float()
    start = exact * known[:, None]
    y = z = start
    for _ in range(3):
        y = (0.7 * step @ y + 0.3 * start).clamp(0, 1)
        z = F.normalize(0.7 * step @ z + 0.3 * start, p=1)
        z = torch.where(known[:, None], exact, z)
    close(nn.LabelPropagation(3, 0.7, norm)(g, labels, known), y)
    strict = nn.LabelPropagation(3, 0.7, norm, clamp=False, normalize=True, reset=True)
    close(strict(g, labels[:, None], known), z)
    close(
        nn.LabelPropagation(1, 0.7, norm)(g, exact.long()),
        (0.7 * step @ exact + 0.3 * exact).clamp(0, 1),
    )
    with pytest.raises(DGLError, match="Got 'both'"):
        nn.LabelPropagation(1, 0.5, "both")


@pytest.mark.parametrize("out", [2, OUT])
def test_heterogeneous_transformer(g, x, out):
    x = x[:, :4].detach().requires_grad_()
    ntype, etype = torch.tensor([0, 1, 0, 1, 1, 0, 1]), torch.arange(g.num_edges()) % 3
    layer = nn.HGTConv(4, out, 2, 2, 3, use_norm=True).eval()
    for parameter in layer.relation_pri:
        torch.nn.init.normal_(parameter)
    typed = lambda linear, x: torch.stack(
        [row @ linear.W[t] for row, t in zip(x, ntype, strict=True)]
    )
    k, q, v = (
        typed(linear, x).view(SIZE, 2, out)
        for linear in (layer.linear_k, layer.linear_q, layer.linear_v)
    )
    src, dst = g.edges()
    near = []
    for node in range(SIZE):
        heads = []
        for h in range(2):
            into = (dst == node).nonzero()[:, 0].tolist()
            score = torch.stack([
                k[src[e], h] @ layer.relation_att[h].W[etype[e]] @ q[node, h]
                * layer.relation_pri[h][etype[e]] / out**0.5
                for e in into
            ]).softmax(0)  # fmt: skip
            message = torch.stack([v[src[e], h] @ layer.relation_msg[h].W[etype[e]] for e in into])
            heads.append(score @ message)
        near.append(torch.cat(heads))
    kept = layer.skip[ntype].sigmoid()[:, None]
    before = x if layer.residual_w is None else x @ layer.residual_w
    expected = layer.norm(typed(layer.linear_a, torch.stack(near)) * kept + before * (1 - kept))
    inputs = x, layer.relation_att[1].W, layer.relation_pri[0], layer.linear_v.W, layer.skip
    close(layer(g, x, ntype, etype), expected, *inputs)
    with pytest.raises(DGLError, match=r"7 nodes and 27 edges\. Got 6 and 27"):
        layer(g, x, ntype[:-1], etype)


def test_weights_of_one_basis():
    layer = nn.WeightBasis((3, 4), 2, 5)
    expected = torch.stack(
        [sum(c * w for c, w in zip(row, layer.weight, strict=True)) for row in layer.w_comp]
    )
    close(layer(), expected, layer.weight, layer.w_comp)


def test_parameters_have_the_names_that_dgl_gives_them():
    names = lambda layer: set(layer.state_dict())
    whole = {"attn_l", "attn_r", "fc.weight"}
    assert names(nn.GATConv(IN, OUT, 2)) == whole | {"bias"}
    assert names(nn.GATConv(2 * OUT, OUT, 2, residual=True)) == whole | {"bias"}
    linear = whole | {"res_fc.weight", "res_fc.bias"}
    assert names(nn.GATConv(IN, OUT, 2, residual=True)) == linear
    assert names(nn.GATConv(IN, OUT, 2, residual=True, bias=False)) == linear - {"res_fc.bias"}
    assert "res_fc.bias" in names(nn.GATv2Conv(IN, OUT, 2, residual=True))
    triplet = nn.HeteroGraphConv({("x", "b", "y"): nn.GraphConv(2, 2, bias=False)})
    assert names(triplet) == {"mods.('x', 'b', 'y').weight"}
    assert names(nn.HeteroEmbedding({("x", "b", "y"): 3}, 2)) == {"embeds.('x', 'b', 'y').weight"}
