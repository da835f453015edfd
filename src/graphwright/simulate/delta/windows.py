"""The evaluation of a proposal, window by window. See `schedule` for why it is right.

evaluate             all of it, until all changes are behind
  mark_changed       which tasks are changed
  find_next_change   before which (ready, key) the old schedule, shifted, holds
  open_window        the state at that place: what is under way, what is ready next
  run_window         simulates from there until `is_shifted` says that what follows is shifted
  close_window       where it has ended, and by how much what follows is shifted
"""

from __future__ import annotations

from graphwright.simulate.delta.changes import find_end, find_next_change, mark_changed
from graphwright.simulate.delta.order import find_place, latest_end
from graphwright.simulate.delta.records import (
    ADDED,
    BLOCK,
    Committed,
    Proposal,
    Record,
    Slots,
    Workspace,
)
from graphwright.simulate.heap import pop, push
from graphwright.tasks import compiled, inlined, unowned


@compiled
def evaluate(graph: Committed, proposal: Proposal, work: Workspace, epoch: int) -> tuple[int, int]:
    """The makespan after a proposal, and the number of windows, which are left in `work`."""
    graph, proposal, work = unowned(graph), unowned(proposal), unowned(work)
    state = work.state[0]
    state.epoch = epoch
    state.num_windows = state.rest = state.shift = state.makespan = state.patience = 0
    state.num_passed = state.num_retimed = state.num_landing = 0
    changed = mark_changed(graph, proposal, work)
    while is_ahead(state, proposal):
        state.time = state.begin = 0
        if graph.num_tasks > 0:
            state.time, key = find_next_change(graph, proposal, work, changed)
            place = find_place(graph, state.time - state.shift, key)
            state.begin = max(place, state.rest)
        if state.begin > state.rest:
            between = latest_end(graph, state.rest, state.begin)
            state.makespan = max(state.makespan, between + state.shift)
        open_window(graph, work, changed)
        first = state.num_retimed
        run_window(graph, proposal, work)
        close_window(graph, work)
        if is_ahead(state, proposal):
            gather_landing(graph, work, first)
    if state.rest < graph.num_tasks:
        behind = latest_end(graph, state.rest, graph.num_tasks)
        state.makespan = max(state.makespan, behind + state.shift)
    return state.makespan, state.num_windows


@inlined
def is_ahead(state: Record, proposal: Proposal) -> bool:
    """Whether a change is still to come."""
    return bool(state.num_changed > 0 or state.num_passed < len(proposal.removed_places))


# -- opening and closing ---------------------------------------------------------------------------


@inlined
def open_window(graph: Committed, work: Workspace, changed: Slots) -> None:
    """The state at the window's beginning: when resources are free, and what is ready next."""
    state = work.state[0]
    state.stamp = state.epoch + state.num_windows
    state.num_waiting = state.num_flying = 0
    work.free[:] = 0
    for t in changed:
        if graph.tasks[t].mark == state.epoch and graph.tasks[t].stamp != state.stamp:
            touch(graph, work, t)
    place = state.begin
    while place < graph.num_tasks and graph.order[place].ready == 0:
        task = graph.tasks[graph.order[place].slot]
        if task.place >= 0 and task.stamp != state.stamp:
            touch(graph, work, graph.order[place].slot)
        place += 1
    enter_landing(graph, work)
    enter_unchanged(graph, work)
    few = len(work.free) + state.num_flying
    if state.num_windows > 0 and state.begin - state.rest < few:
        state.patience = 2 * state.patience + few  # the last window was closed in vain
    work.old_free[:] = work.free - state.shift
    state.followed = state.begin
    state.suspect = 0


@inlined
def enter_landing(graph: Committed, work: Workspace) -> None:
    """Take over tasks of earlier windows; those that end before this one opens are forgotten."""
    state = work.state[0]
    i = 0
    while i < state.num_landing:
        t = work.landing[i]
        if graph.tasks[t].new_end < state.time:
            state.num_landing -= 1
            work.landing[i] = work.landing[state.num_landing]
            continue
        enter(graph, work, t)
        if graph.tasks[t].place != ADDED:
            work.flying[state.num_flying] = t
            state.num_flying += 1
        i += 1


@inlined
def enter_unchanged(graph: Committed, work: Workspace) -> None:
    """Take over tasks from between the windows that end when this one opens, or later."""
    order, blocks, state = graph.order, graph.blocks, work.state[0]
    high = state.begin
    for w in range(state.num_windows - 1, -2, -1):
        low = shift = 0
        if w >= 0:
            low, shift = work.windows[w].end, work.windows[w].shift
        late = state.time - shift
        b = (high - 1) // BLOCK
        while (b + 1) * BLOCK > low and high > low and blocks[b + 1].before >= late:
            if blocks[b].end >= late:
                for place in range(max(low, b * BLOCK), min((b + 1) * BLOCK, high)):
                    if order[place].end >= late:
                        t = order[place].slot
                        graph.tasks[t].new_end = order[place].end + shift
                        work.flying[state.num_flying] = t
                        state.num_flying += 1
                        enter(graph, work, t)
            b -= 1
        if w >= 0:
            high = work.windows[w].begin


@inlined
def enter(graph: Committed, work: Workspace, t: int) -> None:
    """Take over a task that is under way where a window opens: its resources, its successors."""
    tasks, edges, state = graph.tasks, graph.edges, work.state[0]
    task = tasks[t]
    for i in range(task.resources, task.resources_end):
        r = graph.resources[i]
        work.free[r] = max(work.free[r], task.new_end)
    e = task.first_out
    while e >= 0:
        after = tasks[edges[e].target]
        if (
            after.place >= state.begin
            and after.stamp != state.stamp
            and (after.place != ADDED or after.mark == state.epoch)
        ):
            touch(graph, work, edges[e].target)
        e = edges[e].next_out


@inlined
def touch(graph: Committed, work: Workspace, t: int) -> None:
    """Meet a task for the first time in a window: what it waits for, and since when.

    It goes into the heap if it waits for nothing.
    """
    tasks, edges, state = graph.tasks, graph.edges, work.state[0]
    task = tasks[t]
    waiting = ready = 0
    e = task.first_in
    while e >= 0:
        p = edges[e].source
        before = tasks[p]
        if before.place >= state.begin:
            if before.place == ADDED and before.mark == -state.epoch:
                ready = max(ready, before.new_end)
            else:
                waiting += 1
        elif before.place >= 0:
            ready = max(ready, find_end(graph, work, p))
        e = edges[e].next_in
    task.stamp = state.stamp
    task.waiting = waiting
    task.new_ready = ready
    if waiting == 0:
        push(work.heap, state.num_waiting, ready, task.key, t)
        state.num_waiting += 1


@inlined
def close_window(graph: Committed, work: Workspace) -> None:
    """Note where a window has ended, and by how much what follows is shifted."""
    state = work.state[0]
    if state.num_waiting == 0:
        state.rest, state.shift, state.time = graph.num_tasks, 0, 0
    else:
        state.rest, state.time = state.reached, work.heap[0].time
        state.shift = state.time - graph.order[state.rest].ready
    window = work.windows[state.num_windows]
    window.begin = state.begin
    window.end = state.rest
    window.shift = state.shift
    window.last = state.num_retimed
    state.num_windows += 1


@inlined
def gather_landing(graph: Committed, work: Workspace, first: int) -> None:
    """Keep those of the window's tasks that are still under way where it has ended."""
    state = work.state[0]
    for i in range(first, state.num_retimed):
        t = work.retimed[i]
        if graph.tasks[t].new_end >= state.time:
            work.landing[state.num_landing] = t
            state.num_landing += 1


# -- simulating ------------------------------------------------------------------------------------


@inlined
def run_window(graph: Committed, proposal: Proposal, work: Workspace) -> None:
    """Simulate until what follows is the old schedule, shifted, up to the next change or the end.

    What has been taken is the old order up to `reached`, but for added and removed tasks, where as
    many places are behind as were taken or removed. Only then is it looked whether what follows is
    shifted, and after a look in vain not before as many tasks as that has cost.
    """
    tasks, state = graph.tasks, work.state[0]
    state.reached = state.begin
    num_behind = state.begin + pass_removed(state, proposal)
    next_look = state.num_retimed + state.patience + (num_behind == state.begin)
    is_last = state.num_windows == len(work.windows) - 1
    while state.num_waiting > 0:
        t = work.heap[0].slot
        if (
            num_behind == state.reached < graph.num_tasks
            and state.num_retimed >= next_look
            and t == graph.order[state.reached].slot
            and tasks[t].mark != state.epoch
            and not (is_last and is_ahead(state, proposal))
        ):
            is_same, cost = is_shifted(graph, work, work.heap[0].time)
            if is_same:
                break
            next_look = state.num_retimed + 2 * cost
        take(graph, work, t)
        if tasks[t].mark == state.epoch:
            tasks[t].mark = -state.epoch
            state.num_changed -= 1
        if tasks[t].place != ADDED:
            work.flying[state.num_flying] = t
            state.num_flying += 1
            state.reached = max(state.reached, tasks[t].place + 1)
            num_behind += 1 + pass_removed(state, proposal)


@inlined
def pass_removed(state: Record, proposal: Proposal) -> int:
    """Go past the removed places that are reached; returns how many."""
    places, before = proposal.removed_places, state.num_passed
    while state.num_passed < len(places) and places[state.num_passed] <= state.reached:
        state.reached = max(state.reached, places[state.num_passed] + 1)
        state.num_passed += 1
    return int(state.num_passed - before)


@inlined
def take(graph: Committed, work: Workspace, t: int) -> None:
    """Simulate the first task of the heap: its times, its resources, what waits for it."""
    tasks, edges, state = graph.tasks, graph.edges, work.state[0]
    task = tasks[t]
    begin = work.heap[0].time
    pop(work.heap, state.num_waiting)
    state.num_waiting -= 1
    work.retimed[state.num_retimed] = t
    state.num_retimed += 1
    for i in range(task.resources, task.resources_end):
        begin = max(begin, work.free[graph.resources[i]])
    end = begin + task.duration
    for i in range(task.resources, task.resources_end):
        work.free[graph.resources[i]] = end
    task.new_end = end
    state.makespan = max(state.makespan, end)
    e = task.first_out
    while e >= 0:
        s = edges[e].target
        e = edges[e].next_out
        after = tasks[s]
        if after.place < 0:
            continue
        if after.stamp != state.stamp:
            touch(graph, work, s)
        after.new_ready = max(after.new_ready, end)
        after.waiting -= 1
        if after.waiting == 0:
            push(work.heap, state.num_waiting, after.new_ready, after.key, s)
            state.num_waiting += 1


@inlined
def is_shifted(graph: Committed, work: Workspace, new_time: int) -> tuple[bool, int]:
    """Whether the old schedule follows from where the window has got on, shifted to `new_time`.

    Returns what it has cost to see that it does not, too. A flying task that differs is put first,
    and a resource that does is remembered, so that the next look sees it at once.
    """
    tasks, order, free, old_free = graph.tasks, graph.order, work.free, work.old_free
    flying, state = work.flying, work.state[0]
    old_time = order[state.reached].ready
    shift = new_time - old_time
    i = 0
    while i < state.num_flying:
        t = flying[i]
        new_end, old_end = tasks[t].new_end, order[tasks[t].place].end
        if new_end <= new_time and old_end <= old_time:
            state.num_flying -= 1
            flying[i] = flying[state.num_flying]
        elif max(new_end, new_time) - max(old_end, old_time) != shift:
            flying[i] = flying[0]
            flying[0] = t
            return False, i
        else:
            i += 1
    follow_old(graph, work)
    if len(free) == 0:
        return True, 0
    for k in range(-1, len(free)):
        r = state.suspect if k < 0 else k
        if max(free[r], new_time) - max(old_free[r], old_time) != shift:
            state.suspect = r
            return False, i + k + 1
    return True, 0


@inlined
def follow_old(graph: Committed, work: Workspace) -> None:
    """Bring `old_free`, when resources were free in the old schedule, to where the window is."""
    state = work.state[0]
    for place in range(state.followed, state.reached):
        task = graph.tasks[graph.order[place].slot]
        for k in range(task.resources, task.resources_end):
            work.old_free[graph.resources[k]] = graph.order[place].end
    state.followed = state.reached
