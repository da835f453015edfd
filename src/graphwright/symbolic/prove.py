"""Proofs by Z3, within a time limit; the only file that imports it.

Two kinds of question:

- `prove_equal`: are two expressions over real variables equal for all values? Expressions are
  made with `real`, `maximum`, `divide` and Python's arithmetic. First both are brought to one
  normal form, which settles polynomials; the solver is asked about the rest.
- `Theory.prove`: does an equation between first-order terms follow from axioms? A term is a string
  (a constant, or a variable where an axiom names it so) or a tuple of a function and its arguments.

Answers are PROVED, REFUTED or UNKNOWN. What Z3 does not know within its limits is unknown, and
unknown is never a proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import inf
from time import perf_counter
from typing import Any

import z3

FirstOrder = str | tuple["FirstOrder", ...]
Number = Any  # a real expression of Z3, or a number


class Verdict(StrEnum):
    """The answer of a prover."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


# -- real expressions ----------------------------------------------------------------------------


def real(name: str) -> Number:
    """A real variable."""
    return z3.Real(name)


def maximum(a: Number, b: Number) -> Number:
    """The larger one; -inf is the smallest of all."""
    if isinstance(a, float) and a == -inf:
        return b
    if isinstance(b, float) and b == -inf:
        return a
    if not (z3.is_expr(a) or z3.is_expr(b)):
        return max(a, b)
    return z3.If(a >= b, a, b)


def divide(a: Number, b: Number) -> Number:
    """An exact quotient."""
    if z3.is_expr(a) or z3.is_expr(b):
        return a / b
    return z3.Q(Fraction(a).numerator, 1) / z3.Q(Fraction(b).numerator, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A verdict; where it is REFUTED, values for which the two sides differ."""

    verdict: Verdict
    values: Mapping[str, str] | None = None
    sides: tuple[str, str] | None = None


def prove_equal(pairs: Iterable[tuple[Number, Number]], seconds: float) -> Answer:
    """Whether the two sides of every pair are equal for all values of their variables."""
    open_pairs = [(a, b) for a, b in pairs if not _same_form(a, b)]
    if not open_pairs:
        return Answer(verdict=Verdict.PROVED)
    for a, b in open_pairs:
        solver = z3.Solver()
        solver.set("timeout", max(1, int(seconds * 1000)))
        solver.add(a != b)
        outcome = solver.check()
        if outcome == z3.sat:
            model = solver.model()
            values = {v.name(): str(model[v]) for v in model.decls()}
            sides = [str(model.eval(_real(s), model_completion=True)) for s in (a, b)]
            return Answer(verdict=Verdict.REFUTED, values=values, sides=(sides[0], sides[1]))
        if outcome != z3.unsat:
            return Answer(verdict=Verdict.UNKNOWN)
    return Answer(verdict=Verdict.PROVED)


def _same_form(a: Number, b: Number) -> bool:
    if not (z3.is_expr(a) or z3.is_expr(b)):
        return bool(a == b)
    left, right = (z3.simplify(_real(side), som=True) for side in (a, b))
    if left.eq(right):
        return True
    difference = z3.simplify(left - right, som=True)
    return bool(z3.is_rational_value(difference) and difference.as_fraction() == 0)


def _real(value: Number) -> Number:
    return value if z3.is_expr(value) else z3.RealVal(value)


# -- first-order logic ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Axiom:
    """For all values of `variables`: if all `when` hold, then left = right."""

    variables: tuple[str, ...]
    left: FirstOrder
    right: FirstOrder
    when: tuple[FirstOrder, ...] = ()
    triggers: tuple[FirstOrder, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was found, how, and which axioms and assumptions it needed.

    `effort` counts Z3's own steps: unlike seconds, it is the same on every machine.
    """

    verdict: Verdict
    seconds: float
    effort: int = 0
    axioms: tuple[str, ...] = ()
    assumptions: tuple[FirstOrder, ...] = ()


@dataclass(frozen=True, slots=True)
class Theory:
    """Axioms by name, over one sort of which all functions are uninterpreted.

    Every proof has a context of its own, so that none depends on those before it.
    """

    axioms: Mapping[str, Axiom]

    def prove(
        self,
        left: FirstOrder,
        right: FirstOrder,
        assumptions: Sequence[FirstOrder] = (),
        *,
        effort: int,
        seconds: float,
    ) -> Proof:
        """Whether left = right follows from the axioms and `assumptions`, within both limits."""
        start = perf_counter()
        language = _Language()
        solver = z3.Solver(ctx=language.context)
        solver.set(
            "timeout", max(1, int(seconds * 1000)), "rlimit", effort, "auto_config", False,
            "smt.mbqi", False, "unsat_core", True, "core.minimize", True, "random_seed", 0,
        )  # fmt: skip
        for name, axiom in self.axioms.items():
            solver.assert_and_track(language.quantified(axiom), f"axiom {name}")
        for number, atom in enumerate(assumptions):
            solver.assert_and_track(language.atom(atom, {}), f"assumption {number}")
        solver.add(language.term(left, {}) != language.term(right, {}))
        outcome = solver.check()
        taken = perf_counter() - start
        if outcome != z3.unsat:
            return Proof(verdict=Verdict.UNKNOWN, seconds=taken)
        core = {str(label) for label in solver.unsat_core()}
        return Proof(
            verdict=Verdict.PROVED,
            seconds=taken,
            effort=solver.statistics().get_key_value("rlimit count"),
            axioms=tuple(name for name in self.axioms if f"axiom {name}" in core),
            assumptions=tuple(a for n, a in enumerate(assumptions) if f"assumption {n}" in core),
        )


class _Language:
    """First-order terms as Z3's, in a context of their own."""

    def __init__(self) -> None:
        self.context = z3.Context()
        self._sort = z3.DeclareSort("Value", self.context)
        self._truth = z3.BoolSort(self.context)

    def quantified(self, axiom: Axiom) -> Any:
        bound = {name: z3.Const(name, self._sort) for name in axiom.variables}
        formula = self.term(axiom.left, bound) == self.term(axiom.right, bound)
        if axiom.when:
            formula = z3.Implies(z3.And([self.atom(a, bound) for a in axiom.when]), formula)
        if not bound:
            return formula
        patterns = [z3.MultiPattern(self.term(t, bound)) for t in axiom.triggers]
        return z3.ForAll(list(bound.values()), formula, patterns=patterns)

    def term(self, term: FirstOrder, bound: Mapping[str, Any]) -> Any:
        if isinstance(term, str):
            return bound[term] if term in bound else z3.Const(f"'{term}", self._sort)
        name, *args = term
        function = z3.Function(str(name), *[self._sort] * (len(args) + 1))
        return function(*(self.term(a, bound) for a in args)) if args else function()

    def atom(self, atom: FirstOrder, bound: Mapping[str, Any]) -> Any:
        assert not isinstance(atom, str)
        name, *args = atom
        predicate = z3.Function(str(name), *[self._sort] * len(args), self._truth)
        return predicate(*(self.term(a, bound) for a in args))
