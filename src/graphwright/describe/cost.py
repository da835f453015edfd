"""Count an operator's arithmetic and memory traffic from its description.

A function of scalars costs one operation for each combination of the variables it depends on: a
mean that every element uses counts once. A reduction costs one operation per input value. Hence
2·M·N·K for a matrix product. Views move nothing, and index arithmetic is free.
Of a table that is read where an index says, only what is read counts.

What a selection leaves out is not computed: ``Sum(p: where(idx[p] == v, g[p, j], 0))`` adds each
row of g to one row v, so v adds no loop; ``where(t % stride == 0, ...)`` keeps one value in
`stride`. Nor is what a mask over positions hides: causal attention has
``exp(where(m <= l, score, -inf)) * v[m]``, so half of the scores, of their exponentials and of the
products with v are left (`masks`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf, prod

from graphwright.describe.language import (
    Access,
    Call,
    Const,
    Expr,
    IndexValue,
    OpaqueCall,
    Random,
    Reduce,
    Trace,
    Types,
    children,
    conjuncts,
    find,
    free_indices,
    indices_of,
    rename_bound,
    trace,
    walk,
)
from graphwright.describe.masks import hidden_as, hidden_in, num_left
from graphwright.describe.properties import is_view
from graphwright.ir import DTYPE_BYTES, Attr
from graphwright.symbolic import Poly, Remainder, Symbol


@dataclass(frozen=True, slots=True)
class Cost:
    """Arithmetic operations and bytes moved to and from memory by one call."""

    operations: int
    bytes: int


def cost(op: str, attrs: Mapping[str, Attr], types: Types) -> Cost:
    """The cost of one call; for an operator without a description, only its bytes."""
    made = sum(t.nbytes for t in types.outputs)
    description = find(op)
    if description is None:
        return Cost(0, made + sum(t.nbytes for t in types.inputs if t is not None))
    traced = trace(description, attrs, types)
    if is_view(traced):
        return Cost(0, 0)
    values = traced.environment(attrs, types)
    extents = {v: int(extent.evaluate(values)) for v, extent in traced.extents.items()}
    looked_up = _looked_up(traced)
    moved = made
    for number, given in enumerate(types.inputs):
        if given is not None:
            places = (prod(extents[v] for v in free) for free in looked_up.get(number, ()))
            read = sum(places) if number in looked_up else given.numel
            moved += min(given.numel, read) * DTYPE_BYTES[given.dtype]
    distinct: dict[object, int] = {}
    for loop in _loops(traced):
        sizes = tuple(extents[v] for v in loop.variables)
        kept = prod(int(divisor.evaluate(values)) for divisor in loop.divisors)
        left = num_left(loop.masks, loop.variables, extents, values)
        distinct[loop.number, sizes] = max(distinct.get((loop.number, sizes), 0), left // kept)
    return Cost(sum(distinct.values()), moved)


@cache
def _looked_up(traced: Trace) -> dict[int, tuple[tuple[Symbol, ...], ...]]:
    """The arguments that are read only where another one says, with what each reading runs over."""
    plain: set[int] = set()
    found: dict[int, dict[tuple[Symbol, ...], None]] = {}
    for output in traced.outputs:
        for part in walk(output.body):
            if isinstance(part, Access):
                if any(isinstance(index, Expr) for index in part.index):
                    free = tuple(sorted(free_indices(part), key=repr))
                    found.setdefault(part.tensor, {})[free] = None
                else:
                    plain.add(part.tensor)
    return {tensor: tuple(free) for tensor, free in found.items() if tensor not in plain}


_NEUTRAL = (0, inf, -inf)
"""What a sum, a minimum or a maximum passes over."""


@dataclass(frozen=True, slots=True)
class _Loop:
    """One operation, repeated over `variables` where `masks` are at most 0, and divided by the
    product of `divisors`.

    Expressions that differ only in variable names have the same number: over ranges of the same
    sizes they compute the same values, which count once.
    """

    number: int
    variables: tuple[Symbol, ...]
    divisors: tuple[Poly, ...]
    masks: tuple[Poly, ...]


@cache
def _loops(traced: Trace) -> tuple[_Loop, ...]:
    """All operations of a trace."""
    counter = _Counter(traced.extents)
    for output in traced.outputs:
        counter.visit(output.body, output.variables, (), ())
    return tuple(counter.loops)


class _Counter:
    def __init__(self, extents: Mapping[Symbol, Poly]) -> None:
        self.extents = extents
        self.numbers: dict[Expr, int] = {}
        self.loops: list[_Loop] = []

    def visit(
        self,
        expr: Expr,
        outer: tuple[Symbol, ...],
        divisors: tuple[Poly, ...],
        masks: tuple[Poly, ...],
    ) -> None:
        """Count `expr` and its subexpressions; `outer` are the indices of the output."""
        chosen = self._selection(expr)
        if chosen is not None:
            value, more = chosen
            self.visit(value, outer, divisors + more, masks)
            return
        masks = tuple(dict.fromkeys((*masks, *hidden_in(expr))))
        match expr:
            case Call("cast" | "ignored", _) | Call("add", (_, Call("ignored", _))):
                pass
            case Call("where", (condition, *_)) if not _reads(condition):
                pass  # the choice is known in advance, so it costs nothing
            case Call() if _reads(expr):
                self._count(expr, (), divisors, masks)
            case Reduce(_, reduced, _, body):
                inside = self._selection(body)
                self._count(expr, reduced, divisors + (inside[1] if inside else ()), masks)
            case OpaqueCall():
                self._count(expr, outer, divisors, masks)
            case _:
                pass
        for number, child in enumerate(children(expr)):
            self.visit(child, outer, divisors, (*masks, *hidden_as(expr, number)))

    def _count(
        self,
        expr: Expr,
        more: tuple[Symbol, ...],
        divisors: tuple[Poly, ...],
        masks: tuple[Poly, ...],
    ) -> None:
        free = _in_order(expr)
        variables = tuple(dict.fromkeys((*free, *more)))
        if variables:
            absent = {self.extents[v] for v in self.extents.keys() - set(variables)}
            chosen = absent - {self.extents[v] for v in variables}
            divisors = tuple(d for d in divisors if d not in chosen)  # done once for all of them
            names = {v: Poly.of(Symbol(f"@{n}")) for n, v in enumerate(free)}
            number = self.numbers.setdefault(rename_bound(expr, names), len(self.numbers))
            hiding = tuple(mask for mask in masks if mask.indices <= set(variables))
            self.loops.append(_Loop(number, variables, divisors, hiding))

    def _selection(self, expr: Expr) -> tuple[Expr, tuple[Poly, ...]] | None:
        """If `expr` selects a value where equalities hold: the value, and one in how many it is."""
        match expr:
            case Call("where", (condition, value, Const(value=other))) if other in _NEUTRAL:
                tests = conjuncts(condition)
                ratios = [*map(self._ratio, tests), self._neighbours(tests)]
                known = tuple(ratio for ratio in ratios if ratio is not None)
                return (value, known) if known else None
            case _:
                return None

    def _ratio(self, test: Expr) -> Poly | None:
        """One in how many values passes an equality test."""
        match test:
            case Call("eq", (IndexValue(index), other)) | Call("eq", (other, IndexValue(index))):
                atom = index.atom
                if isinstance(atom, Remainder) and other == Const(0):
                    return atom.denominator
                for row in index.indices:  # rows may count from an attribute on: row + first
                    atom = row if not (index - Poly.of(row)).indices else atom
                if isinstance(atom, Symbol) and atom in self.extents and _reads(other):
                    return self.extents[atom]
            case _:
                pass
        return None

    def _neighbours(self, tests: Sequence[Expr]) -> Poly | None:
        """An index lies between neighbouring bounds ``x[e]``, ``x[e + 1]``: for one e of all."""
        read = [e for test in tests for e in children(test) if isinstance(e, Access)]
        if len(read) != 2 or read[0].tensor != read[1].tensor or len(read[0].index) != 1:
            return None
        (low,), (high,) = read[0].index, read[1].index
        if isinstance(low, Poly) and isinstance(high, Poly) and high - low == 1:
            return self.extents.get(low.atom) if isinstance(low.atom, Symbol) else None
        return None


def _reads(expr: Expr) -> bool:
    """Whether a value depends on a tensor or a random number, not only on indices."""
    return any(isinstance(part, Access | OpaqueCall | Random) for part in walk(expr))


def _in_order(expr: Expr) -> tuple[Symbol, ...]:
    """The free variables of `expr`, in order of first appearance."""
    free = free_indices(expr)
    indices = [index for part in walk(expr) for index in indices_of(part)]
    ordered = (s for index in indices for s in sorted(index.indices, key=repr) if s in free)
    return tuple(dict.fromkeys(ordered))
