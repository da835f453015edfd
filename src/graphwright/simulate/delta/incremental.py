"""Change one operator's strategy, and know the new makespan without building or timing the rest
again (FlexFlow section 3.4.3).

    run = Incremental(graph, plan, costs)
    seconds = run.propose({"mm_3": strategy})     # what the step would take
    run.accept()                                  # or run.reject()
    run.propose({}, keep={"relu_7": "after"})     # which copies are held for the backward pass

The blocks near a change are made anew and compared with those before it:

    tasks differ, or there is no such block any more      its tasks are removed
    tasks differ, or there was no such block              its tasks are added, with all their edges
    it waits for others, one of which stays               the same: its like takes its place, as
                                                          edges are never removed but with a task
    it waits for something that was replaced              it stays, and gets the edges from that

What that does to the times is found by `DeltaSchedule`. Blocks have the keys that they would have
in a task graph built anew, so the times are the same to the picosecond.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Set

import numpy as np
from numpy.typing import NDArray

from graphwright.errors import PlanMismatch
from graphwright.ir import Graph
from graphwright.machine import PICOSECONDS
from graphwright.plans import Kept, Plan, Strategy, check_keep, make_plan
from graphwright.simulate.delta.schedule import DeltaSchedule
from graphwright.tasks import (
    Block,
    BlockName,
    Blocks,
    Costs,
    Expansion,
    GraphFacts,
    Origin,
    Placed,
    assemble_blocks,
    blocks,
)

Slots = NDArray[np.int32]
Befores = tuple[tuple[Origin, ...], ...]
_NOWHERE: Slots = np.zeros(0, np.int32)


class Incremental:
    """The schedule of a graph under a plan that changes operator by operator.

    `slots` says where the tasks of each block are, `befores` what each block waits for, and
    `followers` which blocks wait for each, or for an input of the graph.
    """

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        costs: Costs,
        expansion: Expansion | None = None,
    ) -> None:
        self.graph, self.cluster = graph, plan.cluster
        self.expansion = expansion or Expansion(GraphFacts(graph), plan, costs)
        self.strategies = dict(plan.strategies)
        self.inputs = plan.inputs
        self.blocks = blocks(self.expansion)
        self.delta, slots = DeltaSchedule.of(assemble_blocks(self.blocks))
        self.slots: dict[BlockName, Slots] = {}
        self.befores: dict[BlockName, Befores] = {}
        self.followers: dict[Origin, set[BlockName]] = {}
        first = 0
        for block in self.blocks:
            count = block.tasks.num_tasks
            self.slots[block.name] = slots[first : first + count]
            self._note(block.name, self.blocks.befores(block))
            first += count
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
        """Seconds that the step would take with other strategies for some nodes.

        `keep` says for some tensors which of their copies is held for the backward pass, None for
        all of them. Refuses what a node cannot follow.
        """
        if self._open is not None:
            raise PlanMismatch("a proposal is open already; accept or reject it first")
        placed: dict[int, Placed] = {}
        for name, strategy in changes.items():
            i = self.expansion.facts.position.get(name)
            if i is None:
                raise PlanMismatch(f"the graph has no node {name!r}")
            placed[i] = self.expansion.place(self.graph.nodes[i], strategy)
        for name, kept in (keep or {}).items():
            check_keep(name, "before" if kept is None else kept, self.graph)
        self._open = _Change(self, placed, dict(changes), keep or {})
        try:
            self._open.propose()
            return self.delta.evaluate() / PICOSECONDS
        except BaseException:
            self.reject()
            raise

    def accept(self) -> None:
        """Go on from the proposal."""
        change = self._closing()
        self.delta.accept()
        for name in change.replaced.keys() - change.slots.keys():
            del self.slots[name]
            self._note(name, ())
        self.slots.update(change.slots)
        for name, befores in change.befores.items():
            self._note(name, befores)
        self.blocks.merge(change.new)
        self.strategies.update(change.strategies)

    def reject(self) -> None:
        """Go on from before the proposal."""
        change = self._closing()
        self.delta.reject()
        change.undo()

    def _closing(self) -> _Change:
        if self._open is None:
            raise PlanMismatch("no proposal is open; propose one first")
        change, self._open = self._open, None
        return change

    def _note(self, name: BlockName, befores: Befores) -> None:
        """Keep what a block waits for, and that it follows these."""
        for before in _flat(self.befores.pop(name, ())):
            self.followers[before].discard(name)
        if befores:
            self.befores[name] = befores
        for before in _flat(befores):
            self.followers.setdefault(before, set()).add(name)


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
        self.placed, self.keep = placed, keep
        self.placed_before = {i: self.x.placed[i] for i in placed}
        self.kept_before = self.x.keep
        self.new: Blocks = run.blocks
        self.replaced: dict[BlockName, Block | None] = {}
        """The blocks whose tasks are removed or added, as they are now; None for none."""
        self.near: set[BlockName] = set()
        """Blocks that wait for something that is replaced, or for others than before."""
        self.slots: dict[BlockName, Slots] = {}
        self.befores: dict[BlockName, Befores] = {}

    def propose(self) -> None:
        """Let the expansion be the new one, and the schedule follow."""
        for i, placed in self.placed.items():
            self.x.exchange(i, placed)
        if self.keep:
            kept = {**self.x.keep, **self.keep}
            self.x.keep_copies({name: k for name, k in kept.items() if k is not None})
        self.new = self.run.blocks.renewed(self.placed, self.keep)
        self._compare()
        self._replace()
        self._link()

    def undo(self) -> None:
        """Let the expansion be that of before."""
        for i, placed in self.placed_before.items():
            self.x.exchange(i, placed)
        self.x.keep_copies(self.kept_before)

    def _compare(self) -> None:
        """Find what is replaced, and what is near that."""
        for name, was, now in self._pairs():
            if was is None or now is None or was.tasks is not now.tasks or was.key != now.key:
                self.replaced[name] = now
            elif was is not now:
                self.near.add(name)
        moved = self.new.tensors.keys() - self.x.facts.producer.keys()  # inputs, perhaps elsewhere
        for origin in (*self.replaced, *moved):
            self.near |= self.run.followers.get(origin, set())
        for name in self.near - self.replaced.keys():
            if not self._can_stay(name, moved):
                self.replaced[name] = self.new[name]
                self.near |= self.run.followers.get(name, set())

    def _pairs(self) -> Iterator[tuple[BlockName, Block | None, Block | None]]:
        """Every block that was made anew, as it was and as it is."""
        old, new = self.run.blocks, self.new
        for i, now in new.nodes.items():
            yield i, old.nodes[i], now
        for tensor, after in new.tensors.items():
            before = old.tensors.get(tensor, {})
            for copy in {**before, **after}:
                yield copy, before.get(copy), after.get(copy)

    def _can_stay(self, name: BlockName, moved: Set[str]) -> bool:
        """Whether a block waits for the same as before, but for what is replaced."""
        now = self.befores[name] = self.new.befores(self.new[name])
        return all(
            was == way or all(o in self.replaced or o in moved for o in (*was, *way))
            for was, way in zip(self.run.befores[name], now, strict=True)
        )

    def _replace(self) -> None:
        """Remove the tasks that blocks had, and add those that they have."""
        delta, had = self.run.delta, self.run.slots
        removed = [had[name] for name in self.replaced if name in had]
        if removed:
            delta.remove(np.concatenate(removed))
        for name, block in self.replaced.items():
            if block is None:
                continue
            self.slots[name] = _NOWHERE
            self.befores[name] = self.new.befores(block)
            tasks, count = block.tasks, block.tasks.num_tasks
            if count:
                key = np.arange(block.key, block.key + count, dtype=np.int64)
                self.slots[name] = delta.add(
                    tasks.duration, key, tasks.resource_ptr, tasks.resource
                )

    def _link(self) -> None:
        """Add all edges of new tasks, and those from them to what stays."""
        sources: list[Slots] = []
        targets: list[Slots] = []

        def join(name: BlockName, block: Block, among: Collection[BlockName] | None) -> None:
            own = self._slots(name)
            for before, theirs, mine in self.new.joins(block, among):
                sources.append(self._slots(before)[theirs])
                targets.append(own[mine])

        for name, block in self.replaced.items():
            if block is not None:
                join(name, block, None)
                inner = block.edges
                sources.append(self.slots[name][inner[0]])
                targets.append(self.slots[name][inner[1]])
        for name in self.near - self.replaced.keys():
            join(name, self.new[name], self.replaced)
        if sources:
            self.run.delta.link(np.concatenate(sources), np.concatenate(targets))

    def _slots(self, name: BlockName) -> Slots:
        slots = self.slots.get(name)
        return self.run.slots[name] if slots is None else slots


def _flat(befores: Befores) -> set[Origin]:
    return {before for way in befores for before in way}
