"""Generalised SpMM and SDDMM: a message function and a reduction by name, over one relation.

    gspmm     messages op(lhs, rhs) of all edges, reduced at their destinations
    gsddmm    op(lhs, rhs) for each edge

Operators are copy, add, sub, mul, div and dot; reductions sum, mean, max and min. Destinations
without in-edges get zeros. Operands are features with the end that they belong to, "u", "v" or "e".
"""

from __future__ import annotations

from torch import Tensor

from graphwright.gnn.kernels.broadcast import Shape, result_shape
from graphwright.gnn.kernels.fused import Operand, extreme_message, sum_messages
from graphwright.gnn.storage import FeatureMismatch, InvalidFunction, Relation

OPERATORS = ("copy", "add", "sub", "mul", "div", "dot")
REDUCTIONS = ("sum", "mean", "max", "min")


def gspmm(
    relation: Relation, op: str, reduce: str, lhs: Operand, rhs: Operand | None = None
) -> Tensor:
    """Reduce the messages of all edges at their destinations."""
    shape = check_operands(relation, op, lhs, rhs)
    if reduce not in REDUCTIONS:
        raise InvalidFunction(f"reduction {reduce!r} is none of {list(REDUCTIONS)}")
    if reduce in ("max", "min"):
        return extreme_message(relation, op, lhs, rhs, reduce == "min")
    out = sum_messages(relation, op, lhs, rhs, "v", shape)
    if reduce == "mean":
        degrees = relation.in_degrees().clamp(min=1).to(out.dtype)
        out = out / degrees.reshape(-1, *[1] * len(shape))
    return out


def gsddmm(relation: Relation, op: str, lhs: Operand, rhs: Operand | None = None) -> Tensor:
    """One result for each edge."""
    shape = check_operands(relation, op, lhs, rhs)
    return sum_messages(relation, op, lhs, rhs, "e", shape)


def check_operands(relation: Relation, op: str, lhs: Operand, rhs: Operand | None) -> Shape:
    """The trailing shape of a message; operands that do not fit are refused."""
    if op not in OPERATORS:
        raise InvalidFunction(f"operator {op!r} is none of {list(OPERATORS)}")
    counts = {"u": relation.num_src, "v": relation.num_dst, "e": relation.num_edges}
    for values, end in (lhs,) if rhs is None else (lhs, rhs):
        if values.dim() == 0 or len(values) != counts[end]:
            raise FeatureMismatch(
                f"Expect {counts[end]} rows of features for '{end}', one for each. Got shape "
                f"{list(values.shape)}."
            )
        if values.device != relation.device:
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
