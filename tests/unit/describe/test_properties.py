"""Linearity, element-wise and view, from the description alone."""

import pytest

from calls import find_properties
from graphwright.describe import Types, cost, describe
from graphwright.describe.language.registry import _DESCRIPTIONS
from graphwright.describe.language.syntax import Max, Sum, function, where
from graphwright.ir import TensorType

exp = function("exp")

LINEAR = [
    (lambda a, b: lambda i: a[i] + b[i], [{0, 1}]),
    (lambda a, b: lambda i: a[i] * b[i], [{0}, {1}]),
    (lambda a, b: lambda i: a[i] / b[i], [{0}]),
    (lambda a, b: lambda i: a[i] - 2 * b[i], [{0, 1}]),
    (lambda a, b: lambda i: exp(a[i]) * b[i], [{1}]),
    (lambda a, b: lambda i: a[i] * a[i] + b[i], []),
    (lambda a, b: lambda i: a[i] + b[i] + 1, []),
    (lambda a, b: lambda i: where(b[i] > 0, a[i], 0), [{0}]),
    (lambda a, b: lambda i: where(b[i] > 0, a[i], 1), []),
    (lambda a, b: lambda i: Sum(lambda k: a[k] * b[k]), [{0}, {1}]),
    (lambda a, b: lambda i: Max(lambda k: a[k]) + b[i], []),
    (lambda a, b: lambda i: -a[i] + 0 * b[i], [{0}, {0, 1}]),
    (lambda a, b: lambda i: a.pad(0)[i - 1] + b[i], [{0, 1}]),
    (lambda a, b: lambda i: a.pad(1)[i - 1] + b[i], []),
]


@pytest.mark.parametrize(("description", "expected"), LINEAR)
def test_linearity(description, expected):
    found = find_properties(description, [(4,), (4,)], [(4,)])
    assert sorted(map(sorted, found.linear)) == sorted(map(sorted, expected))


def test_element_wise_allows_broadcasting():
    add = lambda a, b: lambda *i: a[i] + b[i]
    assert find_properties(add, [(4, 5), (1, 5)], [(4, 5)]).elementwise
    assert find_properties(add, [(4, 5), (5,)], [(4, 5)]).elementwise
    transposed = lambda a: lambda i, j: a[j, i] + 1
    assert not find_properties(transposed, [(4, 4)], [(4, 4)]).elementwise


def test_a_view_computes_nothing():
    assert find_properties(lambda a: lambda i, j: a[j, i], [(4, 5)], [(5, 4)]).view
    assert not find_properties(lambda a: lambda i, j: a[j, i] * 2, [(4, 5)], [(5, 4)]).view


def test_the_cost_of_a_matrix_product_is_counted():
    types = Types(
        (TensorType((4, 6), "float32"), TensorType((6, 8), "float32")),
        (TensorType((4, 8), "float32"),),
    )
    found = cost("aten.mm", {}, types)
    assert found.operations == 2 * 4 * 6 * 8
    assert found.bytes == 4 * (4 * 6 + 6 * 8 + 4 * 8)


def test_what_is_used_by_every_element_is_counted_once():
    @describe("test.centre")
    def centre(x):
        return lambda i, j: x[i, j] - Sum(lambda k: x[i, k])

    try:
        types = Types((TensorType((10, 20), "float32"),), (TensorType((10, 20), "float32"),))
        assert cost("test.centre", {}, types).operations == 200 + 200
    finally:
        del _DESCRIPTIONS["test.centre"]


def shaped(*shape, dtype="float32"):
    return TensorType(shape, dtype)


def test_gradients_of_a_strided_convolution_cost_as_much_as_the_convolution():
    attrs = {
        "stride": (2, 2), "padding": (1, 1), "dilation": (1, 1), "transposed": False,
        "output_padding": (0, 0), "groups": 1,
    }  # fmt: skip
    x, w, y = shaped(8, 64, 28, 28), shaped(128, 64, 3, 3), shaped(8, 128, 14, 14)
    forward = cost("aten.convolution", attrs, Types((x, w, None), (y,)))
    to_input = {**attrs, "input_size": x.shape}
    to_weight = {**attrs, "weight_size": w.shape}
    backward = [
        cost("graphwright.convolution_grad_input", to_input, Types((y, w), (x,))),
        cost("graphwright.convolution_grad_weight", to_weight, Types((y, x), (w,))),
    ]
    assert forward.operations == 2 * 8 * 128 * 14 * 14 * 64 * 9
    assert [b.operations for b in backward] == [forward.operations] * 2


def test_a_scatter_is_not_a_product_with_a_one_hot_matrix():
    attrs = {"num_weights": 5000, "padding_idx": -1, "scale_grad_by_freq": False}
    types = Types((shaped(8, 16, 32), shaped(8, 16, dtype="int64")), (shaped(5000, 32),))
    found = cost("aten.embedding_dense_backward", attrs, types).operations
    assert 8 * 16 * 32 <= found <= 8 * 16 * 32 + 5000 * 32


def test_copies_are_not_views():
    flip = lambda x: lambda i: x[x.shape[0] - 1 - i]
    repeat = lambda x: lambda i: x[i % x.shape[0]]
    assert not find_properties(flip, [(4,)], [(4,)]).view
    assert not find_properties(repeat, [(4,)], [(8,)]).view
    for op, attrs, before, after in (
        ("aten.view", {"size": (12,)}, (3, 4), (12,)),
        ("aten.view", {"size": (3, 4)}, (12,), (3, 4)),
        ("aten.expand", {"size": (3, 4), "implicit": False}, (3, 1), (3, 4)),
        ("aten.permute", {"dims": (1, 0)}, (3, 4), (4, 3)),
    ):
        assert cost(op, attrs, Types((shaped(*before),), (shaped(*after),))).bytes == 0, op
