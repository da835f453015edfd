"""Table 4.1 of the DGL thesis, one test per row: what a system for learning on graphs has to allow."""

from itertools import pairwise

import numpy as np
import pytest
import torch

import graphwright.gnn as dgl
import graphwright.gnn.function as fn
from graphwright.gnn.nn import GraphConv, HeteroGraphConv


@pytest.fixture
def g():
    torch.manual_seed(0)
    ends = torch.randint(12, (2, 40))
    made = dgl.graph((ends[0], ends[1]), num_nodes=12)
    made.ndata["x"], made.edata["w"] = torch.randn(12, 4), torch.rand(40, 1)
    return made


def one_by_one(g, message, reduce):
    """Node after node, message after message: what any message passing has to compute."""
    src, dst = g.edges()
    x, w = g.ndata["x"], g.edata["w"]
    rows = []
    for node in range(g.num_nodes()):
        mail = [
            message(x[u], x[node], w[e])
            for e, (u, v) in enumerate(zip(src, dst, strict=True))
            if v == node
        ]
        rows.append(reduce(torch.stack(mail)) if mail else None)
    return rows


def same(g, field, rows):
    for node, row in enumerate(rows):
        expected = torch.zeros_like(g.ndata[field][node]) if row is None else row
        torch.testing.assert_close(g.ndata[field][node], expected)


def test_arbitrary_message(g):
    mlp = torch.nn.Sequential(torch.nn.Linear(9, 4), torch.nn.Tanh())
    g.update_all(
        lambda edges: {"m": mlp(torch.cat([edges.src["x"], edges.dst["x"], edges.data["w"]], 1))},
        fn.sum("m", "h"),
    )
    same(g, "h", one_by_one(g, lambda u, v, w: mlp(torch.cat([u, v, w])), lambda mail: mail.sum(0)))


def test_arbitrary_update(g):
    gru = torch.nn.GRUCell(4, 4)
    g.update_all(
        fn.copy_u("x", "m"),
        fn.mean("m", "s"),
        lambda nodes: {"h": gru(nodes.data["s"], nodes.data["x"])},
    )
    near = one_by_one(g, lambda u, v, w: u, lambda mail: mail.mean(0))
    near = torch.stack([torch.zeros(4) if row is None else row for row in near])
    torch.testing.assert_close(g.ndata["h"], gru(near, g.ndata["x"]))


def test_arbitrary_reduce(g):
    lstm = torch.nn.LSTM(4, 4, batch_first=True)
    g.update_all(fn.u_mul_e("x", "w", "m"), lambda nodes: {"h": lstm(nodes.mailbox["m"])[1][0][0]})
    same(g, "h", one_by_one(g, lambda u, v, w: u * w, lambda mail: lstm(mail[None])[1][0][0, 0]))


def test_full_propagation(g):
    before = g.ndata["x"]
    for _ in range(3):
        g.update_all(fn.copy_u("x", "m"), fn.sum("m", "x"))
    a = g.adj().to_dense().T
    torch.testing.assert_close(g.ndata["x"], a @ a @ a @ before)


def test_partial_propagation():
    tree = dgl.graph(([3, 4, 1, 2], [1, 1, 0, 0]))
    tree.ndata["h"] = torch.tensor([[0.0], [0], [5], [1], [2]])
    tree.prop_nodes([[1], [0]], fn.copy_u("h", "m"), fn.sum("m", "h"))
    assert tree.ndata["h"].flatten().tolist() == [8, 3, 5, 1, 2]


def test_random_walk(g):
    pytest.importorskip("graphwright.gnn.sampling", reason="sampling is not there")
    traces, _ = dgl.sampling.random_walk(g, [0, 1, 2], length=5)
    for trace in traces.tolist():
        for u, v in pairwise(trace):
            assert v == -1 or g.has_edges_between(u, v)


def test_sampling(g):
    pytest.importorskip("graphwright.gnn.sampling", reason="sampling is not there")
    frontier = dgl.sampling.sample_neighbors(g, [0, 3], 2)
    assert int(frontier.in_degrees().max()) <= 2
    block = dgl.to_block(frontier, torch.tensor([0, 3]))
    block.srcdata["h"] = g.ndata["x"][block.srcdata[dgl.NID]]
    block.update_all(fn.copy_u("h", "m"), fn.mean("m", "h"))
    assert block.dstdata["h"].shape == (2, 4)


def test_many_small_graphs():
    graphs = [dgl.graph((torch.arange(n - 1), torch.arange(1, n))) for n in range(2, 60)]
    for graph in graphs:
        graph.ndata["x"] = torch.ones(graph.num_nodes(), 1)
    batch = dgl.batch(graphs)
    batch.update_all(fn.copy_u("x", "m"), fn.sum("m", "x"))
    assert dgl.sum_nodes(batch, "x").flatten().tolist() == [n - 1 for n in range(2, 60)]


def test_a_single_giant_graph():
    generator = torch.Generator().manual_seed(0)
    src, dst = torch.randint(50_000, (2, 1_000_000), generator=generator)
    g = dgl.graph((src, dst), num_nodes=50_000)
    x = torch.rand(50_000, 16, generator=generator, requires_grad=True)
    out = GraphConv(16, 16, norm="none", weight=False, bias=False, allow_zero_in_degree=True)(g, x)
    out.sum().backward()
    torch.testing.assert_close(x.grad, g.out_degrees().float()[:, None].expand(-1, 16))
    node = int(g.in_degrees().argmax())
    torch.testing.assert_close(out[node], x[src[dst == node]].sum(0))


def test_dynamic_graphs(g):
    g.ndata["h"] = torch.ones(12, 1)
    for step in range(3):
        g.add_nodes(1, {"h": torch.ones(1, 1)})
        g.add_edges([0, 1], [11 + step + 1, 11 + step + 1])
        g.remove_edges([0])
        g.update_all(fn.copy_u("h", "m"), fn.sum("m", "d"))
        assert g.ndata["d"].flatten().tolist() == g.in_degrees().tolist()
    assert g.num_nodes() == 15 and g.num_edges() == 43


def test_heterogeneous_graphs():
    g = dgl.heterograph(
        {
            ("a", "to", "b"): ([0, 1], [0, 0]),
            ("b", "back", "a"): ([0], [1]),
            ("a", "near", "a"): ([0], [1]),
        }
    )
    parts = {name: GraphConv(2, 3, norm="none", bias=False) for name in g.etypes}
    layers = HeteroGraphConv(parts)
    x = {"a": torch.randn(2, 2), "b": torch.randn(1, 2)}
    made = layers(g, x)
    weight = {name: layer.weight for name, layer in parts.items()}
    torch.testing.assert_close(made["b"][0], x["a"].sum(0) @ weight["to"])
    torch.testing.assert_close(
        made["a"][1], x["b"][0] @ weight["back"] + x["a"][0] @ weight["near"]
    )


def test_several_frameworks(g):
    x = g.ndata["x"].clone()
    g.update_all(fn.copy_u("x", "m"), fn.sum("m", "h"))
    expected = g.ndata["h"].numpy()
    g.ndata["x"] = x.numpy()
    g.update_all(fn.copy_u("x", "m"), fn.sum("m", "n"))
    np.testing.assert_allclose(g.ndata["n"], expected, rtol=1e-6)
    jax = pytest.importorskip("jax", reason="JAX is not installed; PyTorch and NumPy agree")
    g.ndata["x"] = jax.numpy.asarray(x.numpy())
    g.update_all(fn.copy_u("x", "m"), fn.sum("m", "j"))
    np.testing.assert_allclose(g.ndata["j"], expected, rtol=1e-6)
