"""The whole task graph of an expansion, block by block in the order of keys.

A block is a node's parts, or one movement. Blocks are templates with numbers from 0; here they get their places, and what joins
them becomes edges:

    producer part --> reader part                    same sharding: device by device
    producer part --> transfers --> reader part      moved; where a device keeps some of its own, also directly

What is moved once the tensor is made follows the producer's block. What is fetched for its first reader precedes that reader's: inputs of the graph
and views of them, and what is brought back for late nodes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphwright.plans import (
    CATEGORIES,
    Sharding,
    TaskGraph,
    Values,
    device_array,
    local_bytes,
)
from graphwright.tasks.compact import compressed_rows
from graphwright.tasks.expansion import Copy, Expansion, Move, compute_position, key_base, resting
from graphwright.tasks.movement import EXTERNAL, common_places, join_on_device, places
from graphwright.tasks.placing import Placed

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
NO_VALUE = -1
_COMMUNICATION = CATEGORIES.index("communication")


@dataclass(slots=True, eq=False)
class _Made:
    """A copy of a tensor: its memory and, where it was moved, how and in which block."""

    tensor: str
    values: Ints
    via: int | None = None
    move: Move | None = None


@dataclass(slots=True)
class _Pairs:
    """Pairs of numbers, collected as arrays."""

    first: list[NDArray[Any]] = field(default_factory=list)
    second: list[NDArray[Any]] = field(default_factory=list)

    def add(self, first: NDArray[Any], second: NDArray[Any]) -> None:
        if len(first):
            self.first.append(first)
            self.second.append(second)

    def arrays(self) -> tuple[Ints, Ints]:
        return _flat(self.first, np.int32), _flat(self.second, np.int32)


def assemble(expansion: Expansion) -> TaskGraph:
    """The task graph of an expansion."""
    return _Assembly(expansion).run()


class _Assembly:
    def __init__(self, expansion: Expansion) -> None:
        self.x, self.site = expansion, expansion.site
        self.graph = expansion.site.graph
        self.num_tasks = self.num_values = 0
        self.columns: defaultdict[str, list[NDArray[Any]]] = defaultdict(list)
        self.edges, self.births, self.uses, self.overs = _Pairs(), _Pairs(), _Pairs(), _Pairs()
        self.labels: list[str] = []
        self.copies: dict[Copy, _Made] = {}
        self.waiting: dict[int, list[Move]] = {}
        self.base: list[int] = []
        self.size = expansion.cluster.num_devices
        self.starts: list[Ints] = []
        self.replaced = {old for old in self.graph.updates if self._is_replaced(old)}

    def run(self) -> TaskGraph:
        """Lay out all blocks."""
        for name in self.graph.inputs:
            sharding = self.x.source(name)
            stays = name not in self.replaced
            values = self._make_values(name, sharding, persistent=stays)
            if not stays:
                self.starts.append(values)
            self.copies[Copy(name, sharding, 0)] = _Made(name, values)
            self._put_off(name)
        for i in range(len(self.graph.nodes)):
            self._move_all(self.waiting.pop(i, []))
            self._node(i)
        self._move_all(self.waiting.pop(len(self.graph.nodes), []))
        return self._task_graph()

    def _put_off(self, name: str) -> list[Move]:
        """Note which moves of a tensor come before which node; returns the others, which are next."""
        now: list[Move] = []
        for move in self.x.moves(name).values():
            node, later = divmod(move.position - 1, 2)
            if later:
                now.append(move)
            else:
                self.waiting.setdefault(node, []).append(move)
        return now

    def _move_all(self, moves: list[Move]) -> None:
        for move in sorted(moves, key=lambda m: m.number):
            self._move(move)

    # -- blocks -----------------------------------------------------------------------------------

    def _node(self, i: int) -> None:
        node, placed = self.graph.nodes[i], self.x.placed[i]
        devices = device_array(placed.mesh)
        duration = self.x.duration(i)
        base, count = self.num_tasks, len(devices)
        self.base.append(base)
        busy = bool(duration.any())
        self._add_tasks(
            key_base(compute_position(i), 0),
            duration=duration,
            kind=np.zeros(count, np.uint8),
            node=np.full(count, i, np.int32),
            device=devices,
            nbytes=np.zeros(count, np.int64),
            counts=np.full(count, int(busy), np.int64),
            resource=devices if busy else devices[:0],
            load=np.zeros(count if busy else 0, np.int64),
        )
        tasks = np.arange(base, base + count, dtype=np.int32)
        over: list[Ints] = []
        for arg, name in enumerate(node.inputs):
            if name is None:
                continue
            needed = placed.inputs[arg]
            assert needed is not None
            copy = self.copies[self.x.reading(name, needed, i)]
            self._read(name, copy, tasks)
            if not self.site.is_view[i]:
                self._use(copy.values, tasks)
            if self.site.writes_over[i] and _fits(placed, arg):
                over.append(copy.values)
        for before in self.site.turns.get(i, ()):
            sources, targets = common_places(self.x.placed[before].mesh, placed.mesh, self.size)
            self.edges.add(self.base[before] + sources, base + targets)
        self._spare_old_values(i, base)
        moves: list[Move] = []
        for output, name in enumerate(node.outputs):
            sharding = placed.outputs[output]
            values = self._output_values(i, name, sharding, tasks)
            for operand in over:  # where memory is made that the operand could be instead
                real = (operand != NO_VALUE) & (values != NO_VALUE)
                self.overs.add(operand[real], tasks[real])
            self.copies[Copy(name, sharding, 0)] = _Made(name, values)
            moves += self._put_off(name)
        self._move_all(moves)

    def _spare_old_values(self, i: int, base: int) -> None:
        """Who writes a new value waits until the old one, or a view of it, has been sent where it is needed."""
        olds = [o for name in self.graph.nodes[i].outputs for o in self.site.replaces.get(name, ())]
        for name in (alias for old in olds for alias in self.site.family[old]):
            for move in self.x.moves(name).values():
                copy = self.copies.get(Copy(name, move.target, move.turn))
                if copy is not None and copy.via is not None:
                    tasks, parts = overwrite_pairs(self.x, move, i)
                    self.edges.add(copy.via + tasks, base + parts)

    def _move(self, move: Move) -> None:
        m, base = move.movement, self.num_tasks
        source = self.copies[Copy(move.tensor, m.source, 0)]
        self._add_tasks(
            key_base(move.position, move.number),
            duration=m.duration,
            kind=m.kind,
            node=np.full(m.num_tasks, len(self.labels), np.int32),
            device=np.full(m.num_tasks, -1, np.int32),
            nbytes=m.nbytes,
            counts=np.diff(m.resource_ptr),
            resource=m.resource,
            load=m.load,
        )
        if m.num_tasks:
            self.labels.append(f"%{move.tensor}{' again' if move.turn else ''}")
        before, after = self._waits(source, m.reads)
        self.edges.add(before, base + after)
        if move.pacemaker is not None:
            self._pace(move.pacemaker, move, base)
        self.edges.add(base + m.edges[0], base + m.edges[1])
        self.copies[Copy(move.tensor, move.target, move.turn)] = _Made(
            move.tensor, self._moved_values(move, source, base), via=base, move=move
        )

    def _read(self, name: str, copy: _Made, tasks: Ints) -> None:
        """What a reader's parts wait for: what the copy comes from, and, where it is that of what a view shows, the view."""
        made = self.site.producer.get(name)
        if made is not None and (copy.move is None or copy.tensor != name):
            self.edges.add(self.base[made[0]] + np.arange(len(tasks), dtype=np.int32), tasks)
        if copy.move is not None:
            assert copy.via is not None
            m = copy.move.movement
            self.edges.add(copy.via + m.gives[1], tasks[m.gives[0]])
            source = self.copies[Copy(copy.tensor, m.source, 0)]
            before, after = self._waits(source, m.keeps)
            self.edges.add(before, tasks[after])

    def _waits(self, copy: _Made, readers: tuple[Ints, Ints]) -> tuple[Ints, Ints]:
        """(task, reader) for each (place, reader) of a copy and each task that the place has it from."""
        made = self.site.producer.get(copy.tensor)
        if copy.move is None:
            if made is None:
                return readers[0][:0], readers[0][:0]
            return self.base[made[0]] + readers[0], readers[1]
        assert copy.via is not None
        m = copy.move.movement
        kept, at = self._waits(self.copies[Copy(copy.tensor, m.source, 0)], m.keeps)
        ready = (
            np.concatenate([m.gives[0], at]),
            np.concatenate([copy.via + m.gives[1], kept]).astype(np.int32),
        )
        return join_on_device(ready, readers)

    def _pace(self, pacemaker: int, move: Move, base: int) -> None:
        sources, readers = pace_pairs(self.x, pacemaker, move)
        self.edges.add(self.base[pacemaker] + sources, base + readers)

    def _add_tasks(self, key: int, **columns: NDArray[Any]) -> None:
        count = len(columns["duration"])
        self.columns["key"].append(key + np.arange(count, dtype=np.int64))
        for name, column in columns.items():
            self.columns[name].append(column)
        self.num_tasks += count

    # -- memory -----------------------------------------------------------------------------------

    def _make_values(self, name: str, sharding: Sharding, persistent: bool) -> Ints:
        nbytes = local_bytes(sharding, self.graph.tensors[name].type)
        return self._values(
            nbytes, device_array(sharding.mesh), self.site.category(name), persistent
        )

    def _values(self, nbytes: Longs, devices: Ints, category: int, persistent: bool) -> Ints:
        count, base = len(nbytes), self.num_values
        self.columns["value_nbytes"].append(nbytes)
        self.columns["value_device"].append(devices)
        self.columns["value_category"].append(np.full(count, category, np.uint8))
        self.columns["value_persistent"].append(np.full(count, persistent, np.uint8))
        self.num_values += count
        return np.arange(base, base + count, dtype=np.int32)

    def _output_values(self, i: int, name: str, sharding: Sharding, tasks: Ints) -> Ints:
        """The memory of an output: that of its input for a view, that of the old value for a new one."""
        if name in self.site.replaces and self._in_place(i, name, sharding):
            return np.full(len(tasks), NO_VALUE, np.int32)
        if self.site.is_view[i]:
            viewed, arg = self.site.viewed(i)
            needed = self.x.placed[i].inputs[arg]
            assert needed is not None
            return self.copies[self.x.reading(viewed, needed, i)].values
        values = self._make_values(name, sharding, persistent=False)
        self.births.add(values, tasks)
        return values

    def _in_place(self, i: int, name: str, sharding: Sharding) -> bool:
        """Whether a new value can be written over the old one: it is where that is, and nobody reads that, or a view of it, later."""
        site = self.site
        return all(
            self.x.source(old) == sharding
            and all(r <= i for alias in site.family[old] for r, _ in site.readers[alias])
            for old in site.replaces[name]
        )

    def _is_replaced(self, old: str) -> bool:
        """Whether other memory takes the place of an input: its new value is made in another sharding."""
        new = self.graph.updates[old]
        alone = self.site.replaces[new] == [old] and new in self.site.producer
        return alone and self.x.source(new) != self.x.source(old)

    def _moved_values(self, move: Move, source: _Made, base: int) -> Ints:
        m = move.movement
        sizes = m.buffer_nbytes
        olds = [
            old
            for old in self.site.replaces.get(move.tensor, ())
            if self.x.source(old) == move.target and not move.turn
        ]
        if not self.replaced.issuperset(olds):  # the last step writes to where the old value is
            sizes = sizes.copy()
            sizes[m.result[m.result != EXTERNAL]] = 0
        first = self.num_values
        self._values(sizes, m.buffer_device, _COMMUNICATION, persistent=False)
        self.births.add(first + m.births[0], base + m.births[1])
        self.uses.add(first + m.uses[0], base + m.uses[1])
        self._use(source.values[m.source_uses[0]], base + m.source_uses[1])
        outside = m.result == EXTERNAL
        there = np.where(m.result_place >= 0, m.result_place, 0)
        own = np.where(m.result_place >= 0, source.values[there], NO_VALUE)
        found = np.where(outside, own, first + m.result).astype(np.int32)
        if outside.any():
            if m.gives[0].size and len(self.x.needs(move.tensor)) > 1:
                self._keep_terms(move, found, outside, base)
            if olds and self.replaced.issuperset(olds):
                self._settle_slices(move, found, outside)
            if not move.turn and self.x.kept(move.tensor) == "after":
                self._copy_slices(move, found, outside)
        return found

    # Where a result lies in the source's memory, it may need its own:

    def _keep_terms(self, move: Move, values: Ints, outside: NDArray[np.bool_], base: int) -> None:
        """Sums are made in place, but not where somebody else still needs the terms."""
        m = move.movement
        written = np.zeros(len(values), dtype=bool)
        written[m.gives[0]] = True
        fresh = np.flatnonzero(written & outside)
        self._give_memory(move, values, fresh, _COMMUNICATION)
        given = np.isin(m.gives[0], fresh)
        self.births.add(values[m.gives[0][given]], base + m.gives[1][given])

    def _settle_slices(self, move: Move, values: Ints, outside: NDArray[np.bool_]) -> None:
        """Part of a new value stays until the next step."""
        fresh = np.flatnonzero(outside & (move.movement.result_place >= 0))
        self._give_memory(move, values, fresh, self.site.category(move.tensor))
        self._born_with_source(move, values, fresh)

    def _copy_slices(self, move: Move, values: Ints, outside: NDArray[np.bool_]) -> None:
        """Part of what a device has, where the whole is not to be held for it."""
        m, type = move.movement, self.graph.tensors[move.tensor].type
        at = np.where(m.result_place >= 0, m.result_place, 0)
        whole = local_bytes(m.source, type)[at]
        smaller = outside & (m.result_place >= 0) & (local_bytes(m.target, type) < whole)
        smaller[m.gives[0]] = False
        fresh = np.flatnonzero(smaller)
        if len(fresh):
            self._give_memory(move, values, fresh, _COMMUNICATION)
            self._born_with_source(move, values, fresh)

    def _give_memory(
        self, move: Move, values: Ints, fresh: NDArray[np.intp], category: int
    ) -> None:
        """Memory for what some places have at the end of a move."""
        target = move.movement.target
        sizes = local_bytes(target, self.graph.tensors[move.tensor].type)[fresh]
        devices = device_array(target.mesh)[fresh]
        values[fresh] = self._values(sizes, devices, category, persistent=False)

    def _born_with_source(self, move: Move, values: Ints, fresh: NDArray[np.intp]) -> None:
        maker, _ = self.site.producer[move.tensor]
        at = self.base[maker] + move.movement.result_place[fresh]
        self.births.add(values[fresh], at.astype(np.int32))

    def _use(self, values: Ints, tasks: Ints) -> None:
        real = values != NO_VALUE
        if real.all():
            self.uses.add(values, tasks)
        else:
            self.uses.add(values[real], tasks[real])

    def _use_to_the_end(self, copy: Copy) -> None:
        """What the step leaves is there until its end."""
        values = self.copies[copy].values
        self._use(values, np.full(len(values), self.num_tasks, dtype=np.int32))

    # -- all of it --------------------------------------------------------------------------------

    def _task_graph(self) -> TaskGraph:
        c = self.columns
        sources, targets = self.edges.arrays()
        pointers, successors, indegree = compressed_rows(sources, targets, self.num_tasks)
        for values in self.starts:
            self.births.add(values, np.full(len(values), self.num_tasks, dtype=np.int32))
        birth_value, birth_task = self.births.arrays()
        for old in self.replaced:
            self._use_to_the_end(Copy(self.graph.updates[old], self.x.source(old), 0))
        for name in self.site.results:
            source = self.x.source(name)
            final = source if not source.is_partial else resting(source)
            self._use_to_the_end(Copy(name, final, 0))
        use_value, use_task = self.uses.arrays()
        over_value, over_task = self.overs.arrays()
        counts = _flat(c["counts"], np.int64)
        return TaskGraph(
            duration=_flat(c["duration"], np.int64),
            key=_flat(c["key"], np.int64),
            kind=_flat(c["kind"], np.uint8),
            node=_flat(c["node"], np.int32),
            device=_flat(c["device"], np.int32),
            nbytes=_flat(c["nbytes"], np.int64),
            succ_ptr=pointers,
            succ=successors,
            indegree=indegree,
            resource_ptr=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
            resource=_flat(c["resource"], np.int32),
            load=_flat(c["load"], np.int64),
            values=Values(
                nbytes=_flat(c["value_nbytes"], np.int64),
                device=_flat(c["value_device"], np.int32),
                category=_flat(c["value_category"], np.uint8),
                persistent=_flat(c["value_persistent"], np.bool_),
                birth_value=birth_value,
                birth_task=birth_task,
                use_value=use_value,
                use_task=use_task,
                over_value=over_value,
                over_task=over_task,
            ),
            labels=tuple(self.labels),
            resource_names=tuple(self.x.cluster.resources),
            num_devices=self.x.cluster.num_devices,
        )


def pace_pairs(x: Expansion, pacemaker: int, move: Move) -> tuple[Ints, Ints]:
    """(part of the pacemaker, task of the move) for every device that both are on."""
    m = move.movement
    at = places(x.placed[pacemaker].mesh, x.cluster.num_devices)
    parts = np.concatenate(
        [
            at[device_array(m.source.mesh)[m.reads[0]]],
            at[device_array(m.target.mesh)[m.gives[0]]],
        ]
    )
    tasks = np.concatenate([m.reads[1], m.gives[1]])
    pairs = np.unique(np.stack([parts, tasks])[:, parts >= 0], axis=1)
    return pairs[0], pairs[1]


def overwrite_pairs(x: Expansion, move: Move, writer: int) -> tuple[Ints, Ints]:
    """(task of the move, part of the writer) for every device that the move reads from and the writer is on."""
    m = move.movement
    at = places(x.placed[writer].mesh, x.cluster.num_devices)
    part = at[device_array(m.source.mesh)[m.reads[0]]]
    there = part >= 0
    return m.reads[1][there], part[there]


def _fits(placed: Placed, arg: int) -> bool:
    """Whether the output of each part has the type of one of its inputs."""
    return all(c.types.inputs[arg] == c.types.outputs[0] for c in placed.classes)


def _flat(arrays: list[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    if not arrays:
        return np.zeros(0, dtype=dtype)
    return np.concatenate(arrays).astype(dtype, copy=False)
