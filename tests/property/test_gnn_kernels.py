"""Fused kernels against stored messages in float64, values and gradients, on graphs of every kind."""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.gnn.kernels import eager, edge_softmax, gsddmm, gspmm, segment_reduce
from graphwright.gnn.storage import Relation

BINARY = ("add", "sub", "mul", "div", "dot")
ENDS = ("u", "v", "e")
SHAPES = [
    ((), ()), ((3,), (3,)), ((3,), (1,)), ((1,), (9,)), ((2, 4), (2, 1)), ((2, 1), (2, 17)),
    ((2, 1, 5), (3, 1)), ((4,), (2, 1)), ((16,), ()),
]  # fmt: skip


@st.composite
def relations(draw):
    """Graphs with isolated nodes, loops, parallel edges, no edges, one node; ids of both sizes."""
    num_src, num_dst = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    edges = draw(
        st.lists(st.tuples(st.integers(0, num_src - 1), st.integers(0, num_dst - 1)), max_size=14)
    )
    if draw(st.booleans()):
        edges = sorted(edges, key=lambda edge: edge[1])
    dtype = draw(st.sampled_from([torch.int32, torch.int64]))
    pairs = torch.tensor(edges, dtype=dtype).reshape(-1, 2)
    coo = (pairs[:, 0].contiguous(), pairs[:, 1].contiguous())
    return Relation(num_src=num_src, num_dst=num_dst, made_coo=coo)


def features(relation, end, shape, seed):
    rows = {"u": relation.num_src, "v": relation.num_dst, "e": relation.num_edges}[end]
    made = torch.randn((rows, *shape), generator=torch.Generator().manual_seed(seed)).double()
    made = torch.where(made.abs() < 0.3, made.sign() * 0.3 + made, made)  # divisors
    return made.requires_grad_()


def stored(relation, op, a, b):
    """The messages themselves."""
    src, dst = (ends.long() for ends in relation.coo)
    rows = {"u": src, "v": dst, "e": slice(None)}
    x, y = a[0][rows[a[1]]], b[0][rows[b[1]]]
    rank = max(x.dim(), y.dim())
    x = x.reshape(len(x), *[1] * (rank - x.dim()), *x.shape[1:])
    y = y.reshape(len(y), *[1] * (rank - y.dim()), *y.shape[1:])
    match op:
        case "copy":
            return a[0][rows[a[1]]]
        case "add":
            return x + y
        case "sub":
            return x - y
        case "mul":
            return x * y
        case "div":
            return x / y
    return (x * y).sum(-1, keepdim=True) if rank > 1 else x * y


def reduced(relation, messages, how):
    """Row by row, by PyTorch's own reductions."""
    dst, rows = relation.coo[1].long(), []
    for node in range(relation.num_dst):
        mine = messages[dst == node]
        if len(mine) == 0:
            rows.append(messages.new_zeros(messages.shape[1:]))
        elif how in ("sum", "mean"):
            rows.append(getattr(mine, how)(0))
        else:
            rows.append(getattr(mine, how)(0).values)
    return torch.stack(rows)


def same(ours, theirs, inputs):
    theirs = theirs + 0 * sum(given_input.sum() for given_input in inputs)
    assert ours.shape == theirs.shape
    torch.testing.assert_close(ours, theirs)
    weight = torch.randn(ours.shape, dtype=ours.dtype, generator=torch.Generator().manual_seed(3))
    mine = torch.autograd.grad((ours * weight).sum(), inputs, retain_graph=True, allow_unused=True)
    other = torch.autograd.grad(
        (theirs * weight).sum(), inputs, retain_graph=True, allow_unused=True
    )
    for x, y, given_input in zip(mine, other, inputs, strict=True):
        zero = torch.zeros_like(given_input)
        torch.testing.assert_close(zero if x is None else x, zero if y is None else y)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("op", BINARY)
@settings(max_examples=40, deadline=None)
@given(
    relation=relations(),
    ends=st.sampled_from(list(product(ENDS, ENDS))),
    shapes=st.sampled_from(SHAPES),
)
def test_every_operator_order_and_reduction(op, reduce, relation, ends, shapes):
    if op == "dot":
        shapes = (shapes[0], shapes[0])
    elif shapes[0] != shapes[1] and ends[0] > ends[1]:
        shapes = shapes[::-1]
    a = (features(relation, ends[0], shapes[0], 1), ends[0])
    b = (features(relation, ends[1], shapes[1], 2), ends[1])
    messages = stored(relation, op, a, b)
    inputs = (a[0], b[0])
    same(gsddmm(relation, op, a, b), messages, inputs)
    same(gspmm(relation, op, reduce, a, b), reduced(relation, messages, reduce), inputs)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min"])
@settings(max_examples=40, deadline=None)
@given(
    relation=relations(),
    end=st.sampled_from(ENDS),
    shape=st.sampled_from([(), (1,), (17,), (2, 3)]),
)
def test_copies(reduce, relation, end, shape):
    a = (features(relation, end, shape, 1), end)
    messages = stored(relation, "copy", a, a)
    same(gsddmm(relation, "copy", a), messages, (a[0],))
    same(gspmm(relation, "copy", reduce, a), reduced(relation, messages, reduce), (a[0],))


@settings(max_examples=15, deadline=None)
@given(
    relation=relations(),
    op=st.sampled_from(BINARY),
    ends=st.sampled_from(list(product(ENDS, ENDS))),
)
def test_gradients_against_finite_differences(relation, op, ends):
    a, b = features(relation, ends[0], (2, 3), 1), features(relation, ends[1], (2, 3), 2)
    made = lambda x, y: gspmm(relation, op, "sum", (x, ends[0]), (y, ends[1]))
    assert torch.autograd.gradcheck(made, (a, b))
    assert torch.autograd.gradgradcheck(made, (a, b))
    edges = lambda x, y: gsddmm(relation, op, (x, ends[0]), (y, ends[1]))
    assert torch.autograd.gradcheck(edges, (a, b))
    most = lambda x, y: gspmm(relation, op, "max", (x, ends[0]), (y, ends[1]))
    assert torch.autograd.gradcheck(most, (a, b))
    assert torch.autograd.gradgradcheck(most, (a, b))


@settings(max_examples=40, deadline=None)
@given(
    relation=relations(),
    shape=st.sampled_from([(), (1,), (2, 3)]),
    by=st.sampled_from(["dst", "src"]),
)
def test_softmax_over_edges(relation, shape, by):
    scores = features(relation, "e", shape, 4)
    made = edge_softmax(relation, scores, by)
    ends = relation.coo[1 if by == "dst" else 0].long()
    parts = torch.zeros_like(scores)
    for node in range(int(ends.max()) + 1 if len(ends) else 0):
        rows = (ends == node).nonzero().reshape(-1)
        if len(rows):
            parts = parts.index_copy(0, rows, scores[rows].softmax(0))
    same(made, parts, (scores,))
    if len(scores):
        assert torch.autograd.gradgradcheck(lambda x: edge_softmax(relation, x, by), (scores,))


@settings(max_examples=30, deadline=None)
@given(
    relation=relations(),
    op=st.sampled_from(BINARY),
    ends=st.sampled_from(list(product(ENDS, ENDS))),
    shapes=st.sampled_from(SHAPES),
)
def test_general_operators_compute_the_same(relation, op, ends, shapes):
    """What devices without a kernel of their own use."""
    if op == "dot":
        shapes = (shapes[0], shapes[0])
    a, b = features(relation, ends[0], shapes[0], 1), features(relation, ends[1], shapes[1], 2)
    a, b = a.detach(), b.detach()
    fused = gspmm(relation, op, "sum", (a, ends[0]), (b, ends[1]))
    shape = tuple(fused.shape[1:])
    torch.testing.assert_close(
        eager.contract(relation, op, a, ends[0], b, ends[1], "v", shape), fused
    )
    if relation.num_edges:
        most = gspmm(relation, op, "max", (a, ends[0]), (b, ends[1]))
        torch.testing.assert_close(
            eager.extreme(relation, op, a, ends[0], b, ends[1], False, shape)[0], most
        )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
@settings(max_examples=10, deadline=None)
@given(relation=relations())
def test_smaller_types(dtype, reduce, relation):
    a, b = features(relation, "u", (4, 8), 1).detach(), features(relation, "e", (4, 1), 2).detach()
    exact = gspmm(relation, "mul", reduce, (a.to(dtype).double(), "u"), (b.to(dtype).double(), "e"))
    made = gspmm(relation, "mul", reduce, (a.to(dtype), "u"), (b.to(dtype), "e"))
    assert made.dtype == dtype
    torch.testing.assert_close(made, exact.to(dtype))
    copied = gspmm(relation, "copy", "sum", (a.to(dtype), "u"))
    close = gspmm(relation, "copy", "sum", (a.to(dtype).double(), "u")).to(dtype)
    torch.testing.assert_close(copied, close)


@settings(max_examples=20, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 4), min_size=1, max_size=6),
    how=st.sampled_from(["sum", "mean", "max", "min"]),
)
def test_segments(lengths, how):
    value = torch.randn(sum(lengths), 3, dtype=torch.float64, requires_grad=True)
    made = segment_reduce(torch.tensor(lengths), value, how)
    parts = []
    for part in value.split(lengths):
        if len(part) == 0:
            parts.append(part.new_zeros(3))
        else:
            reduced_part = getattr(part, how)(0)
            parts.append(reduced_part if how in ("sum", "mean") else reduced_part.values)
    same(made, torch.stack(parts), (value,))
