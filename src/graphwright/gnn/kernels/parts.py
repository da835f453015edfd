"""Kernels over one worker's part of a graph: fetch the rows of remote sources, then reduce.

A sum is of two: that over edges within the part is computed while the halo's rows are under way.
The gradients go the same way back, since autograd takes the steps of the forward pass in reverse:

    forward     begin: send, receive    inner sum          finish: wait      outer sum    add
    backward    begin: wait, add        inner gradients    finish: send      outer gradients

An extreme or a value for each edge is computed once all rows are there.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from graphwright.gnn.kernels.broadcast import Shape
from graphwright.gnn.storage import PartRelation, Relation

Operand = tuple[Any, str]


def with_sources(
    relation: Relation, *operands: Operand | None
) -> tuple[Relation, list[Operand | None]]:
    """A relation and operands for kernels that know of no parts."""
    if not isinstance(relation, PartRelation):
        return relation, list(operands)
    fetched: dict[int, Tensor] = {}  # an operand that is given twice is fetched once
    made: list[Operand | None] = []
    for operand in operands:
        if operand is not None and operand[1] == "u":
            x = operand[0]
            if id(x) not in fetched:
                fetched[id(x)] = relation.sources(x)
            operand = fetched[id(x)], "u"
        made.append(operand)
    return relation.whole, made


def sum_over_part(
    backend: Any, relation: PartRelation, op: str, lhs: Operand, rhs: Operand | None, shape: Shape
) -> Any:
    """The sum of messages at each own vertex."""
    remote = [operand for operand in (lhs, rhs) if operand is not None and operand[1] == "u"]
    if len(remote) != 1:
        whole, (left, right) = with_sources(relation, lhs, rhs)
        return backend.sum_messages(whole, op, left, right, "v", shape)
    split = relation.inner.num_edges

    def on_edges(operand: Operand | None, inner: bool) -> Operand | None:
        if operand is None or operand[1] != "e":
            return operand
        return (operand[0][:split] if inner else operand[0][split:]), "e"

    token = relation.halo.begin(remote[0][0])
    near = backend.sum_messages(
        relation.inner, op, on_edges(lhs, True), on_edges(rhs, True), "v", shape
    )
    there = relation.halo.finish(token), "u"
    left, right = (
        there if operand is remote[0] else on_edges(operand, False) for operand in (lhs, rhs)
    )
    return near + backend.sum_messages(relation.outer, op, left, right, "v", shape)
