"""Sort edges by one of their ends: the way from COO to CSR, and from CSR back to COO.

Edges keep their order within a row, so that the results of a reduction do not depend on how the
graph was stored:

    ends      2 0 2 1        a row's entries   indptr[row] .. indptr[row + 1]
    indptr    0 1 2 4        rows 0, 1, 2
    order     1 3 0 2        the edge of each entry
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphwright.tasks import compiled


def sort_by_end(ends: Tensor, num_rows: int) -> tuple[Tensor, Tensor | None]:
    """(indptr, order) of edges by `ends`; an order of None says that they are sorted already."""
    if bool((ends[1:] >= ends[:-1]).all()):
        return row_starts(ends, num_rows), None
    if ends.device.type == "cpu":
        indptr = torch.zeros(num_rows + 1, dtype=ends.dtype)
        order = torch.empty_like(ends)
        _counting_sort(ends.numpy(), indptr.numpy(), order.numpy())
        return indptr, order
    order = torch.argsort(ends, stable=True).to(ends.dtype)
    return row_starts(ends, num_rows), order


def row_starts(ends: Tensor, num_rows: int) -> Tensor:
    """Where each row's entries begin, with the number of all of them at the end."""
    indptr = torch.zeros(num_rows + 1, dtype=ends.dtype, device=ends.device)
    if len(ends):
        torch.cumsum(torch.bincount(ends, minlength=num_rows), 0, out=indptr[1:])
    return indptr


def rows_of(indptr: Tensor) -> Tensor:
    """The row of each entry."""
    rows = torch.arange(len(indptr) - 1, dtype=indptr.dtype, device=indptr.device)
    return torch.repeat_interleave(rows, indptr.diff())


def invert(order: Tensor) -> Tensor:
    """The entry of each edge."""
    places = torch.arange(len(order), dtype=order.dtype, device=order.device)
    return torch.empty_like(order).scatter_(0, order.long(), places)


@compiled
def _counting_sort(ends: Any, indptr: Any, order: Any) -> None:
    for edge in range(len(ends)):
        indptr[ends[edge] + 1] += 1
    for row in range(len(indptr) - 1):
        indptr[row + 1] += indptr[row]
    place = np.empty(len(indptr) - 1, indptr.dtype)
    for row in range(len(place)):
        place[row] = indptr[row]
    for edge in range(len(ends)):
        row = ends[edge]
        order[place[row]] = edge
        place[row] += 1
