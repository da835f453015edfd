"""Features of other frameworks: NumPy and JAX compute what PyTorch does."""

from itertools import product

import numpy as np
import pytest
import torch

import graphwright.gnn as dgl
import graphwright.gnn.function as fn
from graphwright.gnn.kernels import edge_softmax, gsddmm, gspmm
from graphwright.gnn.storage import FeatureMismatch, Relation

OPS = ("add", "sub", "mul", "div", "dot")
ENDS = (("u", "e"), ("u", "v"), ("e", "v"))


@pytest.fixture
def relation():
    torch.manual_seed(0)
    src, dst = torch.randint(6, (20,)), torch.randint(5, (20,))
    return Relation(num_src=6, num_dst=6, made_coo=(src, dst))


def features(relation, end, wide):
    rows = {"u": relation.num_src, "v": relation.num_dst, "e": relation.num_edges}[end]
    return torch.rand(rows, 2, wide) + 0.5


def shapes(op):
    return (4, 4) if op == "dot" else (4, 1)


@pytest.mark.parametrize(("op", "ends"), list(product(OPS, ENDS)))
def test_numpy(relation, op, ends):
    a, b = (features(relation, end, wide) for end, wide in zip(ends, shapes(op), strict=True))
    for reduce in ("sum", "mean", "max", "min"):
        expected = gspmm(relation, op, reduce, (a, ends[0]), (b, ends[1]))
        made = gspmm(relation, op, reduce, (a.numpy(), ends[0]), (b.numpy(), ends[1]))
        assert isinstance(made, np.ndarray)
        np.testing.assert_allclose(made, expected, rtol=1e-5)
    edges = gsddmm(relation, op, (a.numpy(), ends[0]), (b.numpy(), ends[1]))
    np.testing.assert_allclose(edges, gsddmm(relation, op, (a, ends[0]), (b, ends[1])), rtol=1e-5)


def test_graphs_with_numpy_features():
    g = dgl.graph(([0, 0, 1, 2], [1, 2, 2, 0]), num_nodes=4)
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    g.ndata["x"] = x
    g.update_all(fn.copy_u("x", "m"), fn.mean("m", "h"))
    g.update_all(
        lambda edges: {"m": edges.src["x"]}, lambda nodes: {"own": nodes.mailbox["m"].mean(1)}
    )
    assert isinstance(g.ndata["h"], np.ndarray)
    np.testing.assert_allclose(g.ndata["h"], [[4, 5], [0, 1], [1, 2], [0, 0]])
    np.testing.assert_allclose(g.ndata["own"], g.ndata["h"])
    g.pull([1], fn.copy_u("x", "m"), fn.sum("m", "x"))
    np.testing.assert_allclose(g.ndata["x"][1], [0, 1])
    assert x[1].tolist() == [2, 3]  # the array given is left alone
    scores = np.array([1.0, 2, 3, 4], dtype=np.float32)
    expected = edge_softmax(g.relation(), torch.from_numpy(scores))
    np.testing.assert_allclose(edge_softmax(g.relation(), scores), expected, rtol=1e-6)


def test_other_types_are_refused():
    g = dgl.graph(([0], [1]))
    with pytest.raises(FeatureMismatch, match="no known framework"):
        gspmm(g.relation(), "copy", "sum", (np.ma.array([1.0, 2.0]).view(Strange), "u"))


class Strange(np.ndarray):
    """An array of nobody's."""


@pytest.mark.parametrize(("op", "ends"), list(product(OPS, ENDS)))
def test_jax(relation, op, ends):
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    a, b = (features(relation, end, wide) for end, wide in zip(ends, shapes(op), strict=True))
    for reduce in ("sum", "mean", "max", "min"):
        x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
        theirs = gspmm(relation, op, reduce, (x, ends[0]), (y, ends[1]))
        theirs.square().sum().backward()

        def total(x, y, reduce=reduce):
            return (gspmm(relation, op, reduce, (x, ends[0]), (y, ends[1])) ** 2).sum()

        pair = jax.numpy.asarray(a.numpy()), jax.numpy.asarray(b.numpy())
        made = gspmm(relation, op, reduce, (pair[0], ends[0]), (pair[1], ends[1]))
        np.testing.assert_allclose(made, theirs.detach(), rtol=1e-5)
        for gradient in (jax.grad(total, (0, 1)), jax.jit(jax.grad(total, (0, 1)))):
            mine = gradient(*pair)
            np.testing.assert_allclose(mine[0], x.grad, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(mine[1], y.grad, rtol=1e-4, atol=1e-5)


def test_jax_softmax_and_graphs(relation):
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    scores = torch.randn(relation.num_edges, 2, requires_grad=True)
    theirs = edge_softmax(relation, scores)
    theirs.square().sum().backward()
    given = jax.numpy.asarray(scores.detach().numpy())
    np.testing.assert_allclose(edge_softmax(relation, given), theirs.detach(), rtol=1e-5)
    mine = jax.grad(lambda x: (edge_softmax(relation, x) ** 2).sum())(given)
    np.testing.assert_allclose(mine, scores.grad, rtol=1e-4, atol=1e-6)
    g = dgl.graph(([0, 0, 1, 2], [1, 2, 2, 0]), num_nodes=4)
    g.ndata["x"] = jax.numpy.ones((4, 2))
    g.update_all(fn.copy_u("x", "m"), fn.sum("m", "h"))
    assert g.ndata["h"][:, 0].tolist() == [1, 1, 2, 0]
    g.pull([1], fn.copy_u("h", "m"), fn.sum("m", "h"))
    assert g.ndata["h"][1].tolist() == [1, 1]
