"""The records of a pass: what it is given, and what it writes.

    entries[e]       a piece of memory in a list by offset: a resident storage, or a gap
    storages[s]      where a storage is, and who used it last
    log[a]           an action: what it is, what it waits for, when it starts and ends
    places[p]        an output of an operator, and where it lies
    window[q]        what it takes to empty an entry, and then all of those up to some other

A gap remembers the last action of the compute and of the out stream that touched it, so that
whoever takes it waits for no more than that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Record = Any
Records = NDArray[Any]

RUN, OUT, IN = 0, 1, 2
COST, BELADY, LRU = 0, 1, 2
FREE, KEPT, HOME = 0, 1, 2
"""How a storage ends (`ENDS` in `arrays`)."""
NO_CLASS = -1
NEVER = -1
FAR = 1 << 60
AWAY, UNUSED, MOVED, STAYS = -1, -2, -3, -10
"""In the place of an offset at home: no resident; never used, so none; does not end where it began;
no resident, but at the offset STAYS - home in the end, where it could stay."""


def _record(*names: str) -> np.dtype[Any]:
    return np.dtype([(name, np.int64) for name in names])


ACTION = _record("kind", "subject", "offset", "after_run", "after_out", "after_in", "start", "end")
"""The offset of an operator is its number in the schedule."""
PLACE = _record("action", "storage", "offset")
ENTRY = _record("offset", "size", "storage", "last_run", "last_out", "next", "previous", "of_class")
HELD = _record(
    "entry",  # where it is, -1 if it is not on the device
    "on_host",  # whether the host has its value
    "used",  # the action that used it last
    "came",  # that brought it
    "copied",  # that copied it to the host
    "use",  # the next of its uses
    "used_at",  # the number of the operator that used it last
    "pinned",  # that of the one that uses it now
)
EMPTYING = np.dtype(
    [
        ("size", np.int64),
        ("free", np.int64),  # when all that is not copied out is no longer used
        ("copying", np.int64),  # how long the way out is busy
        ("copied", np.int64),  # when it is free at the earliest
        ("moved", np.int64),  # how long copies take, those that bring things back included
        ("soonest", np.int64),  # when any of it is used again, by the operators' times alone
        ("latest", np.int64),  # the number of the operator that used any of it last
        ("residents", np.int64),
    ]
)
STATE = _record(
    "position",  # in the schedule
    "length",  # of the log
    "num_places",
    "head",  # of the list of entries
    "unused",  # of the list of those not in use
    "num_entries",
    "first",  # of the chosen window
    "last",
    "offset",  # where in it, if not at its beginning
    "paced",  # the operator before which nothing is copied for this one
)


class Rules(NamedTuple):
    """How a pass chooses what makes room; see `windows`.

    Storages of less than `small` bytes go to the top of memory. What began the step as a resident
    goes back to its place if that costs no more than the share `homing` of its copies.
    """

    policy: int
    threshold: int
    lookahead: int
    pressure: float
    late: float
    small: float
    homing: float


class Step(NamedTuple):
    """A problem's arrays (see `arrays`), a schedule, and the memory that it has.

    What lies below `base` never leaves. `slot_size`, `slot_class` and `class_of` are those of a
    pool of size classes, empty without one.
    """

    order: Ints
    duration: Ints
    over: Ints
    read_ptr: Ints
    reads: Ints
    written: Flags
    make_ptr: Ints
    makes: Ints
    nbytes: Ints
    out_time: Ints
    in_time: Ints
    begins_on_host: Flags
    ends: Ints
    is_written: Flags
    capacity: int
    base: int
    slot_size: Ints
    slot_class: Ints
    class_of: Ints


class Work(NamedTuple):
    """What a pass writes.

    `home` has the offsets of residents, AWAY for others; in the end, what became of them.
    `resident` lists them by offset. `free` says when each stream is free, `clock` when each
    operator would start if nothing waited, and `run_of` which action it is. The operators that use
    s are uses[use_ptr[s] : use_ptr[s + 1]], and `is_made` says which of these make it.
    """

    home: Ints
    resident: Ints
    log: Records
    places: Records
    entries: Records
    storages: Records
    window: Records
    behind: Records
    entry_of: Ints
    state: Records
    free: Ints
    clock: Ints
    run_of: Ints
    use_ptr: Ints
    uses: Ints
    is_made: Flags


def workspace(step: Step, home: Ints, num_actions: int) -> Work:
    """Room for a pass with so many actions at most."""
    order, num = step.order, len(step.nbytes)
    num_made = int((step.make_ptr[order + 1] - step.make_ptr[order]).sum())
    num_read = int((step.read_ptr[order + 1] - step.read_ptr[order]).sum())
    resident = np.flatnonzero(home >= 0)
    num_entries = len(step.slot_size) + 4 * num + 16
    return Work(
        home=home,
        resident=resident[np.argsort(home[resident])],
        log=np.empty(num_actions, ACTION),
        places=np.empty(num_made, PLACE),
        entries=np.empty(num_entries, ENTRY),
        storages=np.empty(num, HELD),
        window=np.empty(num_entries, EMPTYING),
        behind=np.empty(num_entries, EMPTYING),
        entry_of=np.empty(num_entries, np.int64),
        state=np.zeros(1, STATE),
        free=np.zeros(3, np.int64),
        clock=np.zeros(len(order) + 1, np.int64),
        run_of=np.full(len(order), NEVER, np.int64),
        use_ptr=np.zeros(num + 1, np.int64),
        uses=np.empty(num_read + num_made, np.int64),
        is_made=np.zeros(num_read + num_made + 1, np.bool_),
    )
