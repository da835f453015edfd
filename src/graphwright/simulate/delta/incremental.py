"""Change one operator's strategy, and know the new makespan without building or timing the rest again (FlexFlow section 3.4.3).

    run = Incremental(graph, plan, costs)
    seconds = run.propose({"mm_3": strategy})     # what the step would take
    run.accept()                                  # or run.reject()
    run.propose({}, keep={"relu_7": "after"})     # which copies are held for the backward pass

A change of node i replaces the block of i, the movements of its outputs, and those movements of its inputs that nobody else shares;
everything else stays, and only gets new edges where its predecessors were replaced. A node that is to read another copy of a tensor than
before is replaced too, by its like: edges are never removed but with a task. What that does to the times is found by
`DeltaSchedule`. Blocks have the keys that they would have in a task graph built anew, so the times are the same to the picosecond.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphwright.errors import PlanMismatch
from graphwright.ir import Graph
from graphwright.machine import PICOSECONDS
from graphwright.plans import (
    Kept,
    Plan,
    Sharding,
    Strategy,
    TaskGraph,
    check_keep,
    device_array,
    make_plan,
)
from graphwright.simulate.delta.schedule import DeltaSchedule
from graphwright.tasks import (
    Copy,
    Costs,
    Expansion,
    Move,
    Placed,
    Site,
    assemble,
    common_places,
    compute_position,
    join_on_device,
    key_base,
    overwrite_pairs,
    pace_pairs,
)

Slots = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class _Moved:
    """A move and where its tasks are."""

    move: Move
    slots: Slots


Moves = dict[tuple[Sharding, int], _Moved]


class Incremental:
    """The schedule of a graph under a plan that changes operator by operator."""

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        costs: Costs,
        expansion: Expansion | None = None,
    ) -> None:
        self.graph, self.cluster = graph, plan.cluster
        self.expansion = expansion or Expansion(Site(graph), plan, costs)
        self.strategies = dict(plan.strategies)
        self.inputs = plan.inputs
        task_graph = assemble(self.expansion)
        self.delta, slots = DeltaSchedule.of(task_graph)
        self.paced: dict[int, set[str]] = {}
        self.followed: dict[int, list[int]] = {}
        for after, befores in self.expansion.site.turns.items():
            for before in befores:
                self.followed.setdefault(before, []).append(after)
        self.moves: dict[str, Moves] = {}
        self.node_slots: dict[int, Slots] = {}
        self._locate(task_graph, slots)
        self._open: _Change | None = None

    @property
    def makespan(self) -> float:
        """Seconds that the step takes as accepted so far."""
        return self.delta.makespan / PICOSECONDS

    def plan(self) -> Plan:
        """The plan as accepted so far."""
        return make_plan(
            self.graph,
            self.cluster,
            self.strategies,
            inputs=self.inputs,
            keep=self.expansion.keep,
            algorithm="incremental",
        )

    def propose(
        self, changes: Mapping[str, Strategy], keep: Mapping[str, Kept | None] | None = None
    ) -> float:
        """Seconds that the step would take with other strategies for some nodes; refuses what a node cannot follow.

        `keep` says for some tensors which of their copies is held for the backward pass, None for all of them.
        """
        if self._open is not None:
            raise PlanMismatch("a proposal is open already; accept or reject it first")
        placed: dict[int, Placed] = {}
        for name, strategy in changes.items():
            i = self.expansion.site.position.get(name)
            if i is None:
                raise PlanMismatch(f"the graph has no node {name!r}")
            placed[i] = self.expansion.place(self.graph.nodes[i], strategy)
        for name, kept in (keep or {}).items():
            check_keep(name, "before" if kept is None else kept, self.graph)
        before = {i: self.expansion.placed[i] for i in placed}, self.expansion.keep
        try:
            self._open = _Change(self, placed, dict(changes), keep or {})
            return self.delta.evaluate() / PICOSECONDS
        except BaseException:
            self._open = None
            self.delta.reject()
            self._restore(*before)
            raise

    def accept(self) -> None:
        """Go on from the proposal."""
        change = self._closing()
        self.delta.accept()
        self.node_slots.update(change.node_slots)
        self.moves.update(change.moves)
        for moves in change.moves.values():
            self._note_pace(moves)
        self.strategies.update(change.strategies)

    def reject(self) -> None:
        """Go on from before the proposal."""
        change = self._closing()
        self.delta.reject()
        self._restore(change.before, change.kept_before)

    def _restore(self, placed: Mapping[int, Placed], keep: Mapping[str, Kept]) -> None:
        for i, was in placed.items():
            self.expansion.exchange(i, was)
        self.expansion.keep_copies(keep)

    def _closing(self) -> _Change:
        if self._open is None:
            raise PlanMismatch("no proposal is open; propose one first")
        change, self._open = self._open, None
        return change

    def _locate(self, task_graph: TaskGraph, slots: Slots) -> None:
        """Where each block's tasks are; a block's key says where it begins."""
        x, keys = self.expansion, task_graph.key

        def block(key: int, count: int) -> Slots:
            first = int(np.searchsorted(keys, key))
            return slots[first : first + count]

        for i, placed in enumerate(x.placed):
            self.node_slots[i] = block(key_base(compute_position(i), 0), len(placed.mesh))
        for name in self.graph.tensors:
            found = {
                at: _Moved(
                    move, block(key_base(move.position, move.number), move.movement.num_tasks)
                )
                for at, move in x.moves(name).items()
            }
            if found:
                self.moves[name] = found
                self._note_pace(found)

    def _note_pace(self, moves: Moves) -> None:
        for moved in moves.values():
            if moved.move.pacemaker is not None:
                self.paced.setdefault(moved.move.pacemaker, set()).add(moved.move.tensor)


class _Change:
    """A proposal: what it replaces, and the edges that join the new to what stays."""

    def __init__(
        self,
        run: Incremental,
        placed: dict[int, Placed],
        strategies: dict[str, Strategy],
        keep: Mapping[str, Kept | None],
    ) -> None:
        self.run, self.x, self.strategies = run, run.expansion, strategies
        self.kept_before = self.x.keep
        self.before = {i: self.x.placed[i] for i in placed}
        self.kept = {name: k for name, k in {**self.x.keep, **keep}.items() if k is not None}
        families = {self.x.site.root[name] for name in keep}
        self.reused = self.x.reused | {n for of in families for n in self.x.site.family[of]}
        self.node_slots: dict[int, Slots] = {}
        self.moves: dict[str, Moves] = {}
        self.fresh: set[Copy] = set()
        touched = self._exchange(placed, keep)
        self._replace_nodes()
        for name in touched:
            self._replace_moves(name)
        for name, moves in self.moves.items():
            self._join(name, moves)
        self._keep_turns()

    def _exchange(self, placed: dict[int, Placed], keep: Mapping[str, Kept | None]) -> list[str]:
        """Let the expansion be the new one; returns the tensors whose movements may differ."""
        touched = self._touched(keep)
        read = self._readings(touched)
        for i, new in placed.items():
            self.x.exchange(i, new)
        if keep:
            self.x.keep_copies(self.kept)
        now = self._readings(touched)
        elsewhere = {reader for reader, arg in read if read[reader, arg] != now[reader, arg]}
        if not elsewhere:
            return touched
        self.before |= {i: self.x.placed[i] for i in sorted(elsewhere)}
        return self._touched(keep)

    def _touched(self, keep: Mapping[str, Kept | None]) -> list[str]:
        """The tensors whose movements may differ."""
        graph, site = self.run.graph, self.x.site
        found: dict[str, None] = dict.fromkeys(keep)
        for i in self.before:
            node = graph.nodes[i]
            for name in (*node.inputs, *node.outputs):
                if name is not None:
                    found[name] = None
                    if name in graph.updates:  # it may live elsewhere, and so its new value
                        found[graph.updates[name]] = None
                    for old in site.replaces.get(name, ()):
                        found.update(dict.fromkeys(site.family[old]))
            found.update(dict.fromkeys(sorted(self.run.paced.get(i, ()))))
        for name in list(found):
            if name in self.reused:  # who reads a view may bring back what that shows
                found.update(dict.fromkeys(site.family[site.root[name]]))
        return list(found)

    def _readings(self, names: list[str]) -> dict[tuple[int, int], tuple[Copy, Sharding | None]]:
        """Which copy every late node reads that stays where it is, argument by argument, and where that is brought back from."""
        found: dict[tuple[int, int], tuple[Copy, Sharding | None]] = {}
        for name in names:
            if name in self.reused:
                for reader, arg in self.x.site.readers[name]:
                    needed = self.x.placed[reader].inputs[arg]
                    if reader not in self.before and self.x.site.late[reader]:
                        assert needed is not None
                        copy = self.x.reading(name, needed, reader)
                        found[reader, arg] = copy, self.x.start(copy) if copy.turn else None
        return found

    def _replace_nodes(self) -> None:
        delta = self.run.delta
        for i in self.before:
            delta.remove(self.run.node_slots[i])
            duration = self.x.duration(i)
            devices = device_array(self.x.placed[i].mesh)
            count = len(devices)
            key = key_base(compute_position(i), 0) + np.arange(count, dtype=np.int64)
            busy = bool(duration.any())
            pointers = np.arange(count + 1, dtype=np.int64) * int(busy)
            self.node_slots[i] = delta.add(
                duration, key, pointers, devices if busy else devices[:0]
            )

    def _replace_moves(self, name: str) -> None:
        old, delta = self.run.moves.get(name, {}), self.run.delta
        made = self.x.site.producer.get(name)
        remade = made is not None and made[0] in self.before
        new: Moves = {}
        for at, move in self.x.moves(name).items():
            was, m = old.get(at), move.movement
            if was is not None and not remade and self._same(was.move, move):
                new[at] = was
                continue
            slots = np.zeros(0, np.int32)
            if m.num_tasks:
                key = key_base(move.position, move.number) + np.arange(m.num_tasks, dtype=np.int64)
                slots = delta.add(m.duration, key, m.resource_ptr, m.resource)
            new[at] = _Moved(move, slots)
            self.fresh.add(Copy(name, *at))
        for at, was in old.items():
            if new.get(at) is not was and len(was.slots):
                delta.remove(was.slots)
        self.moves[name] = new

    def _same(self, a: Move, b: Move) -> bool:
        paced = a.pacemaker == b.pacemaker and a.pacemaker not in self.before
        return a.movement is b.movement and a.position == b.position and paced

    # -- edges ------------------------------------------------------------------------------------

    def _join(self, name: str, moves: Moves) -> None:
        site, delta = self.x.site, self.run.delta
        made = site.producer.get(name)
        remade = made is not None and made[0] in self.before
        for at, moved in moves.items():
            if Copy(name, *at) in self.fresh:
                m = moved.move.movement
                sources, targets = self._waits(Copy(name, m.source, 0), m.reads)
                delta.link(sources, moved.slots[targets])
                if moved.move.pacemaker is not None:
                    parts, readers = pace_pairs(self.x, moved.move.pacemaker, moved.move)
                    pacemaker = self._slots(moved.move.pacemaker)
                    delta.link(pacemaker[parts], moved.slots[readers])
                delta.link(moved.slots[m.edges[0]], moved.slots[m.edges[1]])
        self._spare_old_value(name, moves)
        for reader, arg in site.readers[name]:
            needed = self.x.placed[reader].inputs[arg]
            assert needed is not None
            copy = self.x.reading(name, needed, reader)
            found = self._moved(copy)
            again = reader in self.before
            if made is not None and (again or remade) and (found is None or copy.tensor != name):
                delta.link(self._slots(made[0]), self._slots(reader))
            if found is not None and (again or copy in self.fresh):
                self._join_reader(found, self._slots(reader))

    def _spare_old_value(self, name: str, moves: Moves) -> None:
        """Who writes a new value waits until the old one, or a view of it, has been sent where it is needed."""
        writer = self.x.site.writer(name)
        if writer is None:
            return
        for at, moved in moves.items():
            fresh = Copy(name, *at) in self.fresh or writer in self.before
            if fresh and moved.move.position < compute_position(writer):
                tasks, parts = overwrite_pairs(self.x, moved.move, writer)
                self.run.delta.link(moved.slots[tasks], self._slots(writer)[parts])

    def _keep_turns(self) -> None:
        """Nodes that wait for others without reading from them still do."""
        known, size = self.x.site.turns, self.x.cluster.num_devices
        turns = {(before, i) for i in self.before for before in known.get(i, ())}
        turns |= {(i, after) for i in self.before for after in self.run.followed.get(i, ())}
        for before, after in sorted(turns):
            meshes = self.x.placed[before].mesh, self.x.placed[after].mesh
            sources, targets = common_places(*meshes, size)
            self.run.delta.link(self._slots(before)[sources], self._slots(after)[targets])

    def _join_reader(self, moved: _Moved, reader: Slots) -> None:
        m, delta = moved.move.movement, self.run.delta
        delta.link(moved.slots[m.gives[1]], reader[m.gives[0]])
        sources, targets = self._waits(Copy(moved.move.tensor, m.source, 0), m.keeps)
        delta.link(sources, reader[targets])

    def _waits(self, copy: Copy, readers: tuple[Slots, Slots]) -> tuple[Slots, Slots]:
        """(slot, reader) for each (place, reader) of a copy and each task that the place has it from."""
        moved = self._moved(copy)
        if moved is None:
            made = self.x.site.producer.get(copy.tensor)
            if made is None:
                return readers[0][:0], readers[0][:0]
            return self._slots(made[0])[readers[0]], readers[1]
        m = moved.move.movement
        kept, at = self._waits(Copy(copy.tensor, m.source, 0), m.keeps)
        ready = np.concatenate([m.gives[0], at]), np.concatenate([moved.slots[m.gives[1]], kept])
        return join_on_device(ready, readers)

    def _moved(self, copy: Copy) -> _Moved | None:
        """How a copy was moved, None for where the tensor is made or lives."""
        found = self.moves.get(copy.tensor)
        if found is None:
            found = self.run.moves.get(copy.tensor, {})
        return found.get((copy.sharding, copy.turn))

    def _slots(self, node: int) -> Slots:
        found = self.node_slots.get(node)
        return self.run.node_slots[node] if found is None else found
