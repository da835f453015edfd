"""Symbolic interval analysis: the range of an index expression, given the ranges of its variables.

This is Figure 4 of the Tofu paper (section 4.2). There an interval is an affine function of the
symbolic upper bounds X_1 ... X_n of the variables, stored as <l_1 ... l_n, u_1 ... u_n, c>. Here
its ends are polynomials over symbols, so coefficients may be symbolic too (a stride, a head size):

    I ± k     both ends ± k                                 `Interval.__add__`
    I × k     both ends × k, swapped if k < 0               `Interval.scale`
    I / k     both ends // k, for ``i // k`` in reshapes    in `interval_of`
    I ± I'    end by end; minus takes the other's opposite end

The product of two intervals is refused, as in the paper: `NonAffineIndex`. Both ends are inclusive.
The analysis assumes that the factor of an index variable (a size, a stride, a dilation) is not
negative, and that its divisor is positive. `assumed` lists these conditions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from graphwright.errors import NonAffineIndex
from graphwright.symbolic.poly import Atom, Kind, Monomial, Poly, Quotient, Remainder, Symbol


@dataclass(frozen=True, slots=True)
class Interval:
    """All integers from `low` to `high`, both included."""

    low: Poly
    high: Poly

    @staticmethod
    def point(value: Poly | int) -> Interval:
        return Interval(Poly.of(value), Poly.of(value))

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def scale(self, factor: Poly, positive: bool) -> Interval:
        ends = (self.low * factor, self.high * factor)
        return Interval(*ends) if positive else Interval(*reversed(ends))

    @property
    def length(self) -> Poly:
        return self.high - self.low + 1

    def __repr__(self) -> str:
        return f"[{self.low!r}, {self.high!r}]"


Box = tuple[Interval, ...]
"""A rectangular region: one interval per dim."""


def interval_of(expression: Poly, ranges: Mapping[Symbol, Interval]) -> Interval:
    """The range of `expression`, given the ranges of the index symbols."""
    total = Interval.point(0)
    for monomial, coefficient in expression.terms:
        moving = [atom for atom in monomial if _moves(atom)]
        if len(moving) > 1:
            raise NonAffineIndex(
                f"the index {expression!r} multiplies the variables {moving}, but only affine "
                "indices, quotients and remainders can be analysed: use an Opaque function here"
            )
        factor = Poly({_without(monomial, moving): coefficient})
        if not moving:
            total += Interval.point(factor)
        else:
            total += _atom_interval(moving[0], ranges).scale(factor, coefficient > 0)
    return total


def assumed(expression: Poly) -> Iterator[Poly]:
    """The quantities in `expression` that `interval_of` assumes to be 0 or more."""
    for monomial, _ in expression.terms:
        moving = [atom for atom in monomial if _moves(atom)]
        factor = Poly({_without(monomial, moving): 1})
        if moving and factor.constant is None:
            yield factor
        for atom in moving:
            if not isinstance(atom, Symbol):
                yield atom.denominator - 1
                yield from assumed(atom.numerator)


def _atom_interval(atom: Atom, ranges: Mapping[Symbol, Interval]) -> Interval:
    match atom:
        case Symbol():
            return ranges[atom]
        case Quotient(_, denominator) | Remainder(_, denominator) if denominator.indices:
            raise NonAffineIndex(f"{atom!r} divides by a variable; only sizes and attributes can")
        case Quotient(numerator, denominator):
            inner = interval_of(numerator, ranges)
            return Interval(inner.low // denominator, inner.high // denominator)
        case Remainder(_, denominator):
            return Interval(Poly.const(0), denominator - 1)


def _moves(atom: Atom) -> bool:
    if isinstance(atom, Symbol):
        return atom.kind is Kind.INDEX
    return bool(atom.numerator.indices or atom.denominator.indices)


def _without(monomial: Monomial, moving: list[Atom]) -> Monomial:
    return tuple(atom for atom in monomial if atom not in moving)
