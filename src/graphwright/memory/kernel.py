"""One pass of the swap planner over a schedule (SwapAdvisor section 4.3.2), compiled.

Memory is a row of entries: storages that are resident, and gaps. A gap remembers the last action of
the compute and of the out stream that touched it, so that whoever takes it waits for no more than
that. Scanning the schedule, an operator's missing inputs and its outputs are given windows: runs of
neighbouring entries that are large enough, of which the residents are evicted. In a pool of size
classes a window is one slot of the right class.

    swap-out of v     begins when the last user of v has ended: however late it is asked for
    swap-in of t      begins when the swap-outs of its window, and its users, have ended
    operator          begins when its inputs are there, and its outputs' places are free

Actions are timed as they are added: every stream is a queue, and what an action waits for precedes
it. So a pass knows exactly how long an operator would wait for each window (`_choose`):

    cost      wait + pressure * (seconds of copying caused) / (share of the step until next use)
    belady    the furthest next use among those last used `threshold` operators ago or earlier
    lru       what was used the longest time ago

An operator may stand in the schedule more than once: what it makes is made again there, and was
free since its last reader before.

Residents that begin the step at home and were never used are dropped from the beginning on: they
are no residents then. Where a window cannot be found between the inputs of an operator, all of
memory is emptied and its inputs come back side by side.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphwright.tasks import compiled

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

RUN, OUT, IN = 0, 1, 2
KIND, SUBJECT, OFFSET, AFTER, START, END, LOG_FIELDS = 0, 1, 2, 3, 6, 7, 8
OFF, SIZE, STORAGE, LAST_RUN, LAST_OUT, NEXT, PREV, CLASS, ENTRY_FIELDS = 0, 1, 2, 3, 4, 5, 6, 7, 8
ENTRY, ON_HOST, USED, CAME, COPIED, USE, USED_AT, PINNED, STATE_FIELDS = 0, 1, 2, 3, 4, 5, 6, 7, 8
LENGTH, HEAD, UNUSED, FREE, FIRST, TAIL, POSITION, LATEST, NUM_ENTRIES, CAPACITY, GLOBALS = (
    0, 1, 2, 3, 6, 7, 8, 9, 12, 13, 14,
)  # fmt: skip
COST, BELADY, LRU = 0, 1, 2
POLICY, THRESHOLD, PRESSURE, LOOKAHEAD, LATE, SMALL = 0, 1, 2, 3, 4, 5
NO_CLASS = -1
FAR = 1 << 60
MOST_GAPS = 3000
SHORT = 48
"""Windows of more entries are looked at only where no shorter one is large enough."""


@compiled
def emit(log: Ints, g: Ints, kind: int, subject: int, offset: int, duration: int,
         after_run: int, after_out: int, after_in: int) -> int:  # fmt: skip
    """Add an action behind all that it waits for, and return its number."""
    at = int(g[LENGTH])
    start = g[FREE + kind]
    if after_run >= 0:
        start = max(start, log[after_run, END])
    if after_out >= 0:
        start = max(start, log[after_out, END])
    if after_in >= 0:
        start = max(start, log[after_in, END])
    log[at, KIND] = kind
    log[at, SUBJECT] = subject
    log[at, OFFSET] = offset
    log[at, AFTER + RUN] = after_run if kind != RUN else -1
    log[at, AFTER + OUT] = after_out if kind != OUT else -1
    log[at, AFTER + IN] = after_in if kind != IN else -1
    log[at, START] = start
    log[at, END] = start + duration
    g[FREE + kind] = start + duration
    g[LATEST + kind] = at
    g[LENGTH] = at + 1
    return at


@compiled
def _ended(log: Ints, action: int) -> int:
    return int(log[action, END]) if action >= 0 else 0


@compiled
def _new_entry(entries: Ints, g: Ints, offset: int, size: int, run: int, out: int) -> int:
    e = int(g[UNUSED])
    g[UNUSED] = entries[e, NEXT]
    entries[e, OFF] = offset
    entries[e, SIZE] = size
    entries[e, STORAGE] = -1
    entries[e, LAST_RUN] = run
    entries[e, LAST_OUT] = out
    entries[e, CLASS] = NO_CLASS
    g[NUM_ENTRIES] += 1
    return e


@compiled
def _unlink(entries: Ints, g: Ints, e: int) -> None:
    before, behind = entries[e, PREV], entries[e, NEXT]
    if before >= 0:
        entries[before, NEXT] = behind
    else:
        g[HEAD] = behind
    if behind >= 0:
        entries[behind, PREV] = before
    entries[e, NEXT] = g[UNUSED]
    g[UNUSED] = e
    g[NUM_ENTRIES] -= 1


@compiled
def _link_behind(entries: Ints, e: int, new: int) -> None:
    behind = entries[e, NEXT]
    entries[new, PREV] = e
    entries[new, NEXT] = behind
    entries[e, NEXT] = new
    if behind >= 0:
        entries[behind, PREV] = new


@compiled
def _absorb(entries: Ints, log: Ints, g: Ints, e: int, always: bool) -> int:
    """Join a gap with the gaps beside it where nothing is lost by that, or always."""
    early = min(g[FREE + RUN], g[FREE + IN])
    for side in (PREV, NEXT):
        other = entries[e, side]
        while other >= 0 and entries[other, STORAGE] < 0 and entries[other, CLASS] == NO_CLASS:
            alike = (
                entries[other, LAST_RUN] == entries[e, LAST_RUN]
                and entries[other, LAST_OUT] == entries[e, LAST_OUT]
            )
            if not always and not alike:
                latest = 0
                for gap in (e, other):
                    latest = max(latest, _ended(log, entries[gap, LAST_RUN]))
                    latest = max(latest, _ended(log, entries[gap, LAST_OUT]))
                if latest > early:
                    break
            entries[e, LAST_RUN] = max(entries[e, LAST_RUN], entries[other, LAST_RUN])
            entries[e, LAST_OUT] = max(entries[e, LAST_OUT], entries[other, LAST_OUT])
            entries[e, OFF] = min(entries[e, OFF], entries[other, OFF])
            entries[e, SIZE] += entries[other, SIZE]
            _unlink(entries, g, other)
            other = entries[e, side]
    return e


@compiled
def _choose(entries: Ints, state: Ints, log: Ints, g: Ints, options: Floats, uses: Ints,
            use_ptr: Ints, ideal: Ints, out_time: Ints, in_time: Ints, home: Ints,
            size: int, wanted: int, ready: int, arrival: int, longest: int) -> bool:  # fmt: skip
    """Find a window of at most `longest` entries: its first and its last go to g.

    `arrival` is the time of the swap-in, 0 for an output.
    """
    pos = g[POSITION]
    n = len(ideal) - 1
    total = float(max(ideal[n], 1))
    policy = int(options[POLICY])
    best = np.inf
    e = g[HEAD]
    while e >= 0:
        room = 0
        available = 0
        out_free = g[FREE + OUT]
        moved = 0.0
        soonest = FAR
        latest_use = -1
        f = e
        is_gap = True
        length = 0
        while f >= 0 and room < size:
            length += 1
            too_late = policy == COST and available + arrival - ready > best
            if length > longest or too_late:
                break
            s = entries[f, STORAGE]
            if wanted != NO_CLASS and entries[f, CLASS] != wanted:
                break
            if s < 0:
                available = max(available, _ended(log, entries[f, LAST_RUN]))
                available = max(available, _ended(log, entries[f, LAST_OUT]))
                if entries[f, LAST_RUN] >= 0:
                    latest_use = max(latest_use, log[entries[f, LAST_RUN], OFFSET])
            else:
                if state[s, PINNED] == pos:
                    break
                is_gap = False
                last = _ended(log, state[s, USED])
                if state[s, ON_HOST] == 0:
                    out_free = max(out_free, last) + out_time[s]
                    available = max(available, out_free)
                    moved += out_time[s]
                else:
                    available = max(available, last)
                u = state[s, USE]
                if u < use_ptr[s + 1]:
                    soonest = min(soonest, ideal[uses[u]])
                    moved += in_time[s]
                elif home[s] >= 0:  # the next iteration begins with it
                    soonest = min(soonest, ideal[n] + ideal[uses[use_ptr[s]]])
                    moved += in_time[s]
                latest_use = max(latest_use, state[s, USED_AT])
            room += entries[f, SIZE]
            if room < size:
                if wanted != NO_CLASS:
                    break
                f = entries[f, NEXT]
        if f >= 0 and room >= size and length <= longest:
            if arrival > 0:
                wait = max(0, max(g[FREE + IN], available) + arrival - ready)
            else:
                wait = max(0, available - ready)
            if policy == COST:
                cost = float(wait)
                if is_gap:
                    cost += total / n * 1e-3 * min(4.0, (room - size) / size)
                    cost += total / n * options[LATE] * (ready - available) / total
                else:
                    distance = 1.0 if soonest == FAR else (soonest - ideal[pos]) / total
                    cost += options[PRESSURE] * moved / (distance + 1e-3)
                    cost += total / n * (options[LATE] + 1e-2)
                if options[SMALL] > 0:
                    height = entries[e, OFF] / g[CAPACITY]
                    cost += total / n * (1 - height if size < options[SMALL] else height)
            else:
                recent = pos - latest_use < options[THRESHOLD] and not (is_gap and arrival == 0)
                cost = 1e18 if recent else 0.0
                if policy == BELADY:
                    furthest = 3 * ideal[n] if is_gap else min(soonest, 2 * ideal[n])
                    cost -= 1e9 * furthest / total
                elif is_gap:
                    cost -= 1e15
                cost += float(latest_use) + min(4.0, (room - size) / size)
            if cost < best:
                best = cost
                g[FIRST] = e
                g[TAIL] = f
        e = entries[e, NEXT]
    return best < np.inf


@compiled
def _evict(entries: Ints, state: Ints, log: Ints, g: Ints, home: Ints, out_time: Ints,
           is_written: Flags, paced: int, s: int) -> None:  # fmt: skip
    """Take a resident out of its entry, which becomes a gap."""
    e = state[s, ENTRY]
    if state[s, USED] < 0 and state[s, CAME] < 0 and home[s] >= 0:
        home[s] = -2  # never used: it was not there in the beginning
        state[s, ON_HOST] = 1
    if state[s, ON_HOST] == 0:
        run = max(state[s, USED], paced)
        state[s, COPIED] = emit(log, g, OUT, s, -1, out_time[s], run, -1, state[s, CAME])
        state[s, ON_HOST] = 1
        entries[e, LAST_OUT] = state[s, COPIED]
    entries[e, LAST_RUN] = state[s, USED]
    entries[e, STORAGE] = -1
    state[s, ENTRY] = -1


@compiled
def _carve(entries: Ints, state: Ints, log: Ints, g: Ints, home: Ints, out_time: Ints,
           is_written: Flags, paced: int, size: int, s: int, small: float) -> int:  # fmt: skip
    """Evict what is in the chosen window and give it to a storage; the rest stays a gap."""
    e, tail = int(g[FIRST]), g[TAIL]
    f = e
    while True:
        if entries[f, STORAGE] >= 0:
            _evict(entries, state, log, g, home, out_time, is_written, paced, entries[f, STORAGE])
        if f == tail:
            break
        f = entries[f, NEXT]
    if size < small and e == tail and entries[e, CLASS] == NO_CLASS and entries[e, SIZE] > size:
        entries[e, SIZE] -= size
        top = _new_entry(entries, g, entries[e, OFF] + entries[e, SIZE], size,
                         entries[e, LAST_RUN], entries[e, LAST_OUT])  # fmt: skip
        _link_behind(entries, e, top)
        entries[top, STORAGE] = s
        state[s, ENTRY] = top
        _absorb(entries, log, g, e, False)
        return top
    state[s, ENTRY] = e
    if entries[e, CLASS] == NO_CLASS:
        room = entries[e, SIZE]
        run, out = entries[e, LAST_RUN], entries[e, LAST_OUT]
        rest_run, rest_out = run, out
        while room < size:
            f = entries[e, NEXT]
            rest_run, rest_out = entries[f, LAST_RUN], entries[f, LAST_OUT]
            run, out = max(run, rest_run), max(out, rest_out)
            room += entries[f, SIZE]
            _unlink(entries, g, f)
        entries[e, STORAGE] = s
        entries[e, SIZE] = size
        entries[e, LAST_RUN] = run
        entries[e, LAST_OUT] = out
        if room > size:
            rest = _new_entry(entries, g, entries[e, OFF] + size, room - size, rest_run, rest_out)
            _link_behind(entries, e, rest)
            _absorb(entries, log, g, rest, False)
    entries[e, STORAGE] = s
    return e


@compiled
def _free(entries: Ints, state: Ints, log: Ints, g: Ints, s: int) -> None:
    """Make a gap of what nobody needs any more."""
    e = state[s, ENTRY]
    entries[e, STORAGE] = -1
    entries[e, LAST_RUN] = state[s, USED]
    entries[e, LAST_OUT] = state[s, COPIED]
    state[s, ENTRY] = -1
    if entries[e, CLASS] == NO_CLASS:
        _absorb(entries, log, g, e, g[NUM_ENTRIES] > MOST_GAPS)


@compiled
def plan_pass(order: Ints, duration: Ints, over: Ints, read_ptr: Ints, reads: Ints,
              written: Flags, make_ptr: Ints, makes: Ints, nbytes: Ints, out_time: Ints,
              in_time: Ints, begins_on_host: Flags, ends: Ints, is_written: Flags,
              capacity: int, slot_size: Ints, slot_class: Ints, class_of: Ints, home: Ints,
              options: Floats, log: Ints, place: Ints) -> tuple[int, int]:  # fmt: skip
    """Plan one step: fill `log` with actions and `place` with (action, storage, offset) of outputs.

    Returns how many there are of each; the first is -1 where the log is full, -2 - i where the
    i-th operator of the order finds no room. `home` has the offsets of residents, -1 for others;
    those that turn out to be none become -2, those that do not end at home -3.
    """
    n, num = len(order), len(nbytes)
    state = np.full((num, STATE_FIELDS), -1, np.int64)
    g = np.full(GLOBALS, -1, np.int64)
    g[LENGTH] = 0
    g[NUM_ENTRIES] = 0
    g[CAPACITY] = max(capacity, 1)
    for stream in range(3):
        g[FREE + stream] = 0
    # Uses of every storage, in the order of the schedule.
    ideal = np.zeros(n + 1, np.int64)
    use_ptr = np.zeros(num + 1, np.int64)
    for i in range(n):
        op = order[i]
        ideal[i + 1] = ideal[i] + duration[op]
        for k in range(read_ptr[op], read_ptr[op + 1]):
            use_ptr[reads[k] + 1] += 1
        for k in range(make_ptr[op], make_ptr[op + 1]):
            use_ptr[makes[k] + 1] += 1
    for s in range(num):
        use_ptr[s + 1] += use_ptr[s]
        state[s, USE] = use_ptr[s]
        state[s, ON_HOST] = 1 if begins_on_host[s] else 0
    uses = np.empty(use_ptr[num], np.int64)
    is_made = np.zeros(use_ptr[num] + 1, np.bool_)
    fill = use_ptr[:-1].copy()
    for i in range(n):
        op = order[i]
        for k in range(read_ptr[op], read_ptr[op + 1]):
            uses[fill[reads[k]]] = i
            fill[reads[k]] += 1
        for k in range(make_ptr[op], make_ptr[op + 1]):
            uses[fill[makes[k]]] = i
            is_made[fill[makes[k]]] = True
            fill[makes[k]] += 1
    # Entries: slots of a pool, or residents with gaps between them.
    slots = len(slot_size)
    entries = np.full((slots + 4 * num + 16, ENTRY_FIELDS), -1, np.int64)
    for e in range(len(entries)):
        entries[e, NEXT] = e + 1 if e + 1 < len(entries) else -1
    g[UNUSED] = 0
    before, offset = -1, 0
    if slots:
        for k in range(slots):
            e = _new_entry(entries, g, offset, slot_size[k], -1, -1)
            entries[e, CLASS] = slot_class[k]
            offset += slot_size[k]
            entries[e, PREV] = before
            entries[e, NEXT] = -1
            if before >= 0:
                entries[before, NEXT] = e
            else:
                g[HEAD] = e
            before = e
        for s in range(num):
            if home[s] >= 0:
                e = g[HEAD]
                while entries[e, OFF] != home[s]:
                    e = entries[e, NEXT]
                entries[e, STORAGE] = s
                state[s, ENTRY] = e
    else:
        resident = np.flatnonzero(home >= 0)
        for s in resident[np.argsort(home[resident])]:
            for is_gap in (True, False):
                size = home[s] - offset if is_gap else nbytes[s]
                if size == 0:
                    continue
                e = _new_entry(entries, g, offset, size, -1, -1)
                offset += size
                entries[e, PREV] = before
                entries[e, NEXT] = -1
                if before >= 0:
                    entries[before, NEXT] = e
                else:
                    g[HEAD] = e
                before = e
                if not is_gap:
                    entries[e, STORAGE] = s
                    state[s, ENTRY] = e
        if offset < capacity:
            e = _new_entry(entries, g, offset, capacity - offset, -1, -1)
            entries[e, PREV] = before
            entries[e, NEXT] = -1
            if before >= 0:
                entries[before, NEXT] = e
            else:
                g[HEAD] = e
    for s in range(num):
        if home[s] >= 0 and is_written[s]:
            state[s, ON_HOST] = 0
    num_places = 0
    first_place = 0
    lookahead = int(options[LOOKAHEAD])
    run_of = np.full(n, -1, np.int64)
    for i in range(n):
        op = order[i]
        g[POSITION] = i
        if g[LENGTH] + 4 * g[NUM_ENTRIES] + 64 > len(log):
            return -1, num_places
        paced = run_of[i - lookahead] if 0 <= lookahead <= i and lookahead > 0 else -1
        first_read, last_read = read_ptr[op], read_ptr[op + 1]
        for k in range(first_read, last_read):
            state[reads[k], PINNED] = i
        for attempt in range(2):
            fits = True
            took = False
            came, left = -1, -1
            ready = g[FREE + RUN]
            for k in range(first_read, last_read):
                s = reads[k]
                if state[s, ENTRY] < 0:
                    wanted = class_of[s] if slots else NO_CLASS
                    fits = False
                    for longest in (SHORT, FAR):
                        fits = fits or _choose(
                            entries, state, log, g, options, uses, use_ptr, ideal, out_time,
                            in_time, home, nbytes[s], wanted, ready, in_time[s], longest,
                        )  # fmt: skip
                    if not fits:
                        break
                    e = _carve(entries, state, log, g, home, out_time, is_written, paced,
                               nbytes[s], s, options[SMALL])  # fmt: skip
                    run = max(entries[e, LAST_RUN], paced)
                    out = max(entries[e, LAST_OUT], state[s, COPIED])
                    state[s, CAME] = emit(log, g, IN, s, entries[e, OFF], in_time[s], run, out, -1)
                    state[s, USED] = -1
                    ready = max(ready, g[FREE + IN])
                came = max(came, state[s, CAME])
            first_place = num_places
            if fits:
                for k in range(make_ptr[op], make_ptr[op + 1]):
                    s = makes[k]
                    v = over[op]
                    state[s, PINNED] = i
                    if (
                        k == make_ptr[op]
                        and v >= 0
                        and (
                            (state[v, USE] == use_ptr[v + 1] - 1 and ends[v] == 0)
                            or (state[v, USE] < use_ptr[v + 1] - 1 and is_made[state[v, USE] + 1])
                        )
                        and not begins_on_host[v]
                        and nbytes[v] == nbytes[s]
                        and (slots == 0 or class_of[v] == class_of[s])
                    ):
                        e = state[v, ENTRY]
                        entries[e, STORAGE] = s
                        entries[e, LAST_OUT] = state[v, COPIED]
                        state[s, ENTRY] = e
                        state[v, ENTRY] = -1
                        took = True
                    else:
                        wanted = class_of[s] if slots else NO_CLASS
                        fits = False
                        for longest in (SHORT, FAR):
                            fits = fits or _choose(
                                entries, state, log, g, options, uses, use_ptr, ideal, out_time,
                                in_time, home, nbytes[s], wanted, ready, 0, longest,
                            )  # fmt: skip
                        if not fits:
                            break
                        e = _carve(entries, state, log, g, home, out_time, is_written, paced,
                                   nbytes[s], s, options[SMALL])  # fmt: skip
                    left = max(left, entries[e, LAST_OUT])
                    place[num_places, 1] = s
                    place[num_places, 2] = entries[e, OFF]
                    num_places += 1
            if fits:
                break
            if attempt == 1 or slots:
                return -2 - i, num_places
            num_places = first_place
            for k in range(make_ptr[op], make_ptr[op + 1]):  # nothing has been made there yet
                s = makes[k]
                if state[s, ENTRY] >= 0:
                    e = state[s, ENTRY]
                    entries[e, STORAGE] = -1
                    state[s, ENTRY] = -1
                    if took and k == make_ptr[op]:
                        entries[e, STORAGE] = over[op]
                        state[over[op], ENTRY] = e
            e = g[HEAD]
            while e >= 0:
                s = entries[e, STORAGE]
                if s >= 0:
                    _evict(entries, state, log, g, home, out_time, is_written, paced, s)
                e = entries[e, NEXT]
            _absorb(entries, log, g, g[HEAD], True)
        for k in range(first_read, last_read):  # who is written waits until it has been copied
            if written[k]:
                left = max(left, state[reads[k], COPIED])
        action = emit(log, g, RUN, op, i, duration[op], -1, left, came)
        run_of[i] = action
        for k in range(first_place, num_places):
            place[k, 0] = action
        for k in range(first_read, last_read):
            s = reads[k]
            state[s, USED] = action
            state[s, USED_AT] = i
            state[s, USE] += 1
            if written[k]:
                state[s, ON_HOST] = 0
        for k in range(make_ptr[op], make_ptr[op + 1]):
            s = makes[k]
            state[s, USED] = action
            state[s, USED_AT] = i
            state[s, USE] += 1
            state[s, ON_HOST] = 0
        for part in range(2):
            bounds = read_ptr if part == 0 else make_ptr
            for k in range(bounds[op], bounds[op + 1]):
                s = reads[k] if part == 0 else makes[k]
                if state[s, ENTRY] < 0:
                    continue
                is_last = state[s, USE] == use_ptr[s + 1]
                is_done = is_last and ends[s] == 0 and home[s] < 0
                if is_done or (not is_last and is_made[state[s, USE]]):
                    _free(entries, state, log, g, s)
    for s in range(num):
        e = state[s, ENTRY]
        if home[s] >= 0 and (e < 0 or entries[e, OFF] != home[s]):
            home[s] = -3
        if ends[s] == 2 and e >= 0 and state[s, ON_HOST] == 0 and home[s] < 0:
            emit(log, g, OUT, s, -1, out_time[s], state[s, USED], -1, state[s, CAME])
            state[s, ON_HOST] = 1
        if home[s] == -1 and e >= 0 and begins_on_host[s] and ends[s] == 2:
            home[s] = -10 - entries[e, OFF]  # where it could stay
    return int(g[LENGTH]), num_places
