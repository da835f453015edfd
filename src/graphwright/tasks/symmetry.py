"""Devices that do the same at the same time, timed once: one node of a cluster stands for all.

A plan that cuts everything evenly makes every node of a cluster do the same. Devices are put into
classes (device i of each node), and so are links, tasks and buffers; a template keeps one of each
class. This is exact where the classes are an *equitable partition*:

    task        all tasks of a class take as long, wait for tasks and places of the same classes,
                and occupy resources of the same classes
    place       all places of a class get what they have from tasks of the same classes
    resource    all resources of a class serve one task each of the same classes, in one order
    buffer      all devices of a class have buffers of the same sizes, made and used by tasks of the
                same classes

By induction over the law of a schedule (`simulate.engine`) all tasks of a class then start at one
time. Each template is checked by itself (`_lump` counts); one that fails the check raises
`NotSymmetric`, and the plan is timed device by device.

Where that would take too long, on thousands of devices, `nearly` takes the largest part of a class
for all, and a resharding that fails the check hop by hop: each hop is one task, as long as its
busiest link works.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphwright.ir import TensorType
from graphwright.machine import Cluster
from graphwright.plans import Mesh, Sharding, device_array
from graphwright.tasks.costs import Costs
from graphwright.tasks.fusion import ALONE, Fused
from graphwright.tasks.movement import EXTERNAL, Ints, Movement, Tasks
from graphwright.tasks.placing import Placed
from graphwright.tasks.resharding import Order
from graphwright.tasks.templates import Templates

Labels = NDArray[Any]
"""The class of each thing of some kind."""


class NotSymmetric(Exception):
    """Devices of one class do different things; the plan has to be timed device by device."""


class SymmetricTemplates(Templates):
    """The tasks of one device of each class: those whose numbers differ by multiples of
    `period`."""

    def __init__(
        self, cluster: Cluster, costs: Costs, period: int, *, nearly: bool = False
    ) -> None:
        super().__init__(cluster, costs)
        self.nearly = nearly
        self.class_of = np.arange(cluster.num_devices, dtype=np.int32) % period
        self.resource_class = cluster.resource_classes(period)
        _, first = np.unique(self.resource_class, return_index=True)
        self.num_devices = period
        self.resource_names = tuple(cluster.resources[i] for i in first)
        self._devices = np.arange(period, dtype=np.int32)
        self._whole = Templates(cluster, costs)
        self._places: dict[Mesh, Ints] = {}
        self._sizes: dict[tuple[Sharding, TensorType], NDArray[np.int64]] = {}
        self._refused: set[object] = set()

    def devices(self, mesh: Mesh) -> Ints:
        self._places_of(mesh)
        return self._devices

    def common_places(self, first: Mesh, second: Mesh) -> tuple[Ints, Ints]:
        return self.devices(first), self.devices(second)

    def local_bytes(self, sharding: Sharding, type: TensorType) -> NDArray[np.int64]:
        sizes = self._sizes.get((sharding, type))
        if sizes is None:
            whole = self._whole.local_bytes(sharding, type)
            sizes = self._one_each(self._places_of(sharding.mesh), whole)
            self._sizes[sharding, type] = sizes
        return sizes

    def call(self, op: str, placed: Placed, is_view: bool, fused: Fused = ALONE) -> Tasks:
        tasks = self._calls.get((op, placed, fused))
        if tasks is None:
            whole = self._whole.call(op, placed, is_view, fused)
            places = self._places_of(placed.mesh)
            tasks = self._calls[op, placed, fused] = self._parts(
                self.devices(placed.mesh), self._one_each(places, whole.duration)
            )
        return tasks

    def movement(
        self,
        type: TensorType,
        source: Sharding,
        target: Sharding,
        pooled: bool = False,
        order: Order = None,
    ) -> Movement:
        key = (type, source, target, pooled, order)
        if key in self._refused:
            raise NotSymmetric
        tasks = self._movements.get(key)
        if tasks is None:
            whole = self._whole.movement(type, source, target, pooled, order)
            try:
                tasks = self._lumped(whole)
            except NotSymmetric:
                if not self.nearly:
                    self._refused.add(key)
                    raise
                tasks = self._hop_by_hop(whole)
            self._movements[key] = tasks
        return tasks

    def _places_of(self, mesh: Mesh) -> Ints:
        """The class of each place of a mesh, which has to have all devices."""
        places = self._places.get(mesh)
        if places is None:
            if len(device_array(mesh)) != len(self.class_of):
                raise NotSymmetric
            places = self._places[mesh] = self.class_of[device_array(mesh)]
        return places

    def _one_each(self, labels: Labels, values: NDArray[Any]) -> NDArray[Any]:
        """A value for each class of devices, which all of its places have."""
        chosen = np.full(self.num_devices, np.iinfo(values.dtype).min, dtype=values.dtype)
        np.maximum.at(chosen, labels, values)
        if not self.nearly and (chosen[labels] != values).any():
            raise NotSymmetric
        return chosen

    def _lumped(self, m: Movement) -> Movement:
        """One task and one buffer of each class of a movement."""
        source, target = self._places_of(m.source.mesh), self._places_of(m.target.mesh)
        owner = np.repeat(np.arange(m.num_tasks), np.diff(m.resource_ptr))
        served = self.resource_class[m.resource]
        task = self._task_classes(m, owner, served, source, target)
        _, first, sizes = np.unique(task, return_index=True, return_counts=True)
        counts, resource, load = self._occupied(m, owner, served, task)
        buffer, kept = self._buffer_classes(m)
        return replace(
            m,
            hops=tuple(
                hop._replace(
                    first=int(np.searchsorted(first, hop.first)),
                    end=int(np.searchsorted(first, hop.end)),
                )
                for hop in m.hops
            ),
            kind=m.kind[first],
            duration=m.duration[first],
            device=np.where(m.device < 0, -1, _taken(self.class_of, m.device))[first],
            nbytes=m.nbytes[first] * sizes,
            resource_ptr=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
            resource=resource,
            load=load,
            source_device=self.devices(m.source.mesh),
            target_device=self.devices(m.target.mesh),
            reads=_lump(m.reads, source, task, by="both"),
            edges=_lump(m.edges, task, task, by="second"),
            gives=_lump(m.gives, target, task, by="both"),
            keeps=_lump(m.keeps, source, target, by="second"),
            buffer_device=self.class_of[m.buffer_device[kept]],
            buffer_nbytes=m.buffer_nbytes[kept],
            births=_lump(m.births, buffer, task, by="first"),
            uses=_lump(m.uses, buffer, task, by="first"),
            source_uses=_lump(m.source_uses, source, task, by="first"),
            result=self._one_each(
                target, np.where(m.result == EXTERNAL, EXTERNAL, _taken(buffer, m.result))
            ),
            result_place=self._one_each(
                target, np.where(m.result_place < 0, -1, source[m.result_place])
            ),
        )

    def _task_classes(
        self, m: Movement, owner: Labels, served: Labels, source: Labels, target: Labels
    ) -> Labels:
        """A guess at the classes, numbered in the order of their first tasks; `_lump` checks it."""
        stage = np.searchsorted([hop.end for hop in m.hops], np.arange(m.num_tasks), side="right")
        columns: list[NDArray[Any]] = [stage, m.kind, m.duration, m.nbytes]
        for tasks, labels in (
            (owner, served),
            (m.reads[1], source[m.reads[0]]),
            (m.gives[1], target[m.gives[0]]),
        ):
            sums = np.zeros(m.num_tasks, np.uint64)
            np.add.at(sums, tasks, _scramble(labels))
            columns.append(sums.view(np.int64))
        classes: dict[bytes, int] = {}
        rows = np.stack([column.astype(np.int64) for column in columns], axis=1)
        guess = [classes.setdefault(row.tobytes(), len(classes)) for row in rows]
        return np.array(guess, dtype=np.int32)

    def _occupied(
        self, m: Movement, owner: Labels, served: Labels, task: Labels
    ) -> tuple[NDArray[np.int64], Ints, NDArray[np.int64]]:
        """How many resources a task of each class occupies, which, with how many bytes."""
        _lump((m.resource, owner), self.resource_class, task, by="both")
        order = np.lexsort((owner, m.resource))
        same = np.diff(m.resource[order]) == 0
        if (same & (np.diff(task[owner][order]) <= 0)).any():
            raise NotSymmetric  # two tasks of a class share a resource, or others in another order
        width = len(self.resource_names)
        classes, first = np.unique(task[owner].astype(np.int64) * width + served, return_index=True)
        counts = np.bincount(classes // width, minlength=int(task.max(initial=-1)) + 1)
        return counts, served[first], m.load[first]

    def _buffer_classes(self, m: Movement) -> tuple[Labels, Labels]:
        """The class of each buffer, and one buffer of each: the nth of each device of a class."""
        count = len(m.buffer_device)
        order = np.argsort(m.buffer_device, kind="stable")
        devices = m.buffer_device[order]
        nth = np.arange(count) - np.searchsorted(devices, devices)
        names = np.empty(count, np.int64)
        names[order] = nth * self.num_devices + self.class_of[devices]
        _, kept, buffer, sizes = np.unique(
            names, return_index=True, return_inverse=True, return_counts=True
        )
        if (sizes * self.num_devices != len(self.class_of)).any():
            raise NotSymmetric
        if (m.buffer_nbytes[kept][buffer] != m.buffer_nbytes).any():
            raise NotSymmetric
        return buffer.reshape(-1).astype(np.int32), kept

    def _hop_by_hop(self, m: Movement) -> Movement:
        """Each hop of a movement as one task."""
        source, target = self._places_of(m.source.mesh), self._places_of(m.target.mesh)
        hops = [hop for hop in m.hops if hop.first < hop.end]
        task = np.searchsorted([hop.end for hop in hops], np.arange(m.num_tasks), side="right")
        owner = np.repeat(np.arange(m.num_tasks), np.diff(m.resource_ptr))
        carries = m.device[owner] < 0  # the others would occupy a device for the whole hop
        owner, resources, load = owner[carries], m.resource[carries], m.load[carries]
        width = len(self.resource_class)
        each, at = np.unique(task[owner] * width + resources, return_inverse=True)
        busy = np.zeros((2, len(each)), np.int64)  # picoseconds and bytes of a hop on a resource
        np.add.at(busy[0], at, m.duration[owner])
        np.add.at(busy[1], at, load)
        hop, resource = np.divmod(each, width)
        duration = np.zeros(len(hops), np.int64)
        np.maximum.at(duration, task, np.where(m.device < 0, m.duration, 0))
        np.maximum.at(duration, hop, busy[0])
        served = _distinct(hop, self.resource_class[resource])
        load = np.zeros(len(served), np.int64)
        rows = served[:, 0] * width + served[:, 1]
        np.maximum.at(
            load, np.searchsorted(rows, hop * width + self.resource_class[resource]), busy[1]
        )
        nbytes = np.zeros(len(hops), np.int64)
        np.add.at(nbytes, task, m.nbytes)
        buffer, buffers, sizes = self._joined_buffers(m, task)
        return replace(
            m,
            hops=tuple(h._replace(first=n, end=n + 1) for n, h in enumerate(hops)),
            kind=m.kind[[h.first for h in hops]],
            duration=duration,
            device=np.full(len(hops), -1, np.int32),
            nbytes=nbytes,
            resource_ptr=np.searchsorted(served[:, 0], np.arange(len(hops) + 1)),
            resource=served[:, 1].astype(np.int32),
            load=load,
            source_device=self.devices(m.source.mesh),
            target_device=self.devices(m.target.mesh),
            reads=_pairs(source[m.reads[0]], task[m.reads[1]]),
            edges=_pairs(*(task[end] for end in m.edges)),
            gives=_pairs(target[m.gives[0]], task[m.gives[1]]),
            keeps=_pairs(source[m.keeps[0]], target[m.keeps[1]]),
            buffer_device=buffers,
            buffer_nbytes=sizes,
            births=_pairs(buffer[m.births[0]], task[m.births[1]]),
            uses=_pairs(buffer[m.uses[0]], task[m.uses[1]]),
            source_uses=_pairs(source[m.source_uses[0]], task[m.source_uses[1]]),
            result=self._one_each(
                target, np.where(m.result == EXTERNAL, EXTERNAL, _taken(buffer, m.result))
            ),
            result_place=self._one_each(
                target, np.where(m.result_place < 0, -1, source[m.result_place])
            ),
        )

    def _joined_buffers(self, m: Movement, task: Labels) -> tuple[Labels, Ints, NDArray[np.int64]]:
        """The buffers of a hop on a device as one, those that outlast it as another: the number of
        each buffer's, and of these the class of the device and the most bytes."""
        born = np.zeros(len(m.buffer_device), np.int64)
        np.maximum.at(born, m.births[0], task[m.births[1]])
        stays = np.zeros(len(born), np.int64)
        stays[m.result[m.result != EXTERNAL]] = 1
        stays[m.uses[0]] = 1
        of_device = (born * 2 + stays) * len(self.class_of) + m.buffer_device
        each, at = np.unique(of_device, return_inverse=True)
        held = np.zeros(len(each), np.int64)
        np.add.at(held, at, m.buffer_nbytes)
        when, device = np.divmod(each, len(self.class_of))
        names, label = np.unique(
            when * self.num_devices + self.class_of[device], return_inverse=True
        )
        most = np.zeros(len(names), np.int64)
        np.maximum.at(most, label, held)
        return label[at].astype(np.int32), (names % self.num_devices).astype(np.int32), most


def periods(cluster: Cluster) -> Iterator[int]:
    """After how many devices a cluster may repeat itself, the fewest first.

    A single device stands for all only where no level above the last one joins several: devices of
    a node share its ports.
    """
    repeating = sorted(s for s in cluster.strides if s < cluster.num_devices)
    for period in repeating[1:] or repeating:
        if all(d == cluster.devices[i % period] for i, d in enumerate(cluster.devices)):
            yield period


def _lump(pairs: tuple[Ints, Ints], first: Labels, second: Labels, by: str) -> tuple[Ints, Ints]:
    """The pairs of classes that there are pairs of.

    Everything of a class must be in pairs with the same classes: all that is second, first, or
    both.
    """
    a, b = pairs
    lumped = _distinct(first[a], second[b])
    left, right = lumped[:, 0], lumped[:, 1]
    if by != "second" and len(_distinct(a, second[b])) != np.bincount(first)[left].sum():
        raise NotSymmetric
    if by != "first" and len(_distinct(b, first[a])) != np.bincount(second)[right].sum():
        raise NotSymmetric
    return left.astype(np.int32), right.astype(np.int32)


def _distinct(a: Labels, b: Labels) -> NDArray[np.int64]:
    """The different pairs, in order."""
    width = int(b.max(initial=0)) + 1
    both = np.unique(a.astype(np.int64) * width + b)
    return np.stack(np.divmod(both, width), axis=1)


def _pairs(a: Labels, b: Labels) -> tuple[Ints, Ints]:
    """The different pairs, as two columns."""
    both = _distinct(a, b).astype(np.int32)
    return both[:, 0], both[:, 1]


def _taken(values: Labels, at: Labels) -> Labels:
    """The values at some numbers, of which those beneath 0 do not matter."""
    return values[np.maximum(at, 0)] if len(values) else at


def _scramble(labels: Labels) -> NDArray[np.uint64]:
    """A number for each label, so that sums of them differ where the labels do."""
    mixed = (labels.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    return mixed * np.uint64(0xBF58476D1CE4E5B9)
