"""A heap of tasks by (time, key), over an array of records."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphwright.tasks import inlined

Record = Any
Records = NDArray[Any]

ENTRY = np.dtype([("time", np.int64), ("key", np.int64), ("slot", np.int32)], align=True)


@inlined
def push(heap: Records, size: int, time: int, key: int, slot: int) -> None:
    """Put a task into a heap of `size` tasks, ordered by (time, key)."""
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        above = heap[parent]
        if above.time < time or (above.time == time and above.key < key):
            break
        heap[at] = above
        at = parent
    heap[at].time = time
    heap[at].key = key
    heap[at].slot = slot


@inlined
def pop(heap: Records, size: int) -> None:
    """Take the first task away from a heap of `size` tasks: read it at place 0 before."""
    last = heap[size - 1]
    at = 0
    child = 1
    while child < size - 1:
        right = child + 1
        if right < size - 1 and is_before(heap[right], heap[child]):
            child = right
        if is_before(last, heap[child]):
            break
        heap[at] = heap[child]
        at = child
        child = 2 * at + 1
    heap[at] = last


@inlined
def is_before(a: Record, b: Record) -> bool:
    """Whether one entry comes before another."""
    return bool(a.time < b.time or (a.time == b.time and a.key < b.key))
