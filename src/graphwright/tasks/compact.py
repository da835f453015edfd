"""Edges as rows: for each task its successors, by a counting sort."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphwright.tasks.compiled import compiled

Ints = NDArray[np.int32]


@compiled
def compressed_rows(
    sources: Ints, targets: Ints, num_tasks: int
) -> tuple[NDArray[np.int64], Ints, Ints]:
    """(pointers, successors, indegree) of the edges from `sources` to `targets`, in their order."""
    pointers = np.zeros(num_tasks + 1, np.int64)
    indegree = np.zeros(num_tasks, np.int32)
    for edge in range(len(sources)):
        pointers[sources[edge] + 1] += 1
        indegree[targets[edge]] += 1
    for task in range(num_tasks):
        pointers[task + 1] += pointers[task]
    successors = np.empty(len(sources), np.int32)
    place = pointers[:-1].copy()
    for edge in range(len(sources)):
        task = sources[edge]
        successors[place[task]] = targets[edge]
        place[task] += 1
    return pointers, successors, indegree
