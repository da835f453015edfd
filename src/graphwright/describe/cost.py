"""How much an operator computes and moves, counted from its description.

A function of scalars costs one operation per setting of the variables that it depends on, so a mean that is used by
every element is counted once, not once per element; a reduction costs one operation per value it takes in. Hence
2·M·N·K for a matrix product. Views move nothing, and arithmetic on indices alone is free.

A selection is not computed where it chooses zero: ``Sum(p: where(idx[p] == v, g[p, j], 0))`` adds every row of g to one
row v, so v is no loop of its own; ``where(t % stride == 0, ...)`` keeps one in `stride`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod

from graphwright.describe.expression import (
    Access,
    Call,
    Const,
    Expr,
    IndexValue,
    OpaqueCall,
    Random,
    Reduce,
    children,
    conjuncts,
    free_indices,
    indices_of,
    rename_bound,
    walk,
)
from graphwright.describe.properties import is_view
from graphwright.describe.registry import find
from graphwright.describe.trace import Trace, Types, trace
from graphwright.ir import Attr
from graphwright.symbolic import Poly, Remainder, Symbol


@dataclass(frozen=True, slots=True)
class Cost:
    """Arithmetic operations and bytes moved to and from memory by one call."""

    operations: int
    bytes: int


def cost(op: str, attrs: Mapping[str, Attr], types: Types) -> Cost:
    """The cost of one call; an operator without a description is charged for its bytes alone."""
    moved = sum(t.nbytes for t in types.inputs if t is not None) + sum(
        t.nbytes for t in types.outputs
    )
    description = find(op)
    if description is None:
        return Cost(0, moved)
    traced = trace(description, attrs, types)
    if is_view(traced):
        return Cost(0, 0)
    values = traced.environment(attrs, types)
    extents = {v: int(extent.evaluate(values)) for v, extent in traced.extents.items()}
    distinct: dict[object, int] = {}
    for loop in _loops(traced):
        sizes = tuple(extents[v] for v in loop.variables)
        kept = prod(int(divisor.evaluate(values)) for divisor in loop.divisors)
        distinct[loop.number, sizes] = prod(sizes) // kept
    return Cost(sum(distinct.values()), moved)


@dataclass(frozen=True, slots=True)
class _Loop:
    """One operation: repeated over `variables`, of which one in the product of `divisors` is really done.

    Expressions that differ in the names of variables alone have the same number: over ranges of the same sizes they compute
    the same values, which count once.
    """

    number: int
    variables: tuple[Symbol, ...]
    divisors: tuple[Poly, ...]


@cache
def _loops(traced: Trace) -> tuple[_Loop, ...]:
    """Every operation of a trace."""
    counter = _Counter(traced.extents)
    for output in traced.outputs:
        counter.visit(output.body, output.variables, ())
    return tuple(counter.loops)


class _Counter:
    def __init__(self, extents: Mapping[Symbol, Poly]) -> None:
        self.extents = extents
        self.numbers: dict[Expr, int] = {}
        self.loops: list[_Loop] = []

    def visit(self, expr: Expr, outer: tuple[Symbol, ...], divisors: tuple[Poly, ...]) -> None:
        """Count `expr` and all beneath it; `outer` indexes the output."""
        chosen = self._selection(expr)
        if chosen is not None:
            value, more = chosen
            self.visit(value, outer, divisors + more)
            return
        match expr:
            case Call("cast", _):
                pass
            case Call("where", (condition, *_)) if not _reads(condition):
                pass  # known in advance: which elements to take is no work
            case Call() if _reads(expr):
                self._count(expr, (), divisors)
            case Reduce(_, reduced, _, body):
                inside = self._selection(body)
                self._count(expr, reduced, divisors + (inside[1] if inside else ()))
            case OpaqueCall():
                self._count(expr, outer, divisors)
            case _:
                pass
        for child in children(expr):
            self.visit(child, outer, divisors)

    def _count(self, expr: Expr, more: tuple[Symbol, ...], divisors: tuple[Poly, ...]) -> None:
        free = _in_order(expr)
        variables = tuple(dict.fromkeys((*free, *more)))
        if variables:
            names = {v: Poly.of(Symbol(f"@{n}")) for n, v in enumerate(free)}
            number = self.numbers.setdefault(rename_bound(expr, names), len(self.numbers))
            self.loops.append(_Loop(number, variables, divisors))

    def _selection(self, expr: Expr) -> tuple[Expr, tuple[Poly, ...]] | None:
        """The value that is chosen where equalities hold, and one in how many that is; None if `expr` chooses otherwise."""
        match expr:
            case Call("where", (condition, value, Const(0))):
                found = [self._rarity(test) for test in conjuncts(condition)]
                kept = tuple(poly for poly in found if poly is not None)
                return (value, kept) if kept else None
            case _:
                return None

    def _rarity(self, test: Expr) -> Poly | None:
        match test:
            case Call("eq", (IndexValue(index), other)) | Call("eq", (other, IndexValue(index))):
                atom = index.atom
                if isinstance(atom, Remainder) and other == Const(0):
                    return atom.denominator
                if isinstance(atom, Symbol) and atom in self.extents and _reads(other):
                    return self.extents[atom]
            case _:
                pass
        return None


def _reads(expr: Expr) -> bool:
    """Whether a value depends on any tensor or draw; otherwise it is arithmetic on indices."""
    return any(isinstance(part, Access | OpaqueCall | Random) for part in walk(expr))


def _in_order(expr: Expr) -> tuple[Symbol, ...]:
    """The free variables of `expr`, by first appearance."""
    free = free_indices(expr)
    found: dict[Symbol, None] = {}
    for part in walk(expr):
        for index in indices_of(part):
            found.update(dict.fromkeys(s for s in sorted(index.indices, key=repr) if s in free))
    return tuple(found)
