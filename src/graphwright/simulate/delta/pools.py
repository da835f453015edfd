"""The pools of `delta` and the loops that keep them: tasks, edges, what tasks occupy, and the committed order.

    tasks[.., slot]   what a task is and, while a proposal is open, its new times
    links[.., slot]   its lists of edges, its resources, and marks of the evaluation
    position[slot]    its place in the committed order, or ADDED by the open proposal; negative where there is no task:
                      ~place of one that the open proposal removes, NONE of a free slot
    edges[.., edge]   an edge, in the list of those out of its source and in the list of those into its target
    pool              what the tasks occupy: pool[RESOURCE : RESOURCE_END] of a task
    order[place]      the committed tasks in the order of (ready, key); order_ready and order_end are in that order, too
    block_end[b]      the latest end in block b of BLOCK places; before[b] of all before it, after[b] of it and all after
    table[window]     the places of the old order that a window has replaced, the shift of what follows it up to the next
                      window, and where its tasks end in the list of all windows' tasks

A column of these tables lies together in memory, as most loops go through tasks in about the order of their slots.
`delta_kernels` is compiled with these constants: change it, too, when one of them changes.
"""

from __future__ import annotations

import numpy as np

from graphwright.plans import Ints
from graphwright.tasks import compiled

DURATION, KEY, NEW_READY, NEW_END = range(4)
STAMP, WAITING, FIRST_OUT, FIRST_IN, RESOURCE, RESOURCE_END, MARK = range(7)
SOURCE, TARGET, NEXT_OUT, NEXT_IN, PREVIOUS_OUT, PREVIOUS_IN = range(6)
OLD_BEGIN, OLD_END, SHIFT, WINDOW_END = range(4)
ADDED = np.iinfo(np.int32).max
NONE = np.iinfo(np.int32).min
BLOCK = 256


@compiled
def insert_edges(links: Ints, edges: Ints, names: Ints, sources: Ints, targets: Ints) -> None:
    """Put edges at the heads of their lists."""
    for i in range(len(names)):
        e, s, t = names[i], sources[i], targets[i]
        out, into = links[FIRST_OUT, s], links[FIRST_IN, t]
        edges[SOURCE, e] = s
        edges[TARGET, e] = t
        edges[NEXT_OUT, e] = out
        edges[PREVIOUS_OUT, e] = -1
        edges[NEXT_IN, e] = into
        edges[PREVIOUS_IN, e] = -1
        if out >= 0:
            edges[PREVIOUS_OUT, out] = e
        if into >= 0:
            edges[PREVIOUS_IN, into] = e
        links[FIRST_OUT, s] = e
        links[FIRST_IN, t] = e


@compiled
def delete_edge(links: Ints, edges: Ints, e: int) -> None:
    """Take an edge out of both of its lists."""
    ahead, behind = edges[NEXT_OUT, e], edges[PREVIOUS_OUT, e]
    if ahead >= 0:
        edges[PREVIOUS_OUT, ahead] = behind
    if behind >= 0:
        edges[NEXT_OUT, behind] = ahead
    else:
        links[FIRST_OUT, edges[SOURCE, e]] = ahead
    ahead, behind = edges[NEXT_IN, e], edges[PREVIOUS_IN, e]
    if ahead >= 0:
        edges[PREVIOUS_IN, ahead] = behind
    if behind >= 0:
        edges[NEXT_IN, behind] = ahead
    else:
        links[FIRST_IN, edges[TARGET, e]] = ahead


@compiled
def delete_edges(links: Ints, edges: Ints, names: Ints) -> None:
    """Take edges out of their lists, the last first: lists are then as they were before these were inserted."""
    for i in range(len(names) - 1, -1, -1):
        delete_edge(links, edges, names[i])


@compiled
def delete_edges_of(links: Ints, edges: Ints, slots: Ints, free: Ints, num_free: int) -> int:
    """Take away all edges at some tasks and put them on the stack of free edges; returns its new size."""
    for t in slots:
        while links[FIRST_OUT, t] >= 0:
            free[num_free] = links[FIRST_OUT, t]
            num_free += 1
            delete_edge(links, edges, links[FIRST_OUT, t])
        while links[FIRST_IN, t] >= 0:
            free[num_free] = links[FIRST_IN, t]
            num_free += 1
            delete_edge(links, edges, links[FIRST_IN, t])
    return num_free


@compiled
def put_tasks(
    tasks: Ints,
    links: Ints,
    position: Ints,
    slots: Ints,
    duration: Ints,
    key: Ints,
    resource_ptr: Ints,
    pool_start: int,
) -> None:
    """Fill free slots with the tasks that a proposal adds."""
    for i in range(len(slots)):
        t = slots[i]
        position[t] = ADDED
        tasks[DURATION, t] = duration[i]
        tasks[KEY, t] = key[i]
        links[FIRST_OUT, t] = -1
        links[FIRST_IN, t] = -1
        links[RESOURCE, t] = pool_start + resource_ptr[i]
        links[RESOURCE_END, t] = pool_start + resource_ptr[i + 1]


@compiled
def find_bad_task(duration: Ints, resource_ptr: Ints, resource: Ints, num_resources: int) -> int:
    """The first task with a negative duration or with resources that there are not, or one twice; -1 if there is none."""
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
def find_bad_edge(tasks: Ints, position: Ints, sources: Ints, targets: Ints) -> int:
    """The first edge at a task that there is not, or that does not lead to a greater key; -1 if there is none."""
    for i in range(len(sources)):
        s, t = sources[i], targets[i]
        if min(s, t) < 0 or max(s, t) >= len(position) or position[s] < 0 or position[t] < 0:
            return i
        if tasks[KEY, s] >= tasks[KEY, t]:
            return i
    return -1


@compiled
def flag_removed(position: Ints, slots: Ints, removed: Ints) -> tuple[int, int]:
    """Flag tasks as gone, and list those of them that were committed in `removed`.

    Returns their number and -1, or, with nothing changed, the place of a slot that holds no task.
    """
    count = 0
    cancelled = np.empty(len(slots), np.int64)
    num_cancelled = 0
    for i in range(len(slots)):
        t = slots[i]
        if t < 0 or t >= len(position) or position[t] < 0:
            for k in range(count):
                position[removed[k]] = ~position[removed[k]]
            for k in range(num_cancelled):
                position[cancelled[k]] = ADDED
            return 0, i
        if position[t] == ADDED:
            position[t] = NONE
            cancelled[num_cancelled] = t
            num_cancelled += 1
        else:
            position[t] = ~position[t]
            removed[count] = t
            count += 1
    return count, -1


@compiled
def compact_pool(links: Ints, order: Ints, pool: Ints, compacted: Ints) -> int:
    """Copy what the committed tasks occupy, in their order, into another pool; returns its size."""
    top = 0
    for t in order:
        low, high = links[RESOURCE, t], links[RESOURCE_END, t]
        links[RESOURCE, t] = top
        for i in range(low, high):
            compacted[top] = pool[i]
            top += 1
        links[RESOURCE_END, t] = top
    return top


@compiled
def commit(
    tasks: Ints,
    position: Ints,
    order: Ints,
    order_ready: Ints,
    order_end: Ints,
    num_tasks: int,
    table: Ints,
    num_windows: int,
    window: Ints,
    new_order: Ints,
    new_ready: Ints,
    new_end: Ints,
) -> tuple[int, int, int]:
    """Put the windows in their places and shift what lies between and after them.

    Returns the places from where to where the order has changed, and the new number of tasks.
    """
    begin = table[0, OLD_BEGIN]
    at = begin
    first = 0
    in_place = True
    for w in range(num_windows):
        for i in range(first, table[w, WINDOW_END]):
            t = window[i]
            new_order[at] = t
            new_ready[at] = tasks[NEW_READY, t]
            new_end[at] = tasks[NEW_END, t]
            at += 1
        first = table[w, WINDOW_END]
        low = table[w, OLD_END]
        high = table[w + 1, OLD_BEGIN] if w + 1 < num_windows else num_tasks
        shift = table[w, SHIFT]
        in_place = in_place and shift == 0 and at == low
        if in_place and w + 1 == num_windows:
            break
        for place in range(low, high):
            new_order[at] = order[place]
            new_ready[at] = order_ready[place] + shift
            new_end[at] = order_end[place] + shift
            at += 1
    for place in range(begin, at):
        order[place] = new_order[place]
        order_ready[place] = new_ready[place]
        order_end[place] = new_end[place]
        position[new_order[place]] = place
    return begin, at, num_tasks if in_place else at


@compiled
def summarize_blocks(
    order_end: Ints, block_end: Ints, before: Ints, after: Ints, num_tasks: int, low: int, high: int
) -> None:
    """Bring the blocks with places from `low` to `high` up to date, and what depends on them."""
    num_blocks = -(-num_tasks // BLOCK)
    for b in range(low // BLOCK, min(num_blocks, -(-high // BLOCK))):
        latest = 0
        for i in range(b * BLOCK, min((b + 1) * BLOCK, num_tasks)):
            latest = max(latest, order_end[i])
        block_end[b] = latest
    before[0] = 0
    for b in range(num_blocks):
        before[b + 1] = max(before[b], block_end[b])
    after[num_blocks] = 0
    for b in range(num_blocks - 1, -1, -1):
        after[b] = max(after[b + 1], block_end[b])
