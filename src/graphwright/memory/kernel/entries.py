"""Memory as a list of entries by offset: residents, and gaps between them."""

from __future__ import annotations

from graphwright.memory.kernel.records import IN, NEVER, NO_CLASS, RUN, Step, Work
from graphwright.tasks import inlined

MOST_ENTRIES = 3000
"""With more entries than that, gaps join even where one is free later than the other."""


@inlined
def lay_out(step: Step, work: Work) -> None:
    """The entries that a step begins with: slots of a pool, or residents with gaps between them."""
    entries, state = work.entries, work.state[0]
    for e in range(len(entries)):
        entries[e].next = e + 1 if e + 1 < len(entries) else -1
    state.unused = state.num_entries = 0
    state.head = -1
    if len(step.slot_size):
        _lay_slots(step, work)
    else:
        _lay_residents(step, work)


@inlined
def _lay_slots(step: Step, work: Work) -> None:
    entries, home = work.entries, work.home
    last, offset = -1, 0
    for k in range(len(step.slot_size)):
        last = _append(work, last, offset, step.slot_size[k])
        entries[last].of_class = step.slot_class[k]
        offset += step.slot_size[k]
    for s in work.resident:
        e = work.state[0].head
        while entries[e].offset != home[s]:
            e = entries[e].next
        _fill(work, e, s)


@inlined
def _lay_residents(step: Step, work: Work) -> None:
    home = work.home
    last, offset = -1, step.base
    for s in work.resident:
        if home[s] < step.base:  # it is in no list, so nobody takes its place
            _fill(work, new_entry(work, home[s], step.nbytes[s], NEVER, NEVER), s)
            continue
        if home[s] > offset:
            last = _append(work, last, offset, home[s] - offset)
        last = _append(work, last, home[s], step.nbytes[s])
        _fill(work, last, s)
        offset = home[s] + step.nbytes[s]
    if offset < step.capacity:
        _append(work, last, offset, step.capacity - offset)


@inlined
def _append(work: Work, last: int, offset: int, size: int) -> int:
    entries = work.entries
    e = new_entry(work, offset, size, NEVER, NEVER)
    entries[e].previous, entries[e].next = last, -1
    if last >= 0:
        entries[last].next = e
    else:
        work.state[0].head = e
    return e


@inlined
def _fill(work: Work, e: int, s: int) -> None:
    work.entries[e].storage, work.storages[s].entry = s, e


@inlined
def new_entry(work: Work, offset: int, size: int, run: int, out: int) -> int:
    """A gap that is in no list yet."""
    state = work.state[0]
    e = state.unused
    entry = work.entries[e]
    state.unused = entry.next
    entry.offset, entry.size, entry.storage = offset, size, -1
    entry.last_run, entry.last_out, entry.of_class = run, out, NO_CLASS
    state.num_entries += 1
    return e


@inlined
def unlink(work: Work, e: int) -> None:
    """Take an entry out of the list."""
    entries, state = work.entries, work.state[0]
    before, behind = entries[e].previous, entries[e].next
    if before >= 0:
        entries[before].next = behind
    else:
        state.head = behind
    if behind >= 0:
        entries[behind].previous = before
    entries[e].next = state.unused
    state.unused = e
    state.num_entries -= 1


@inlined
def link_behind(work: Work, e: int, new: int) -> None:
    """Put a new entry behind another one."""
    entries = work.entries
    behind = entries[e].next
    entries[new].previous, entries[new].next = e, behind
    entries[e].next = new
    if behind >= 0:
        entries[behind].previous = new


@inlined
def absorb(work: Work, e: int, always: bool) -> None:
    """Join a gap with the gaps beside it where nothing is lost by that, or always."""
    entries = work.entries
    early = min(work.free[RUN], work.free[IN])
    gap = entries[e]
    for is_behind in (False, True):
        while True:
            other = gap.next if is_behind else gap.previous
            if other < 0:
                break
            beside = entries[other]
            if beside.storage >= 0 or beside.of_class != NO_CLASS:
                break
            alike = beside.last_run == gap.last_run and beside.last_out == gap.last_out
            if not always and not alike:
                latest = max(free_at(work, e), free_at(work, other))
                if latest > early:
                    break
            gap.last_run = max(gap.last_run, beside.last_run)
            gap.last_out = max(gap.last_out, beside.last_out)
            gap.offset = min(gap.offset, beside.offset)
            gap.size += beside.size
            unlink(work, other)


@inlined
def make_gap(work: Work, s: int) -> None:
    """Make a gap of what nobody needs any more."""
    held = work.storages[s]
    entry = work.entries[held.entry]
    entry.storage, entry.last_run, entry.last_out = -1, held.used, held.copied
    if entry.of_class == NO_CLASS:
        absorb(work, held.entry, work.state[0].num_entries > MOST_ENTRIES)
    held.entry = -1


@inlined
def ended(work: Work, action: int) -> int:
    """When an action ends, 0 if there is none."""
    return work.log[action].end if action >= 0 else 0


@inlined
def free_at(work: Work, e: int) -> int:
    """When nothing uses a gap any more."""
    entry = work.entries[e]
    return max(ended(work, entry.last_run), ended(work, entry.last_out))
