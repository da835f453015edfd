"""How much an operator computes and moves, counted from its description.

A function of scalars costs one operation per setting of the variables that it depends on, so a mean that is used by
every element is counted once, not once per element; a reduction costs one operation per value it takes in. Hence
2·M·N·K for a matrix product. Views move nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod

from graphwright.describe.expression import (
    Call,
    Expr,
    OpaqueCall,
    Reduce,
    free_indices,
    indices_of,
    rename_bound,
    walk,
)
from graphwright.describe.properties import is_view
from graphwright.describe.registry import find
from graphwright.describe.trace import Trace, Types, trace
from graphwright.ir import Attr
from graphwright.symbolic import Poly, Symbol


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
    distinct = {
        (number, tuple(extents[v] for v in loop)): prod(extents[v] for v in loop)
        for number, loop in _loops(traced)
    }
    return Cost(sum(distinct.values()), moved)


@cache
def _loops(traced: Trace) -> tuple[tuple[int, tuple[Symbol, ...]], ...]:
    """For every operation of a trace, its number and the variables it is repeated over.

    Expressions that differ in the names of variables alone get the same number: over ranges of the same sizes they
    compute the same values, which count once.
    """
    numbers: dict[Expr, int] = {}
    loops: list[tuple[int, tuple[Symbol, ...]]] = []
    for output in traced.outputs:
        for expr in walk(output.body):
            match expr:
                case Call("cast", _):
                    continue
                case Call():
                    more: tuple[Symbol, ...] = ()
                case Reduce(_, reduced):
                    more = reduced
                case OpaqueCall():
                    more = output.variables
                case _:
                    continue
            free = _in_order(expr)
            variables = tuple(dict.fromkeys((*free, *more)))
            if variables:
                names = {v: Poly.of(Symbol(f"@{n}")) for n, v in enumerate(free)}
                number = numbers.setdefault(rename_bound(expr, names), len(numbers))
                loops.append((number, variables))
    return tuple(loops)


def _in_order(expr: Expr) -> tuple[Symbol, ...]:
    """The free variables of `expr`, by first appearance."""
    free = free_indices(expr)
    found: dict[Symbol, None] = {}
    for part in walk(expr):
        for index in indices_of(part):
            found.update(dict.fromkeys(s for s in sorted(index.indices, key=repr) if s in free))
    return tuple(found)
