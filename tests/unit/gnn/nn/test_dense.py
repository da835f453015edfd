"""Layers over a matrix against those over the graph of the same edges, and graphs of points."""

import pytest
import torch

import graphwright.gnn as dgl
from graphwright.gnn import nn
from graphwright.gnn.storage import DGLError


@pytest.fixture
def matrix():
    draw = torch.Generator().manual_seed(5)
    return (torch.rand(8, 8, generator=draw) < 0.4).float().fill_diagonal_(1)


@pytest.fixture
def graph(matrix):
    dst, src = matrix.nonzero(as_tuple=True)
    return dgl.graph((src, dst), num_nodes=8)


@pytest.mark.parametrize("norm", ["both", "right", "none"])
def test_graph_conv(matrix, graph, features, agree, norm):
    x = features(8, 5)
    dense, sparse = nn.DenseGraphConv(5, 3, norm), nn.GraphConv(5, 3, norm)
    dense.load_state_dict(sparse.state_dict())
    agree(dense(matrix, x), sparse(graph, x), x)
    alone = matrix.clone()
    alone[2] = 0
    assert torch.equal(dense(alone, x)[2], dense.bias)
    with pytest.raises(DGLError, match="Got 'left'"):
        nn.DenseGraphConv(5, 3, "left")


def test_sage_conv(matrix, graph, features, agree):
    x = features(8, 5)
    dense, sparse = nn.DenseSAGEConv(5, 3), nn.SAGEConv(5, 3, "gcn")
    sparse.fc_neigh.weight.data.copy_(dense.fc.weight.data)
    sparse.bias.data.copy_(dense.fc.bias.data)
    agree(dense(matrix, x), sparse(graph, x), x)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_cheb_conv(matrix, features, agree, k):
    x = features(8, 5)
    both = ((matrix + matrix.T) > 0).float()
    dst, src = both.nonzero(as_tuple=True)
    dense, sparse = nn.DenseChebConv(5, 3, k), nn.ChebConv(5, 3, k, activation=None)
    sparse.linear.weight.data.copy_(dense.W.data.flatten(0, 1).T)
    sparse.linear.bias.data.copy_(dense.bias.data)
    agree(dense(both, x, 1.7), sparse(dgl.graph((src, dst), num_nodes=8), x, [1.7]), x)
    root = both.sum(1).pow(-0.5)
    largest = torch.linalg.eigvalsh(torch.eye(8) - root[:, None] * both * root).max()
    agree(dense(both, x), dense(both, x, float(largest)), x)


def test_graphs_of_points():
    points = torch.randn(10, 3, generator=torch.Generator().manual_seed(6))
    near = torch.cdist(points, points).argsort(1)[:, :3]
    src, dst = nn.KNNGraph(3)(points).edges()
    assert {(int(u), int(v)) for u, v in zip(src, dst, strict=True)} == {
        (int(u), v) for v in range(10) for u in near[v]
    }
    parts = nn.SegmentedKNNGraph(2)(points, [4, 6], exclude_self=True)
    assert parts.num_edges() == 20 and bool(
        ((parts.edges()[0] < 4) == (parts.edges()[1] < 4)).all()
    )
    ball, far = nn.RadiusGraph(1.5)(points, get_distances=True)
    u, v = ball.edges()
    torch.testing.assert_close(far[:, 0], (points[u] - points[v]).norm(dim=1))
    assert ball.num_edges() == int((torch.cdist(points, points) <= 1.5).sum()) - 10


@pytest.mark.parametrize("kind", ["add", "mul"])
def test_biased_attention(features, agree, kind):
    x, bias = features(2, 5, 8), features(2, 5, 5, 2)
    mask = torch.rand(2, 5, 5, generator=torch.Generator().manual_seed(7)) < 0.3
    mask[..., 0] = False
    layer = nn.BiasedMHA(8, 2, attn_bias_type=kind).eval()
    heads = []
    for h in range(2):
        q, k, v = (p(x)[..., 4 * h : 4 * h + 4] for p in (layer.q_proj, layer.k_proj, layer.v_proj))
        score = q @ k.transpose(1, 2) / 2
        score = score + bias[..., h] if kind == "add" else score * bias[..., h]
        heads.append(score.where(~mask, torch.tensor(-torch.inf)).softmax(-1) @ v)
    expected = layer.out_proj(torch.cat(heads, -1))
    agree(layer(x, bias, mask), expected, x, bias, layer.k_proj.weight)
    for first in (False, True):
        whole = nn.GraphormerLayer(
            8, 16, 2, kind, norm_first=first, activation=torch.nn.GELU()
        ).eval()
        attended = lambda y, whole=whole: whole.attn(y, bias, mask)
        if first:
            y = x + attended(whole.attn_layer_norm(x))
            expected = y + whole.ffn(whole.ffn_layer_norm(y))
        else:
            y = whole.attn_layer_norm(x + attended(x))
            expected = whole.ffn_layer_norm(y + whole.ffn(y))
        agree(whole(x, bias, mask), expected, x, bias)


def test_encoders_of_pairs_and_degrees(features, agree):
    degrees = torch.tensor([[[0, 1, 9], [3, 0, 0]], [[2, 4, 1], [1, 0, 0]]])
    both, one = nn.DegreeEncoder(4, 3), nn.DegreeEncoder(4, 3, "out")
    rows = lambda table: torch.cat([table.weight[:1].detach(), table.weight[1:]])  # 0 only pads
    into, out = rows(both.encoder1)[degrees[0].clamp(max=4)], rows(both.encoder2)[degrees[1]]
    agree(both(degrees), into + out, both.encoder1.weight)
    agree(one(degrees[0]), rows(one.encoder)[degrees[0].clamp(max=4)], one.encoder.weight)
    assert not both.encoder1.weight[0].any()
    with pytest.raises(DGLError, match="Expect in-degrees and out-degrees"):
        both(degrees[:1])
    g = dgl.graph(([0, 0, 0, 1, 1, 2, 3, 3], [1, 2, 3, 0, 3, 0, 0, 1]))
    dist, path = dgl.shortest_dist(g, root=None, return_paths=True)
    spatial = nn.SpatialEncoder(1, 2)
    expected = rows(spatial.embedding_table)[dist.clamp(max=1) + 1]
    agree(spatial(dist[None]), expected[None], spatial.embedding_table.weight)
    edges = torch.cat([features(8, 3), torch.zeros(1, 3)])
    for most in (1, 3):
        encode = nn.PathEncoder(most, 3, 2)
        table = encode.embedding_table.weight.view(most, 2, 3)
        biases = []
        for u in range(4):
            for v in range(4):
                used = [e for e in path[u, v].tolist() if e >= 0][:most]
                total = sum((table[at] @ edges[e] for at, e in enumerate(used)), torch.zeros(2))
                biases.append(total / max(len(used), 1))
        made = encode(dist[None], edges[path][None])
        agree(made, torch.stack(biases).view(1, 4, 4, 2), encode.embedding_table.weight)
