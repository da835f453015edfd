"""The normal form of integer expressions: equal values are equal objects."""

import pytest

from graphwright.symbolic import Kind, Poly, Quotient, Remainder, Symbol

i, j = Poly.of(Symbol("i")), Poly.of(Symbol("j"))
n = Poly.of(Symbol("n", Kind.SIZE))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((i + 2) * 3, 3 * i + 6),
        (i - i, Poly.const(0)),
        ((i + j) * (i - j), i * i - j * j),
        (n * i // n, i),
        ((n * i + j) // n, i + j // n),
        ((n * i + j) % n, j % n),
        ((4 * i + 6) // 2, 2 * i + 3),
        ((4 * i + 3) % 2, Poly.const(1)),
        ((i + n) // n, i // n + 1),
        (n // n, Poly.const(1)),
        (Poly.const(7) // 2, Poly.const(3)),
        (Poly.const(-7) % 3, Poly.const(2)),
        (1 - i, -(i - 1)),
    ],
)
def test_normal_form(left, right):
    assert left == right
    assert hash(left) == hash(right)


def test_what_does_not_divide_stays_as_an_atom():
    assert isinstance((i // n).atom, Quotient)
    assert isinstance((i % n).atom, Remainder)


def test_a_number_equals_its_polynomial():
    assert Poly.const(3) == 3
    assert i != 3
    assert (i - i + 3).constant == 3


def test_substitution_reaches_into_quotients():
    moved = (i // n).substitute({Symbol("i"): n * 4 + j})
    assert moved == 4 + j // n


def test_evaluation_takes_numbers_and_arrays():
    import numpy as np

    values = {Symbol("i"): np.arange(6), Symbol("n", Kind.SIZE): 4}
    assert ((i // n) * 10 + i % n).evaluate(values).tolist() == [0, 1, 2, 3, 10, 11]
    assert Poly.const(0).evaluate({}) == 0


def test_symbols_and_indices():
    expression = (i * n + j) // 3 + n
    assert expression.symbols == {Symbol("i"), Symbol("j"), Symbol("n", Kind.SIZE)}
    assert expression.indices == {Symbol("i"), Symbol("j")}


def test_it_prints_as_one_would_write_it():
    assert repr(i * 2 - 1) == "2*i - 1"
    assert repr(-i) == "-i"
    assert repr(Poly.const(0)) == "0"
    assert repr((i + 1) // (n + 1)) == "((i + 1) // (n + 1))"
