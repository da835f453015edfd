"""The pools of tasks, edges and resources: filling them, checking what goes in, taking away."""

from __future__ import annotations

import numpy as np

from graphwright.plans import Ints
from graphwright.simulate.delta.records import ADDED, Records, Slots
from graphwright.tasks import compiled


@compiled
def find_bad_task(duration: Ints, resource_ptr: Ints, resource: Ints, num_resources: int) -> int:
    """The first task whose duration is negative, or whose resources are not there or given twice.

    -1 if there is none.
    """
    last = np.full(num_resources, -1, np.int64)
    for t in range(len(duration)):
        if duration[t] < 0 or resource_ptr[t + 1] < resource_ptr[t]:
            return t
        for i in range(resource_ptr[t], resource_ptr[t + 1]):
            r = resource[i]
            if r < 0 or r >= num_resources or last[r] == t:
                return t
            last[r] = t
    return -1


@compiled
def put_tasks(
    tasks: Records, slots: Slots, duration: Ints, key: Ints, resource_ptr: Ints, first: int
) -> None:
    """Fill free slots with the tasks that a proposal adds; their resources lie from `first` on."""
    for i in range(len(slots)):
        task = tasks[slots[i]]
        task.place = ADDED
        task.duration = duration[i]
        task.key = key[i]
        task.first_out = -1
        task.first_in = -1
        task.resources = first + resource_ptr[i]
        task.resources_end = first + resource_ptr[i + 1]


@compiled
def flag_removed(tasks: Records, slots: Slots, removed: Slots) -> tuple[int, int]:
    """Flag tasks as gone, and list those of them that were committed in `removed`.

    Returns their number and -1, or, with nothing changed, 0 and the first slot's index that holds
    no task.
    """
    count = 0
    for i in range(len(slots)):
        t = slots[i]
        if t < 0 or t >= len(tasks) or tasks[t].place < 0:
            for k in range(i):
                tasks[slots[k]].place = ~tasks[slots[k]].place
            return 0, i
        if tasks[t].place != ADDED:
            removed[count] = t
            count += 1
        tasks[t].place = ~tasks[t].place
    return count, -1


@compiled
def find_bad_edge(tasks: Records, sources: Slots, targets: Slots) -> int:
    """The first edge at no task, or that does not lead to a greater key; -1 if there is none."""
    for i in range(len(sources)):
        s, t = sources[i], targets[i]
        if min(s, t) < 0 or max(s, t) >= len(tasks) or min(tasks[s].place, tasks[t].place) < 0:
            return i
        if tasks[s].key >= tasks[t].key:
            return i
    return -1


@compiled
def insert_edges(
    tasks: Records, edges: Records, numbers: Slots, sources: Slots, targets: Slots
) -> None:
    """Put edges at the heads of their lists."""
    for i in range(len(numbers)):
        e, source, target = numbers[i], tasks[sources[i]], tasks[targets[i]]
        edge = edges[e]
        edge.source = sources[i]
        edge.target = targets[i]
        edge.next_out = source.first_out
        edge.next_in = target.first_in
        edge.previous_out = -1
        edge.previous_in = -1
        if edge.next_out >= 0:
            edges[edge.next_out].previous_out = e
        if edge.next_in >= 0:
            edges[edge.next_in].previous_in = e
        source.first_out = e
        target.first_in = e


@compiled
def delete_edge(tasks: Records, edges: Records, e: int) -> None:
    """Take an edge out of both of its lists."""
    edge = edges[e]
    if edge.next_out >= 0:
        edges[edge.next_out].previous_out = edge.previous_out
    if edge.previous_out >= 0:
        edges[edge.previous_out].next_out = edge.next_out
    else:
        tasks[edge.source].first_out = edge.next_out
    if edge.next_in >= 0:
        edges[edge.next_in].previous_in = edge.previous_in
    if edge.previous_in >= 0:
        edges[edge.previous_in].next_in = edge.next_in
    else:
        tasks[edge.target].first_in = edge.next_in


@compiled
def delete_edges(tasks: Records, edges: Records, numbers: Slots) -> None:
    """Take edges away, the last first: lists are then as before these were inserted."""
    for i in range(len(numbers) - 1, -1, -1):
        delete_edge(tasks, edges, numbers[i])


@compiled
def delete_edges_of(
    tasks: Records, edges: Records, slots: Slots, free: Slots, num_free: int
) -> int:
    """Move all edges at some tasks to the stack of free edges; returns its new size."""
    for t in slots:
        while tasks[t].first_out >= 0:
            free[num_free] = tasks[t].first_out
            delete_edge(tasks, edges, free[num_free])
            num_free += 1
        while tasks[t].first_in >= 0:
            free[num_free] = tasks[t].first_in
            delete_edge(tasks, edges, free[num_free])
            num_free += 1
    return num_free


@compiled
def compact(tasks: Records, slots: Slots, resources: Slots, compacted: Slots) -> int:
    """Copy what some tasks occupy, one after the other, into another pool; returns its size."""
    top = 0
    for t in slots:
        low, high = tasks[t].resources, tasks[t].resources_end
        tasks[t].resources = top
        for i in range(low, high):
            compacted[top] = resources[i]
            top += 1
        tasks[t].resources_end = top
    return top
