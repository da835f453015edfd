"""A heap of tasks by (time, key), over arrays.

Compiled code that calls into this file is kept on disk by its own file's date: after a change here, touch `delta_kernels`.
"""

from __future__ import annotations

from graphwright.plans import Ints
from graphwright.tasks import compiled


@compiled
def push(times: Ints, keys: Ints, slots: Ints, size: int, time: int, key: int, slot: int) -> None:
    """Put a task into a heap of `size` tasks, ordered by (time, key)."""
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if times[parent] < time or (times[parent] == time and keys[parent] < key):
            break
        times[at] = times[parent]
        keys[at] = keys[parent]
        slots[at] = slots[parent]
        at = parent
    times[at] = time
    keys[at] = key
    slots[at] = slot


@compiled
def pop(times: Ints, keys: Ints, slots: Ints, size: int) -> None:
    """Take the first task away from a heap of `size` tasks: read it at place 0 before."""
    last = size - 1
    time, key, slot = times[last], keys[last], slots[last]
    at = 0
    child = 1
    while child < last:
        right = child + 1
        if right < last and (
            times[right] < times[child]
            or (times[right] == times[child] and keys[right] < keys[child])
        ):
            child = right
        if time < times[child] or (time == times[child] and key < keys[child]):
            break
        times[at] = times[child]
        keys[at] = keys[child]
        slots[at] = slots[child]
        at = child
        child = 2 * at + 1
    times[at] = time
    keys[at] = key
    slots[at] = slot
