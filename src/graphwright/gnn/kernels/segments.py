"""Segments of rows one after another: reductions of each, and matrix products by each.

segment_reduce    sum, mean, max or min of each segment
segment_mm        rows of segment i times matrix i
gather_mm         row i times matrix index[i]
"""

from __future__ import annotations

import torch
from torch import Tensor

from graphwright.gnn.kernels.messages import gspmm
from graphwright.gnn.storage import Compressed, FeatureMismatch, Relation, rows_of


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
