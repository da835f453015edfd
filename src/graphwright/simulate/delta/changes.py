"""What a proposal changes: which tasks, and before which (ready, key) the old schedule holds."""

from __future__ import annotations

import numpy as np

from graphwright.simulate.delta.records import ADDED, Committed, Proposal, Records, Slots, Workspace
from graphwright.simulate.heap import pop, push
from graphwright.tasks import inlined


@inlined
def mark_changed(graph: Committed, proposal: Proposal, work: Workspace) -> Slots:
    """Mark the added tasks and the survivors with other predecessors; lists them by key.

    They are in no order where nothing is committed, as nothing follows from it then.
    """
    tasks, edges, state = graph.tasks, graph.edges, work.state[0]
    state.num_changed = 0
    for t in proposal.added:
        if tasks[t].place == ADDED:
            mark(tasks, work, t)
    for r in proposal.removed:
        e = tasks[r].first_out
        while e >= 0:
            if tasks[edges[e].target].place >= 0:
                mark(tasks, work, edges[e].target)
            e = edges[e].next_out
    for e in proposal.linked:
        if tasks[edges[e].target].place >= 0 and tasks[edges[e].source].place >= 0:
            mark(tasks, work, edges[e].target)
    changed = np.empty(state.num_changed, np.int32)
    for i in range(state.num_changed):
        if graph.num_tasks > 0:
            changed[i] = work.heap[0].slot
            pop(work.heap, state.num_changed - i)
        else:
            changed[i] = work.heap[i].slot
    return changed


@inlined
def mark(tasks: Records, work: Workspace, t: int) -> None:
    """Mark a task as changed, unless it is already."""
    state = work.state[0]
    if tasks[t].mark != state.epoch:
        tasks[t].mark = state.epoch
        push(work.heap, state.num_changed, 0, tasks[t].key, t)
        state.num_changed += 1


@inlined
def find_next_change(
    graph: Committed, proposal: Proposal, work: Workspace, changed: Slots
) -> tuple[int, int]:
    """The (ready, key) before which the old schedule after the last window, shifted, holds.

    It is the least of those of the next removed task and of the changed ones to come. These are in
    the order of keys, so that of a changed predecessor the bound is known.
    """
    tasks, order, state = graph.tasks, graph.order, work.state[0]
    first_time = first_key = np.iinfo(np.int64).max
    if state.num_passed < len(proposal.removed_places):
        removed = order[proposal.removed_places[state.num_passed]]
        first_time = removed.ready + state.shift
        first_key = tasks[removed.slot].key
    for t in changed:
        task = tasks[t]
        if task.mark != state.epoch:
            continue
        bound = bound_ready(graph, work, t)
        task.new_ready = bound
        if task.place != ADDED:
            bound = min(bound, order[task.place].ready + state.shift)
        if bound < first_time or (bound == first_time and task.key < first_key):
            first_time = bound
            first_key = task.key
    return first_time, first_key


@inlined
def bound_ready(graph: Committed, work: Workspace, t: int) -> int:
    """A time before which a changed task cannot be ready, if the old schedule holds until then."""
    tasks, edges, state = graph.tasks, graph.edges, work.state[0]
    bound = 0
    e = tasks[t].first_in
    while e >= 0:
        p = edges[e].source
        before = tasks[p]
        if before.place >= 0:
            if before.mark == state.epoch:
                bound = max(bound, before.new_ready + before.duration)
            elif before.place == ADDED:
                bound = max(bound, before.new_end)
            else:
                bound = max(bound, find_end(graph, work, p))
        e = edges[e].next_in
    return bound


@inlined
def find_end(graph: Committed, work: Workspace, t: int) -> int:
    """The new end of a committed task, if the old schedule holds after the last window."""
    task = graph.tasks[t]
    end: int = graph.order[task.place].end
    for w in range(work.state[0].num_windows - 1, -1, -1):
        window = work.windows[w]
        if task.place >= window.end:
            return int(end + window.shift)
        if task.place >= window.begin:
            return int(task.new_end)
    return end
