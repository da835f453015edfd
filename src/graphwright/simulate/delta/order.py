"""The committed order: where a time falls in it, how late its tasks end, a proposal put into it."""

from __future__ import annotations

from graphwright.simulate.delta.records import BLOCK, Committed, Records, Workspace
from graphwright.tasks import compiled, inlined


@inlined
def find_place(graph: Committed, time: int, key: int) -> int:
    """How many committed tasks come before (time, key)."""
    low, high = 0, graph.num_tasks
    while low < high:
        middle = (low + high) >> 1
        at = graph.order[middle]
        if at.ready < time or (at.ready == time and graph.tasks[at.slot].key < key):
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def latest_end(graph: Committed, low: int, high: int) -> int:
    """The latest end among the places from `low` to `high`, by whole blocks where there are any."""
    first, last = -(-low // BLOCK), high // BLOCK  # the whole blocks in between
    if high == graph.num_tasks:
        last = -(-high // BLOCK)
    if first > last:
        return latest_of(graph.order, low, high)
    latest = max(
        latest_of(graph.order, low, min(first * BLOCK, high)),
        latest_of(graph.order, last * BLOCK, high),
    )
    if low == 0:
        return int(max(latest, graph.blocks[last].before))
    if high == graph.num_tasks:
        return int(max(latest, graph.blocks[first].after))
    for b in range(first, last):
        latest = max(latest, graph.blocks[b].end)
    return latest


@inlined
def latest_of(order: Records, low: int, high: int) -> int:
    """The latest end among the places from `low` to `high`, one by one."""
    latest = 0
    for place in range(low, high):
        latest = max(latest, order[place].end)
    return latest


@compiled
def summarize_blocks(graph: Committed, low: int, high: int) -> None:
    """Bring the blocks of the places from `low` to `high`, and what depends on them, up to date."""
    blocks, num_blocks = graph.blocks, -(-graph.num_tasks // BLOCK)
    for b in range(low // BLOCK, min(num_blocks, -(-high // BLOCK))):
        end = min((b + 1) * BLOCK, graph.num_tasks)
        blocks[b].end = latest_of(graph.order, b * BLOCK, end)
    blocks[0].before = 0
    for b in range(num_blocks):
        blocks[b + 1].before = max(blocks[b].before, blocks[b].end)
    blocks[num_blocks].after = 0
    for b in range(num_blocks - 1, -1, -1):
        blocks[b].after = max(blocks[b + 1].after, blocks[b].end)


@compiled
def commit(graph: Committed, work: Workspace, num_windows: int) -> tuple[int, int, int]:
    """Put the windows in their places and shift what lies between and after them.

    Returns the places from where to where the order has changed, and the new number of tasks.
    """
    order, new = graph.order, work.new_order
    begin = work.windows[0].begin
    at = begin
    first = 0
    in_place = True
    for w in range(num_windows):
        window = work.windows[w]
        for i in range(first, window.last):
            task = graph.tasks[work.retimed[i]]
            new[at].slot = work.retimed[i]
            new[at].ready = task.new_ready
            new[at].end = task.new_end
            at += 1
        first = window.last
        is_last = w + 1 == num_windows
        in_place = in_place and window.shift == 0 and at == window.end
        if in_place and is_last:
            break
        for place in range(window.end, graph.num_tasks if is_last else work.windows[w + 1].begin):
            new[at].slot = order[place].slot
            new[at].ready = order[place].ready + window.shift
            new[at].end = order[place].end + window.shift
            at += 1
    for place in range(begin, at):
        order[place] = new[place]
        graph.tasks[new[place].slot].place = place
    return begin, at, graph.num_tasks if in_place else at
