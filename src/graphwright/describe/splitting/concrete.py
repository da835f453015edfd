"""Evaluate a trace for known sizes: substitute the numbers and simplify.

A part of a split may take different branches than the whole (``if n == 1``, a dim of size 1 that
looks broadcast) and then has its own trace. Both compute the same if their expressions are equal
for the part's sizes:

    whole   x[i // 3, i % 3]      part of 3 elements, i in [0, 3)     x[0, i]
    part    x[0, i]               the same sizes                      x[0, i]
"""

from __future__ import annotations

from collections.abc import Mapping

from graphwright.describe.language import (
    Access,
    Call,
    Const,
    Expr,
    IndexValue,
    OpaqueCall,
    Reduce,
    Trace,
)
from graphwright.symbolic import (
    Atom,
    Interval,
    Poly,
    Quotient,
    Remainder,
    Symbol,
    interval_of,
)


def concrete_outputs(traced: Trace, values: Mapping[Symbol, int]) -> tuple[Expr, ...]:
    """The expression of each output for these values, with variables named by position."""
    expressions: list[Expr] = []
    for output in traced.outputs:
        extents = [int(traced.extents[v].evaluate(values)) for v in output.variables]
        start = _Concrete({s: Poly.const(n) for s, n in values.items()}, {}, 0)
        expressions.append(start.bind(output.variables, extents)[1].expression(output.body))
    return tuple(expressions)


class _Concrete:
    """Substitutes the values of symbols, given the ranges of the remaining variables."""

    def __init__(
        self, values: Mapping[Symbol, Poly], ranges: Mapping[Symbol, Interval], depth: int
    ) -> None:
        self.values, self.ranges, self.depth = values, ranges, depth

    def bind(
        self, variables: tuple[Symbol, ...], extents: list[int]
    ) -> tuple[tuple[Symbol, ...], _Concrete]:
        """Rename variables by their depth; replace a variable of extent 1 by 0."""
        fresh = tuple(Symbol(f"#{self.depth + n}") for n in range(len(variables)))
        values, ranges = dict(self.values), dict(self.ranges)
        for variable, name, extent in zip(variables, fresh, extents, strict=True):
            values[variable] = Poly.const(0) if extent == 1 else Poly.of(name)
            ranges[name] = Interval(Poly.const(0), Poly.const(extent - 1))
        return fresh, _Concrete(values, ranges, self.depth + len(fresh))

    def expression(self, expr: Expr) -> Expr:
        match expr:
            case IndexValue(index):
                poly = self.poly(index)
                return IndexValue(poly) if poly.constant is None else Const(poly.constant)
            case Access(tensor, index, fill, name):
                return Access(tensor, tuple(self._index(i) for i in index), fill, name)
            case Call(function, args):
                return Call(function, tuple(map(self.expression, args)))
            case OpaqueCall(function, args, index):
                values = tuple(map(self.expression, args))
                return OpaqueCall(function, values, tuple(map(self.poly, index)))
            case Reduce(reducer, variables, extents, body):
                sizes = [self.poly(extent) for extent in extents]
                fresh, inner = self.bind(variables, [size.constant or 0 for size in sizes])
                return Reduce(reducer, fresh, tuple(sizes), inner.expression(body))
            case _:
                return expr

    def _index(self, index: Poly | Expr | None) -> Poly | Expr | None:
        if isinstance(index, Poly):
            return self.poly(index)
        return None if index is None else self.expression(index)

    def poly(self, poly: Poly) -> Poly:
        """Substitute values; a quotient that is constant over the range becomes a number."""
        return poly.map_atoms(self._atom)

    def _atom(self, atom: Atom) -> Poly:
        if isinstance(atom, Symbol):
            return self.values[atom]
        top, bottom = self.poly(atom.numerator), self.poly(atom.denominator)
        quotient = self._quotient(top, bottom.constant)
        match atom:
            case Quotient():
                return top // bottom if quotient is None else Poly.const(quotient)
            case Remainder():
                return top % bottom if quotient is None else top - bottom * quotient

    def _quotient(self, top: Poly, bottom: int | None) -> int | None:
        if bottom is None or bottom <= 0:
            return None
        covered = interval_of(top, self.ranges)
        low, high = covered.low.constant, covered.high.constant
        if low is None or high is None or low // bottom != high // bottom:
            return None
        return low // bottom
