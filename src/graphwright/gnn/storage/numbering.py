"""Number ids anew in the order in which they first appear, whatever their size.

    ids       7 3 7 9        distinct   7 3 9        number   0 1 0 2

A hash table with room for twice the ids takes time and memory by how many ids there are, not by how
many nodes the graph has: a block of a thousand nodes costs the same in a graph of a billion.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphwright.tasks import compiled


def number_in_order(ids: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct ids in the order of their first appearance, and the number of each id."""
    given = ids.cpu().contiguous().numpy()
    distinct, number = np.empty_like(given), np.empty_like(given)
    size = 4
    while size < 2 * len(given):
        size *= 2
    count = _number(given, np.full(size, -1, given.dtype), distinct, number)
    found = torch.from_numpy(distinct[:count].copy()), torch.from_numpy(number)
    return found[0].to(ids.device), found[1].to(ids.device)


@compiled
def _number(ids: Any, table: Any, distinct: Any, number: Any) -> Any:
    mask, count = np.uint64(len(table) - 1), 0
    for at in range(len(ids)):
        slot = (np.uint64(ids[at]) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20) & mask
        while table[slot] >= 0 and distinct[table[slot]] != ids[at]:
            slot = (slot + np.uint64(1)) & mask
        if table[slot] < 0:
            table[slot] = count
            distinct[count] = ids[at]
            count += 1
        number[at] = table[slot]
    return count
