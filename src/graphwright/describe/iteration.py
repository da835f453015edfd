"""How a kernel runs over the elements of a call: what a compiler asks before it fuses two of them.

elementwise   each output element from a few of the inputs, wherever these lie
rows          every element, with reductions along its row: softmax, layer norm
reduction     fewer elements than were read; `row` is how many in a row make one of them, None
              where they are not the last dims of what is read (the sums of a batch norm)
product       matrix units; see `arithmetic`
other         nothing that a compiler fuses
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Literal

from graphwright.describe.arithmetic import PRODUCTS, arithmetic
from graphwright.describe.language import (
    Access,
    OpaqueCall,
    Random,
    Reduce,
    Trace,
    Types,
    distinct,
    find,
    trace,
)
from graphwright.ir import Attr
from graphwright.symbolic import Poly, Symbol

Shape = Literal["elementwise", "rows", "reduction", "product", "other"]


@dataclass(frozen=True, slots=True)
class Iteration:
    """How a call runs over elements, how many it visits, and how many make a row."""

    shape: Shape
    size: int = 0
    row: int | None = None


OTHER = Iteration("other")


def iteration(op: str, attrs: Mapping[str, Attr], types: Types) -> Iteration:
    """How a call runs over its elements."""
    description = find(op)
    if description is None or not types.outputs:
        return OTHER
    made = types.outputs[0].numel
    kind = arithmetic(op, attrs, types).kind
    if kind in PRODUCTS:
        return Iteration("product", made) if kind == "product" else OTHER
    traced = trace(description, attrs, types)
    reduced = _reduced(traced)
    if reduced is None:
        return OTHER
    if not reduced:
        return Iteration("elementwise", made)
    size = max(t.numel for t in types.inputs if t is not None)
    row: int | None = 1
    for tensor, dims in reduced:
        given = types.inputs[tensor]
        if given is None or dims != tuple(range(given.rank - len(dims), given.rank)):
            row = None
        elif row is not None:
            row = max(row, prod(given.shape[d] for d in dims))
    if made < size:
        return Iteration("reduction", size, row)
    return OTHER if row is None else Iteration("rows", size, row)


@cache
def _reduced(traced: Trace) -> tuple[tuple[int, tuple[int, ...]], ...] | None:
    """The dims of each argument that are reduced; None where elements are read in another way."""
    found: dict[tuple[int, tuple[int, ...]], None] = {}
    for output in traced.outputs:
        parts = list(distinct(output.body))
        inner = {v for e in parts if isinstance(e, Reduce) for v in e.variables}
        for expr in parts:
            if isinstance(expr, OpaqueCall | Random):
                return None
            if isinstance(expr, Access):
                dims = _dims(expr, inner)
                if dims is None:
                    return None
                if dims:
                    found[expr.tensor, dims] = None
    return tuple(found)


def _dims(access: Access, reduced: set[Symbol]) -> tuple[int, ...] | None:
    """The dims that run over reduced variables; None for windows and for looked-up places."""
    dims: list[int] = []
    for dim, index in enumerate(access.index):
        if not isinstance(index, Poly):
            return None
        if index.indices & reduced:
            if len(index.indices) > 1:
                return None
            dims.append(dim)
    return tuple(dims)
