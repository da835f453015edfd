"""Simulate a task graph: when every task is ready, starts and ends (FlexFlow section 3.4.2).

The law of a schedule, which the incremental simulation of `delta` obeys to the last picosecond:

    ready[t]   the latest end among the predecessors of t; 0 without any
    order      all tasks, sorted by (ready, key)
    start[t]   the later of ready[t] and, on each of t's resources, the end of the task before it
    end[t]     start[t] + duration[t]

Every resource is thus a queue: first ready, first served. A task with several resources occupies
all of them from its start to its end; one without any starts when it is ready.

A queue of the ready tasks gives the order by itself: a successor is ready no earlier than its
predecessor, and its key is greater even where both are ready at one time (`simulate_tasks`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphwright.plans import Ints, TaskGraph
from graphwright.simulate.heap import ENTRY, pop, push
from graphwright.simulate.verify import verify_tasks
from graphwright.tasks import compiled


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schedule:
    """When every task is ready, starts and ends (picoseconds); the tasks by (ready, key)."""

    ready: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    order: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.end)

    @property
    def makespan(self) -> int:
        """Picoseconds from the beginning to the end of the last task."""
        return int(self.end.max(initial=0))

    def __repr__(self) -> str:
        return f"Schedule({len(self):,} tasks, {self.makespan / 1e9:,.6g} ms)"


def schedule(task_graph: TaskGraph) -> Schedule:
    """The schedule of a task graph."""
    g = task_graph
    verify_tasks(g)
    n = len(g)
    result = Schedule(
        ready=np.zeros(n, np.int64),
        start=np.empty(n, np.int64),
        end=np.empty(n, np.int64),
        order=np.empty(n, np.int32),
    )
    simulate_tasks(
        g.duration, g.succ_ptr, g.succ, g.indegree, g.resource_ptr, g.resource, g.num_resources,
        result.ready, result.start, result.end, result.order,
    )  # fmt: skip
    return result


@compiled
def simulate_tasks(
    duration: Ints,
    succ_ptr: Ints,
    succ: Ints,
    indegree: Ints,
    resource_ptr: Ints,
    resource: Ints,
    num_resources: int,
    ready: Ints,
    start: Ints,
    end: Ints,
    order: Ints,
) -> int:
    """Fill `ready` (zero on entry), `start`, `end`, `order`; returns how many were reached."""
    n = len(duration)
    free = np.zeros(num_resources, np.int64)
    waiting = indegree.copy()
    heap = np.empty(n + 1, ENTRY)
    size = 0
    for t in range(n):
        if waiting[t] == 0:
            push(heap, size, 0, t, t)
            size += 1
    done = 0
    while size > 0:
        t, begin = heap[0].slot, heap[0].time
        pop(heap, size)
        size -= 1
        order[done] = t
        done += 1
        for i in range(resource_ptr[t], resource_ptr[t + 1]):
            begin = max(begin, free[resource[i]])
        finish = begin + duration[t]
        for i in range(resource_ptr[t], resource_ptr[t + 1]):
            free[resource[i]] = finish
        start[t] = begin
        end[t] = finish
        for e in range(succ_ptr[t], succ_ptr[t + 1]):
            s = succ[e]
            if finish > ready[s]:
                ready[s] = finish
            waiting[s] -= 1
            if waiting[s] == 0:
                push(heap, size, ready[s], s, s)
                size += 1
    return done
