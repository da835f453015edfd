"""A memory plan as tasks on a device and on its two ways to the host, for the simulator.

    compute   the device
    out, in   `cluster.to_host(0)`, `cluster.from_host(0)`: resources like any other link

Actions are tasks in the order of the plan. Each waits for the one before it on its stream, and for
those that it is `after`. A residence of a storage, from its placing to its last toucher, is a
value. So `simulate.schedule` times a plan, `simulate.memory` finds what it holds, and `Timeline`
explains, draws and saves it, as they do for everything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from graphwright.machine import Cluster
from graphwright.plans import (
    CATEGORIES,
    KINDS,
    STREAMS,
    MemoryPlan,
    MemoryProblem,
    Run,
    SwapIn,
    SwapOut,
    TaskGraph,
    Values,
)

ONE_DEVICE: tuple[str, ...] = ("device 0", "to-host", "from-host")


def task_graph(
    plan: MemoryPlan,
    problem: MemoryProblem,
    cluster: Cluster | None = None,
    positions: Mapping[str, int] | None = None,
    categories: Mapping[str, int] | None = None,
) -> TaskGraph:
    """The tasks of a plan on device 0 of a cluster.

    `positions` are those of the operators in their graph, `categories` what storages are held for.
    """
    if cluster is None:
        resources, names, num_devices = (0, 1, 2), ONE_DEVICE, 1
    else:
        out, back = cluster.to_host(0).resources[0], cluster.from_host(0).resources[0]
        resources, names = (0, out, back), cluster.resources
        num_devices = cluster.num_devices
    n = len(plan.actions)
    streams = np.array([STREAMS.index(a.stream) for a in plan.actions], np.int64)
    storage = {s.name: s for s in problem.storages}
    position = {op.name: i for i, op in enumerate(problem.operators)}
    labels = list(dict.fromkeys(a.name for a in plan.actions if not isinstance(a, Run)))
    label = {name: i for i, name in enumerate(labels)}
    duration, node, nbytes = np.zeros(n, np.int64), np.zeros(n, np.int32), np.zeros(n, np.int64)
    for at, action in enumerate(plan.actions):
        match action:
            case Run():
                place = position[action.name]
                duration[at] = problem.operators[place].duration
                node[at] = place if positions is None else positions[action.name]
            case SwapOut() | SwapIn():
                is_out = isinstance(action, SwapOut)
                moved = storage[action.name]
                duration[at] = moved.out_time if is_out else moved.in_time
                node[at], nbytes[at] = label[action.name], moved.nbytes
    succ_ptr, succ, indegree = _edges(plan, streams)
    kinds = np.array([0, KINDS.index("swap_out"), KINDS.index("swap_in")], np.uint8)
    return TaskGraph(
        duration=duration,
        key=np.arange(n, dtype=np.int64),
        kind=kinds[streams],
        node=node,
        device=np.zeros(n, np.int32),
        nbytes=nbytes,
        succ_ptr=succ_ptr,
        succ=succ,
        indegree=indegree,
        resource_ptr=np.arange(n + 1, dtype=np.int64),
        resource=np.array(resources, np.int32)[streams],
        load=nbytes,
        values=_values(plan, problem, categories or {}),
        labels=tuple(labels),
        resource_names=tuple(names),
        num_devices=num_devices,
    )


def _edges(
    plan: MemoryPlan, streams: Sequence[int] | np.ndarray[tuple[int], np.dtype[np.int64]]
) -> tuple[
    np.ndarray[tuple[int], np.dtype[np.int64]],
    np.ndarray[tuple[int], np.dtype[np.int32]],
    np.ndarray[tuple[int], np.dtype[np.int32]],
]:
    n, latest = len(plan.actions), [-1, -1, -1]
    pairs: list[tuple[int, int]] = []
    for at, action in enumerate(plan.actions):
        own = int(streams[at])
        before = {*action.after, latest[own]} - {-1}
        pairs += [(first, at) for first in sorted(before)]
        latest[own] = at
    pairs.sort()
    first = np.array([a for a, _ in pairs], np.int64)
    then = np.array([b for _, b in pairs], np.int32)
    bounds = np.searchsorted(first, np.arange(n + 1)).astype(np.int64)
    return bounds, then, np.bincount(then, minlength=n).astype(np.int32)


def _values(plan: MemoryPlan, problem: MemoryProblem, categories: Mapping[str, int]) -> Values:
    """Every residence of a storage: who brings it, and who touches it last on each stream."""
    nbytes = {s.name: s.nbytes for s in problem.storages}
    operator = {op.name: op for op in problem.operators}
    names = [s.name for s in problem.storages]
    kept = {s.name for s in problem.storages if s.ends == "kept"}
    residence: dict[str, int] = {}
    owner: list[str] = []
    births: list[tuple[int, int]] = []
    uses: dict[tuple[int, str], int] = {}
    offsets: list[int] = []
    overs: list[tuple[int, int]] = []
    n = len(plan.actions)

    def begin(name: str, at: int, offset: int) -> None:
        offsets.append(offset)
        residence[name] = len(owner)
        births.append((len(owner), at))
        owner.append(name)

    for name, offset in plan.residents.items():
        begin(name, n, offset)
    for at, action in enumerate(plan.actions):
        match action:
            case Run():
                for s in operator[action.name].reads:
                    uses[residence[names[s]], "compute"] = at
                over = operator[action.name].over
                for name, offset in action.places.items():
                    if over is not None and offsets[residence[names[over]]] == offset:
                        overs.append((residence[names[over]], at))
                    begin(name, at, offset)
            case SwapOut():
                uses[residence[action.name], "out"] = at
            case SwapIn():
                begin(action.name, at, action.offset)
    out = {a.name for a in plan.actions if isinstance(a, SwapOut)}
    ends = [(residence[name], n) for name in {*plan.residents, *(kept - out)} if name in residence]
    used = [(value, at) for (value, _), at in uses.items()] + ends
    activation = CATEGORIES.index("activation")
    return Values(
        nbytes=np.array([nbytes[name] for name in owner], np.int64),
        device=np.zeros(len(owner), np.int32),
        category=np.array([categories.get(name, activation) for name in owner], np.uint8),
        persistent=np.zeros(len(owner), np.bool_),
        birth_value=np.array([v for v, _ in births], np.int32),
        birth_task=np.array([t for _, t in births], np.int32),
        use_value=np.array([v for v, _ in used], np.int32),
        use_task=np.array([t for _, t in used], np.int32),
        over_value=np.array([v for v, _ in overs], np.int32),
        over_task=np.array([t for _, t in overs], np.int32),
    )
