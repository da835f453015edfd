"""Generalised SpMM and SDDMM: a message function and a reduction by name, over one relation.

    gspmm     messages op(lhs, rhs) of all edges, reduced at their destinations
    gsddmm    op(lhs, rhs) for each edge

Operators are copy, add, sub, mul, div and dot; reductions sum, mean, max and min. Destinations
without in-edges get zeros. Operands are features with the end that they belong to, "u", "v" or "e".
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from graphwright.gnn.kernels.backend import backend_of
from graphwright.gnn.kernels.broadcast import Shape, result_shape
from graphwright.gnn.kernels.parts import sum_over_part, with_sources
from graphwright.gnn.storage import FeatureMismatch, InvalidFunction, PartRelation, Relation

Operand = tuple[Any, str]
"""A feature and the end it belongs to: "u", "v" or "e"."""
OPERATORS = ("copy", "add", "sub", "mul", "div", "dot")
REDUCTIONS = ("sum", "mean", "max", "min")


def gspmm(
    relation: Relation, op: str, reduce: str, lhs: Operand, rhs: Operand | None = None
) -> Any:
    """Reduce the messages of all edges at their destinations."""
    shape = check_operands(relation, op, lhs, rhs)
    if reduce not in REDUCTIONS:
        raise InvalidFunction(f"reduction {reduce!r} is none of {list(REDUCTIONS)}")
    backend = backend_of(lhs[0])
    if reduce in ("max", "min"):
        whole, (left, right) = with_sources(relation, lhs, rhs)
        return backend.extreme_message(whole, op, left, right, reduce == "min")
    if isinstance(relation, PartRelation):
        out = sum_over_part(backend, relation, op, lhs, rhs, shape)
    else:
        out = backend.sum_messages(relation, op, lhs, rhs, "v", shape)
    if reduce == "mean":
        out = backend.scale(out, 1 / relation.in_degrees().clamp(min=1).double())
    return out


def gsddmm(relation: Relation, op: str, lhs: Operand, rhs: Operand | None = None) -> Any:
    """One result for each edge."""
    shape = check_operands(relation, op, lhs, rhs)
    whole, (left, right) = with_sources(relation, lhs, rhs)
    return backend_of(lhs[0]).sum_messages(whole, op, left, right, "e", shape)


def edge_softmax(relation: Relation, scores: Any, norm_by: str = "dst") -> Any:
    """Softmax of scores over the edges into each destination, or out of each source."""
    if norm_by not in ("dst", "src"):
        raise FeatureMismatch(f'norm_by has to be "dst" or "src". Got {norm_by!r}.')
    if len(scores.shape) == 0 or len(scores) != relation.num_edges:
        raise FeatureMismatch(
            f"Expect one score for each of {relation.num_edges} edges. Got shape "
            f"{list(scores.shape)}."
        )
    over = relation if norm_by == "dst" else relation.reverse
    return backend_of(scores).edge_softmax(over, scores)


def check_operands(relation: Relation, op: str, lhs: Operand, rhs: Operand | None) -> Shape:
    """The trailing shape of a message; operands that do not fit are refused."""
    if op not in OPERATORS:
        raise InvalidFunction(f"operator {op!r} is none of {list(OPERATORS)}")
    counts = {"u": relation.num_src, "v": relation.num_dst, "e": relation.num_edges}
    for values, end in (lhs,) if rhs is None else (lhs, rhs):
        if len(values.shape) == 0 or len(values) != counts[end]:
            raise FeatureMismatch(
                f"Expect {counts[end]} rows of features for '{end}', one for each. Got shape "
                f"{list(values.shape)}."
            )
        if isinstance(values, Tensor) and values.device != relation.device:
            raise FeatureMismatch(
                f"The graph is on {relation.device}, the features of '{end}' are on "
                f"{values.device}; move one with .to(device)."
            )
    if rhs is None:
        return tuple(lhs[0].shape[1:])
    if lhs[0].dtype != rhs[0].dtype:
        raise FeatureMismatch(
            f"The operands of {lhs[1]}_{op}_{rhs[1]} have to be of one data type. Got "
            f"{lhs[0].dtype} and {rhs[0].dtype}."
        )
    names = f"{lhs[1]}_{op}_{rhs[1]}"
    return result_shape(op, tuple(lhs[0].shape[1:]), tuple(rhs[0].shape[1:]), names)
