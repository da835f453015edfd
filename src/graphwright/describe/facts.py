"""Facts about one call, or one node of a graph, derived from the description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from graphwright.describe.language import (
    Access,
    Call,
    Expr,
    OpaqueCall,
    Random,
    Trace,
    Types,
    children,
    find,
    trace,
    walk,
)
from graphwright.describe.properties import is_elementwise, is_view, linear_sets
from graphwright.describe.splitting import Split, splits
from graphwright.ir import Attr, Graph, Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """Properties of a call.

    `linear` holds the sets of arguments through which a Partial(sum) passes, `opaque` the names of
    its opaque functions.
    """

    elementwise: bool
    view: bool
    linear: tuple[frozenset[int], ...]
    opaque: tuple[str, ...]
    random: bool


UNKNOWN = Properties(
    elementwise=False, view=False, linear=(), opaque=("undescribed",), random=False
)


def is_described(op: str) -> bool:
    """Whether the operator has a description."""
    return find(op) is not None


def types_of(graph: Graph, node: Node) -> Types:
    """The types of a node's inputs and outputs."""
    return Types(
        tuple(None if name is None else graph.tensors[name].type for name in node.inputs),
        tuple(graph.tensors[name].type for name in node.outputs),
    )


def node_splits(graph: Graph, node: Node) -> tuple[Split, ...]:
    """All basic splits of a node."""
    return splits(node.op, node.attrs, types_of(graph, node))


def is_random(graph: Graph, node: Node) -> bool:
    """Whether a node draws random numbers, by its description."""
    return properties(node.op, node.attrs, types_of(graph, node)).random


def properties(op: str, attrs: Mapping[str, Attr], types: Types) -> Properties:
    """The properties of a call; `UNKNOWN` if the operator has no description."""
    description = find(op)
    return UNKNOWN if description is None else _properties(trace(description, attrs, types))


@dataclass(frozen=True, slots=True)
class Lookup:
    """The input that is an index, and how many rows it chooses from; negative ones from the end."""

    index: int
    size: int
    from_end: bool


def lookups(op: str, attrs: Mapping[str, Attr], types: Types) -> tuple[Lookup, ...]:
    """Where a call reads at a position that an input says, whatever values others have."""
    description = find(op)
    if description is None:
        return ()
    seen: dict[Lookup, None] = {}
    for access in _unconditional(trace(description, attrs, types)):
        table = types.inputs[access.tensor] if access.tensor >= 0 else None
        for dim, position in enumerate(access.index):
            if table is None or access.fill is not None:
                continue
            match position:
                case Access(tensor=index):
                    seen[Lookup(index, table.shape[dim], False)] = None
                case Call("where", (_, _, Access(tensor=index))):  # below 0 it counts from the end
                    seen[Lookup(index, table.shape[dim], True)] = None
    return tuple(seen)


def _unconditional(traced: Trace) -> Iterator[Access]:
    """What is read of inputs, apart from what a condition chooses to read or not."""
    left: list[Expr] = [output.body for output in traced.outputs]
    while left:
        expr = left.pop()
        if isinstance(expr, Access):
            yield expr
        if not (isinstance(expr, Call) and expr.function == "where"):
            left.extend(children(expr))


@cache
def _properties(traced: Trace) -> Properties:
    expressions = [e for output in traced.outputs for e in walk(output.body)]
    opaque = (e.function.name for e in expressions if isinstance(e, OpaqueCall))
    return Properties(
        elementwise=is_elementwise(traced),
        view=is_view(traced),
        linear=linear_sets(traced),
        opaque=tuple(dict.fromkeys(opaque)),
        random=any(isinstance(e, Random) for e in expressions),
    )
