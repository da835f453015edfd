"""The pool, the cuts and the search: each term once, narrow places, never dearer, bounded."""

import torch
from torch import nn

from graphwright.capture import export
from graphwright.ir import TensorType
from graphwright.rewrite.optimize import (
    Matcher,
    Pool,
    Reader,
    backtrack,
    cut,
    fixed_tensors,
    patterns_of,
    rewrite_graph,
)
from graphwright.rewrite.substitutions import shipped
from inference_models import Branches, Inception, PoolsAndConvolution, flops, settled

IMAGE = torch.rand(1, 4, 6, 6, dtype=torch.float64)
MATRIX = TensorType((4, 4), "float32")


def read(model, x=IMAGE):
    graph = export(settled(model), x).graph
    fixed = fixed_tensors(graph)
    pool = Pool(lambda op, attrs, types: 1.0)
    (region,) = cut(graph, fixed)
    outputs = Reader(pool, graph, fixed).read(region)
    return Matcher(pool, patterns_of(shipped().rules)), outputs


def test_equal_terms_are_one():
    pool = Pool(flops)
    a, b = (pool.input(n, MATRIX, fixed=False) for n in range(2))
    assert pool.make("ewadd", (), (a, b)) == pool.make("ewadd", (), (b, a))
    assert pool.make("matmul", (), (a, b)) != pool.make("matmul", (), (b, a))
    joined = pool.make("concat", (-1,), (a, b))
    parts = tuple(pool.make(op, (-1,), (joined,)) for op in ("split0", "split1"))
    assert parts == (a, b)
    product = pool.make("matmul", (), (a, joined))
    halves = tuple(pool.make(op, (-1,), (product,)) for op in ("split0", "split1"))
    assert pool.make("concat", (-1,), halves) == product
    assert pool.make("split0", (-2,), (product,)) is None  # nothing was joined along that axis


def test_a_split_does_not_move_when_what_it_reads_is_replaced():
    """A tensor joined at another place has other parts."""
    pool = Pool(flops)
    sizes = [(4, 1), (4, 3), (4, 3), (4, 1)]
    a, b, c, d = (pool.input(n, TensorType(s, "float32"), fixed=False) for n, s in enumerate(sizes))
    product = pool.make("relu", (), (pool.make("concat", (-1,), (a, b)),))
    part = pool.make("split0", (-1,), (product,))
    other = pool.make("relu", (), (pool.make("concat", (-1,), (c, d)),))
    assert pool.replace((part,), {product: other}) is None


def test_concatenations_of_concatenations_cost_one_kernel_however_nested():
    pool = Pool(lambda op, attrs, types: float(types.outputs[0].shape[-1]))
    a, b, c, d = (pool.input(n, MATRIX, fixed=False) for n in range(4))

    def join(x, y):
        return pool.make("concat", (-1,), (x, y))

    for nested in (join(join(join(a, b), c), d), join(join(a, b), join(c, d))):
        assert pool.cost((nested,)) == 16.0


def test_weights_and_biases_cost_nothing():
    matcher, outputs = read(nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)))
    assert matcher.pool.cost(outputs) == 1.0


def test_alpha_of_one_does_not_go_over_dearer_graphs():
    """Merely turning a pooling into a convolution saves nothing, so greed stops before it."""
    matcher, outputs = read(PoolsAndConvolution())
    rules = [r for r in shipped().rules if "pool" not in str(r) or r.number == 2]
    matcher = Matcher(
        matcher.pool, patterns_of(rules)
    )  # without those that take both steps at once
    assert backtrack(matcher, outputs, alpha=1.0).cost == 3
    found = backtrack(matcher, outputs, alpha=1.05)
    assert (found.original, found.cost) == (3, 1) and len(found.applied) == 2


def test_the_budget_and_the_deadline_are_kept():
    matcher, outputs = read(Inception())
    assert backtrack(matcher, outputs, budget=10).seen <= 12  # a merge and what follows it
    found = backtrack(matcher, outputs, deadline=0.0)
    assert found.graph == outputs and found.seen == 1


def test_without_rules_only_norms_and_biases_are_merged():
    exported = export(settled(Inception()), IMAGE)
    found = rewrite_graph(exported.graph, flops, rules=())
    assert found.cost == found.merged < found.original and not found.applied


def test_equal_blocks_are_searched_once():
    blocks = [nn.Sequential(*(nn.Conv2d(4, 4, 3, padding=1) for _ in range(8))) for _ in range(5)]
    exported = export(settled(nn.Sequential(*blocks)), IMAGE)
    found = rewrite_graph(exported.graph, flops, budget=5)
    assert (found.pieces, found.distinct) == (5, 1)


def test_a_graph_is_cut_where_one_tensor_crosses():
    graph = export(
        settled(nn.Sequential(Branches(8), nn.Conv2d(16, 4, 1), Branches(8))), IMAGE
    ).graph
    regions = cut(graph, fixed_tensors(graph))
    assert [n for r in regions for n in r.nodes] == list(graph.nodes)
    assert len(regions) == 2 and len(regions[0].outputs) == 1
