"""Simulate a change of a task graph at the price of what it touches (FlexFlow section 3.4.3).

A search changes one operator at a time: some tasks are removed, some added, some others get other
predecessors. FlexFlow corrects the old schedule in the manner of Bellman and Ford. Here tasks are
taken in the order of `engine`, by (ready, key), and the new order is made of pieces of the old one
and of *windows* that are simulated anew:

    old   | prefix | old window | between   | old window | rest          |
    new   | prefix | new window   | between, shifted | new window | rest, shifted |

Removed tasks, added ones and survivors with other predecessors are *changed*. A forward operator's
successors in the backward pass are among them, so that two windows far apart are the common case.

**What lies before a window.** Both simulations take the same tasks, at the same times or at times
that differ by the same shift, until one of them takes a changed task. The old one does so at that
task's old (ready, key). The new one takes it when all its predecessors have been taken; as those
have known times, it is ready at the latest of their ends (where a predecessor is changed and not
yet taken, no earlier than follows from its own bound). The least of these (ready, key) is a lower
bound of the first difference, and the window opens there (`find_next_change`).

**Window.** Of what lies before, only tasks that end at or after that time matter: they say when
resources are free, and what is ready next is either changed or a successor of one of them
(`open_window`). What a task waits for is counted when it is first met, so tasks beyond the window
cost nothing (`touch`).

**What follows a window.** Suppose that the tasks taken so far are those of the old order up to some
place, less removed and plus added ones. Let old_time be the old ready of the task at that place,
new_time the ready of the task that the new simulation would take next, and shift = new_time -
old_time. If

    max(new end of t, new_time)  = max(old end of t, old_time) + shift    for every old task t taken
    max(new free of r, new_time) = max(old free of r, old_time) + shift   for every resource r

then what follows is the old schedule, shifted, up to the next change. By induction over the tasks:
let both simulations have taken the same ones since, at times that differ by the shift. The tasks
with all predecessors taken are then the same in both, but for changed ones. Their old ready is at
least old_time and their new one at least new_time, as tasks are taken in order; so a maximum with
these times alters nothing, and the new ready is, term by term, the old one plus the shift. Hence
the same task is next, and its start, the later of its ready and of when its resources are free, is
shifted as well. Times are integers, so a shifted schedule is the one that a full simulation gives,
to the last bit. Only tasks that end after these times need looking at; and of a task from before
the window, the old end need not be known to be late, as the same equations held where the window
opened (`is_shifted`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphwright.errors import InvalidTaskGraph
from graphwright.plans import Ints, TaskGraph
from graphwright.simulate.delta import pools, records
from graphwright.simulate.delta.order import commit, summarize_blocks
from graphwright.simulate.delta.records import Committed, Proposal, Slots, Workspace
from graphwright.simulate.delta.windows import evaluate
from graphwright.simulate.heap import ENTRY

MOST_WINDOWS = 64
"""After so many windows, the last one goes on until all changes are behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaStats:
    """What evaluations cost: how many tasks were simulated again."""

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
    """The makespan of the open proposal, and the number of windows of its evaluation."""

    makespan: int
    num_windows: int


class DeltaSchedule:
    """A task graph that changes a little at a time, with its schedule.

    `add`, `remove` and `link` open a proposal or extend it; `evaluate` gives the makespan that it
    would have, and `accept` or `reject` close it. Tasks are named by slots; that of a task whose
    removal is accepted is used again.
    """

    def __init__(self, num_resources: int, num_tasks: int = 1024, num_edges: int = 4096) -> None:
        """An empty task graph, with room for so many tasks and edges before its arrays grow."""
        self.num_resources = num_resources
        self._num_slots = 0  # ever used
        self._num_free_slots = 0
        self._free_slots = np.zeros(0, np.int32)
        self._num_edges = 0  # ever used
        self._num_free_edges = 0
        self._free_edges = np.zeros(0, np.int32)
        self._resources_top = 0
        self._resources_garbage = 0
        self._graph = Committed(
            tasks=np.zeros(0, records.TASK),
            edges=np.zeros(0, records.EDGE),
            resources=np.zeros(max(1, num_tasks), np.int32),
            order=np.zeros(0, records.PLACE),
            blocks=np.zeros(0, records.LATEST),
            num_tasks=0,
        )
        self._work = Workspace(
            state=np.zeros(1, records.STATE),
            heap=np.zeros(0, ENTRY),
            windows=np.zeros(MOST_WINDOWS, records.WINDOW),
            retimed=np.zeros(0, np.int32),
            flying=np.zeros(0, np.int32),
            landing=np.zeros(0, np.int32),
            free=np.zeros(num_resources, np.int64),
            old_free=np.zeros(num_resources, np.int64),
            new_order=np.zeros(0, records.PLACE),
        )
        self._epoch = 0
        self._stats = DeltaStats()
        self._added: Slots = np.empty(0, np.int32)
        self._removed: Slots = np.empty(0, np.int32)
        self._linked: Slots = np.empty(0, np.int32)
        self._proposed_entries = 0
        self._outcome: _Outcome | None = None
        self._grow_tasks(max(1, num_tasks))
        self._grow_edges(max(1, num_edges))

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
        return int(self._graph.blocks[0]["after"])

    @property
    def stats(self) -> DeltaStats:
        """What evaluations have cost so far."""
        return self._stats

    def __len__(self) -> int:
        return self._graph.num_tasks

    def __repr__(self) -> str:
        return f"DeltaSchedule({len(self):,} tasks, {self.makespan / 1e9:,.6g} ms)"

    def add(self, duration: Ints, key: Ints, resource_ptr: Ints, resource: Ints) -> Slots:
        """Add tasks and return their slots; no two tasks of the graph may have one key.

        Task i occupies resource[resource_ptr[i] : resource_ptr[i + 1]].
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
                f"resource_ptr goes from {resource_ptr[0]} to {resource_ptr[-1]}, "
                f"not from 0 to {num_entries}"
            )
        bad = pools.find_bad_task(duration, resource_ptr, resource, self.num_resources)
        if bad >= 0:
            held = resource[resource_ptr[bad] : max(resource_ptr[bad], resource_ptr[bad + 1])]
            raise InvalidTaskGraph(
                f"new task {bad} (key {key[bad]}): duration {duration[bad]}, resources "
                f"{held.tolist()} of {self.num_resources}; neither may be negative, nor a resource "
                "given twice"
            )
        reused = min(count, self._num_free_slots)
        fresh = count - reused
        self._grow_tasks(self._num_slots + fresh)
        top = self._resources_top
        if top + num_entries > len(self._graph.resources):
            grown = _grown(self._graph.resources, top + num_entries)
            self._graph = self._graph._replace(resources=grown)
        slots = np.empty(count, np.int32)
        slots[:reused] = _last(self._free_slots[: self._num_free_slots], reused)
        slots[reused:] = np.arange(self._num_slots, self._num_slots + fresh)
        self._num_free_slots -= reused
        self._num_slots += fresh
        self._graph.resources[top : top + num_entries] = resource
        pools.put_tasks(self._graph.tasks, slots, duration, key, resource_ptr, top)
        self._resources_top += num_entries
        self._proposed_entries += num_entries
        self._added = _joined(self._added, slots)
        self._outcome = None
        return slots

    def remove(self, slots: Ints) -> None:
        """Remove tasks, and the edges at them."""
        slots = np.ascontiguousarray(slots, np.int32)
        removed = np.empty(len(slots), np.int32)
        count, bad = pools.flag_removed(self._graph.tasks, slots, removed)
        if bad >= 0:
            raise InvalidTaskGraph(f"slot {slots[bad]} holds no task that could be removed")
        self._removed = _joined(self._removed, removed[:count])
        self._outcome = None

    def link(self, sources: Ints, targets: Ints) -> None:
        """Let tasks wait for others: targets[i] for sources[i], which has the lesser key."""
        sources = np.ascontiguousarray(sources, np.int32)
        targets = np.ascontiguousarray(targets, np.int32)
        count = len(sources)
        if len(targets) != count:
            raise InvalidTaskGraph(f"{count} sources and {len(targets)} targets")
        bad = pools.find_bad_edge(self._graph.tasks, sources, targets)
        if bad >= 0:
            raise InvalidTaskGraph(
                f"an edge from slot {sources[bad]} to slot {targets[bad]}: one of them holds no "
                "task, or the target's key is not the greater"
            )
        reused = min(count, self._num_free_edges)
        fresh = count - reused
        self._grow_edges(self._num_edges + fresh)
        numbers = np.empty(count, np.int32)
        numbers[:reused] = _last(self._free_edges[: self._num_free_edges], reused)
        numbers[reused:] = np.arange(self._num_edges, self._num_edges + fresh)
        self._num_free_edges -= reused
        self._num_edges += fresh
        pools.insert_edges(self._graph.tasks, self._graph.edges, numbers, sources, targets)
        self._linked = _joined(self._linked, numbers)
        self._outcome = None

    def evaluate(self) -> int:
        """The makespan, in picoseconds, after the open proposal."""
        return self._evaluated().makespan

    def accept(self) -> None:
        """Make the open proposal the committed graph."""
        outcome = self._evaluated()
        if outcome.num_windows:
            begin, end, count = commit(self._graph, self._work, outcome.num_windows)
            self._graph = self._graph._replace(num_tasks=count)
            summarize_blocks(self._graph, begin, end)
        tasks = self._graph.tasks
        cancelled = self._added[tasks["place"][self._added] == records.NONE]
        gone = _joined(self._removed, cancelled)
        tasks["place"][gone] = records.NONE
        self._num_free_edges = pools.delete_edges_of(
            tasks, self._graph.edges, gone, self._free_edges, self._num_free_edges
        )
        self._release_slots(gone)
        entries = tasks["resources_end"][gone] - tasks["resources"][gone]
        self._resources_garbage += int(entries.sum())
        if 2 * self._resources_garbage > len(self._graph.resources):
            self._compact()
        self._forget()

    def reject(self) -> None:
        """Drop the open proposal."""
        tasks = self._graph.tasks
        pools.delete_edges(tasks, self._graph.edges, self._linked)
        top = self._num_free_edges
        self._free_edges[top : top + len(self._linked)] = self._linked[::-1]
        self._num_free_edges += len(self._linked)
        tasks["place"][self._removed] = ~tasks["place"][self._removed]
        tasks["place"][self._added] = records.NONE
        self._release_slots(self._added[::-1])
        self._resources_top -= self._proposed_entries
        self._forget()

    def times(
        self,
    ) -> tuple[Slots, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The committed tasks' slots in the order of (ready, key); their ready, start and end."""
        order = self._graph.order[: self._graph.num_tasks]
        slots, ready, end = (order[name].copy() for name in ("slot", "ready", "end"))
        return slots, ready, end - self._graph.tasks["duration"][slots], end

    def _evaluated(self) -> _Outcome:
        if self._outcome is not None:
            return self._outcome
        self._epoch += 1
        proposal = Proposal(
            added=self._added,
            removed=self._removed,
            removed_places=np.sort(~self._graph.tasks["place"][self._removed]),
            linked=self._linked,
        )
        outcome = _Outcome(*evaluate(self._graph, proposal, self._work, self._epoch))
        self._epoch += outcome.num_windows
        shifted, retimed = False, 0
        if outcome.num_windows:
            last = self._work.windows[outcome.num_windows - 1]
            shifted, retimed = bool(last["end"] < self._graph.num_tasks), int(last["last"])
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

    def _compact(self) -> None:
        """Leave out of the pool of resources what no task occupies any more."""
        g = self._graph
        compacted = np.empty_like(g.resources)
        slots = g.order["slot"][: g.num_tasks].copy()
        self._resources_top = pools.compact(g.tasks, slots, g.resources, compacted)
        self._graph, self._resources_garbage = g._replace(resources=compacted), 0

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
        g, work = self._graph, self._work
        before = len(g.tasks)
        if needed <= before:
            return
        size = max(needed, 2 * before)
        self._graph = g._replace(
            tasks=_grown(g.tasks, size),
            order=_grown(g.order, size),
            blocks=_grown(g.blocks, size // records.BLOCK + 2),
        )
        self._graph.tasks["place"][before:] = records.NONE
        self._work = work._replace(
            heap=_grown(work.heap, size),
            retimed=_grown(work.retimed, size),
            flying=_grown(work.flying, size),
            landing=_grown(work.landing, size),
            new_order=_grown(work.new_order, size),
        )
        self._free_slots = _grown(self._free_slots, size)

    def _grow_edges(self, needed: int) -> None:
        if needed > len(self._free_edges):
            size = max(needed, 2 * len(self._free_edges))
            self._graph = self._graph._replace(edges=_grown(self._graph.edges, size))
            self._free_edges = _grown(self._free_edges, size)


def _int64(numbers: Ints) -> NDArray[np.int64]:
    return np.ascontiguousarray(numbers, np.int64)


def _joined(first: Slots, second: Slots) -> Slots:
    return np.concatenate([first, second])


def _last(stack: Slots, count: int) -> Slots:
    """The last entries of a stack, the topmost first."""
    return stack[len(stack) - count :][::-1]


def _grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    """A copy with room for at least `size` entries, by doubling."""
    grown = np.zeros(max(size, 2 * len(array)), array.dtype)
    grown[: len(array)] = array
    return grown
