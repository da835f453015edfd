"""Terms and operators: their text, their size, and their meaning beside PyTorch's kernels."""

from fractions import Fraction

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from graphwright.rewrite.substitutions.errors import InvalidRule
from graphwright.rewrite.substitutions.graphs import (
    PARAMETERS,
    Input,
    Term,
    parse,
    program_of,
    rename_inputs,
    size_of,
    sizes_of,
)
from graphwright.rewrite.substitutions.values import PRIME, RESIDUES, evaluate, shapes_of
from substitution_graphs import random_tensors, run_kernels

X, W = (2, 4, 6, 5), (4, 2, 3, 3)
CASES = [
    ("ewadd(x, y)", {"x": (2, 3), "y": (2, 3)}, lambda x, y: x + y),
    ("ewmul(x, y)", {"x": (2, 3), "y": (2, 3)}, lambda x, y: x * y),
    ("smul(x, s)", {"x": (2, 3), "s": ()}, lambda x, s: x * s),
    ("relu(x)", {"x": (2, 3)}, torch.relu),
    ("transpose(x)", {"x": (2, 3, 4)}, lambda x: x.mT),
    ("matmul(x, y)", {"x": (2, 3, 4), "y": (2, 4, 2)}, torch.matmul),
    ("matmul(x, y)", {"x": (3, 4), "y": (4, 2)}, torch.matmul),
    ("conv(1, same, none, x, w)", {"x": X, "w": W}, lambda x, w: F.conv2d(x, w, padding=1, groups=2)),
    ("conv(2, valid, relu, x, w)", {"x": X, "w": (2, 4, 3, 2)}, lambda x, w: F.conv2d(x, w, stride=2).relu()),
    ("enlarge(3, w)", {"w": (2, 2, 1, 3)}, lambda w: F.pad(w, (0, 0, 1, 1))),
    ("pool_avg(3, 2, same, x)", {"x": X}, lambda x: F.avg_pool2d(x, 3, 2, 1)),
    ("pool_max(3, 1, same, x)", {"x": X}, lambda x: F.max_pool2d(x, 3, 1, 1)),
    ("pool_max(2, 2, valid, x)", {"x": X}, lambda x: F.max_pool2d(x, 2, 2)),
    ("concat(1, x, y)", {"x": X, "y": (2, 1, 6, 5)}, lambda x, y: torch.cat([x, y], 1)),
    ("split0(-1, concat(-1, x, y))", {"x": (2, 3), "y": (2, 1)}, lambda x, y: x),
    ("split1(-2, concat(-2, x, y))", {"x": (2, 3), "y": (1, 3)}, lambda x, y: y),
]  # fmt: skip


@pytest.mark.parametrize(("text", "shapes", "expected"), CASES, ids=[c[0] for c in CASES])
def test_an_operator_is_what_pytorch_computes(text, shapes, expected):
    rng = np.random.default_rng(0)
    term = parse(text)
    given = {Input(name): shape for name, shape in shapes.items()}
    values = random_tensors(given, rng)
    (made,) = run_kernels([term], values, given)
    wanted = expected(*(values[Input(name)] for name in shapes))
    torch.testing.assert_close(made, wanted, rtol=1e-12, atol=1e-12)
    inferred = shapes_of([term], given)
    assert sizes_of(inferred[term]) == tuple(wanted.shape)
    (described,) = evaluate([term], {e: v.numpy() for e, v in values.items()}, inferred)
    np.testing.assert_allclose(described, wanted.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("text", "shapes"),
    [(text, shapes) for text, shapes, _ in CASES if "relu" not in text and "max" not in text],
)
def test_residues_are_exact_arithmetic_modulo_a_prime(text, shapes):
    """Small integers as residues, and as fractions of Python's own."""
    rng = np.random.default_rng(1)
    term = parse(text)
    given = {Input(name): shape for name, shape in shapes.items()}
    inferred = shapes_of([term], given)
    values = {e: rng.integers(-9, 9, shape) for e, shape in given.items()}
    exact = evaluate([term], {e: _fractions(v) for e, v in values.items()}, inferred)[0]
    residues = evaluate([term], {e: v % PRIME for e, v in values.items()}, inferred, RESIDUES)[0]
    for a, b in zip(np.asarray(exact).flat, residues.flat, strict=True):
        a = Fraction(a).limit_denominator(100)
        assert a.numerator * pow(a.denominator, -1, PRIME) % PRIME == b


def _fractions(array):
    return np.vectorize(Fraction, otypes=[object])(array)


def test_a_split_undoes_the_latest_concatenation():
    given = {Input("x"): (2, 3), Input("y"): (2, 1), Input("z"): (2, 2)}
    nested = parse("concat(-1, concat(-1, x, y), z)")
    shapes = shapes_of([nested, Term("split0", (-1,), (nested,))], given)
    assert shapes[nested] == (2, ((3, 1), 2))
    assert shapes[Term("split0", (-1,), (nested,))] == (2, (3, 1))
    assert program_of("split0", (-1,), [(2, 6)]) is None  # nothing was concatenated
    assert program_of("split0", (-2,), [(2, (3, 1))]) is None


@pytest.mark.parametrize(
    ("op", "params", "shapes"),
    [
        ("ewadd", (), [(2, 3), (3, 2)]),
        ("matmul", (), [(2, 3), (2, 3)]),
        ("conv", (1, "same", "none"), [(1, 2, 4, 4), (2, 2, 2, 2)]),  # an even kernel
        ("conv", (1, "valid", "none"), [(1, 2, 2, 2), (2, 2, 3, 3)]),  # larger than the image
        ("conv", (1, "valid", "none"), [(1, 3, 4, 4), (2, 2, 1, 1)]),  # 3 channels in groups of 2
        ("enlarge", (3,), [(2, 2, 3, 3)]),
        ("smul", (), [(2, 3), (1,)]),
        ("concat", (0,), [(2, 3), (2, 3)]),  # axes of matrices count from the back
        ("I_conv", (3,), [(2, 1, 3, 3)]),
    ],
)
def test_what_does_not_fit_has_no_shape(op, params, shapes):
    assert program_of(op, params, shapes) is None


def test_terms_have_a_text_form():
    text = "conv(1, same, relu, split1(-1, x), ewadd(y, C_pool(3)))"
    assert str(parse(text)) == text
    assert parse(text) == Term(
        "conv", (1, "same", "relu"), (parse("split1(-1, x)"), parse("ewadd(y, C_pool(3))"))
    )
    assert [str(e) for e in rename_inputs([parse("ewadd(b, smul(a, b))")])] == [
        "ewadd(x0, smul(x1, x0))"
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ewadd(x", "not a term"),
        ("sigmoid(x)", "there is no operator sigmoid"),
        ("conv(1, same)", "conv has the parameters stride, padding, activation"),
        ("conv(1.5, same, none, x, w)", "1.5 is no parameter"),
        ("ewadd(x, 3)", "cannot read 3"),
        ("__import__('os')", "there is no operator __import__"),
    ],
)
def test_text_that_is_no_term_is_refused(text, said):
    with pytest.raises(InvalidRule, match=said):
        parse(text)


def test_both_outputs_of_a_split_are_one_operator_and_constants_are_none():
    whole = parse("matmul(x, concat(-1, y, z))")
    outputs = [Term("split0", (-1,), (whole,)), Term("split1", (-1,), (whole,))]
    assert size_of(*outputs) == 3
    assert size_of(parse("conv(1, same, none, x, ewadd(w, I_conv(3)))")) == 2
    assert {"ewadd", "conv", "C_pool"} <= PARAMETERS.keys()
