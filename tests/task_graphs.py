"""Task graphs for tests: from plain lists, drawn at random, and of devices in lockstep."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphwright.plans import TaskGraph, Values


def no_values() -> Values:
    """Nothing in memory."""
    return make_values([])


def make_values(
    rows: Sequence[tuple[int, int, int, bool, Sequence[int], Sequence[int]]],
) -> Values:
    """Values from rows of (bytes, device, category, persistent, birth tasks, use tasks)."""
    births = [(v, t) for v, row in enumerate(rows) for t in row[4]]
    uses = [(v, t) for v, row in enumerate(rows) for t in row[5]]
    return Values(
        nbytes=np.array([row[0] for row in rows], np.int64),
        device=np.array([row[1] for row in rows], np.int32),
        category=np.array([row[2] for row in rows], np.uint8),
        persistent=np.array([row[3] for row in rows], np.bool_),
        birth_value=np.array([v for v, _ in births], np.int32),
        birth_task=np.array([t for _, t in births], np.int32),
        use_value=np.array([v for v, _ in uses], np.int32),
        use_task=np.array([t for _, t in uses], np.int32),
    )


def make_task_graph(
    duration: Sequence[int] | np.ndarray,
    edges: Sequence[tuple[int, int]] | np.ndarray = (),
    resources: Sequence[Sequence[int]] | None = None,
    *,
    resource_ptr: np.ndarray | None = None,
    resource: np.ndarray | None = None,
    num_resources: int = 1,
    key: np.ndarray | None = None,
    values: Values | None = None,
    num_devices: int = 1,
) -> TaskGraph:
    """A task graph of compute tasks; `resources` (or its two arrays) says what each occupies."""
    n = len(duration)
    pairs = np.array(edges, np.int64).reshape(-1, 2)
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    if resource_ptr is None or resource is None:
        rows = resources if resources is not None else [[]] * n
        resource_ptr = np.cumsum([0, *map(len, rows)]).astype(np.int64)
        resource = np.array([r for row in rows for r in row], np.int32)
    return TaskGraph(
        duration=np.array(duration, np.int64),
        key=np.arange(n, dtype=np.int64) if key is None else key,
        kind=np.zeros(n, np.uint8),
        node=np.zeros(n, np.int32),
        device=np.zeros(n, np.int32),
        nbytes=np.zeros(n, np.int64),
        succ_ptr=np.searchsorted(pairs[:, 0], np.arange(n + 1)).astype(np.int64),
        succ=pairs[:, 1].astype(np.int32),
        indegree=np.bincount(pairs[:, 1], minlength=n).astype(np.int32),
        resource_ptr=resource_ptr,
        resource=resource,
        load=np.zeros(len(resource), np.int64),
        values=no_values() if values is None else values,
        labels=(),
        resource_names=tuple(f"resource {r}" for r in range(num_resources)),
        num_devices=num_devices,
    )


def random_resources(rng: np.random.Generator, num_resources: int) -> list[int]:
    """Mostly one resource, sometimes none or several."""
    count = min(int(rng.choice([0, 1, 1, 1, 2, 3])), num_resources)
    return rng.choice(num_resources, count, replace=False).tolist()


def random_task_graph(
    rng: np.random.Generator,
    num_tasks: int,
    num_resources: int,
    *,
    num_edges: int | None = None,
    longest: int = 3,
    reach: int = 30,
) -> TaskGraph:
    """Short durations, zero among them, so that ties are everywhere; edges reach `reach` tasks back at most."""
    edges: list[tuple[int, int]] = []
    if num_tasks > 1:
        targets = rng.integers(1, num_tasks, 2 * num_tasks if num_edges is None else num_edges)
        back = rng.integers(1, reach + 1, len(targets))
        edges = sorted({(max(0, int(t - b)), int(t)) for t, b in zip(targets, back, strict=True)})
    return make_task_graph(
        rng.integers(0, longest + 1, num_tasks),
        edges,
        [random_resources(rng, num_resources) for _ in range(num_tasks)],
        num_resources=num_resources,
        key=np.cumsum(rng.integers(1, 5, num_tasks)).astype(np.int64),
    )


def lockstep(
    num_devices: int, num_steps: int, *, every: int = 4, seed: int = 0, spread: int = 0
) -> TaskGraph:
    """Devices that run the same operators, and every few of them wait for a collective over all.

    Device d runs task (step, d) after (step - 1, d); every `every` steps an all-reduce on all links lies between. Two
    resources a device: the device itself and its link. `spread` lets the durations of one step differ.
    """
    rng = np.random.default_rng(seed)
    base = rng.integers(1_000, 100_000, num_steps)
    duration: list[np.ndarray] = []
    edges: list[np.ndarray] = []
    pointers: list[np.ndarray] = []
    resource: list[np.ndarray] = []
    devices = np.arange(num_devices)
    before = np.empty(0, np.int64)
    count = 0
    for step in range(num_steps):
        tasks = count + devices
        duration.append(base[step] + rng.integers(0, spread + 1, num_devices))
        pointers.append(np.ones(num_devices, np.int64))
        resource.append(devices)
        if len(before) == num_devices:
            edges.append(np.stack([before, tasks], axis=1))
        elif len(before) == 1:
            edges.append(np.stack([np.repeat(before, num_devices), tasks], axis=1))
        count += num_devices
        before = tasks
        if step % every == every - 1:
            edges.append(np.stack([tasks, np.full(num_devices, count)], axis=1))
            duration.append(base[step : step + 1] // 3)
            pointers.append(np.array([num_devices]))
            resource.append(num_devices + devices)
            before = np.array([count])
            count += 1
    return make_task_graph(
        np.concatenate(duration),
        np.concatenate(edges),
        resource_ptr=np.concatenate([[0], np.cumsum(np.concatenate(pointers))]).astype(np.int64),
        resource=np.concatenate(resource).astype(np.int32),
        num_resources=2 * num_devices,
        num_devices=num_devices,
    )


def training_step(
    num_devices: int, num_layers: int, *, transfer: float, seed: int = 0
) -> TaskGraph:
    """A data-parallel step: forward, backward, an all-reduce of every layer beside the backward pass, and updates.

    The backward task of a layer waits for its forward task, too. An all-reduce takes `transfer` of a backward task's time.
    """
    rng = np.random.default_rng(seed)
    base = rng.integers(1_000, 10_000, num_layers)
    duration: list[int] = []
    edges: list[tuple[int, int]] = []
    resources: list[list[int]] = []
    devices = range(num_devices)

    def compute(time: int, *before: list[int]) -> list[int]:
        tasks = [len(duration) + d for d in devices]
        for d in devices:
            duration.append(time)
            resources.append([d])
        edges.extend((b[d], tasks[d]) for b in before for d in devices)
        return tasks

    last: list[list[int]] = []
    forward = []
    for layer in range(num_layers):
        last = [compute(int(base[layer]), *last)]
        forward += last
    reduced = []
    for layer in reversed(range(num_layers)):
        last = [compute(2 * int(base[layer]), *last, forward[layer])]
        edges.extend((t, len(duration)) for t in last[0])
        reduced.append([len(duration)] * num_devices)
        duration.append(int(2 * base[rng.integers(num_layers)] * transfer))
        resources.append([num_devices + d for d in devices])
    for tasks in reduced:
        compute(500, tasks, *last)
    return make_task_graph(
        duration, edges, resources, num_resources=2 * num_devices, num_devices=num_devices
    )


class Mirror:
    """A plain-Python twin of a changing task graph: tasks by key, and its changes as DeltaSchedule takes them."""

    def __init__(self, task_graph: TaskGraph, slots: np.ndarray) -> None:
        g = task_graph
        keys = g.key.tolist()
        self.num_resources = g.num_resources
        self.slot = dict(zip(keys, slots.tolist(), strict=True))
        self.tasks = {
            key: (
                int(g.duration[t]),
                g.resource[g.resource_ptr[t] : g.resource_ptr[t + 1]].tolist(),
            )
            for t, key in enumerate(keys)
        }
        sources = np.repeat(g.key, np.diff(g.succ_ptr))
        self.edges = set(zip(sources.tolist(), g.key[g.succ].tolist(), strict=True))

    def copy(self) -> Mirror:
        twin = object.__new__(Mirror)
        twin.num_resources = self.num_resources
        twin.slot, twin.tasks, twin.edges = dict(self.slot), dict(self.tasks), set(self.edges)
        return twin

    def task_graph(self) -> TaskGraph:
        keys = sorted(self.tasks)
        number = {key: t for t, key in enumerate(keys)}
        return make_task_graph(
            [self.tasks[key][0] for key in keys],
            sorted((number[a], number[b]) for a, b in self.edges),
            [self.tasks[key][1] for key in keys],
            num_resources=self.num_resources,
            key=np.array(keys, np.int64),
        )

    def remove(self, delta, keys: Sequence[int]) -> None:
        delta.remove(np.array([self.slot.pop(key) for key in keys], np.int32))
        gone = set(keys)
        for key in keys:
            del self.tasks[key]
        self.edges = {(a, b) for a, b in self.edges if a not in gone and b not in gone}

    def add(self, delta, new: dict[int, tuple[int, list[int]]]) -> None:
        slots = delta.add(
            np.array([duration for duration, _ in new.values()], np.int64),
            np.array(list(new), np.int64),
            np.cumsum([0] + [len(resources) for _, resources in new.values()]),
            np.array([r for _, resources in new.values() for r in resources], np.int32),
        )
        self.tasks |= new
        self.slot |= dict(zip(new, slots.tolist(), strict=True))

    def link(self, delta, edges: Sequence[tuple[int, int]]) -> None:
        edges = sorted(set(edges) - self.edges)
        delta.link(
            np.array([self.slot[a] for a, _ in edges], np.int32),
            np.array([self.slot[b] for _, b in edges], np.int32),
        )
        self.edges |= set(edges)

    def neighbours(self, key: int) -> tuple[list[int], list[int]]:
        return [a for a, b in self.edges if b == key], [b for a, b in self.edges if a == key]
