"""Proofs: polynomials and maxima over reals, equations from axioms; unknown is never a proof."""

from math import inf

import pytest

from graphwright.symbolic.prove import (
    Axiom,
    Theory,
    Verdict,
    divide,
    maximum,
    prove_equal,
    real,
)

COMMUTATIVE = Axiom(
    variables=("a", "b"),
    left=("add", "a", "b"),
    right=("add", "b", "a"),
    triggers=(("add", "a", "b"),),
)
GUARDED = Axiom(
    variables=("a",),
    left=("f", "a"),
    right="a",
    when=(("even", "a"),),
    triggers=(("f", "a"),),
)
THEORY = Theory({"commutative": COMMUTATIVE, "guarded": GUARDED})
LIMITS = {"effort": 1_000_000, "seconds": 20.0}


def test_polynomials_are_equal_in_any_form():
    x, y = real("x"), real("y")
    assert prove_equal([((x + y) * (x - y), x * x - y * y)], 5).verdict is Verdict.PROVED
    assert prove_equal([(divide(1, 3) * x + divide(2, 3) * x, x)], 5).verdict is Verdict.PROVED


def test_a_difference_comes_with_values():
    x, y = real("x"), real("y")
    answer = prove_equal([(x + y, y + x), (x * y, x + y)], 5)
    assert answer.verdict is Verdict.REFUTED
    assert answer.sides[0] != answer.sides[1]
    assert answer.values.keys() <= {"x", "y"}


def test_maxima_are_exact():
    x, y = real("x"), real("y")
    assert maximum(-inf, x) is x
    assert prove_equal([(maximum(x, y), maximum(y, x))], 5).verdict is Verdict.PROVED
    both = maximum(x, 0) + maximum(y, 0)
    assert prove_equal([(both, maximum(x + y, 0))], 5).verdict is Verdict.REFUTED


def test_numbers_without_variables():
    assert prove_equal([(2, 2)], 5).verdict is Verdict.PROVED
    assert prove_equal([(2, 3)], 5).verdict is Verdict.REFUTED


def test_a_proof_names_the_axioms_that_it_used():
    proof = THEORY.prove(("add", "x", "y"), ("add", "y", "x"), **LIMITS)
    assert proof.verdict is Verdict.PROVED
    assert proof.axioms == ("commutative",)
    assert proof.assumptions == () and proof.effort > 0


def test_a_guard_has_to_be_assumed():
    term = ("f", "x")
    assert THEORY.prove(term, "x", **LIMITS).verdict is Verdict.UNKNOWN
    proof = THEORY.prove(term, "x", [("even", "x"), ("even", "y")], **LIMITS)
    assert proof.verdict is Verdict.PROVED
    assert proof.assumptions == (("even", "x"),)
    assert THEORY.prove(term, "x", [("even", "y")], **LIMITS).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("pair", [(("add", "x", "y"), "x"), ("x", "y")])
def test_what_does_not_follow_is_unknown(pair):
    proof = THEORY.prove(*pair, **LIMITS)
    assert proof.verdict is Verdict.UNKNOWN
    assert proof.axioms == ()


def test_without_effort_nothing_is_proved():
    left, right = ("add", "x", ("add", "y", "z")), ("add", ("add", "z", "y"), "x")
    assert THEORY.prove(left, right, effort=1, seconds=20).verdict is Verdict.UNKNOWN
    assert THEORY.prove(left, right, **LIMITS).verdict is Verdict.PROVED


def test_a_proof_does_not_depend_on_those_before_it():
    first = THEORY.prove(("add", "x", "y"), ("add", "y", "x"), **LIMITS)
    THEORY.prove(("f", "x"), "x", [("even", "x")], **LIMITS)
    again = THEORY.prove(("add", "x", "y"), ("add", "y", "x"), **LIMITS)
    assert (first.effort, first.axioms) == (again.effort, again.axioms)
