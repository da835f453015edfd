"""The kind of arithmetic of a call, its dtype, and how it runs over elements."""

import pytest

from graphwright.describe import Types as CallTypes
from graphwright.describe import arithmetic, cost, iteration
from graphwright.ir import TensorType


def call(*shapes, out, dtype="bfloat16"):
    return CallTypes(
        tuple(None if s is None else TensorType(s, dtype) for s in shapes),
        tuple(TensorType(s, dtype) for s in out),
    )


WINDOW = {
    "stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1,
    "transposed": False, "output_padding": (0, 0),
}  # fmt: skip
SUM = {"keepdim": False, "dtype": None}
CASES = [
    ("aten.mm", {}, call((8, 6), (6, 9), out=[(8, 9)]), "product"),
    ("aten.bmm", {}, call((2, 8, 6), (2, 6, 9), out=[(2, 8, 9)]), "product"),
    ("aten.mv", {}, call((8, 6), (6,), out=[(8,)]), "elementwise"),
    (
        "aten.convolution",
        WINDOW,
        call((2, 4, 8, 8), (6, 4, 3, 3), None, out=[(2, 6, 8, 8)]),
        "convolution",
    ),
    ("aten.relu", {}, call((8, 6), out=[(8, 6)]), "elementwise"),
    ("aten._softmax", {"dim": 1}, call((8, 6), out=[(8, 6)]), "elementwise"),
    ("aten.sum.dim_IntList", {"dim": (0,), **SUM}, call((8, 6), out=[(6,)]), "elementwise"),
    ("mine.operator", {}, call((8, 6), out=[(8, 6)]), "elementwise"),
]


@pytest.mark.parametrize(("op", "attrs", "types", "kind"), CASES)
def test_the_kind_follows_from_the_description(op, attrs, types, kind):
    assert arithmetic(op, attrs, types).kind == kind
    assert arithmetic(op, attrs, types).dtype == "bfloat16"


@pytest.mark.parametrize(
    ("words", "dtype", "aligned"),
    [(50257, "bfloat16", False), (50264, "bfloat16", True), (50260, "float32", True)],
)
def test_rows_of_products_are_aligned_at_16_bytes(words, dtype, aligned):
    x, w, y = (TensorType(s, dtype) for s in ((64, 768), (768, words), (64, words)))
    for inputs, made in (((x, w), y), ((y, TensorType((words, 768), dtype)), x)):
        assert arithmetic("aten.mm", {}, CallTypes(inputs, (made,))).aligned is aligned
    vector = TensorType((64, 1), dtype)  # a matrix times a vector has no rows
    call = CallTypes((x, TensorType((768, 1), dtype)), (vector,))
    assert arithmetic("aten.mm", {}, call).aligned


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_integers_are_multiplied_at_their_own_rate(dtype):
    found = arithmetic("aten.mm", {}, call((16, 16), (16, 16), out=[(16, 16)], dtype=dtype))
    assert (found.kind, found.dtype) == ("product", dtype)


def test_a_float_among_factors_sets_the_rate():
    left, right = TensorType((16, 16), "int8"), TensorType((16, 16), "bfloat16")
    assert arithmetic("aten.mm", {}, CallTypes((left, right), (right,))).dtype == "bfloat16"


def test_a_saved_logsumexp_does_not_set_the_dtype():
    one = TensorType((1, 2, 8, 4), "bfloat16")
    lse = TensorType((1, 2, 8), "float32")
    forward = arithmetic(
        "graphwright.causal_attention",
        {"scale": None, "first": 0},
        CallTypes((one,) * 3, (one, lse)),
    )
    backward = arithmetic(
        "graphwright.causal_attention_backward",
        {"scale": None, "first": 0},
        CallTypes((one,) * 5 + (lse,), (one,) * 3),
    )
    for found in (forward, backward):
        assert (found.kind, found.dtype) == ("attention", "bfloat16")


@pytest.mark.parametrize(
    ("queries", "keys", "first"), [(7, 7, 0), (3, 9, 4), (4, 6, -2), (1, 1, 0)]
)
def test_a_causal_mask_leaves_out_what_it_hides(queries, keys, first):
    """The pairs that are seen, counted one by one."""
    width, seen = 512, sum(m <= row + first for row in range(queries) for m in range(keys))
    q, k = TensorType((1, 1, queries, width), "float32"), TensorType((1, 1, keys, width), "float32")
    lse = TensorType((1, 1, queries), "float32")
    causal = {"scale": None, "first": first}
    forward = cost("graphwright.causal_attention", causal, CallTypes((q, k, k), (q, lse)))
    assert forward.operations == pytest.approx(4 * width * seen, rel=0.05, abs=width * queries * 2)
    backward = cost(
        "graphwright.causal_attention_backward", causal, CallTypes((q, q, k, k, q, lse), (q, k, k))
    )
    assert backward.operations == pytest.approx(
        10 * width * seen, rel=0.05, abs=width * queries * 4
    )


def test_a_lookup_reads_the_rows_that_it_looks_up():
    table, index = TensorType((1000, 8), "float32"), TensorType((4, 5), "int64")
    types = CallTypes((table, index), (TensorType((4, 5, 8), "float32"),))
    assert cost("aten.embedding", {}, types).bytes == 2 * 20 * 8 * 4 + 20 * 8
    few = CallTypes((TensorType((2, 8), "float32"), index), types.outputs)
    assert cost("aten.embedding", {}, few).bytes == 2 * 8 * 4 + 20 * 8 * 4 + 20 * 8


def test_how_calls_run_over_their_elements():
    rows = iteration("aten._softmax", {"dim": 1}, call((8, 6), out=[(8, 6)]))
    assert (rows.shape, rows.size, rows.row) == ("rows", 48, 6)
    inner = iteration("aten.sum.dim_IntList", {"dim": (1,), **SUM}, call((8, 6), out=[(8,)]))
    assert (inner.shape, inner.size, inner.row) == ("reduction", 48, 6)
    outer = iteration("aten.sum.dim_IntList", {"dim": (0,), **SUM}, call((8, 6), out=[(6,)]))
    assert (outer.shape, outer.size, outer.row) == ("reduction", 48, None)
    assert iteration("aten.relu", {}, call((8, 6), out=[(8, 6)])).shape == "elementwise"
    assert iteration("aten.mm", {}, call((8, 6), (6, 9), out=[(8, 9)])).shape == "product"
    assert iteration("mine.operator", {}, call((8, 6), out=[(8, 6)])).shape == "other"
