"""Memory plans as tasks on devices and on their ways to the host, for the simulator.

    compute   the device
    out, in   `cluster.to_host(0)`, `cluster.from_host(0)`: resources like any other link

Actions are tasks in the order of the plan. Each waits for the one before it on its stream, and for
those that it is `after`. A residence of a storage, from its placing to its last toucher, is a
value. So `simulate.schedule` times a plan, `simulate.memory` finds what it holds, and `Timeline`
explains, draws and saves it, as they do for everything else.

The plans of several ranks are one task graph: a transfer is one task of all ranks that have a part
in it, and begins when the last of them has come to it. Where processes copy for themselves, as on
a machine whose devices are its own cores, a rank's actions follow each other one by one (`serial`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from graphwright.machine import Cluster
from graphwright.memory.problems import ProgramProblem
from graphwright.plans import (
    CATEGORIES,
    KINDS,
    STREAMS,
    Collective,
    MemoryPlan,
    MemoryProblem,
    Run,
    SwapIn,
    SwapOut,
    TaskGraph,
    Together,
    Values,
    transfers,
)

ONE_DEVICE: tuple[str, ...] = ("device 0", "to-host", "from-host")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lane:
    """A rank's plan; `meets` has the tag and kind of those operators that are transfers."""

    plan: MemoryPlan
    problem: MemoryProblem
    device: int
    resources: tuple[int, int, int]
    positions: Mapping[str, int]
    categories: Mapping[str, int]
    meets: Mapping[str, tuple[int, str]] = field(default_factory=dict)


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
        resources, names = _resources(cluster, 0), cluster.resources
        num_devices = cluster.num_devices
    lane = _Lane(
        plan=plan,
        problem=problem,
        device=0,
        resources=resources,
        positions=positions or {op.name: i for i, op in enumerate(problem.operators)},
        categories=categories or {},
    )
    return _Layout([lane], serial=False).build(names, num_devices)


def task_graph_of_ranks(
    ranks: Sequence[tuple[ProgramProblem, MemoryPlan]], cluster: Cluster, *, serial: bool = False
) -> TaskGraph:
    """The tasks of all ranks' plans on a cluster."""
    lanes = [
        _Lane(
            plan=plan,
            problem=given.problem,
            device=given.program.rank,
            resources=_resources(cluster, given.program.rank, serial),
            positions=given.positions,
            categories=given.categories,
            meets={
                name: (piece.tag, _kind_name(piece.instructions[-1]))
                for name, piece in given.pieces.items()
                if piece.tag is not None
            },
        )
        for given, plan in ranks
    ]
    return _Layout(lanes, serial).build(cluster.resources, cluster.num_devices)


def _resources(cluster: Cluster, device: int, serial: bool = False) -> tuple[int, int, int]:
    if serial:
        return device, device, device
    out, back = cluster.to_host(device).resources[0], cluster.from_host(device).resources[0]
    return device, out, back


def _kind_name(instruction: object) -> str:
    match instruction:
        case Collective(kind=kind) | Together(sums=(Collective(kind=kind), *_)):
            return kind.name
        case _:
            return transfers.Exchange.name


class _Layout:
    """All lanes' actions as tasks, numbered so that edges lead to later ones."""

    def __init__(self, lanes: Sequence[_Lane], serial: bool) -> None:
        self.lanes, self.serial = lanes, serial
        self.number = [[-1] * len(lane.plan.actions) for lane in lanes]
        self.places: list[list[tuple[int, int]]] = []
        """For each task the (lane, action) that it is."""
        self.operators = [
            {op.name: i for i, op in enumerate(lane.problem.operators)} for lane in lanes
        ]
        self.storages = [{s.name: s for s in lane.problem.storages} for lane in lanes]
        self._merge()

    def _merge(self) -> None:
        """Number the actions lane by lane, up to where a lane has to wait for another."""
        count: dict[int, int] = {}
        for lane in self.lanes:
            for tag, _ in lane.meets.values():
                count[tag] = count.get(tag, 0) + 1
        reached = [0] * len(self.lanes)
        arrived: dict[int, list[tuple[int, int]]] = {}
        ready = list(range(len(self.lanes)))
        while ready:
            k = ready.pop()
            actions, meets = self.lanes[k].plan.actions, self.lanes[k].meets
            while reached[k] < len(actions):
                at = reached[k]
                action = actions[at]
                meeting = meets.get(action.name) if isinstance(action, Run) else None
                together = [(k, at)]
                if meeting is not None:
                    together = arrived.setdefault(meeting[0], [])
                    together.append((k, at))
                    if len(together) < count[meeting[0]]:
                        break
                for other, place in together:
                    self.number[other][place] = len(self.places)
                    reached[other] = place + 1
                    if other != k:
                        ready.append(other)
                self.places.append(together)
        stuck = [k for k, lane in enumerate(self.lanes) if reached[k] < len(lane.plan.actions)]
        assert not stuck, f"ranks {stuck} wait for each other"

    def build(self, names: Sequence[str], num_devices: int) -> TaskGraph:
        n = len(self.places)
        labels: dict[str, int] = {}
        duration, nbytes = np.zeros(n, np.int64), np.zeros(n, np.int64)
        node, device, kind = np.zeros(n, np.int32), np.zeros(n, np.int32), np.zeros(n, np.uint8)
        resources: list[list[int]] = []
        for task, places in enumerate(self.places):
            lane, at = self.lanes[places[0][0]], places[0][1]
            action = lane.plan.actions[at]
            device[task] = lane.device
            match action:
                case Run():
                    i = self.operators[places[0][0]][action.name]
                    duration[task] = lane.problem.operators[i].duration
                    node[task] = lane.positions[action.name]
                    if (meeting := lane.meets.get(action.name)) is not None:
                        kind[task] = KINDS.index(meeting[1])
                        node[task], device[task] = labels.setdefault(action.name, len(labels)), -1
                        reads = lane.problem.operators[i].reads
                        nbytes[task] = sum(lane.problem.storages[s].nbytes for s in reads)
                case SwapOut() | SwapIn():
                    is_out = isinstance(action, SwapOut)
                    moved = self.storages[places[0][0]][action.name]
                    kind[task] = KINDS.index("swap_out" if is_out else "swap_in")
                    duration[task] = moved.out_time if is_out else moved.in_time
                    node[task] = labels.setdefault(action.name, len(labels))
                    nbytes[task] = moved.nbytes
            stream = STREAMS.index(action.stream)
            resources.append(sorted({self.lanes[k].resources[stream] for k, _ in places}))
        succ_ptr, succ, indegree = self._edges()
        counts = [len(each) for each in resources]
        return TaskGraph(
            duration=duration,
            key=np.arange(n, dtype=np.int64),
            kind=kind,
            node=node,
            device=device,
            nbytes=nbytes,
            succ_ptr=succ_ptr,
            succ=succ,
            indegree=indegree,
            resource_ptr=np.cumsum([0, *counts], dtype=np.int64),
            resource=np.array([r for each in resources for r in each], np.int32),
            load=np.repeat(nbytes, counts),
            values=self._values(),
            labels=tuple(labels),
            resource_names=tuple(names),
            num_devices=num_devices,
        )

    def _edges(
        self,
    ) -> tuple[
        np.ndarray[tuple[int], np.dtype[np.int64]],
        np.ndarray[tuple[int], np.dtype[np.int32]],
        np.ndarray[tuple[int], np.dtype[np.int32]],
    ]:
        n = len(self.places)
        pairs: set[tuple[int, int]] = set()
        for lane, number in zip(self.lanes, self.number, strict=True):
            latest = [-1] * len(STREAMS)
            for at, action in enumerate(lane.plan.actions):
                own = 0 if self.serial else STREAMS.index(action.stream)
                before = {*action.after, latest[own]} - {-1}
                pairs |= {(number[first], number[at]) for first in before}
                latest[own] = at
        ordered = sorted(pairs)
        first = np.array([a for a, _ in ordered], np.int64)
        then = np.array([b for _, b in ordered], np.int32)
        bounds = np.searchsorted(first, np.arange(n + 1)).astype(np.int64)
        return bounds, then, np.bincount(then, minlength=n).astype(np.int32)

    def _values(self) -> Values:
        held = _Residences(len(self.places))
        for k, lane in enumerate(self.lanes):
            held.add(lane, self.number[k], self.operators[k])
        return held.build()


class _Residences:
    """Every residence of a storage: who brings it, and who touches it last on each stream."""

    def __init__(self, num_tasks: int) -> None:
        self.end = num_tasks
        self.nbytes: list[int] = []
        self.device: list[int] = []
        self.category: list[int] = []
        self.births: list[int] = []
        self.uses: list[tuple[int, int]] = []
        self.overs: list[tuple[int, int]] = []

    def add(self, lane: _Lane, number: Sequence[int], operator: Mapping[str, int]) -> None:
        """Those of one lane, whose actions are the tasks of these numbers."""
        plan, problem = lane.plan, lane.problem
        names = [s.name for s in problem.storages]
        nbytes = {s.name: s.nbytes for s in problem.storages}
        written = {names[s] for op in problem.operators for s in op.writes}
        kept = {
            s.name
            for s in problem.storages
            if s.ends == "kept" and (s.name in written or not s.begins_on_host)
        }
        residence: dict[str, int] = {}
        offsets: dict[int, int] = {}
        uses: dict[tuple[int, str], int] = {}
        activation = CATEGORIES.index("activation")

        def begin(name: str, task: int, offset: int) -> None:
            residence[name] = len(self.nbytes)
            offsets[len(self.nbytes)] = offset
            self.nbytes.append(nbytes[name])
            self.device.append(lane.device)
            self.category.append(lane.categories.get(name, activation))
            self.births.append(task)

        for name, offset in plan.residents.items():
            begin(name, self.end, offset)
        for at, action in enumerate(plan.actions):
            task = number[at]
            match action:
                case Run():
                    op = problem.operators[operator[action.name]]
                    for s in op.reads:
                        uses[residence[names[s]], "compute"] = task
                    for name, offset in action.places.items():
                        over = None if op.over is None else residence[names[op.over]]
                        if over is not None and offsets[over] == offset:
                            if action.name in lane.meets:  # a task of several ranks: in place
                                residence[name] = over
                                uses[over, "compute"] = task
                                continue
                            self.overs.append((over, task))
                        begin(name, task, offset)
                case SwapOut():
                    uses[residence[action.name], "out"] = task
                case SwapIn():
                    begin(action.name, task, action.offset)
        out = {a.name for a in plan.actions if isinstance(a, SwapOut)}
        self.uses += [(value, task) for (value, _), task in uses.items()]
        stay = {*plan.residents, *(kept - out)}
        self.uses += [(residence[name], self.end) for name in stay if name in residence]

    def build(self) -> Values:
        return Values(
            nbytes=np.array(self.nbytes, np.int64),
            device=np.array(self.device, np.int32),
            category=np.array(self.category, np.uint8),
            persistent=np.zeros(len(self.nbytes), np.bool_),
            birth_value=np.arange(len(self.nbytes), dtype=np.int32),
            birth_task=np.array(self.births, np.int32),
            use_value=np.array([v for v, _ in self.uses], np.int32),
            use_task=np.array([t for _, t in self.uses], np.int32),
            over_value=np.array([v for v, _ in self.overs], np.int32),
            over_task=np.array([t for _, t in self.overs], np.int32),
        )
