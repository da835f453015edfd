"""Integer expressions over symbols: the arithmetic of sizes, strides and index variables.

An index such as ``x * stride + dx * dilation - padding`` is a polynomial: a sum of monomials, which
are products of an integer coefficient and atoms. An atom is a `Symbol`, or the quotient or
remainder of two polynomials (``i // 64``, ``i % 64``), as in reshapes. Polynomials have a normal
form, so equal values are equal objects:

    (i + 2) * 3  ==  3*i + 6          floordiv(6*n, n) == 6          mod(4*i, 2) == 0

All arithmetic is exact, and assumes nothing about the symbols.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import TypeVar


class Kind(StrEnum):
    """What a symbol means; `INDEX` symbols range over an interval, others have one value."""

    INDEX = "index"
    SIZE = "size"
    ATTR = "attr"
    BOUND = "bound"


@dataclass(frozen=True, slots=True)
class Symbol:
    """A named integer."""

    name: str
    kind: Kind = Kind.INDEX

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Quotient:
    """``numerator // denominator``, rounded down, without a closed form."""

    numerator: Poly
    denominator: Poly

    def __repr__(self) -> str:
        return f"({_factor(self.numerator)} // {_factor(self.denominator)})"


@dataclass(frozen=True, slots=True)
class Remainder:
    """``numerator % denominator`` without a closed form."""

    numerator: Poly
    denominator: Poly

    def __repr__(self) -> str:
        return f"({_factor(self.numerator)} % {_factor(self.denominator)})"


Atom = Symbol | Quotient | Remainder
Monomial = tuple[Atom, ...]
Number = TypeVar("Number")


class Poly:
    """A polynomial in normal form; immutable, hashable, mixes with integers."""

    __slots__ = ("__dict__", "_hash", "terms")

    terms: tuple[tuple[Monomial, int], ...]

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        kept = [(monomial, c) for monomial, c in terms.items() if c]
        if len(kept) > 1:
            kept.sort(key=lambda term: _monomial_key(term[0]))
        self.terms = tuple(kept)
        self._hash = hash(self.terms)

    # -- making ---------------------------------------------------------------------------------

    @staticmethod
    def const(value: int) -> Poly:
        return _const(value)

    @staticmethod
    def of(value: Poly | Atom | int) -> Poly:
        """Convert `value` to a polynomial."""
        if isinstance(value, Poly):
            return value
        if isinstance(value, Symbol | Quotient | Remainder):
            return Poly({(value,): 1})
        return _const(value)

    # -- arithmetic -----------------------------------------------------------------------------

    def _plus(self, other: Poly, factor: int) -> Poly:
        """self + factor * other."""
        if not other.terms:
            return self
        terms = dict(self.terms)
        for monomial, c in other.terms:
            terms[monomial] = terms.get(monomial, 0) + factor * c
        return Poly(terms)

    def __add__(self, other: Poly | int) -> Poly:
        return self._plus(Poly.of(other), 1)

    def __neg__(self) -> Poly:
        return Poly({monomial: -c for monomial, c in self.terms})

    def __sub__(self, other: Poly | int) -> Poly:
        return self._plus(Poly.of(other), -1)

    def __rsub__(self, other: int) -> Poly:
        return Poly.of(other) - self

    def __mul__(self, other: Poly | int) -> Poly:
        terms: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in Poly.of(other).terms:
                monomial = tuple(sorted(left + right, key=_atom_key))
                terms[monomial] = terms.get(monomial, 0) + a * b
        return Poly(terms)

    __radd__ = __add__
    __rmul__ = __mul__

    def __floordiv__(self, other: Poly | int) -> Poly:
        return floordiv(self, Poly.of(other))

    def __mod__(self, other: Poly | int) -> Poly:
        return mod(self, Poly.of(other))

    # -- looking --------------------------------------------------------------------------------

    @property
    def constant(self) -> int | None:
        """The value if this is an integer, else None."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    @property
    def atom(self) -> Atom | None:
        """The atom if this is exactly one atom, else None."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            return self.terms[0][0][0]
        return None

    @cached_property
    def symbols(self) -> frozenset[Symbol]:
        """All symbols, including those inside quotients and remainders."""
        return frozenset(_symbols(self))

    @cached_property
    def indices(self) -> frozenset[Symbol]:
        """All index symbols."""
        return frozenset(s for s in self.symbols if s.kind is Kind.INDEX)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int):
            return self.constant == other
        return isinstance(other, Poly) and self._hash == other._hash and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        if not self.terms:
            return "0"
        text = ""
        for monomial, c in sorted(self.terms, key=lambda t: (t[1] < 0, not t[0])):
            body = "*".join(
                ([str(abs(c))] if abs(c) != 1 or not monomial else []) + [repr(a) for a in monomial]
            )
            sign = "-" if c < 0 else "+"
            text += f" {sign} {body}" if text else (f"-{body}" if c < 0 else body)
        return text

    # -- using ----------------------------------------------------------------------------------

    def substitute(self, values: Mapping[Symbol, Poly]) -> Poly:
        """Replace symbols, also inside quotients and remainders."""
        if self.symbols.isdisjoint(values):
            return self
        return self.map_atoms(lambda atom: _substitute_atom(atom, values))

    def map_atoms(self, function: Callable[[Atom], Poly]) -> Poly:
        """Replace every atom by `function(atom)`."""
        total = _const(0)
        for monomial, c in self.terms:
            product = _const(c)
            for atom in monomial:
                product = product * function(atom)
            total = total + product
        return total

    def evaluate(self, values: Mapping[Symbol, Number]) -> Number | int:
        """The value at `values`: integers, or NumPy arrays of them."""
        total: Number | int = 0
        for monomial, c in self.terms:
            product: Number | int = c
            for atom in monomial:
                product = product * _evaluate_atom(atom, values)  # type: ignore[operator]
            total = total + product  # type: ignore[operator]
        return total


@lru_cache(maxsize=4096)
def _const(value: int) -> Poly:
    return Poly({(): value})


def floordiv(numerator: Poly, denominator: Poly) -> Poly:
    """``numerator // denominator``; terms that do not divide exactly become a `Quotient`."""
    exact, rest = _divide_terms(numerator, denominator)
    top, bottom = rest.constant, denominator.constant
    if top is not None and bottom is not None:
        return exact + top // bottom
    return exact if top == 0 else exact + Poly.of(Quotient(rest, denominator))


def mod(numerator: Poly, denominator: Poly) -> Poly:
    """``numerator % denominator``; terms that do not divide exactly become a `Remainder`."""
    _, rest = _divide_terms(numerator, denominator)
    top, bottom = rest.constant, denominator.constant
    if top is not None and bottom is not None:
        return _const(top % bottom)
    return rest if top == 0 else Poly.of(Remainder(rest, denominator))


def _divide_terms(numerator: Poly, denominator: Poly) -> tuple[Poly, Poly]:
    """(q, r) with numerator = q * denominator + r; q has all terms that divide exactly."""
    if numerator == denominator:
        return _const(1), _const(0)
    if len(denominator.terms) != 1:
        return _const(0), numerator
    divisor, d = denominator.terms[0]
    quotient: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, c in numerator.terms:
        left = list(monomial)
        for atom in divisor:
            if atom not in left:
                break
            left.remove(atom)
        else:
            if c % d == 0 or not monomial:  # dividing 3*i into two terms would widen its interval
                quotient[tuple(left)], c = divmod(c, d)
        if c:
            rest[monomial] = c
    return Poly(quotient), Poly(rest)


def _atom_key(atom: Atom) -> tuple[int, str]:
    if isinstance(atom, Symbol):
        return (0 if atom.kind is not Kind.INDEX else 1, atom.name)
    return (2, repr(atom))


@lru_cache(maxsize=65536)
def _monomial_key(monomial: Monomial) -> tuple[tuple[int, str], ...]:
    return tuple(_atom_key(atom) for atom in monomial)


def _symbols(poly: Poly) -> Iterator[Symbol]:
    for monomial, _ in poly.terms:
        for atom in monomial:
            if isinstance(atom, Symbol):
                yield atom
            else:
                yield from atom.numerator.symbols
                yield from atom.denominator.symbols


def _substitute_atom(atom: Atom, values: Mapping[Symbol, Poly]) -> Poly:
    match atom:
        case Symbol():
            return values[atom] if atom in values else Poly.of(atom)
        case Quotient(n, d):
            return floordiv(n.substitute(values), d.substitute(values))
        case Remainder(n, d):
            return mod(n.substitute(values), d.substitute(values))


def _evaluate_atom(atom: Atom, values: Mapping[Symbol, Number]) -> Number | int:
    match atom:
        case Symbol():
            return values[atom]
        case Quotient(n, d):
            return n.evaluate(values) // d.evaluate(values)  # type: ignore[operator]
        case Remainder(n, d):
            return n.evaluate(values) % d.evaluate(values)  # type: ignore[operator]


def _factor(poly: Poly) -> str:
    text = repr(poly)
    return f"({text})" if len(poly.terms) > 1 else text
