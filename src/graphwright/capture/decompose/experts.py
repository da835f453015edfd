"""Experts: `aten._grouped_mm` as products whose groups split (see `graphwright.aten.grouped`).

rows by experts       [M, K] x [G, K, N]     grouped_mm
columns by experts    [G, M, K] x [K, N]     the same, transposed
summed by experts     [M, K] x [K, N]        grouped_mm_grad_weight
one product each      [G, M, K] x [G, K, N]  aten.bmm
"""

from __future__ import annotations

import torch
from torch import Tensor

from graphwright.aten import aten, ours
from graphwright.capture.decompose.composites import KEPT, decompose


@decompose(aten._grouped_mm.default)
def _grouped_mm(
    a: Tensor,
    b: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    if bias is not None or out_dtype not in (None, a.dtype):
        return KEPT
    if offs is None:
        return aten.bmm.default(a, b)
    bounds = aten.constant_pad_nd.default(offs, [1, 0], 0)
    if a.dim() == 3:
        columns = ours.grouped_mm.default(_transposed(b), _transposed(a), bounds)
        return _transposed(columns)
    if b.dim() == 3:
        return ours.grouped_mm.default(a, b, bounds)
    return ours.grouped_mm_grad_weight.default(_transposed(a), b, bounds)


def _transposed(x: Tensor) -> Tensor:
    return aten.transpose.int(x, -1, -2)
