"""Simulate a change of a task graph at the price of what it touches, exactly (in the place of FlexFlow section 3.4.3).

A search changes one operator at a time: some tasks are removed, some added, some others get other predecessors.
FlexFlow corrects the old schedule in the manner of Bellman and Ford. Here tasks are taken in the order of `engine`,
by (ready, key), and the new order is made of pieces of the old one and of *windows* that are simulated anew:

    old   | prefix | old window | between   | old window | rest          |
    new   | prefix | new window   | between, shifted | new window | rest, shifted |

Removed tasks, added ones and survivors with other predecessors are *changed*. A forward operator's successors in the
backward pass are among them, so that two windows far apart are the common case.

**What lies before a window.** Both simulations take the same tasks, at the same times or at times that differ by the
same shift, until one of them takes a changed task. The old one does so at that task's old (ready, key). The new one
takes it when all its predecessors have been taken; as those have known times, it is ready at the latest of their ends
(where a predecessor is changed and not yet taken, no earlier than follows from its own bound). The least of these
(ready, key) is a lower bound of the first difference, and the window opens there (`find_next_change`).

**Window.** Of what lies before, only tasks that end at or after that time matter: they say when resources are free,
and what is ready next is either changed or a successor of one of them (`open_window`). What a task waits for is
counted when it is first met, so tasks beyond the window cost nothing (`touch`).

**What follows a window.** Suppose that the tasks taken so far are those of the old order up to some place, less
removed and plus added ones. Let old_time be the old ready of the task at that place, new_time the ready of the task
that the new simulation would take next, and shift = new_time - old_time. If

    max(new end of t, new_time)  = max(old end of t, old_time) + shift     for every old task t taken so far
    max(new free of r, new_time) = max(old free of r, old_time) + shift    for every resource r

then what follows is the old schedule, shifted, up to the next change. By induction over the tasks: let both
simulations have taken the same ones since, at times that differ by the shift. The tasks with all predecessors taken
are then the same in both, but for changed ones. Their old ready is at least old_time and their new one at least
new_time, as tasks are taken in order; so a maximum with these times alters nothing, and the new ready is, term by
term, the old one plus the shift. Hence the same task is next, and its start, the later of its ready and of when its
resources are free, is shifted as well. Times are integers, so a shifted schedule is the one that a full simulation
gives, to the last bit. Only tasks that end after these times need looking at; and of a task from before the window,
the old end need not be known to be late, as the same equations held where the window opened (`find_shift`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphwright.errors import InvalidTaskGraph
from graphwright.plans import Ints, TaskGraph
from graphwright.simulate.delta import kernels, pools

Slots = NDArray[np.int32]

MOST_WINDOWS = 64
"""After so many windows, the last one goes on until all changes are behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaStats:
    """What evaluations cost: tasks that were simulated again, and whether the rest was found to be shifted."""

    retimed: int = 0
    """By the last evaluation."""
    shifted: bool = False
    """Whether the last evaluation ended before the last task."""
    num_windows: int = 0
    """Of the last evaluation."""
    evaluations: int = 0
    total_retimed: int = 0
    total_shifted: int = 0


class _Outcome(NamedTuple):
    """The makespan of the open proposal, and how many windows its evaluation has left in the table."""

    makespan: int
    num_windows: int


class DeltaSchedule:
    """A task graph that changes a little at a time, with its schedule.

    `add`, `remove` and `link` open a proposal or extend it; `evaluate` gives the makespan that it would have, and
    `accept` or `reject` close it. Tasks are named by slots; that of a task whose removal is accepted is used again.
    """

    def __init__(self, num_resources: int, num_tasks: int = 1024, num_edges: int = 4096) -> None:
        """An empty task graph, with room for so many tasks and edges before its arrays grow."""
        num_tasks, num_edges = max(1, num_tasks), max(1, num_edges)
        self.num_resources = num_resources
        self._num_tasks = 0  # committed
        self._num_slots = 0  # ever used
        self._num_free_slots = 0
        self._num_edges = 0  # ever used
        self._num_free_edges = 0
        self._pool_top = 0
        self._pool_garbage = 0
        self._tasks = np.zeros((4, 0), np.int64)
        self._links = np.zeros((7, 0), np.int32)
        self._position = np.zeros(0, np.int32)
        self._order = np.zeros(0, np.int32)
        self._order_ready = np.zeros(0, np.int64)
        self._order_end = np.zeros(0, np.int64)
        self._block_end = np.zeros(0, np.int64)
        self._before = np.zeros(0, np.int64)
        self._after = np.zeros(0, np.int64)
        self._free_slots = np.zeros(0, np.int32)
        self._heap_times = np.zeros(0, np.int64)
        self._heap_keys = np.zeros(0, np.int64)
        self._heap_slots = np.zeros(0, np.int32)
        self._window = np.zeros(0, np.int32)
        self._flying = np.zeros(0, np.int32)
        self._landing = np.zeros(0, np.int32)
        self._table = np.zeros((MOST_WINDOWS, 4), np.int64)
        self._edges = np.zeros((6, 0), np.int32)
        self._free_edges = np.zeros(0, np.int32)
        self._pool = np.zeros(num_tasks, np.int32)
        self._free = np.zeros(num_resources, np.int64)
        self._old_free = np.zeros(num_resources, np.int64)
        self._epoch = 0
        self._stats = DeltaStats()
        self._added: Slots = np.empty(0, np.int32)
        self._removed: Slots = np.empty(0, np.int32)
        self._linked: Slots = np.empty(0, np.int32)
        self._proposed_entries = 0
        self._outcome: _Outcome | None = None
        self._grow_tasks(num_tasks)
        self._grow_edges(num_edges)

    @classmethod
    def of(cls, task_graph: TaskGraph) -> tuple[DeltaSchedule, Slots]:
        """A whole task graph, scheduled, and the slot of each of its tasks."""
        g = task_graph
        delta = cls(g.num_resources, len(g) + len(g) // 8, g.num_edges + g.num_edges // 8)
        slots = delta.add(g.duration, g.key, g.resource_ptr, g.resource)
        delta.link(np.repeat(slots, np.diff(g.succ_ptr)), slots[g.succ])
        delta.accept()
        delta._stats = DeltaStats()
        return delta, slots

    @property
    def makespan(self) -> int:
        """Picoseconds of the committed schedule."""
        return int(self._after[0])

    @property
    def stats(self) -> DeltaStats:
        """What evaluations have cost so far."""
        return self._stats

    def __len__(self) -> int:
        return self._num_tasks

    def __repr__(self) -> str:
        return f"DeltaSchedule({len(self):,} tasks, {self.makespan / 1e9:,.6g} ms)"

    def add(self, duration: Ints, key: Ints, resource_ptr: Ints, resource: Ints) -> Slots:
        """Add tasks; task i occupies resource[resource_ptr[i] : resource_ptr[i + 1]]. Returns their slots.

        No two tasks of the graph may have one key.
        """
        duration, key = _int64(duration), _int64(key)
        resource_ptr, resource = _int64(resource_ptr), np.ascontiguousarray(resource, np.int32)
        count, num_entries = len(duration), len(resource)
        if len(key) != count or len(resource_ptr) != count + 1:
            raise InvalidTaskGraph(
                f"{count} durations, {len(key)} keys and {len(resource_ptr)} resource pointers"
            )
        if resource_ptr[0] != 0 or resource_ptr[-1] != num_entries:
            raise InvalidTaskGraph(
                f"resource_ptr goes from {resource_ptr[0]} to {resource_ptr[-1]}, not from 0 to {num_entries}"
            )
        bad = pools.find_bad_task(duration, resource_ptr, resource, self.num_resources)
        if bad >= 0:
            held = resource[resource_ptr[bad] : max(resource_ptr[bad], resource_ptr[bad + 1])]
            raise InvalidTaskGraph(
                f"new task {bad} (key {key[bad]}): duration {duration[bad]}, resources {held.tolist()} "
                f"of {self.num_resources}; neither may be negative, nor a resource given twice"
            )
        reused = min(count, self._num_free_slots)
        fresh = count - reused
        self._grow_tasks(self._num_slots + fresh)
        if self._pool_top + num_entries > len(self._pool):
            self._pool = _grown(self._pool, self._pool_top + num_entries)
        slots = np.empty(count, np.int32)
        slots[:reused] = self._free_slots[self._num_free_slots - reused : self._num_free_slots][
            ::-1
        ]
        slots[reused:] = np.arange(self._num_slots, self._num_slots + fresh)
        self._num_free_slots -= reused
        self._num_slots += fresh
        self._pool[self._pool_top : self._pool_top + num_entries] = resource
        pools.put_tasks(
            self._tasks,
            self._links,
            self._position,
            slots,
            duration,
            key,
            resource_ptr,
            self._pool_top,
        )
        self._pool_top += num_entries
        self._proposed_entries += num_entries
        self._added = _joined(self._added, slots)
        self._outcome = None
        return slots

    def remove(self, slots: Ints) -> None:
        """Remove tasks, and the edges at them."""
        slots = np.ascontiguousarray(slots, np.int32)
        removed = np.empty(len(slots), np.int32)
        count, bad = pools.flag_removed(self._position, slots, removed)
        if bad >= 0:
            raise InvalidTaskGraph(f"slot {slots[bad]} holds no task that could be removed")
        self._removed = _joined(self._removed, removed[:count])
        self._outcome = None

    def link(self, sources: Ints, targets: Ints) -> None:
        """Let tasks wait for others: targets[i] for sources[i], whose key has to be the lesser one."""
        sources = np.ascontiguousarray(sources, np.int32)
        targets = np.ascontiguousarray(targets, np.int32)
        count = len(sources)
        if len(targets) != count:
            raise InvalidTaskGraph(f"{count} sources and {len(targets)} targets")
        bad = pools.find_bad_edge(self._tasks, self._position, sources, targets)
        if bad >= 0:
            raise InvalidTaskGraph(
                f"an edge from slot {sources[bad]} to slot {targets[bad]}: one of them holds no task, or the "
                "target's key is not the greater"
            )
        reused = min(count, self._num_free_edges)
        fresh = count - reused
        self._grow_edges(self._num_edges + fresh)
        names = np.empty(count, np.int32)
        names[:reused] = self._free_edges[self._num_free_edges - reused : self._num_free_edges][
            ::-1
        ]
        names[reused:] = np.arange(self._num_edges, self._num_edges + fresh)
        self._num_free_edges -= reused
        self._num_edges += fresh
        pools.insert_edges(self._links, self._edges, names, sources, targets)
        self._linked = _joined(self._linked, names)
        self._outcome = None

    def evaluate(self) -> int:
        """The makespan, in picoseconds, after the open proposal."""
        return self._evaluated().makespan

    def accept(self) -> None:
        """Make the open proposal the committed graph."""
        outcome = self._evaluated()
        if outcome.num_windows:
            begin, end, self._num_tasks = pools.commit(
                self._tasks, self._position, self._order, self._order_ready, self._order_end,
                self._num_tasks, self._table, outcome.num_windows, self._window,
                self._heap_slots, self._heap_times, self._heap_keys,
            )  # fmt: skip
            pools.summarize_blocks(
                self._order_end, self._block_end, self._before, self._after,
                self._num_tasks, begin, end,
            )  # fmt: skip
        cancelled = self._added[self._position[self._added] == pools.NONE]
        gone = _joined(self._removed, cancelled)
        self._position[gone] = pools.NONE
        self._num_free_edges = pools.delete_edges_of(
            self._links, self._edges, gone, self._free_edges, self._num_free_edges
        )
        self._release_slots(gone)
        spans = self._links[pools.RESOURCE_END, gone] - self._links[pools.RESOURCE, gone]
        self._pool_garbage += int(spans.sum())
        if 2 * self._pool_garbage > len(self._pool):
            compacted = np.empty_like(self._pool)
            self._pool_top = pools.compact_pool(
                self._links, self._order[: self._num_tasks], self._pool, compacted
            )
            self._pool, self._pool_garbage = compacted, 0
        self._forget()

    def reject(self) -> None:
        """Drop the open proposal."""
        pools.delete_edges(self._links, self._edges, self._linked)
        top = self._num_free_edges
        self._free_edges[top : top + len(self._linked)] = self._linked[::-1]
        self._num_free_edges += len(self._linked)
        self._position[self._removed] = ~self._position[self._removed]
        self._position[self._added] = pools.NONE
        self._release_slots(self._added[::-1])
        self._pool_top -= self._proposed_entries
        self._forget()

    def times(
        self,
    ) -> tuple[Slots, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The committed tasks' slots in the order of (ready, key), with their ready, start and end."""
        n = self._num_tasks
        slots = self._order[:n].copy()
        ready, end = self._order_ready[:n].copy(), self._order_end[:n].copy()
        return slots, ready, end - self._tasks[pools.DURATION, slots], end

    def _evaluated(self) -> _Outcome:
        if self._outcome is not None:
            return self._outcome
        self._epoch += 1
        outcome = _Outcome(
            *kernels.evaluate(
                self._tasks, self._links, self._position, self._edges, self._pool,
                self._order, self._order_ready, self._order_end,
                self._block_end, self._before, self._after, self._num_tasks,
                self._added, self._removed, self._linked, self._epoch, self._free, self._old_free,
                self._heap_times, self._heap_keys, self._heap_slots,
                self._window, self._flying, self._landing, self._table,
            )
        )  # fmt: skip
        self._epoch += outcome.num_windows
        shifted, retimed = False, 0
        if outcome.num_windows:
            shifted = bool(self._table[outcome.num_windows - 1, pools.OLD_END] < self._num_tasks)
            retimed = int(self._table[outcome.num_windows - 1, pools.WINDOW_END])
        self._stats = DeltaStats(
            retimed=retimed,
            shifted=shifted,
            num_windows=outcome.num_windows,
            evaluations=self._stats.evaluations + 1,
            total_retimed=self._stats.total_retimed + retimed,
            total_shifted=self._stats.total_shifted + shifted,
        )
        self._outcome = outcome
        return outcome

    def _forget(self) -> None:
        """No proposal is open."""
        self._added = self._removed = self._linked = np.empty(0, np.int32)
        self._proposed_entries = 0
        self._outcome = None

    def _release_slots(self, slots: Slots) -> None:
        top = self._num_free_slots
        self._free_slots[top : top + len(slots)] = slots
        self._num_free_slots += len(slots)

    def _grow_tasks(self, needed: int) -> None:
        capacity = len(self._position)
        if needed <= capacity:
            return
        capacity = max(needed, 2 * capacity)
        self._position = _grown(self._position, capacity, pools.NONE)
        for name in ("_tasks", "_links", "_order", "_order_ready", "_order_end", "_free_slots",
                     "_heap_times", "_heap_keys", "_heap_slots", "_window", "_flying", "_landing"):  # fmt: skip
            setattr(self, name, _grown(getattr(self, name), capacity))
        for name in ("_block_end", "_before", "_after"):
            setattr(self, name, _grown(getattr(self, name), capacity // pools.BLOCK + 2))

    def _grow_edges(self, needed: int) -> None:
        if needed > len(self._free_edges):
            capacity = max(needed, 2 * len(self._free_edges))
            self._edges = _grown(self._edges, capacity)
            self._free_edges = _grown(self._free_edges, capacity)


def _int64(numbers: Ints) -> NDArray[np.int64]:
    return np.ascontiguousarray(numbers, np.int64)


def _joined(first: Slots, second: Slots) -> Slots:
    return np.concatenate([first, second])


def _grown(array: NDArray[Any], size: int, fill: int = 0) -> NDArray[Any]:
    """A copy with room for at least `size` columns, by doubling."""
    columns = array.shape[-1]
    grown = np.full((*array.shape[:-1], max(size, 2 * columns)), fill, array.dtype)
    grown[..., :columns] = array
    return grown
