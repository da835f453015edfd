"""The rules that every task graph obeys.

| verifier          | what has to hold                                                           |
| ----------------- | -------------------------------------------------------------------------- |
| verify_tasks      | durations from 0 upwards; keys that increase; edges lead to later tasks,   |
|                   | so that there is no cycle; resources exist, and no task has one twice      |
| verify_values     | devices, categories and tasks exist; a value that does not live between    |
|                   | steps is born                                                              |
| verify_task_graph | all of that; a value is born before it is used; every transfer has a       |
|                   | label; only transfers carry bytes, and compute tasks stand on a device     |

`schedule` asks for the first and `memory` for the second before they trust the arrays.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from graphwright.errors import InvalidTaskGraph
from graphwright.plans import CATEGORIES, KINDS, Ints, TaskGraph, Values
from graphwright.tasks import compiled


def verify_task_graph(task_graph: TaskGraph) -> None:
    """Raise InvalidTaskGraph, naming the task or value and the rule, unless all rules hold."""
    g, n = task_graph, len(task_graph)
    verify_tasks(g)
    verify_values(g)
    for name in ("kind", "node", "device", "nbytes"):
        if len(getattr(g, name)) != n:
            raise InvalidTaskGraph(f"{n} tasks, but {len(getattr(g, name))} entries of {name}")
    if len(g.load) != len(g.resource):
        raise InvalidTaskGraph(f"{len(g.load)} loads of {len(g.resource)} occupied resources")
    moves = g.kind > 0
    for wrong, what in (
        (g.kind >= len(KINDS), "it is of no known kind"),
        (moves & ((g.node < 0) | (g.node >= len(g.labels))), "it is a transfer without a label"),
        (~moves & ((g.device < 0) | (g.device >= g.num_devices)), "it computes on no device"),
        (~moves & (g.nbytes != 0), "it computes, and yet carries bytes"),
        (g.nbytes < 0, "it carries less than nothing"),
    ):
        if wrong.any():
            task = int(wrong.argmax())
            raise InvalidTaskGraph(f"task {task} (key {g.key[task]}): {what}")
    v, born = g.values, np.full(len(g.values), n, np.int64)
    np.minimum.at(born, v.birth_value, np.where(v.birth_task == n, -1, v.birth_task))
    born[v.persistent] = -1
    early = v.use_task < born[v.use_value]
    if early.any():
        use = int(early.argmax())
        value = int(v.use_value[use])
        _fail_value(v, value, f"is used by task {v.use_task[use]}, and born by {born[value]}")


def _fail_value(values: Values, number: int, what: str) -> NoReturn:
    category = CATEGORIES[values.category[number]]
    where = f"{values.nbytes[number]} bytes, {category}, on device {values.device[number]}"
    raise InvalidTaskGraph(f"value {number} ({where}) {what}")


def verify_tasks(task_graph: TaskGraph) -> None:
    """Raise InvalidTaskGraph unless durations, keys, edges and resources are right."""
    g, n = task_graph, len(task_graph)
    for name, pointer, entries in (
        ("succ_ptr", g.succ_ptr, g.succ),
        ("resource_ptr", g.resource_ptr, g.resource),
    ):
        if len(pointer) != n + 1 or pointer[0] != 0 or pointer[-1] != len(entries):
            raise InvalidTaskGraph(
                f"{name} of {n} tasks has {len(pointer)} entries and does not go from 0 to "
                f"{len(entries)}"
            )
    if len(g.key) != n or len(g.indegree) != n:
        raise InvalidTaskGraph(f"{n} durations, {len(g.key)} keys, {len(g.indegree)} indegrees")
    fault, task = find_fault(
        g.duration, g.key, g.succ_ptr, g.succ, g.indegree.copy(),
        g.resource_ptr, g.resource, g.num_resources,
    )  # fmt: skip
    if fault:
        raise InvalidTaskGraph(f"task {task} (key {g.key[task]}): {FAULTS[fault]}")


FAULTS = (
    "",
    "its duration is negative",
    "its key is not greater than that of the task before it",
    "an edge leads back from it, or to no task: tasks have to be in a topological order, so there "
    "must be no cycle",
    "it occupies a resource that there is not",
    "its indegree is not the number of edges that lead to it",
    "its edges or resources end before they begin",
    "it occupies a resource twice",
)


@compiled
def find_fault(
    duration: Ints,
    key: Ints,
    succ_ptr: Ints,
    succ: Ints,
    indegree: Ints,
    resource_ptr: Ints,
    resource: Ints,
    num_resources: int,
) -> tuple[int, int]:
    """The first fault as its position in FAULTS, and its task; (0, 0) if there is none.

    Uses up `indegree`.
    """
    n = len(duration)
    for t in range(n):
        if duration[t] < 0:
            return 1, t
        if t > 0 and key[t] <= key[t - 1]:
            return 2, t
        if succ_ptr[t + 1] < succ_ptr[t] or resource_ptr[t + 1] < resource_ptr[t]:
            return 6, t
        for e in range(succ_ptr[t], succ_ptr[t + 1]):
            s = succ[e]
            if s <= t or s >= n:
                return 3, t
            indegree[s] -= 1
    last = np.full(num_resources, -1, np.int32)
    for t in range(n):
        if indegree[t] != 0:
            return 5, t
        for i in range(resource_ptr[t], resource_ptr[t + 1]):
            r = resource[i]
            if r < 0 or r >= num_resources:
                return 4, t
            if last[r] == t:
                return 7, t
            last[r] = t
    return 0, 0


def verify_values(task_graph: TaskGraph) -> None:
    """Raise InvalidTaskGraph unless every value has a device, a category and a birth."""
    values, num_tasks = task_graph.values, len(task_graph)
    for name, numbers, limit in (
        ("device", values.device, task_graph.num_devices),
        ("category", values.category, len(CATEGORIES)),
        ("birth_value", values.birth_value, len(values)),
        ("birth_task", values.birth_task, num_tasks + 1),
        ("use_value", values.use_value, len(values)),
        ("use_task", values.use_task, num_tasks + 1),
        ("over_value", values.over_value, len(values)),
        ("over_task", values.over_task, num_tasks),
    ):
        if len(numbers) and not (numbers.min() >= 0 and numbers.max() < limit):
            raise InvalidTaskGraph(
                f"values.{name} goes from {numbers.min()} to {numbers.max()}; there are {limit}"
            )
    if len(values) and values.nbytes.min() < 0:
        raise InvalidTaskGraph(f"value {values.nbytes.argmin()} has {values.nbytes.min()} bytes")
    unborn = ~values.persistent
    unborn[values.birth_value] = False
    if unborn.any():
        _fail_value(values, int(unborn.argmax()), "is not persistent and no task gives birth to it")
