"""Generalised SpMM and SDDMM: a message function and a reduction by name, over one relation.

    gspmm     messages op(lhs, rhs) of all edges, reduced at their destinations
    gsddmm    op(lhs, rhs) for each edge

and over segments, rows one after another that belong to the same destination:

    segment_reduce    sum, mean, max or min of each segment
    segment_mm        rows of segment i times matrix i
    gather_mm         row i times matrix index[i]

Operators are copy, add, sub, mul, div and dot; reductions sum, mean, max and min. Destinations
without in-edges get zeros. Operands are features with the end that they belong to, "u", "v" or "e".
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.kernels.backend import backend_of
from graphwright.gnn.kernels.broadcast import Shape, result_shape
from graphwright.gnn.kernels.parts import sum_over_part, with_sources
from graphwright.gnn.storage import (
    Compressed,
    FeatureMismatch,
    InvalidFunction,
    PartRelation,
    Relation,
    rows_of,
)

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


def segment_reduce(seglen: Tensor, value: Tensor, reducer: str = "sum") -> Tensor:
    """Reduce each segment; empty ones give zeros."""
    total = int(seglen.sum())
    if total != len(value):
        raise FeatureMismatch(
            f"Expect the lengths of segments to sum up to the number of rows. Got {total} and "
            f"{len(value)}."
        )
    ends = torch.cumsum(seglen.long(), 0)
    indptr = torch.cat([ends.new_zeros(1), ends]).to(value.device)
    rows = torch.arange(total, device=value.device)
    relation = Relation(
        num_src=total,
        num_dst=len(seglen),
        made_csc=Compressed(indptr, rows),
        made_coo=(rows, rows_of(indptr)),
    )
    reduced: Tensor = gspmm(relation, "copy", reducer, (value, "u"))
    return reduced


def segment_mm(a: Tensor, b: Tensor, seglen_a: Tensor) -> Tensor:
    """Multiply the rows of each segment of `a` by a matrix of `b`."""
    if int(seglen_a.sum()) != len(a) or len(seglen_a) != len(b):
        raise FeatureMismatch(
            f"Expect {len(b)} segment lengths that sum up to {len(a)} rows. Got {len(seglen_a)} "
            f"that sum up to {int(seglen_a.sum())}."
        )
    parts = a.split(seglen_a.tolist())
    return torch.cat([part @ matrix for part, matrix in zip(parts, b, strict=True)])


def gather_mm(a: Tensor, b: Tensor, *, idx_b: Tensor) -> Tensor:
    """Multiply row i of `a` by matrix idx_b[i] of `b`; rows of one matrix go together."""
    if len(idx_b) != len(a):
        raise FeatureMismatch(f"Expect one index for each of {len(a)} rows. Got {len(idx_b)}.")
    order = torch.argsort(idx_b, stable=True)
    counts = torch.bincount(idx_b.long(), minlength=len(b))
    product = segment_mm(a[order], b, counts)
    return torch.empty_like(product).index_copy(0, order, product)
