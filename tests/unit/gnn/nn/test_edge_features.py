"""Layers that read features of edges against their formulas with every message stored."""

import pytest
import torch
from torch.nn import functional as F

import graphwright.gnn as dgl
from graphwright.gnn import nn
from graphwright.gnn.storage import DGLError, ZeroInDegree

IN, EDGE, OUT, HEADS = 5, 3, 4, 2


def softmax_at(scores, dst):
    """The softmax of scores over the edges of each destination."""
    out = torch.zeros_like(scores)
    for node in dst.unique():
        out = torch.where((dst == node).view(-1, 1), scores.where(
            (dst == node).view(-1, 1), torch.tensor(-torch.inf)).softmax(0), out)  # fmt: skip
    return out


def sum_at(messages, dst, size):
    return messages.new_zeros(size, *messages.shape[1:]).index_add(0, dst, messages)


@pytest.mark.parametrize("pair", [False, True])
def test_edge_gat(multigraph, features, agree, pair):
    g = multigraph
    (src, dst), size = g.edges(), g.num_nodes()
    e = features(g.num_edges(), EDGE)
    u = features(size, IN)
    v = features(size, 6) if pair else u
    layer = nn.EdgeGATConv((IN, 6) if pair else IN, EDGE, OUT, HEADS, activation=torch.tanh)
    shape = (-1, HEADS, OUT)
    from_u, from_v = (layer.fc_src, layer.fc_dst) if pair else (layer.fc, layer.fc)
    left, right, mine = from_u(u).view(shape), from_v(v).view(shape), layer.fc_edge(e).view(shape)
    scores = (left[src] * layer.attn_l + right[dst] * layer.attn_r + mine * layer.attn_edge).sum(-1)
    weight = softmax_at(F.leaky_relu(scores, 0.2), dst).unsqueeze(-1)
    near = sum_at(weight * (left[src] + mine), dst, size)
    expected = torch.tanh(near + layer.res_fc(v).view(shape) + layer.bias.view(1, HEADS, OUT))
    made, attention = layer(g, (u, v) if pair else u, e, get_attention=True)
    agree(made, expected, u, e, layer.fc_edge.weight, layer.attn_edge)
    torch.testing.assert_close(attention, weight)


def test_egat_makes_edges_and_nodes(multigraph, features, agree):
    g = multigraph
    (src, dst), size = g.edges(), g.num_nodes()
    x, e = features(size, IN), features(g.num_edges(), EDGE)
    layer = nn.EGATConv(IN, EDGE, OUT, 6, HEADS)
    joined = layer.fc_ni(x)[src] + layer.fc_nj(x)[dst] + layer.fc_fij(e) + layer.bias
    edges = F.leaky_relu(joined, 0.01).view(-1, HEADS, 6)
    weight = softmax_at((edges * layer.attn).sum(-1), dst).unsqueeze(-1)
    heavy = torch.rand(g.num_edges())
    for given, factor in ((None, 1), (heavy, heavy.view(-1, 1, 1))):
        values = layer.fc_node_src(x).view(-1, HEADS, OUT)[src]
        expected = sum_at(weight * factor * values, dst, size)
        made, made_edges = layer(g, x, e, edge_weight=given)
        agree(made, expected, x, e, layer.attn)
        agree(made_edges, edges, x, e, layer.bias)
    assert nn.EGATConv((IN, 2), EDGE, OUT, 6, HEADS, bias=False).bias is None


@pytest.mark.parametrize("sizes", [(IN, EDGE, OUT), (OUT, OUT, OUT)])
def test_gated_gcn(multigraph, features, agree, sizes):
    g = multigraph
    (src, dst), size = g.edges(), g.num_nodes()
    x, e = features(size, sizes[0]), features(g.num_edges(), sizes[1])
    layer = nn.GatedGCNConv(*sizes)
    edges = layer.D(x)[src] + layer.E(x)[dst] + layer.C(e)
    gates = edges.sigmoid()
    near = sum_at(gates * layer.B(x)[src], dst, size) / (sum_at(gates, dst, size) + 1e-6)
    same = sizes[0] == sizes[2]  # then features are added
    expected = F.relu(F.batch_norm(layer.A(x) + near, None, None, training=True)) + same * (
        x if same else 0
    )
    expected_edges = F.relu(F.batch_norm(edges, None, None, training=True)) + same * (
        e if same else 0
    )
    made, made_edges = layer(g, x, e)
    agree(made, expected, x, e, layer.E.weight)
    agree(made_edges, expected_edges, x, e, layer.C.weight)


def test_continuous_filters(multigraph, features, agree):
    g = multigraph
    src, dst = g.edges()
    x, e = features(g.num_nodes(), IN), features(g.num_edges(), EDGE)
    layer = nn.CFConv(IN, EDGE, 6, OUT)
    soft = lambda x: (1 + x.exp()).log() - torch.tensor(2.0).log()
    filters = soft(layer.project_edge[2](soft(layer.project_edge[0](e))))
    near = sum_at(layer.project_node(x)[src] * filters, dst, g.num_nodes())
    agree(layer(g, x, e), soft(layer.project_out[0](near)), x, e, layer.project_edge[0].weight)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
def test_mixture_of_kernels(multigraph, features, agree, reduce):
    g = multigraph
    src, dst = g.edges()
    x, e = features(g.num_nodes(), IN), features(g.num_edges(), EDGE)
    layer = nn.GMMConv(IN, OUT, EDGE, 2, reduce, residual=True)
    messages = []
    for k in range(2):
        inverse = torch.diag(layer.inv_sigma[k] ** 2)
        offset = e - layer.mu[k]
        kernel = torch.exp(-0.5 * torch.einsum("ei,ij,ej->e", offset, inverse, offset))
        messages.append(kernel[:, None] * layer.fc(x)[:, k * OUT : (k + 1) * OUT][src])
    stacked = torch.stack(messages, 1)
    reducer = {"sum": lambda m: m.sum(0), "mean": lambda m: m.mean(0), "max": lambda m: m.amax(0)}
    near = torch.stack([reducer[reduce](stacked[dst == v]) for v in range(g.num_nodes())]).sum(1)
    expected = near + layer.res_fc(x) + layer.bias
    agree(layer(g, x, e), expected, x, e, layer.mu, layer.inv_sigma)


def test_a_moved_cloud_gives_the_same_features(multigraph, features, agree):
    g = multigraph
    src, dst = g.edges()
    x, place, e = features(g.num_nodes(), IN), features(g.num_nodes(), 3), features(len(src), EDGE)
    layer = nn.EGNNConv(IN, 6, OUT, EDGE)
    line = place[src] - place[dst]
    square = line.square().sum(1, keepdim=True)
    message = layer.edge_mlp(torch.cat([x[src], x[dst], square, e], 1))
    away = src != dst  # a loop has no direction
    unit = line[away] / square[away].sqrt()
    steps = torch.zeros_like(place).index_add(0, dst[away], layer.coord_mlp(message)[away] * unit)
    expected_place = place + steps / g.in_degrees().view(-1, 1)
    near = sum_at(message, dst, g.num_nodes())
    made, moved = layer(g, x, place, e)
    agree(made, layer.node_mlp(torch.cat([x, near], 1)), x, e, layer.edge_mlp[0].weight)
    torch.testing.assert_close(moved, expected_place, rtol=1e-4, atol=1e-5)
    turn = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(2)))[0]
    again, turned = layer(g, x, place @ turn + 1.5, e)
    torch.testing.assert_close(again, made, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(turned, moved @ turn + 1.5, rtol=1e-3, atol=1e-4)


def test_coordinates_have_gradients_away_from_each_other(features, agree):
    g = dgl.graph(([0, 1, 2, 2], [1, 2, 0, 1]))
    x, place = features(3, IN), features(3, 2)
    layer = nn.EGNNConv(IN, 6, OUT)
    src, dst = g.edges()
    line = place[src] - place[dst]
    message = layer.edge_mlp(torch.cat([x[src], x[dst], line.square().sum(1, keepdim=True)], 1))
    steps = sum_at(layer.coord_mlp(message) * line / line.norm(dim=1, keepdim=True), dst, 3)
    expected = place + steps / g.in_degrees().view(-1, 1)
    agree(layer(g, x, place)[1], expected, x, place, layer.coord_mlp[2].weight)


@pytest.mark.parametrize("numbers", [None, torch.tensor([1.0, 6.0, 8.0])])
def test_radial_filters_of_atoms(multigraph, agree, numbers):
    g = multigraph
    src, dst = g.edges()
    cutoffs, means, scaling = torch.tensor([2.0, 3]), torch.tensor([1.0, 2]), torch.tensor([0.5, 1])
    layer = nn.AtomicConv(cutoffs, means, scaling, numbers)
    atoms = torch.tensor([[1.0], [6], [6], [8], [1], [8], [6]])
    draw = torch.Generator().manual_seed(3)
    r = (torch.rand(g.num_edges(), 1, generator=draw) * 4).requires_grad_()
    expected = []
    for which in atoms.T if numbers is None else (atoms == numbers).float().T:
        for k in range(2):
            fade = 0.5 * ((torch.pi * r[:, 0] / cutoffs[k]).cos() + 1)
            filters = torch.exp(-scaling[k] * (r[:, 0] - means[k]) ** 2) * fade
            filters = filters * (r[:, 0] <= cutoffs[k])
            expected.append(sum_at(which[src] * filters, dst, g.num_nodes()))
    agree(layer(g, atoms, r), torch.stack(expected, 1), r)


def test_what_does_not_fit_is_refused(multigraph, features):
    g = multigraph
    x = features(g.num_nodes(), IN)
    with pytest.raises(DGLError, match=r"pseudo coordinates of shape \[27, 3\].*Got \[27, 2\]"):
        nn.GMMConv(IN, OUT, EDGE, 2)(g, x, features(27, 2))
    with pytest.raises(DGLError, match="'min' not recognized"):
        nn.GMMConv(IN, OUT, EDGE, 2, "min")
    with pytest.raises(DGLError, match="3 edge features needs edge_feat"):
        nn.EGNNConv(IN, 6, OUT, EDGE)(g, x, features(g.num_nodes(), 3))
    lonely = dgl.graph(([0], [1]), num_nodes=2)
    with pytest.raises(ZeroInDegree):
        nn.EdgeGATConv(IN, EDGE, OUT, HEADS)(lonely, features(2, IN), features(1, EDGE))
