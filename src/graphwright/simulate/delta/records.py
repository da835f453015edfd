"""The records of the incremental simulation: what is committed, what is proposed, what is at work.

    tasks[slot]      a task and, while a proposal is open, its new times
    edges[number]    an edge, in the list of those out of its source and of those into its target
    resources        what tasks occupy: resources[task.resources : task.resources_end]
    order[place]     the committed tasks in the order of (ready, key)
    blocks[b]        the latest ends around BLOCK places of the order
    windows[w]       a window: the places that it has replaced, and what follows it

A record of a task is one line of the processor's cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphwright.plans import Ints

Record = Any
Records = NDArray[Any]
Slots = NDArray[np.int32]

ADDED = np.iinfo(np.int32).max
"""The place of a task that the open proposal adds."""
NONE = np.iinfo(np.int32).min
"""The place of a slot that holds no task: ~ADDED."""
BLOCK = 256

TASK = np.dtype(
    [
        ("duration", np.int64),
        ("key", np.int64),
        ("new_ready", np.int64),  # under the open proposal, or a lower bound of it
        ("new_end", np.int64),
        ("place", np.int32),  # in the committed order, ADDED or NONE; ~place where it is removed
        ("first_out", np.int32),  # its lists of edges, -1 where they are empty
        ("first_in", np.int32),
        ("resources", np.int32),
        ("resources_end", np.int32),
        ("stamp", np.int32),  # the last window that has met it
        ("waiting", np.int32),  # for so many tasks, in that window
        ("mark", np.int32),  # the epoch of a proposal that changes it, negative once simulated
    ]
)
EDGE = np.dtype(
    [
        (name, np.int32)
        for name in ("source", "target", "next_out", "next_in", "previous_out", "previous_in")
    ]
)
PLACE = np.dtype([("slot", np.int32), ("ready", np.int64), ("end", np.int64)], align=True)
LATEST = np.dtype(
    [
        ("end", np.int64),  # in the block
        ("before", np.int64),  # in all blocks before it
        ("after", np.int64),  # in it and all after it
    ]
)
WINDOW = np.dtype(
    [
        ("begin", np.int64),  # the places of the old order that it has replaced
        ("end", np.int64),
        ("shift", np.int64),  # of what follows, up to the next window
        ("last", np.int64),  # where its tasks end among all retimed ones
    ]
)
STATE = np.dtype(
    [
        (name, np.int64)
        for name in (
            "epoch",  # of the proposal
            "stamp",  # of the window that is open: the epoch and its number
            "num_windows",  # that are closed
            "rest",  # the place after the last of them
            "shift",  # of what follows it
            "time",  # when the open window begins
            "begin",  # the place of the old order where it begins
            "reached",  # the place up to which it has got
            "num_changed",  # tasks still to come that are changed
            "num_passed",  # removed places behind
            "num_waiting",  # in the heap
            "num_retimed",
            "num_landing",
            "num_flying",
            "followed",  # the place up to which `old_free` has got
            "suspect",  # the resource that differed last
            "makespan",  # so far
            "patience",  # how many tasks a window has at least, beyond one
        )
    ]
)


class Committed(NamedTuple):
    """A task graph with its schedule, and the slots of tasks that a proposal adds to it."""

    tasks: Records
    edges: Records
    resources: Slots
    order: Records
    blocks: Records
    num_tasks: int


class Proposal(NamedTuple):
    """The slots of added and removed tasks, the places of these in order, and the new edges."""

    added: Slots
    removed: Slots
    removed_places: Ints
    linked: Slots


class Workspace(NamedTuple):
    """What an evaluation writes into.

    `retimed` lists the tasks of all windows. Tasks that may be under way are `flying` while a
    window is open, and `landing` between windows. `new_order` is for a commit.
    """

    state: Records
    heap: Records
    windows: Records
    retimed: Slots
    flying: Slots
    landing: Slots
    free: Ints
    old_free: Ints
    new_order: Records
