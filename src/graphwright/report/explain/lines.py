"""The operators that are split together, a line for each group: its split in words, its costs.

    attention.query  matmul +13    batch in 2 over nodes; columns in 8 within a node
                                   0.8 ms   12 MB moved   40 MB held

Costs are those of the tasks that would run: `compute_time` of the busiest device, `moves` what is
brought to the group's operators, `memory` what a device holds because of the group: parameters and
their state, or what the forward pass keeps for the backward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from graphwright.ir import TensorType, format_bytes
from graphwright.machine import PICOSECONDS
from graphwright.partition import Coarse, Group, Reason, Weight, typical
from graphwright.plans import Plan, Sharding, device_array, format_seconds, local_bytes, transfers
from graphwright.report.explain.split_words import Words
from graphwright.tasks import Copy, Expansion, Movement, find_moves


@dataclass(frozen=True, slots=True)
class Moved:
    """A tensor that is brought somewhere, by which collectives.

    `nbytes` is that of all devices, `time` that of the movement if nothing is in its way.
    """

    tensor: str
    kind: str
    nbytes: int
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Operators that are split together; the first named is the one whose split gives the words.

    `instead` is the next best split, None where there is none, and `extra_time` and `extra_memory`
    are what the step would take more with it.
    """

    label: str
    op: str
    kind: str
    num_nodes: int
    strategy: str
    words: str
    compute_time: float
    moves: tuple[Moved, ...]
    memory: int
    nodes: tuple[int, ...]
    instead: str | None = None
    extra_time: float = 0.0
    extra_memory: float = 0.0

    @property
    def nbytes(self) -> int:
        return sum(move.nbytes for move in self.moves)

    @property
    def moving_time(self) -> float:
        return sum(move.time for move in self.moves)


class Lines:
    """One line for every group of a graph."""

    def __init__(
        self, coarse: Coarse, plan: Plan, expansion: Expansion, reasons: Sequence[Reason] | None
    ) -> None:
        self.coarse, self.plan, self.expansion, self.reasons = coarse, plan, expansion, reasons
        self.words = Words(coarse.facts, plan.cluster)

    def line(self, g: int) -> Line:
        """The line of a group."""
        group, facts = self.coarse.groups[g], self.coarse.facts
        i = typical(group.slots[group.lead])
        node = facts.graph.nodes[i]
        strategy = self.plan.strategy(node.name)
        line = Line(
            label="",
            op=node.op,
            kind=str(group.weight),
            num_nodes=len(group.nodes),
            strategy=str(strategy),
            words=self.words.strategy(i, strategy) + self._elsewhere(group) + self._home(group, i),
            compute_time=self._compute_time(group),
            moves=tuple(move for n in group.nodes for move in self.moves.get(n, ())),
            memory=self._residents(group) + self._held.get(g, 0),
            nodes=group.nodes,
        )
        reason = None if self.reasons is None else self.reasons[g]
        if reason is None or reason.instead is None:
            return line
        return replace(
            line,
            instead=self._other(i, strategy, reason),
            extra_time=reason.extra_time,
            extra_memory=reason.extra_memory,
        )

    def _other(self, i: int, strategy: object, reason: Reason) -> str:
        assert reason.instead is not None
        if reason.instead == strategy:
            if reason.group.weight is Weight.UPDATE:
                return "the same, stored otherwise"
            return "the same, others of the group otherwise"
        return self.words.strategy(i, reason.instead)

    def _elsewhere(self, group: Group) -> str:
        nodes = self.coarse.facts.graph.nodes
        meshes = {self.plan.strategy(nodes[n].name).mesh for n in group.nodes}
        return ", others elsewhere" if len(meshes) > 1 else ""

    def _home(self, group: Group, i: int) -> str:
        """Where a parameter lives between steps, if that is not where its update is computed."""
        if group.weight is not Weight.UPDATE or not group.inputs:
            return ""
        name = group.inputs[0]
        home = self.expansion.source(name)
        if home == self.expansion.placed[i].outputs[0]:
            return ""
        return f"; stored {self.words.sharding(home, self.coarse.facts.graph.tensors[name].type)}"

    def _compute_time(self, group: Group) -> float:
        """Seconds of the busiest device."""
        busy = np.zeros(self.plan.cluster.num_devices)
        for n in group.nodes:
            busy[device_array(self.expansion.placed[n].mesh)] += self.expansion.duration(n)
        return float(busy.max(initial=0.0)) / PICOSECONDS

    def _residents(self, group: Group) -> int:
        tensors = self.coarse.facts.graph.tensors
        return sum(_most(self.expansion.source(name), tensors[name].type) for name in group.inputs)

    @cached_property
    def moves(self) -> dict[int, list[Moved]]:
        """What is brought to each node, by its number.

        New values that are put where the old ones were go with their makers.
        """
        expansion, facts = self.expansion, self.coarse.facts
        brought: dict[int, list[Moved]] = {}
        for name in facts.graph.tensors:
            moves = find_moves(expansion, name)
            if not moves:
                continue
            first = expansion.needs(name)
            for move in moves:
                total = int(move.movement.nbytes.sum())
                reader = first[move.target, move.turn]
                if reader is None:
                    reader = facts.producer[name][0] if name in facts.producer else 0
                if total:
                    hops = [h for h in move.movement.hops if h.kind != transfers.Slice()]
                    kinds = [hop.kind.name for hop in hops]
                    moved = Moved(name, " + ".join(kinds), total, _seconds(move.movement))
                    brought.setdefault(reader, []).append(moved)
        return brought

    @cached_property
    def _held(self) -> dict[int, int]:
        """Bytes kept for the backward pass, by the group that makes or first needs them."""
        expansion, facts = self.expansion, self.coarse.facts
        held: dict[Copy, int] = {}
        for name, readers in facts.readers.items():
            for reader, argument in readers:
                if not facts.late[reader]:
                    continue
                needed = expansion.placed[reader].inputs[argument]
                assert needed is not None
                copy = expansion.reading(name, needed, reader)
                if copy.turn:
                    copy = Copy(copy.tensor, expansion.start(copy), 0)
                owner = self._owner(copy)
                if owner is not None:
                    root = facts.root[copy.tensor]
                    if copy.sharding == expansion.source(copy.tensor):
                        copy = Copy(root, expansion.source(root), 0)
                    held[copy] = owner
        by_group: dict[int, int] = {}
        for copy, owner in held.items():
            type = facts.graph.tensors[copy.tensor].type
            by_group[owner] = by_group.get(owner, 0) + _most(copy.sharding, type)
        return by_group

    def _owner(self, copy: Copy) -> int | None:
        """The group that a copy of the forward pass belongs to.

        None for inputs at home and for what is made later.
        """
        facts = self.coarse.facts
        if copy.sharding == self.expansion.source(copy.tensor):
            made = facts.producer.get(facts.root[copy.tensor])
            node = None if made is None else made[0]
        else:
            needs = self.expansion.needs(copy.tensor)
            node = needs.get((copy.sharding, 0))
        if node is None or facts.late[node] or self.coarse.group_of[node] < 0:
            return None
        return self.coarse.group_of[node]


def _most(sharding: Sharding, type: TensorType) -> int:
    """The bytes of the largest part."""
    return int(local_bytes(sharding, type).max(initial=0))


def _seconds(movement: Movement) -> float:
    """How long a movement takes by itself: the longest chain of its transfers."""
    ends = movement.duration.copy()
    for before, after in sorted(zip(*map(np.ndarray.tolist, movement.edges), strict=True)):
        ends[after] = max(ends[after], ends[before] + movement.duration[after])
    return float(ends.max(initial=0)) / PICOSECONDS


def title_of(line: Line) -> str:
    """A line's operators in a few letters: `attention.query: matmul +13`, `update of bias`."""
    if line.kind == Weight.UPDATE:
        return f"update of {line.label}"
    op = line.op.partition(".")[2]
    more = f" +{line.num_nodes - 1}" if line.num_nodes > 1 else ""
    return f"{line.label}: {op}{more}" if line.label else f"{op}{more}"


def next_best(line: Line) -> str:
    """`columns in 8: +1.2 ms, -3 MB`, or nothing where there is nothing else."""
    if line.instead is None:
        return ""
    more = [f"{'+' if line.extra_time >= 0 else '-'}{format_seconds(abs(line.extra_time))}"]
    if abs(line.extra_memory) >= 1:
        sign = "+" if line.extra_memory > 0 else "-"
        more.append(f"{sign}{format_bytes(round(abs(line.extra_memory)))}")
    return f"{line.instead}: {', '.join(more)}"


def describe_moves(line: Line) -> str:
    """What moves, by kind: `all gather 12 MB, all reduce 3 MB`."""
    kinds: dict[str, int] = {}
    for move in line.moves:
        kinds[move.kind] = kinds.get(move.kind, 0) + move.nbytes
    return ", ".join(
        f"{kind.replace('_', ' ')} {format_bytes(n)}"
        for kind, n in sorted(kinds.items(), key=lambda item: -item[1])
    )
