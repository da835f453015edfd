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
