"""The evaluation of a proposal over the pools of `delta_pools`. See `delta` for what it computes and why it is right.

evaluate             all of it: window after window until all changes are behind
  mark_changed       which tasks are changed
  find_next_change   before which (ready, key) the old schedule, shifted, holds
  open_window        the state at that place
  run_window         simulates from there until find_shift says that what follows is shifted
"""

from __future__ import annotations

import numpy as np

from graphwright.plans import Ints
from graphwright.simulate.delta.changes import mark_changed
from graphwright.simulate.delta.heap import pop, push
from graphwright.simulate.delta.pools import (
    ADDED,
    BLOCK,
    DURATION,
    FIRST_IN,
    FIRST_OUT,
    KEY,
    MARK,
    NEW_END,
    NEW_READY,
    NEXT_IN,
    NEXT_OUT,
    OLD_BEGIN,
    OLD_END,
    RESOURCE,
    RESOURCE_END,
    SHIFT,
    SOURCE,
    STAMP,
    TARGET,
    WAITING,
    WINDOW_END,
)
from graphwright.tasks import compiled


@compiled
def end_of(tasks: Ints, order_end: Ints, table: Ints, num_windows: int, place: int, t: int) -> int:
    """The new end of the task at an old place that the windows so far, or what lies between them, have passed."""
    end: int = order_end[place]
    for w in range(num_windows - 1, -1, -1):
        if place >= table[w, OLD_END]:
            end += table[w, SHIFT]
            break
        if place >= table[w, OLD_BEGIN]:
            end = tasks[NEW_END, t]
            break
    return end


@compiled
def find_next_change(
    tasks: Ints,
    links: Ints,
    position: Ints,
    edges: Ints,
    order: Ints,
    order_ready: Ints,
    order_end: Ints,
    changed: Ints,
    removed_places: Ints,
    epoch: int,
    table: Ints,
    num_windows: int,
    rest: int,
    shift: int,
) -> tuple[int, int]:
    """The (ready, key) before which the old schedule from `rest` on, shifted, holds. `changed` is in the order of keys."""
    first_time = np.iinfo(np.int64).max
    first_key = np.iinfo(np.int64).max
    if len(removed_places) > 0:
        first_time = order_ready[removed_places[0]] + shift
        first_key = tasks[KEY, order[removed_places[0]]]
    for t in changed:
        if links[MARK, t] != epoch:
            continue
        bound = 0
        e = links[FIRST_IN, t]
        while e >= 0:
            p = edges[SOURCE, e]
            place = position[p]
            if place >= 0:
                if links[MARK, p] == epoch:
                    bound = max(bound, tasks[NEW_READY, p] + tasks[DURATION, p])
                elif place == ADDED:
                    bound = max(bound, tasks[NEW_END, p])
                elif place < rest:
                    bound = max(bound, end_of(tasks, order_end, table, num_windows, place, p))
                else:
                    bound = max(bound, order_end[place] + shift)
            e = edges[NEXT_IN, e]
        tasks[NEW_READY, t] = bound
        if position[t] != ADDED:
            bound = min(bound, order_ready[position[t]] + shift)
        if bound < first_time or (bound == first_time and tasks[KEY, t] < first_key):
            first_time = bound
            first_key = tasks[KEY, t]
    return first_time, first_key


@compiled
def find_place(
    tasks: Ints, order: Ints, order_ready: Ints, num_tasks: int, time: int, key: int
) -> int:
    """How many committed tasks come before (time, key)."""
    low, high = 0, num_tasks
    while low < high:
        middle = (low + high) >> 1
        if order_ready[middle] < time or (
            order_ready[middle] == time and tasks[KEY, order[middle]] < key
        ):
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def touch(
    tasks: Ints,
    links: Ints,
    position: Ints,
    edges: Ints,
    order_end: Ints,
    table: Ints,
    num_windows: int,
    prefix: int,
    epoch: int,
    t: int,
    times: Ints,
    keys: Ints,
    slots: Ints,
    size: int,
) -> int:
    """Meet a task for the first time in a window: what it waits for, since when; into the heap if for nothing.

    Returns the heap's size.
    """
    links[STAMP, t] = epoch + num_windows
    waiting = 0
    ready = 0
    e = links[FIRST_IN, t]
    while e >= 0:
        p = edges[SOURCE, e]
        place = position[p]
        if place >= prefix:
            if place == ADDED and links[MARK, p] == -epoch:
                ready = max(ready, tasks[NEW_END, p])
            else:
                waiting += 1
        elif place >= 0:
            ready = max(ready, end_of(tasks, order_end, table, num_windows, place, p))
        e = edges[NEXT_IN, e]
    links[WAITING, t] = waiting
    tasks[NEW_READY, t] = ready
    if waiting == 0:
        push(times, keys, slots, size, ready, tasks[KEY, t], t)
        size += 1
    return size


@compiled
def latest_end(
    order_end: Ints, block_end: Ints, before: Ints, after: Ints, low: int, high: int, num_tasks: int
) -> int:
    """The latest end among the places from `low` to `high`."""
    first, last = -(-low // BLOCK), high // BLOCK  # the whole blocks in between
    if high == num_tasks:
        last = -(-num_tasks // BLOCK)
    latest = 0
    if first > last:
        for i in range(low, high):
            latest = max(latest, order_end[i])
        return latest
    for i in range(low, min(first * BLOCK, high)):
        latest = max(latest, order_end[i])
    for i in range(last * BLOCK, high):
        latest = max(latest, order_end[i])
    if low == 0:
        latest = max(latest, before[last])
    elif high == num_tasks:
        latest = max(latest, after[first])
    else:
        for b in range(first, last):
            latest = max(latest, block_end[b])
    return latest


@compiled
def enter(
    tasks: Ints,
    links: Ints,
    position: Ints,
    edges: Ints,
    pool: Ints,
    order_end: Ints,
    table: Ints,
    num_windows: int,
    prefix: int,
    epoch: int,
    free: Ints,
    times: Ints,
    keys: Ints,
    slots: Ints,
    size: int,
    t: int,
    end: int,
) -> int:
    """Take over a task that is under way where a window opens: its resources, its successors. Returns the heap's size."""
    for i in range(links[RESOURCE, t], links[RESOURCE_END, t]):
        free[pool[i]] = max(free[pool[i]], end)
    e = links[FIRST_OUT, t]
    while e >= 0:
        s = edges[TARGET, e]
        if (
            position[s] >= prefix
            and links[STAMP, s] != epoch + num_windows
            and (position[s] != ADDED or links[MARK, s] == epoch)
        ):
            size = touch(
                tasks, links, position, edges, order_end, table, num_windows, prefix, epoch, s,
                times, keys, slots, size,
            )  # fmt: skip
        e = edges[NEXT_OUT, e]
    return size


@compiled
def open_window(
    tasks: Ints,
    links: Ints,
    position: Ints,
    edges: Ints,
    pool: Ints,
    order: Ints,
    order_ready: Ints,
    order_end: Ints,
    block_end: Ints,
    before: Ints,
    num_tasks: int,
    changed: Ints,
    table: Ints,
    num_windows: int,
    prefix: int,
    time: int,
    epoch: int,
    free: Ints,
    times: Ints,
    keys: Ints,
    slots: Ints,
    landing: Ints,
    num_landing: int,
    flying: Ints,
) -> tuple[int, int, int]:
    """The state at a place: when resources are free, and the heap of what is ready next.

    `landing` are tasks of earlier windows that may still be under way. Returns the number of these, that of the tasks
    under way in `flying`, and the heap's size.
    """
    stamp = epoch + num_windows
    size = 0
    num_flying = 0
    free[:] = 0
    for t in changed:
        if links[MARK, t] == epoch and links[STAMP, t] != stamp:
            size = touch(
                tasks, links, position, edges, order_end, table, num_windows, prefix, epoch, t,
                times, keys, slots, size,
            )  # fmt: skip
    place = prefix
    while place < num_tasks and order_ready[place] == 0:
        t = order[place]
        if position[t] >= 0 and links[STAMP, t] != stamp:
            size = touch(
                tasks, links, position, edges, order_end, table, num_windows, prefix, epoch, t,
                times, keys, slots, size,
            )  # fmt: skip
        place += 1
    i = 0
    while i < num_landing:
        t = landing[i]
        if tasks[NEW_END, t] < time:
            num_landing -= 1
            landing[i] = landing[num_landing]
            continue
        size = enter(
            tasks, links, position, edges, pool, order_end, table, num_windows, prefix, epoch, free,
            times, keys, slots, size, t, tasks[NEW_END, t],
        )  # fmt: skip
        if position[t] != ADDED:
            flying[num_flying] = t
            num_flying += 1
        i += 1
    high = prefix
    for w in range(num_windows - 1, -2, -1):
        low = table[w, OLD_END] if w >= 0 else 0
        shift = table[w, SHIFT] if w >= 0 else 0
        block = (high - 1) // BLOCK
        while (block + 1) * BLOCK > low and high > low and before[block + 1] + shift >= time:
            if block_end[block] + shift >= time:
                for place in range(max(low, block * BLOCK), min((block + 1) * BLOCK, high)):
                    end = order_end[place] + shift
                    if end >= time:
                        t = order[place]
                        tasks[NEW_END, t] = end
                        flying[num_flying] = t
                        num_flying += 1
                        size = enter(
                            tasks, links, position, edges, pool, order_end, table, num_windows,
                            prefix, epoch, free, times, keys, slots, size, t, end,
                        )  # fmt: skip
            block -= 1
        if w >= 0:
            high = table[w, OLD_BEGIN]
    return num_landing, num_flying, size


@compiled
def find_shift(
    tasks: Ints,
    links: Ints,
    position: Ints,
    pool: Ints,
    order: Ints,
    order_ready: Ints,
    order_end: Ints,
    free: Ints,
    old_free: Ints,
    new_time: int,
    reached: int,
    flying: Ints,
    memo: Ints,
) -> tuple[bool, int]:
    """Whether what follows, from place `reached` of the old order on, is the old schedule shifted to `new_time`.

    Returns the cost to see that, too. `memo` holds what goes from check to check: the number of `flying` tasks, the place
    to which `old_free` has got, and the resource that differed last. A flying task that differs is put first, so that
    the next check sees it at once.
    """
    old_time = order_ready[reached]
    shift = new_time - old_time
    i = 0
    while i < memo[0]:
        t = flying[i]
        new_end, old_end = tasks[NEW_END, t], order_end[position[t]]
        if new_end <= new_time and old_end <= old_time:
            memo[0] -= 1
            flying[i] = flying[memo[0]]
        elif max(new_end, new_time) - max(old_end, old_time) != shift:
            flying[i] = flying[0]
            flying[0] = t
            return False, i
        else:
            i += 1
    for place in range(memo[1], reached):
        t = order[place]
        for k in range(links[RESOURCE, t], links[RESOURCE_END, t]):
            old_free[pool[k]] = order_end[place]
    memo[1] = reached
    if len(free) == 0:
        return True, 0
    for k in range(-1, len(free)):
        r = memo[2] if k < 0 else k
        if max(free[r], new_time) - max(old_free[r], old_time) != shift:
            memo[2] = r
            return False, i + k + 1
    return True, 0


@compiled
def run_window(
    tasks: Ints,
    links: Ints,
    position: Ints,
    edges: Ints,
    pool: Ints,
    order: Ints,
    order_ready: Ints,
    order_end: Ints,
    num_tasks: int,
    table: Ints,
    num_windows: int,
    prefix: int,
    removed_places: Ints,
    num_changed: int,
    epoch: int,
    free: Ints,
    old_free: Ints,
    times: Ints,
    keys: Ints,
    slots: Ints,
    size: int,
    window: Ints,
    count: int,
    flying: Ints,
    num_flying: int,
    patience: int,
) -> tuple[int, int, int, int, int, int]:
    """Simulate until what follows is the old schedule, shifted, at least up to the next change, or to the end.

    Returns the heap's size, the number of tasks in `window`, the place that was reached, how many of the removed places have
    been passed, how many changed tasks are still to come, and the latest end in the window.
    """
    stamp = epoch + num_windows
    memo = np.array([num_flying, prefix, 0])
    next_check = count + 1 + patience
    reached = prefix  # what has been popped is the old order up to here, if as many are gone
    num_gone = prefix
    passed = 0
    latest = 0
    while passed < len(removed_places) and removed_places[passed] == reached:
        reached += 1
        num_gone += 1
        passed += 1
        next_check = count + patience
    is_last = num_windows == len(table) - 1
    while size > 0:
        t = slots[0]
        if (
            num_gone == reached
            and reached < num_tasks
            and count >= next_check
            and t == order[reached]
            and links[MARK, t] != epoch
            and (not is_last or (num_changed == 0 and passed == len(removed_places)))
        ):
            same, cost = find_shift(
                tasks, links, position, pool, order, order_ready, order_end,
                free, old_free, times[0], reached, flying, memo,
            )  # fmt: skip
            if same:
                break
            next_check = count + 2 * cost

        begin = times[0]
        pop(times, keys, slots, size)
        size -= 1
        window[count] = t
        count += 1
        low, high = links[RESOURCE, t], links[RESOURCE_END, t]
        for i in range(low, high):
            begin = max(begin, free[pool[i]])
        end = begin + tasks[DURATION, t]
        for i in range(low, high):
            free[pool[i]] = end
        tasks[NEW_END, t] = end
        latest = max(latest, end)
        e = links[FIRST_OUT, t]
        while e >= 0:
            s = edges[TARGET, e]
            e = edges[NEXT_OUT, e]
            if position[s] < 0:
                continue
            if links[STAMP, s] != stamp:
                touch(
                    tasks, links, position, edges, order_end, table, num_windows, prefix, epoch, s,
                    times, keys, slots, size,
                )  # fmt: skip
            ready = max(tasks[NEW_READY, s], end)
            tasks[NEW_READY, s] = ready
            waiting = links[WAITING, s] - 1
            links[WAITING, s] = waiting
            if waiting == 0:
                push(times, keys, slots, size, ready, tasks[KEY, s], s)
                size += 1
        if links[MARK, t] == epoch:
            links[MARK, t] = -epoch
            num_changed -= 1
        place = position[t]
        if place != ADDED:
            num_gone += 1
            reached = max(reached, place + 1)
            flying[memo[0]] = t
            memo[0] += 1
            while passed < len(removed_places) and removed_places[passed] <= reached:
                reached = max(reached, removed_places[passed] + 1)
                num_gone += 1
                passed += 1
    return size, count, reached, passed, num_changed, latest


@compiled
def evaluate(
    tasks: Ints,
    links: Ints,
    position: Ints,
    edges: Ints,
    pool: Ints,
    order: Ints,
    order_ready: Ints,
    order_end: Ints,
    block_end: Ints,
    before: Ints,
    after: Ints,
    num_tasks: int,
    added: Ints,
    removed: Ints,
    linked: Ints,
    epoch: int,
    free: Ints,
    old_free: Ints,
    times: Ints,
    keys: Ints,
    slots: Ints,
    window: Ints,
    flying: Ints,
    landing: Ints,
    table: Ints,
) -> tuple[int, int]:
    """The makespan after the open proposal and the number of windows, whose places and shifts are put in `table`."""
    for i in range(len(removed)):
        push(times, keys, slots, i, ~position[removed[i]], 0, 0)
    removed_places = np.empty(len(removed), np.int64)
    for i in range(len(removed)):
        removed_places[i] = times[0]
        pop(times, keys, slots, len(removed) - i)
    num_changed = mark_changed(
        tasks, links, position, edges, added, removed, linked, epoch, times, keys, slots
    )
    changed = slots[:num_changed].copy()
    if num_tasks > 0:
        for i in range(num_changed):
            changed[i] = slots[0]
            pop(times, keys, slots, num_changed - i)

    count, num_windows, num_landing, patience = 0, 0, 0, 0
    rest, shift, makespan = 0, 0, 0
    while num_changed > 0 or len(removed_places) > 0:
        time, prefix = 0, 0
        if num_tasks > 0:
            time, key = find_next_change(
                tasks, links, position, edges, order, order_ready, order_end, changed,
                removed_places, epoch, table, num_windows, rest, shift,
            )  # fmt: skip
            prefix = find_place(tasks, order, order_ready, num_tasks, time - shift, key)
            prefix = max(prefix, rest)
        num_landing, num_flying, size = open_window(
            tasks, links, position, edges, pool, order, order_ready, order_end, block_end, before,
            num_tasks, changed, table, num_windows, prefix, time, epoch, free, times, keys, slots,
            landing, num_landing, flying,
        )  # fmt: skip
        if num_windows > 0 and prefix - rest < len(free) + num_flying:
            patience = 2 * patience + len(free) + num_flying  # the last window was closed in vain
        old_free[:] = free - shift
        if prefix > rest:
            between = latest_end(order_end, block_end, before, after, rest, prefix, num_tasks)
            makespan = max(makespan, between + shift)
        first = count
        size, count, rest, passed, num_changed, latest = run_window(
            tasks, links, position, edges, pool, order, order_ready, order_end, num_tasks,
            table, num_windows, prefix, removed_places, num_changed, epoch, free, old_free,
            times, keys, slots, size, window, count, flying, num_flying, patience,
        )  # fmt: skip
        if size == 0:
            rest = num_tasks
            shift = 0
            time = 0
        else:
            time = times[0]
            shift = time - order_ready[rest]
        table[num_windows, OLD_BEGIN] = prefix
        table[num_windows, OLD_END] = rest
        table[num_windows, SHIFT] = shift
        table[num_windows, WINDOW_END] = count
        num_windows += 1
        removed_places = removed_places[passed:]
        makespan = max(makespan, latest)
        if num_changed > 0 or len(removed_places) > 0:
            for i in range(first, count):
                if tasks[NEW_END, window[i]] >= time:
                    landing[num_landing] = window[i]
                    num_landing += 1
    if rest < num_tasks:
        makespan = max(
            makespan,
            latest_end(order_end, block_end, before, after, rest, num_tasks, num_tasks) + shift,
        )
    return makespan, num_windows
