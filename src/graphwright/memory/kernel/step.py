"""One pass of the swap planner over a schedule (SwapAdvisor section 4.3.2), compiled.

Scanning the schedule, an operator's missing inputs and its outputs are given windows: runs of
neighbouring entries that are large enough (`windows`), of which the residents are evicted. In a
pool of size classes a window is one slot of the right class.

    swap-out of v     begins when the last user of v has ended: however late it is asked for
    swap-in of t      begins when the swap-outs of its window, and its users, have ended
    operator          begins when its inputs are there, and its outputs' places are free

Actions are timed as they are added: every stream is a queue, and what an action waits for precedes
it. So a pass knows exactly how long an operator would wait for each window.

An operator may stand in the schedule more than once: what it makes is made again there, and was
free since its last reader before.

Residents that begin the step at home and were never used are dropped from the beginning on: they
are no residents then. Where a window cannot be found between the inputs of an operator, all of
memory is emptied and its inputs come back side by side.
"""

from __future__ import annotations

from graphwright.memory.kernel.entries import (
    absorb,
    lay_out,
    link_behind,
    make_gap,
    new_entry,
    unlink,
)
from graphwright.memory.kernel.records import (
    AWAY,
    FREE,
    HOME,
    IN,
    MOVED,
    NEVER,
    NO_CLASS,
    OUT,
    RUN,
    STAYS,
    UNUSED,
    Record,
    Rules,
    Step,
    Work,
)
from graphwright.memory.kernel.windows import choose
from graphwright.tasks import compiled, inlined, unowned

LOG_IS_FULL = -1
NO_ROOM = -2


@compiled
def plan_pass(step: Step, work: Work, rules: Rules) -> int:
    """Plan one step: fill the log with actions and the places of outputs.

    Returns how many actions there are, LOG_IS_FULL, or NO_ROOM - i where the i-th operator of the
    order finds no room.
    """
    step, work = unowned(step), unowned(work)
    state = work.state[0]
    begin(step, work)
    lay_out(step, work)
    for i in range(len(step.order)):
        state.position = i
        if state.length + 4 * state.num_entries + 64 > len(work.log):
            return LOG_IS_FULL
        state.paced = NEVER
        if 0 < rules.lookahead <= i:
            state.paced = work.run_of[i - rules.lookahead]
        if not make_room(step, work, rules):
            return NO_ROOM - i
        run(step, work)
        free_done(step, work)
    end(step, work)
    return int(state.length)


@inlined
def begin(step: Step, work: Work) -> None:
    """Where everything is, and who uses it when."""
    state, storages, use_ptr = work.state[0], work.storages, work.use_ptr
    state.length = state.num_places = 0
    for i in range(len(step.order)):
        op = step.order[i]
        work.clock[i + 1] = work.clock[i] + step.duration[op]
        for k in range(step.read_ptr[op], step.read_ptr[op + 1]):
            use_ptr[step.reads[k] + 1] += 1
        for k in range(step.make_ptr[op], step.make_ptr[op + 1]):
            use_ptr[step.makes[k] + 1] += 1
    for s in range(len(step.nbytes)):
        use_ptr[s + 1] += use_ptr[s]
        held = storages[s]
        held.entry = held.used = held.came = held.copied = held.used_at = held.pinned = NEVER
        held.use = use_ptr[s]
        is_stale = work.home[s] >= 0 and step.is_written[s]
        held.on_host = 1 if step.begins_on_host[s] and not is_stale else 0
    for i in range(len(step.order)):
        op = step.order[i]
        for k in range(step.read_ptr[op], step.read_ptr[op + 1]):
            held = storages[step.reads[k]]
            work.uses[held.use] = i
            held.use += 1
        for k in range(step.make_ptr[op], step.make_ptr[op + 1]):
            held = storages[step.makes[k]]
            work.uses[held.use] = i
            work.is_made[held.use] = True
            held.use += 1
    for s in range(len(step.nbytes)):
        storages[s].use = use_ptr[s]


# -- room for an operator -------------------------------------------------------------------------


@inlined
def make_room(step: Step, work: Work, rules: Rules) -> bool:
    """Bring what the operator reads, and find places for what it makes."""
    state = work.state[0]
    op = step.order[state.position]
    for k in range(step.read_ptr[op], step.read_ptr[op + 1]):
        work.storages[step.reads[k]].pinned = state.position
    first_place = state.num_places
    for attempt in range(2):
        fits = True
        if attempt:
            state.num_places = first_place
            take_back(step, work)
            empty_memory(step, work)
        ready = work.free[RUN]
        for k in range(step.read_ptr[op], step.read_ptr[op + 1]):
            s = step.reads[k]
            if work.storages[s].entry >= 0:
                continue
            if not choose(step, work, rules, s, ready, step.in_time[s]):
                fits = False
                break
            bring(step, work, rules, s)
            ready = max(ready, work.free[IN])
        if fits:
            fits = place_outputs(step, work, rules, ready)
        if fits:
            return True
        if len(step.slot_size):
            break
    return False


@inlined
def bring(step: Step, work: Work, rules: Rules, s: int) -> None:
    """Copy a storage to the chosen window."""
    held, entry = work.storages[s], work.entries[carve(step, work, rules, s)]
    run, out = max(entry.last_run, work.state[0].paced), max(entry.last_out, held.copied)
    held.came = emit(work, IN, s, entry.offset, step.in_time[s], run, out, NEVER)
    held.used = NEVER


@inlined
def place_outputs(step: Step, work: Work, rules: Rules, ready: int) -> bool:
    """Find places for what the operator makes."""
    state, storages = work.state[0], work.storages
    op = step.order[state.position]
    for k in range(step.make_ptr[op], step.make_ptr[op + 1]):
        s = step.makes[k]
        storages[s].pinned = state.position
        if k == step.make_ptr[op] and takes_over(step, work, step.over[op], s):
            over = storages[step.over[op]]
            entry = work.entries[over.entry]
            entry.storage, entry.last_out = s, over.copied
            storages[s].entry, over.entry = over.entry, NEVER
        else:
            if not choose(step, work, rules, s, ready, 0):
                return False
            carve(step, work, rules, s)
        place = work.places[state.num_places]
        place.storage, place.offset = s, work.entries[storages[s].entry].offset
        state.num_places += 1
    return True


@inlined
def takes_over(step: Step, work: Work, v: int, s: int) -> bool:
    """Whether an output lies where an operand is, as nobody reads that any more."""
    if v < 0 or step.begins_on_host[v] or step.nbytes[v] != step.nbytes[s]:
        return False
    if len(step.slot_size) and step.class_of[v] != step.class_of[s]:
        return False
    use, last = work.storages[v].use, work.use_ptr[v + 1] - 1
    return (use == last and step.ends[v] == FREE) or (use < last and work.is_made[use + 1])


@inlined
def take_back(step: Step, work: Work) -> None:
    """Leave the places of outputs: nothing has been made there yet."""
    storages, entries = work.storages, work.entries
    op = step.order[work.state[0].position]
    for k in range(step.make_ptr[op], step.make_ptr[op + 1]):
        held = storages[step.makes[k]]
        if held.entry < 0:
            continue
        entries[held.entry].storage = -1
        v = step.over[op]
        if k == step.make_ptr[op] and v >= 0 and storages[v].entry < 0:
            entries[held.entry].storage, storages[v].entry = v, held.entry
        held.entry = NEVER


@inlined
def empty_memory(step: Step, work: Work) -> None:
    """Evict all residents."""
    e = work.state[0].head
    while e >= 0:
        if work.entries[e].storage >= 0:
            evict(step, work, work.entries[e].storage)
        e = work.entries[e].next
    absorb(work, work.state[0].head, True)


@inlined
def carve(step: Step, work: Work, rules: Rules, s: int) -> int:
    """Evict what is in the chosen window and give it to a storage; the rest stays a gap."""
    entries, state, size = work.entries, work.state[0], step.nbytes[s]
    e = state.first
    f = e
    while True:
        if entries[f].storage >= 0:
            evict(step, work, entries[f].storage)
        if f == state.last:
            break
        f = entries[f].next
    entry = entries[e]
    if entry.of_class == NO_CLASS:
        if state.offset >= 0:
            e = begin_at(work, e, state.offset, s)
            cut(work, e, size, s)
        elif size < rules.small and e == state.last and entry.size > size:
            entry.size -= size
            top = new_entry(work, entry.offset + entry.size, size, entry.last_run, entry.last_out)
            link_behind(work, e, top)
            work.entries[top].storage = s  # no gap, or it would be joined with the one below
            absorb(work, e, False)
            e = top
        else:
            cut(work, e, size, s)
    entries[e].storage = s
    work.storages[s].entry = e
    return e


@inlined
def begin_at(work: Work, e: int, offset: int, s: int) -> int:
    """The entry that begins at an offset within a gap, for a storage."""
    entry = work.entries[e]
    if entry.offset < offset:
        rest = entry.offset + entry.size - offset
        entry.size -= rest
        new = new_entry(work, offset, rest, entry.last_run, entry.last_out)
        link_behind(work, e, new)
        work.entries[new].storage = s  # no gap, or it would be joined with the one below
        absorb(work, e, False)
        e = new
    return e


@inlined
def cut(work: Work, e: int, size: int, s: int) -> None:
    """Make an entry for a storage of the window that begins with another, and a gap of the rest."""
    entry = work.entries[e]
    room, rest_run, rest_out = entry.size, entry.last_run, entry.last_out
    while room < size:
        f = entry.next
        rest_run, rest_out = work.entries[f].last_run, work.entries[f].last_out
        entry.last_run = max(entry.last_run, rest_run)
        entry.last_out = max(entry.last_out, rest_out)
        room += work.entries[f].size
        unlink(work, f)
    entry.size = size
    if room > size:
        entry.storage = s  # no gap, or the rest would be joined with it
        rest = new_entry(work, entry.offset + size, room - size, rest_run, rest_out)
        link_behind(work, e, rest)
        absorb(work, rest, False)


@inlined
def evict(step: Step, work: Work, s: int) -> None:
    """Take a resident out of its entry, which becomes a gap."""
    held = work.storages[s]
    entry = work.entries[held.entry]
    if held.used < 0 and held.came < 0 and work.home[s] >= 0:
        work.home[s] = UNUSED
        held.on_host = 1
    if held.on_host == 0:
        run = max(held.used, work.state[0].paced)
        held.copied = emit(work, OUT, s, -1, step.out_time[s], run, NEVER, held.came)
        held.on_host = 1
        entry.last_out = held.copied
    entry.last_run = held.used
    entry.storage = -1
    held.entry = NEVER


# -- actions --------------------------------------------------------------------------------------


@inlined
def emit(work: Work, kind: int, subject: int, offset: int, duration: int, after_run: int,
         after_out: int, after_in: int) -> int:  # fmt: skip
    """Add an action behind all that it waits for, and return its number."""
    log, state = work.log, work.state[0]
    at = state.length
    start = work.free[kind]
    for before in (after_run, after_out, after_in):
        if before >= 0:
            start = max(start, log[before].end)
    action = log[at]
    action.kind, action.subject, action.offset = kind, subject, offset
    action.after_run = after_run if kind != RUN else NEVER
    action.after_out = after_out if kind != OUT else NEVER
    action.after_in = after_in if kind != IN else NEVER
    action.start, action.end = start, start + duration
    work.free[kind] = start + duration
    state.length = at + 1
    return at


@inlined
def run(step: Step, work: Work) -> None:
    """Run the operator on what is there."""
    state, storages = work.state[0], work.storages
    i = state.position
    op = step.order[i]
    came = left = NEVER
    num_made = step.make_ptr[op + 1] - step.make_ptr[op]
    for k in range(step.read_ptr[op], step.read_ptr[op + 1]):
        held = storages[step.reads[k]]
        came = max(came, held.came)
        if step.written[k]:  # who writes waits until it has been copied
            left = max(left, held.copied)
    for p in range(state.num_places - num_made, state.num_places):
        entry = work.entries[storages[work.places[p].storage].entry]
        left = max(left, entry.last_out)
    action = emit(work, RUN, op, i, step.duration[op], NEVER, left, came)
    work.run_of[i] = action
    for p in range(state.num_places - num_made, state.num_places):
        work.places[p].action = action
    for k in range(step.read_ptr[op], step.read_ptr[op + 1]):
        held = storages[step.reads[k]]
        use(held, action, i)
        if step.written[k]:
            held.on_host = 0
    for k in range(step.make_ptr[op], step.make_ptr[op + 1]):
        held = storages[step.makes[k]]
        use(held, action, i)
        held.on_host = 0


@inlined
def use(held: Record, action: int, i: int) -> None:
    """Note who used a storage."""
    held.used, held.used_at = action, i
    held.use += 1


@inlined
def free_done(step: Step, work: Work) -> None:
    """Make gaps of what the operator was the last to use."""
    op = step.order[work.state[0].position]
    for k in range(step.read_ptr[op], step.read_ptr[op + 1]):
        free_if_done(step, work, step.reads[k])
    for k in range(step.make_ptr[op], step.make_ptr[op + 1]):
        free_if_done(step, work, step.makes[k])


@inlined
def free_if_done(step: Step, work: Work, s: int) -> None:
    """Make a gap of a storage that nobody uses before it is made again."""
    held = work.storages[s]
    if held.entry < 0:
        return
    is_last = held.use == work.use_ptr[s + 1]
    is_done = is_last and step.ends[s] == FREE and work.home[s] < 0
    if is_done or (not is_last and work.is_made[held.use]):
        make_gap(work, s)


@inlined
def end(step: Step, work: Work) -> None:
    """Bring home what has changed, and note where everything is."""
    home = work.home
    for s in range(len(home)):
        held = work.storages[s]
        e = held.entry
        if home[s] >= 0 and (e < 0 or work.entries[e].offset != home[s]):
            home[s] = MOVED
        if step.ends[s] != HOME or e < 0:
            continue
        if held.on_host == 0 and home[s] < 0:
            emit(work, OUT, s, -1, step.out_time[s], held.used, NEVER, held.came)
            held.on_host = 1
        if home[s] == AWAY and step.begins_on_host[s]:
            home[s] = STAYS - work.entries[e].offset
