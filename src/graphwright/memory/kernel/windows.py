"""Which run of neighbouring entries is emptied to make room: all of them are compared.

    cost      wait + pressure * (seconds of copying caused) / (share of the step until next use)
    belady    the furthest next use among those last used `threshold` operators ago or earlier
    lru       what was used the longest time ago

An entry asks for some copying, and is free then; what a window asks for is put together from its
entries. Emptying one after the other on the way out, free now at x, leaves it free at

    max(x + copying, copied)       for each of them, and so for all of them

So windows are compared in one walk: its end moves on until there is room, and its beginning while
there still is (`behind` has what all entries from some one up to `boundary` ask for together).
"""

from __future__ import annotations

import numpy as np

from graphwright.memory.kernel.entries import ended, free_at
from graphwright.memory.kernel.records import (
    BELADY,
    COST,
    FAR,
    IN,
    NEVER,
    NO_CLASS,
    OUT,
    Record,
    Records,
    Rules,
    Step,
    Work,
)
from graphwright.tasks import inlined


@inlined
def choose(step: Step, work: Work, rules: Rules, s: int, ready: int, arrival: int) -> bool:
    """Find a window for a storage: its first and last entry go to the state.

    Whoever needs it is `ready` then; `arrival` is the time of a swap-in, 0 for an output.
    """
    entries, state = work.entries, work.state[0]
    window, behind, entry_of = work.window, work.behind, work.entry_of
    state.offset = NEVER
    size = step.nbytes[s]
    wanted = step.class_of[s] if len(step.slot_size) else NO_CLASS
    best = np.inf
    first = last = boundary = room = 0
    front = work.behind[len(behind) - 1]  # what entries behind the boundary ask for together
    _forget(front)
    e = state.head
    while e >= 0:
        entry = entries[e]
        barred = entry.storage >= 0 and work.storages[entry.storage].pinned == state.position
        if barred or (wanted != NO_CLASS and entry.of_class != wanted):
            first = last = boundary = room = 0
            _forget(front)
            e = entry.next
            continue
        _empty(step, work, e, window[last])
        entry_of[last] = e
        _join(front, window[last])
        room += entry.size
        last += 1
        while room >= size:
            if first == boundary:
                _turn(window, behind, first, last)
                boundary = last
                _forget(front)
            whole = behind[len(behind) - 2]
            _copy(whole, behind[first])
            _join(whole, front)
            cost = _cost(step, work, rules, whole, size, entries[entry_of[first]].offset, ready,
                         arrival)  # fmt: skip
            if cost < best:
                best = cost
                state.first, state.last = entry_of[first], e
            room -= window[first].size
            first += 1
        e = entry.next
    if rules.homing > 0 and arrival > 0 and work.home[s] >= 0:
        _go_home(step, work, rules, s, ready, best)
    return best < np.inf


@inlined
def _go_home(step: Step, work: Work, rules: Rules, s: int, ready: int, best: float) -> None:
    """Choose the place where a storage began the step, if that is worth it.

    What ends the step there need not be copied out, nor in at the beginning of the next.
    """
    entries, state = work.entries, work.state[0]
    offset, size = work.home[s], step.nbytes[s]
    first = state.head
    while entries[first].offset + entries[first].size <= offset:
        first = entries[first].next
    asks, whole = work.window[0], work.behind[len(work.behind) - 2]
    _forget(whole)
    e = last = first
    room = entries[first].offset - offset
    barred = False
    while room < size and not barred:
        entry = entries[e]
        barred = entry.storage >= 0 and work.storages[entry.storage].pinned == state.position
        _empty(step, work, e, asks)
        _join(whole, asks)
        room += entry.size
        last, e = e, entry.next
    cost = _cost(step, work, rules, whole, size, offset, ready, step.in_time[s])
    saved = float(step.in_time[s])
    if step.is_written[s]:
        saved += float(step.out_time[s])
    if not barred and cost <= best + rules.homing * saved:
        state.first, state.last, state.offset = first, last, offset


@inlined
def _empty(step: Step, work: Work, e: int, asks: Record) -> None:
    """What it takes to empty an entry."""
    _forget(asks)
    entry = work.entries[e]
    asks.size = entry.size
    s = entry.storage
    if s < 0:
        asks.free = free_at(work, e)
        if entry.last_run >= 0:
            asks.latest = work.log[entry.last_run].offset
        return
    held = work.storages[s]
    used = ended(work, held.used)
    asks.residents = 1
    asks.latest = held.used_at
    asks.free = used
    if held.on_host == 0:
        asks.copying = asks.moved = step.out_time[s]
        asks.copied = used + step.out_time[s]
    if held.use < work.use_ptr[s + 1]:
        asks.soonest = work.clock[work.uses[held.use]]
        asks.moved += step.in_time[s]
    elif work.home[s] >= 0:  # the next iteration begins with it
        asks.soonest = work.clock[len(step.order)] + work.clock[work.uses[work.use_ptr[s]]]
        asks.moved += step.in_time[s]


@inlined
def _forget(asks: Record) -> None:
    asks.size = asks.free = asks.copying = asks.copied = asks.moved = asks.residents = 0
    asks.soonest, asks.latest = FAR, -1


@inlined
def _copy(asks: Record, other: Record) -> None:
    asks.size, asks.free, asks.copying, asks.copied = (
        other.size, other.free, other.copying, other.copied,
    )  # fmt: skip
    asks.moved, asks.soonest, asks.latest = other.moved, other.soonest, other.latest
    asks.residents = other.residents


@inlined
def _join(asks: Record, then: Record) -> None:
    """What it takes to empty an entry behind others."""
    asks.size += then.size
    asks.free = max(asks.free, then.free)
    asks.copied = max(asks.copied + then.copying, then.copied)
    asks.copying += then.copying
    asks.moved += then.moved
    asks.soonest = min(asks.soonest, then.soonest)
    asks.latest = max(asks.latest, then.latest)
    asks.residents += then.residents


@inlined
def _turn(window: Records, behind: Records, first: int, last: int) -> None:
    """What the entries from each one up to the last ask for together."""
    _copy(behind[last - 1], window[last - 1])
    for q in range(last - 2, first - 1, -1):
        _copy(behind[q], window[q])
        _join(behind[q], behind[q + 1])


@inlined
def _cost(step: Step, work: Work, rules: Rules, asks: Record, size: int, offset: int, ready: int,
          arrival: int) -> float:  # fmt: skip
    """How bad it is to take a window."""
    n, position = len(step.order), work.state[0].position
    length = float(max(work.clock[n], 1))
    is_gap = asks.residents == 0
    spare = min(4.0, (asks.size - size) / size)
    if rules.policy != COST:
        taken_now = is_gap and arrival == 0
        recent = position - asks.latest < rules.threshold and not taken_now
        cost = 1e18 if recent else 0.0
        if rules.policy == BELADY:
            furthest = 3 * work.clock[n] if is_gap else min(asks.soonest, 2 * work.clock[n])
            cost -= 1e9 * furthest / length
        elif is_gap:
            cost -= 1e15
        return cost + float(asks.latest) + spare
    available = asks.free
    if asks.copying:
        available = max(available, max(work.free[OUT] + asks.copying, asks.copied))
    if arrival > 0:
        cost = float(max(0, max(work.free[IN], available) + arrival - ready))
    else:
        cost = float(max(0, available - ready))
    one = length / n
    if is_gap:
        cost += one * 1e-3 * spare
        cost += one * rules.late * (ready - available) / length
    else:
        distance = 1.0
        if asks.soonest < FAR:
            distance = (asks.soonest - work.clock[position]) / length
        cost += rules.pressure * asks.moved / (distance + 1e-3)
        cost += one * (rules.late + 1e-2)
    if rules.small > 0:
        height = offset / max(step.capacity, 1)
        cost += one * (1 - height if size < rules.small else height)
    return cost
