"""Functions that are computed part by part, and again for gradients, against the same on all edges at once."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

import graphwright.gnn as dgl
from graphwright.gnn.kernels import map_edges, recomputed, sum_edges
from graphwright.gnn.nn import GATv2Conv, GINEConv

NODES = 5


@pytest.fixture(autouse=True)
def few_numbers(monkeypatch):
    monkeypatch.setattr(recomputed, "PART_NUMBERS", 12)  # several parts, some within a row


@st.composite
def graphs(draw):
    """Isolated nodes, loops, parallel edges, no edges."""
    node = st.integers(0, NODES - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=20))
    if draw(st.booleans()):
        edges = sorted(edges, key=lambda edge: edge[1])
    pairs = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2)
    return dgl.graph((pairs[:, 0], pairs[:, 1]), num_nodes=NODES)


def score(u, v, e, weight):
    return (F.leaky_relu(u + v * e, 0.2) * weight).sum(-1, keepdim=True)


@settings(max_examples=60, deadline=None)
@given(graph=graphs(), how=st.sampled_from([map_edges, sum_edges]))
def test_values_and_gradients(graph, how):
    torch.manual_seed(0)
    relation, count = graph.relation(), graph.num_edges()
    given_tensors = [torch.randn(n, 2, 3).double() for n in (NODES, NODES, count)]
    leaves = [*given_tensors, torch.randn(1, 2, 3).double()]
    for leaf in leaves:
        leaf.requires_grad_()
    u, v, e, weight = leaves
    made = how(relation, score, u, v, e, (weight,))
    src, dst = graph.edges()
    expected = score(u[src], v[dst], e, weight)
    if how is sum_edges:
        expected = torch.zeros(NODES, 2, 1).double().index_add(0, dst, expected)
    torch.testing.assert_close(made, expected)
    factor = torch.randn(made.shape).double()
    ours = torch.autograd.grad((made * factor).sum(), leaves, retain_graph=True)
    theirs = torch.autograd.grad((expected * factor).sum(), leaves)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)
    if count:
        smooth = lambda *x: how(
            relation, lambda a, b, c, w: (a * b * c).tanh() * w, *x[:3], (x[3],)
        )
        assert torch.autograd.gradgradcheck(smooth, leaves)


@settings(max_examples=20, deadline=None)
@given(graph=graphs(), wanted=st.sampled_from(["u", "v", "e", "ue"]))
def test_operands_that_are_not_given_or_want_no_gradient(graph, wanted):
    torch.manual_seed(0)
    src, dst = graph.edges()
    rows = {"u": NODES, "v": NODES, "e": graph.num_edges()}
    given_tensors = {end: torch.randn(rows[end], 3).double() for end in "ue"}
    for end in set(wanted) & set(given_tensors):
        given_tensors[end].requires_grad_()
    u, e = given_tensors["u"], given_tensors["e"]
    made = sum_edges(graph.relation(), lambda a, b: F.relu(a + b), u=u, e=e)
    expected = torch.zeros(NODES, 3).double().index_add(0, dst, F.relu(u[src] + e))
    torch.testing.assert_close(made, expected)
    leaves = [x for x in (u, e) if x.requires_grad]
    if leaves:
        ours = torch.autograd.grad(made.sum(), leaves, retain_graph=True)
        for a, b in zip(ours, torch.autograd.grad(expected.sum(), leaves), strict=True):
            torch.testing.assert_close(a, b)


@settings(max_examples=10, deadline=None)
@given(graph=graphs())
def test_layers_compute_what_they_say(graph):
    graph = dgl.add_self_loop(graph)
    src, dst = graph.edges()
    x, edge = torch.randn(NODES, 4).double(), torch.randn(graph.num_edges(), 4).double()
    near = torch.zeros(NODES, 4).double().index_add(0, dst, F.relu(x[src] + edge))
    torch.testing.assert_close(GINEConv(init_eps=0.5)(graph, x, edge), 1.5 * x + near)
    layer = GATv2Conv(4, 3, 2).double()
    left, right = layer.fc_src(x).view(-1, 2, 3), layer.fc_dst(x).view(-1, 2, 3)
    scores = (F.leaky_relu(left[src] + right[dst], 0.2) * layer.attn).sum(-1)
    weights = torch.stack([scores[dst == n].softmax(0).sum(0) for n in range(NODES)])
    torch.testing.assert_close(weights, torch.ones_like(weights))
    share = scores.exp() / torch.zeros(NODES, 2).double().index_add(0, dst, scores.exp())[dst]
    expected = torch.zeros(NODES, 2, 3).double().index_add(0, dst, left[src] * share[..., None])
    torch.testing.assert_close(layer(graph, x), expected)
