"""Who was served when: the tasks of every resource in turn, and what each waited for last.

    served     per resource, its tasks from the first to the last; no two of them overlap
    causes     per task, the one task whose end is its start: a predecessor, or the one before it in
               the queue of a resource

Following the causes back from the last task gives the critical path (`walk_back`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphwright.plans import Ints, TaskGraph
from graphwright.simulate.engine import Schedule
from graphwright.tasks import compiled


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Served:
    """The tasks of every resource in turn, and the bytes of each on that resource."""

    pointer: NDArray[np.int64]
    tasks: NDArray[np.int32]
    load: NDArray[np.int64]

    def by(self, resource: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """One resource's tasks and their bytes."""
        span = slice(self.pointer[resource], self.pointer[resource + 1])
        return self.tasks[span], self.load[span]


def served(task_graph: TaskGraph, schedule: Schedule) -> Served:
    """Every resource's tasks, from the first to the last."""
    g, order = task_graph, schedule.order
    counts = np.diff(g.resource_ptr)[order]
    turn = np.arange(len(g.resource)) - np.repeat(np.cumsum(counts) - counts, counts)
    entry = np.repeat(g.resource_ptr[order], counts) + turn
    by_resource = np.argsort(g.resource[entry], kind="stable")
    return Served(
        pointer=np.append(0, np.cumsum(np.bincount(g.resource, minlength=g.num_resources))),
        tasks=np.repeat(order, counts)[by_resource],
        load=g.load[entry][by_resource],
    )


def walk_back(
    task_graph: TaskGraph, schedule: Schedule
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The critical path from its first task on, and the resource that each queued for.

    It ends with the task that ends last, the first of them by key. A task that started as soon as
    it was ready, and so waited for a predecessor (the first by key of those that ended then), has
    -1 for the resource; so has the first task.
    """
    g, n = task_graph, len(task_graph)
    cause = np.full(n, -1, np.int32)
    queue = np.full(n, -1, np.int32)
    find_causes(
        g.succ_ptr, g.succ, g.resource_ptr, g.resource, g.num_resources,
        schedule.ready, schedule.start, schedule.end, schedule.order, cause, queue,
    )  # fmt: skip
    path = []
    task = int(schedule.end.argmax()) if n else -1
    while task >= 0:
        path.append(task)
        task = int(cause[task])
    tasks = np.array(path[::-1], np.int64)
    return tasks, queue[tasks]


@compiled
def find_causes(
    succ_ptr: Ints,
    succ: Ints,
    resource_ptr: Ints,
    resource: Ints,
    num_resources: int,
    ready: Ints,
    start: Ints,
    end: Ints,
    order: Ints,
    cause: Ints,
    queue: Ints,
) -> None:
    """Fill `cause` (-1 on entry) for tasks that start after 0, `queue` for those that queued."""
    for t in range(len(start)):
        for e in range(succ_ptr[t], succ_ptr[t + 1]):
            s = succ[e]
            if cause[s] < 0 and start[s] > 0 and start[s] == ready[s] and ready[s] == end[t]:
                cause[s] = t
    tail = np.full(num_resources, -1, np.int32)
    for t in order:
        for i in range(resource_ptr[t], resource_ptr[t + 1]):
            before = tail[resource[i]]
            if cause[t] < 0 and start[t] > ready[t] and before >= 0 and end[before] == start[t]:
                cause[t] = before
                queue[t] = resource[i]
            tail[resource[i]] = t
