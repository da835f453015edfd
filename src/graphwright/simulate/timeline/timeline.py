"""A timeline: what a simulated step does when, where its time goes and what memory it needs.

    busy                    per device and link, the time during which it works
    exposed_communication   per device, the rest: waiting for transfers or for other devices
    critical_path           the chain of tasks, each starting when the one before it ends, that
                            makes the step as long as it is
    memory                  per device, what it holds over time and at its peak

Times are seconds. What takes a pass over all tasks is computed when it is first asked for.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from graphwright.errors import GraphFileError
from graphwright.ir import Graph, Phase, format_bytes
from graphwright.machine import PICOSECONDS, Cluster
from graphwright.plans import KINDS, TaskGraph, format_seconds
from graphwright.simulate.engine import Schedule
from graphwright.simulate.memory import Memory
from graphwright.simulate.throughput import StepSize, step_size
from graphwright.simulate.timeline.caption import caption
from graphwright.simulate.timeline.gantt import save_gantt
from graphwright.simulate.timeline.served import Served, served, walk_back
from graphwright.simulate.timeline.summary import summary, to_dict
from graphwright.simulate.timeline.trace import save_trace

SUFFIXES = (".json", ".json.gz", ".png", ".svg")


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalTask:
    """One task of the critical path.

    `waited` says why it did not start earlier: it "needs" the result of the task before, or was
    "queued" behind it on `resource`; None for the first.
    """

    task: int
    name: str
    kind: str
    resource: str
    start: float
    duration: float
    waited: Literal["needs", "queued"] | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Timeline:
    """A simulated step.

    `plan` says in words how the graph was split, `seed` with which seed that was found.
    `repeated` is the share of all computing that other devices do as well, `costs` where the times
    of operators come from.
    """

    graph: Graph
    cluster: Cluster
    tasks: TaskGraph
    schedule: Schedule
    memory: Memory
    plan: str = ""
    seed: int | None = None
    repeated: float = 0.0
    costs: str = ""

    @property
    def fits(self) -> bool:
        """Whether every device has the memory that it needs."""
        limits = np.array([device.memory for device in self.cluster.devices])
        return bool((self.memory.peak <= limits).all())

    @property
    def price(self) -> float | None:
        """What the step costs, in the currency of the cluster's price for a device and an hour."""
        if self.cluster.price is None:
            return None
        return self.cluster.price * self.num_devices * self.makespan / 3600

    @property
    def size(self) -> StepSize:
        """What the step trains on, and the model's arithmetic for it."""
        return step_size(self.graph)

    @property
    def makespan(self) -> float:
        """How long the step takes."""
        return self.schedule.makespan / PICOSECONDS

    @property
    def num_devices(self) -> int:
        """How many devices take part."""
        return self.tasks.num_devices

    @cached_property
    def busy(self) -> NDArray[np.float64]:
        """How long every resource works, in the order of `tasks.resource_names`: devices first."""
        durations = np.repeat(self.tasks.duration, np.diff(self.tasks.resource_ptr))
        return _sums(self.tasks.resource, durations, self.tasks.num_resources) / PICOSECONDS

    @cached_property
    def computing(self) -> NDArray[np.float64]:
        """How long every device computes; one that does not overlap also transfers."""
        held = np.diff(self.tasks.resource_ptr)
        durations = np.repeat(np.where(self.tasks.kind == 0, self.tasks.duration, 0), held)
        sums = _sums(self.tasks.resource, durations, self.tasks.num_resources)
        return sums[: self.num_devices] / PICOSECONDS

    @property
    def utilisation(self) -> NDArray[np.float64]:
        """The part of the step, from 0 to 1, during which each device computes."""
        return self.computing / (self.makespan or 1.0)

    @property
    def exposed_communication(self) -> NDArray[np.float64]:
        """How long each device does not compute: transfers and others' work that nothing hides."""
        return self.makespan - self.computing

    @cached_property
    def link_bytes(self) -> dict[str, int]:
        """Bytes that cross each link which carries any."""
        loads = _sums(self.tasks.resource, self.tasks.load, self.tasks.num_resources)
        links = range(self.num_devices, self.tasks.num_resources)
        return {self.tasks.resource_names[r]: int(loads[r]) for r in links if loads[r]}

    @cached_property
    def phase_time(self) -> dict[str, float]:
        """Computing time by phase, summed over the devices."""
        by_phase: dict[str, float] = {str(phase): 0.0 for phase in Phase}
        for node, seconds in zip(self.graph.nodes, self._node_time, strict=True):
            by_phase[str(node.phase)] += seconds
        return {phase: seconds for phase, seconds in by_phase.items() if seconds}

    @cached_property
    def operator_time(self) -> dict[str, float]:
        """Computing time by operator, summed over the devices, the most first."""
        by_operator: defaultdict[str, float] = defaultdict(float)
        for node, seconds in zip(self.graph.nodes, self._node_time, strict=True):
            by_operator[node.op] += seconds
        return dict(sorted(by_operator.items(), key=lambda item: -item[1]))

    @cached_property
    def transfer_time(self) -> dict[str, float]:
        """Time of the transfers by kind, each counted once for all its links; they may overlap."""
        sums = _sums(self.tasks.kind, self.tasks.duration, len(KINDS)) / PICOSECONDS
        return {kind: float(sums[k]) for k, kind in enumerate(KINDS) if k and sums[k]}

    @cached_property
    def moved_bytes(self) -> int:
        """Bytes that leave a device."""
        return int(self.tasks.nbytes.sum())

    @cached_property
    def critical_path(self) -> tuple[CriticalTask, ...]:
        """The chain that makes the step as long as it is; its durations add up to the makespan."""
        tasks, queues = self._path
        start = self.schedule.start[tasks] / PICOSECONDS
        duration = self.tasks.duration[tasks] / PICOSECONDS
        return tuple(
            CriticalTask(
                task=task,
                name=self.task_name(task),
                kind=self.task_class(task),
                resource=self._resource_name(task, queue),
                start=begin,
                duration=length,
                waited=None if at == 0 else "needs" if queue < 0 else "queued",
            )
            for at, (task, queue, begin, length) in enumerate(
                zip(tasks.tolist(), queues.tolist(), start.tolist(), duration.tolist(), strict=True)
            )
        )

    @cached_property
    def critical_time(self) -> dict[str, float]:
        """The makespan by phase of computing and kind of transfer of the critical path."""
        tasks, _ = self._path
        by_class: Counter[str] = Counter()
        for task, duration in zip(tasks.tolist(), self.tasks.duration[tasks].tolist(), strict=True):
            by_class[self.task_class(task)] += duration
        return {name: ps / PICOSECONDS for name, ps in by_class.most_common() if ps}

    @cached_property
    def served(self) -> Served:
        """The tasks of every resource in the order of their turns."""
        return served(self.tasks, self.schedule)

    def task_name(self, task: int) -> str:
        """The name of a task's node, or what a transfer moves."""
        at = int(self.tasks.node[task])
        return self.tasks.labels[at] if self.tasks.kind[task] else self.graph.nodes[at].name

    def task_class(self, task: int) -> str:
        """The phase of a computing task, the kind of a transfer."""
        kind = int(self.tasks.kind[task])
        return KINDS[kind] if kind else str(self.graph.nodes[int(self.tasks.node[task])].phase)

    @property
    def caption(self) -> str:
        """Where the timeline comes from: version and commit, cluster, plan, seed and graph."""
        return caption(self.cluster.name, self.plan, self.seed, self.graph.hash)

    def save(self, path: str | Path, *, devices: Sequence[int] | None = None) -> None:
        """Save for Perfetto or chrome://tracing (.json, .json.gz), or as a picture (.png, .svg).

        `devices` limits what is shown to these; without it a trace shows the first 16, a picture
        the first 64.
        """
        path = Path(path)
        if not path.name.endswith(SUFFIXES):
            raise GraphFileError(
                f"{path}: the name has to end in {', '.join(SUFFIXES)}; the first two are for "
                "Perfetto, the others pictures"
            )
        save = save_gantt if path.suffix in (".png", ".svg") else save_trace
        save(self, path, devices=devices)

    def summary(self) -> str:
        """The figures that matter most, in a few lines."""
        return summary(self)

    def to_dict(self) -> dict[str, object]:
        """All figures as JSON-ready data; of the critical path the longest steps."""
        return to_dict(self)

    def __repr__(self) -> str:
        peak = format_bytes(int(self.memory.peak.max(initial=0)))
        return (
            f"Timeline({format_seconds(self.makespan)} on {self.cluster.name}, "
            f"{self.num_devices} devices, {len(self.tasks):,} tasks, at most {peak} on one device)"
        )

    @cached_property
    def _path(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        return walk_back(self.tasks, self.schedule)

    @cached_property
    def _node_time(self) -> list[float]:
        """Seconds that every node of the graph computes, summed over the devices."""
        computes = self.tasks.kind == 0
        nodes, durations = self.tasks.node[computes], self.tasks.duration[computes]
        seconds = _sums(nodes, durations, len(self.graph.nodes)) / PICOSECONDS
        return [float(s) for s in seconds]

    def _resource_name(self, task: int, queue: int) -> str:
        """Where a task ran: the resource that it queued for, or else that which it loads most."""
        if queue < 0:
            span = slice(self.tasks.resource_ptr[task], self.tasks.resource_ptr[task + 1])
            if span.start == span.stop:
                return ""
            queue = int(self.tasks.resource[span][self.tasks.load[span].argmax()])
        return self.tasks.resource_names[queue]


def _sums(group: NDArray[Any], amounts: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """Sums by group; exact while they stay below 2**53 (9,000 seconds, 9 PB)."""
    return np.asarray(np.bincount(group, weights=amounts, minlength=count), np.float64)
