"""Facts about one call, or one node of a graph, derived from the description."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from graphwright.describe.language import OpaqueCall, Random, Trace, Types, find, trace, walk
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
