"""A resharding as tasks: a template for all tensors of one type between the same two shardings.

    reads    (source place, task)      the task waits until the device has the tensor as it was
    edges    (task, task)              the hops follow each other
    gives    (target place, task)      the device has what it needs when the task is done
    keeps    (source, target place)    ... or had some of it before

Where the transfers of a hop take some of a device's own time, there is a task on that device beside
them: it waits for the same, and nobody waits for it, but while it runs the device computes nothing.

Places are those of devices in the mesh of the source and of the target. Each hop but the in-place
ones makes a new buffer on every device that it gives something to, and there are copies while a
transfer is under way (`staging`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphwright.errors import InvalidCluster
from graphwright.ir import TensorType
from graphwright.machine import PICOSECONDS
from graphwright.plans import HANDLING, KINDS, Mesh, Sharding, device_array, local_bytes, transfers
from graphwright.tasks.resharding import Hop, PricedHop, Transfer

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
EXTERNAL = -1
_NUMBER = {kind: number for number, kind in enumerate(transfers.TRANSFERS, start=1)}
_HANDLING = KINDS.index(HANDLING)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tasks:
    """The tasks of a block, numbered from 0: what each takes, on which device or links.

    `device` is -1 for what no single device does; task i occupies
    resource[resource_ptr[i] : resource_ptr[i + 1]], with `load` bytes on each.
    """

    kind: NDArray[np.uint8]
    duration: Longs
    device: Ints
    nbytes: Longs
    resource_ptr: Longs
    resource: Ints
    load: Longs

    @property
    def num_tasks(self) -> int:
        return len(self.duration)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Movement(Tasks):
    """The tasks of a resharding.

    `source_device` and `target_device` are at the places of the two meshes. `buffer_*` are its
    buffers, `source_uses` the (source place, task) that read the source's own memory. `result` is,
    for every target place, the buffer that holds the result, or EXTERNAL where the source's memory
    at `result_place` does.
    """

    source: Sharding
    target: Sharding
    source_device: Ints
    target_device: Ints
    hops: tuple[Hop, ...]
    reads: tuple[Ints, Ints]
    edges: tuple[Ints, Ints]
    gives: tuple[Ints, Ints]
    keeps: tuple[Ints, Ints]
    buffer_device: Ints
    buffer_nbytes: Longs
    births: tuple[Ints, Ints]
    uses: tuple[Ints, Ints]
    source_uses: tuple[Ints, Ints]
    result: Ints
    result_place: Ints
    _works_on: tuple[Ints, Ints] | None = field(default=None, init=False, repr=False)

    def reads_from(self) -> tuple[Ints, Ints]:
        """(device, transfer that reads what is there)."""
        places, tasks = self.reads
        transfers = self.kind[tasks] != _HANDLING
        return self.source_device[places[transfers]], tasks[transfers]

    def works_on(self) -> tuple[Ints, Ints]:
        """(device, task that reads or writes there), worked out once."""
        if self._works_on is not None:
            return self._works_on
        read, tasks = self.reads_from()
        devices = np.concatenate([read, self.target_device[self.gives[0]]])
        tasks = np.concatenate([tasks, self.gives[1]])
        each = np.unique(devices.astype(np.int64) * (self.num_tasks + 1) + tasks)
        devices, tasks = np.divmod(each, self.num_tasks + 1)
        pairs = devices.astype(np.int32), tasks.astype(np.int32)
        object.__setattr__(self, "_works_on", pairs)
        return pairs


MAX_SECONDS = 1e4
"""The longest time of one task: sums of thousands are within 64 bits of picoseconds."""


def picoseconds(seconds: float) -> int:
    """Whole picoseconds, so that sums of times are exact."""
    if not seconds <= MAX_SECONDS:
        raise InvalidCluster(
            f"one computation or transfer would take {seconds:.3g} s, more than {MAX_SECONDS:.0g}; "
            "check the rates, bandwidths and latencies of the cluster, and measured times"
        )
    return round(seconds * PICOSECONDS)


def movement(
    hops: Sequence[PricedHop], type: TensorType, source: Sharding, target: Sharding
) -> Movement:
    """Lay out the tasks of a resharding."""
    return _Layout(type, source, target).lay_out(hops)


@lru_cache(maxsize=4096)
def places(mesh: Mesh, size: int) -> Ints:
    """For every device number beneath `size`, its place in the mesh, -1 if it is not there."""
    places = np.full(size, -1, dtype=np.int32)
    devices = device_array(mesh)
    inside = devices < size
    places[devices[inside]] = np.flatnonzero(inside)
    return places


@lru_cache(maxsize=65536)
def common_places(first: Mesh, second: Mesh, size: int) -> tuple[Ints, Ints]:
    """The places in two meshes of the devices that are in both."""
    at = places(first, size)[device_array(second)]
    there = np.flatnonzero(at >= 0).astype(np.int32)
    return at[there], there


def join_on_device(ready: tuple[Ints, Ints], readers: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
    """(task, reader) for each reader on a device and each task that the device waits for."""
    devices, tasks = ready
    if not len(devices) or not len(readers[0]):
        return _NONE, _NONE
    order = np.argsort(devices, kind="stable")
    devices, tasks = devices[order], tasks[order]
    first = np.searchsorted(devices, readers[0], side="left")
    last = np.searchsorted(devices, readers[0], side="right")
    counts = last - first
    reader = np.repeat(readers[1], counts)
    within = np.arange(len(reader)) - np.repeat(np.cumsum(counts) - counts, counts)
    return tasks[np.repeat(first, counts) + within], reader


class _Layout:
    """Walks through the hops; knows the tasks and the buffer that each device's copy is from."""

    def __init__(self, type: TensorType, source: Sharding, target: Sharding) -> None:
        self.type, self.source, self.target = type, source, target
        devices = device_array(source.mesh)
        self.ready = (devices, np.full(len(devices), EXTERNAL, dtype=np.int32))
        self.size = 1 + int(max(devices.max(), device_array(target.mesh).max()))
        self.holds = np.full(self.size, EXTERNAL, dtype=np.int32)
        self.kinds: list[int] = []
        self.durations: list[int] = []
        self.on_device: list[int] = []
        self.nbytes: list[int] = []
        self.links: list[Ints] = []
        self.loads: list[Longs] = []
        self.pairs: dict[str, list[tuple[Ints, Ints]]] = {
            name: [] for name in ("reads", "edges", "births", "uses", "source_uses")
        }
        self.buffers: list[tuple[Ints, Longs]] = []
        self.num_buffers = 0

    def lay_out(self, path: Sequence[PricedHop]) -> Movement:
        hops = []
        for priced in path:
            made, first = priced.transfers(), len(self.durations)
            if made:
                self._hop(priced, made)
            hops.append(priced.hop._replace(first=first, end=len(self.durations)))
        devices, tasks = self.ready
        at_source, at_target = (
            places(self.source.mesh, self.size),
            places(self.target.mesh, self.size),
        )
        reads, source_uses = _joined(self.pairs["reads"]), _joined(self.pairs["source_uses"])
        needed = at_target[devices] >= 0
        own = (tasks == EXTERNAL) & needed
        given = (tasks != EXTERNAL) & needed
        counts = [len(links) for links in self.links]
        return Movement(
            source=self.source,
            target=self.target,
            source_device=device_array(self.source.mesh),
            target_device=device_array(self.target.mesh),
            hops=tuple(hops),
            kind=np.array(self.kinds, dtype=np.uint8),
            duration=np.array(self.durations, dtype=np.int64),
            device=np.array(self.on_device, dtype=np.int32),
            nbytes=np.array(self.nbytes, dtype=np.int64),
            resource_ptr=np.cumsum([0, *counts], dtype=np.int64),
            resource=_flat(self.links, np.int32),
            load=_flat(self.loads, np.int64),
            reads=(at_source[reads[0]], reads[1]),
            edges=_joined(self.pairs["edges"]),
            gives=(at_target[devices[given]], tasks[given]),
            keeps=(at_source[devices[own]], at_target[devices[own]]),
            buffer_device=_flat([d for d, _ in self.buffers], np.int32),
            buffer_nbytes=_flat([n for _, n in self.buffers], np.int64),
            births=_joined(self.pairs["births"]),
            uses=_joined(self.pairs["uses"]),
            source_uses=(at_source[source_uses[0]], source_uses[1]),
            result=self.holds[device_array(self.target.mesh)],
            result_place=at_source[device_array(self.target.mesh)],
        )

    def _hop(self, priced: PricedHop, made: tuple[Transfer, ...]) -> None:
        first = len(self.durations)
        numbers = range(first, first + len(made))
        readers = _pairs([t.reads for t in made], numbers)
        givers = _pairs([t.gives for t in made], numbers)
        for transfer in made:
            self._add(
                _NUMBER[transfer.kind], picoseconds(transfer.seconds), -1, transfer.nbytes,
                transfer.links, transfer.loads,
            )  # fmt: skip
        self._wait(readers)
        self._handle(made)
        devices = readers[0]
        held = self.holds[devices]
        buffered = held != EXTERNAL
        self.pairs["uses"].append((held[buffered], readers[1][buffered]))
        self.pairs["source_uses"].append((devices[~buffered], readers[1][~buffered]))
        self._settle(priced, givers)
        for number, transfer in zip(numbers, made, strict=True):
            self._stage(number, transfer)

    def _add(
        self, kind: int, duration: int, device: int, nbytes: int, resources: Ints, loads: Longs
    ) -> None:
        self.kinds.append(kind)
        self.durations.append(duration)
        self.on_device.append(device)
        self.nbytes.append(nbytes)
        self.links.append(resources)
        self.loads.append(loads)

    def _wait(self, readers: tuple[Ints, Ints]) -> None:
        """Let tasks begin once what they read is on those devices."""
        tasks, waiting = join_on_device(self.ready, readers)
        inside = tasks != EXTERNAL
        self.pairs["edges"].append((tasks[inside], waiting[inside]))
        from_outside = self._among(readers[0], self.ready[0][self.ready[1] == EXTERNAL])
        self.pairs["reads"].append((readers[0][from_outside], readers[1][from_outside]))

    def _handle(self, made: tuple[Transfer, ...]) -> None:
        """What a hop's transfers take of each device; it begins when the last of them could."""
        of: dict[int, list[tuple[Ints, float]]] = {}
        for transfer in made:
            for device, seconds in zip(
                transfer.handlers.tolist(), transfer.handled.tolist(), strict=True
            ):
                of.setdefault(device, []).append((transfer.reads, seconds))
        for device in sorted(of):
            reads, seconds_each = zip(*of[device], strict=True)
            duration, number = picoseconds(fsum(seconds_each)), len(self.durations)
            if duration:
                on = np.array([device], dtype=np.int32)
                self._add(_HANDLING, duration, device, 0, on, np.zeros(1, np.int64))
                needed = np.unique(np.concatenate(reads)).astype(np.int32)
                self._wait(_pairs([needed], range(number, number + 1)))

    def _among(self, devices: Ints, some: Ints) -> NDArray[np.bool_]:
        """Which devices are among some."""
        there = np.zeros(self.size, np.bool_)
        there[some] = True
        return there[devices]

    def _stage(self, task: int, transfer: Transfer) -> None:
        """Memory for copies while a task goes on."""
        on = transfer.staged > 0
        made = transfer.stages[on]
        buffers = np.arange(self.num_buffers, self.num_buffers + len(made), dtype=np.int32)
        self.buffers.append((made, transfer.staged[on]))
        self.num_buffers += len(made)
        self.pairs["births"].append((buffers, np.full(len(made), task, dtype=np.int32)))

    def _settle(self, priced: PricedHop, givers: tuple[Ints, Ints]) -> None:
        """After the hop: who waits for what, and where each copy is."""
        devices, tasks = self.ready
        still = self._among(devices, priced.keeps)
        self.ready = (
            np.concatenate([devices[still], givers[0]]),
            np.concatenate([tasks[still], givers[1]]),
        )
        hop = priced.hop
        if hop.kind.in_place:
            return
        mesh = device_array(hop.target.mesh)
        sizes = local_bytes(hop.target, self.type)
        receives = self._among(mesh, givers[0])
        made = mesh[receives]
        numbers = np.arange(self.num_buffers, self.num_buffers + len(made), dtype=np.int32)
        self.holds[made] = numbers
        self.buffers.append((made, sizes[receives]))
        self.num_buffers += len(made)
        self.pairs["births"].append((self.holds[givers[0]], givers[1]))


_NONE: Ints = np.zeros(0, dtype=np.int32)


def _pairs(groups: list[Ints], numbers: range) -> tuple[Ints, Ints]:
    counts = [len(group) for group in groups]
    return _flat(groups, np.int32), np.repeat(np.array(numbers, dtype=np.int32), counts)


def _flat(arrays: list[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    return np.concatenate(arrays).astype(dtype) if arrays else np.zeros(0, dtype=dtype)


def _joined(pairs: list[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    if not pairs:
        return _NONE, _NONE
    return np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])
