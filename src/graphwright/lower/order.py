"""The order in which every rank runs what it has to: that of the simulated step.

A block is a node, or one hop of a movement; all ranks that take part in one meet in it. Blocks are put into one order for all ranks: nodes by the
time at which the last of their tasks starts in the simulation, hops by that at which they could start, links being free or not; and never before
what they wait for. A rank's program leaves out what it has no
part in, so any two ranks come to what they do together in the same order, and nothing waits for ever.

Blocks wait for more than tasks do. A rank that has all it needs of an exchange gets nothing from it in the simulation; in its program the exchange
makes the value all the same, so whoever reads that comes after it (`_Way`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphwright.plans import KINDS, TaskGraph
from graphwright.simulate import Schedule
from graphwright.tasks import Copy, Expansion, Move, compute_position, key_base


@dataclass(frozen=True, slots=True)
class Block:
    """A node by its position in the graph, or hop number `hop` of a move, with others `before` it that go together with it (`buckets`)."""

    node: int | None = None
    move: Move | None = None
    hop: int = 0
    before: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Waits:
    """Blocks and which of them wait for which: `targets[i]` for `sources[i]`, sorted; where several could be next, `begins` decides, then `key`.

    `ends` are the times at which blocks have ended in the simulation.
    """

    blocks: list[Block]
    sources: NDArray[np.int64]
    targets: NDArray[np.int64]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    key: NDArray[np.int64]

    def after(self, block: int) -> NDArray[np.int64]:
        """The blocks that wait for one."""
        first, last = np.searchsorted(self.sources, (block, block + 1))
        return self.targets[first:last]

    def order(self) -> list[int]:
        """The blocks by their beginning, then key, but after all that they wait for."""
        count = len(self.blocks)
        waits = np.bincount(self.targets, minlength=count)
        first = np.searchsorted(self.sources, np.arange(count + 1))
        begins, key = self.begins.tolist(), self.key.tolist()
        ready = [(begins[b], key[b], b) for b in np.flatnonzero(waits == 0).tolist()]
        heapq.heapify(ready)
        order: list[int] = []
        while ready:
            _, _, block = heapq.heappop(ready)
            order.append(block)
            for after in self.targets[first[block] : first[block + 1]].tolist():
                waits[after] -= 1
                if not waits[after]:
                    heapq.heappush(ready, (begins[after], key[after], after))
        assert len(order) == count
        return order


def find_waits(x: Expansion, tasks: TaskGraph, schedule: Schedule, small: float) -> Waits:
    """All nodes, and all hops that transfer something, with what each waits for, and when it begins in the simulation.

    Where devices do not compute and transfer at once, what is not `small` begins no earlier than there: it would hold memory for nothing.
    """
    moves = [move for name in x.site.graph.tensors for move in x.moves(name).values()]
    blocks, block_of = _find_blocks(x, tasks, moves)
    count = len(blocks)
    begins = np.zeros(count, dtype=np.int64)
    early = tasks.kind != 0
    if not all(device.overlaps for device in x.cluster.devices):
        early &= (tasks.kind == KINDS.index("all_reduce")) | (tasks.nbytes <= small)
    np.maximum.at(begins, block_of, np.where(early, schedule.ready, schedule.start))
    ends = np.zeros(count, dtype=np.int64)
    np.maximum.at(ends, block_of, schedule.end)
    key = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(key, block_of, tasks.key)
    before = np.repeat(np.arange(len(tasks)), np.diff(tasks.succ_ptr))
    of_tasks = block_of[before].astype(np.int64) * count + block_of[tasks.succ]
    of_values = np.array([a * count + b for a, b in _Way(x, moves, blocks).edges()], dtype=np.int64)
    edges = np.unique(np.concatenate([of_tasks, of_values]))
    sources, targets = np.divmod(edges, count)
    apart = sources != targets
    return Waits(blocks, sources[apart], targets[apart], begins, ends, key)


def _find_blocks(
    x: Expansion, tasks: TaskGraph, moves: list[Move]
) -> tuple[list[Block], NDArray[np.int32]]:
    block_of = np.full(len(tasks), -1, dtype=np.int32)
    blocks: list[Block] = []

    def claim(block: Block, first: int, end: int) -> None:
        block_of[first:end] = len(blocks)
        blocks.append(block)

    for i, placed in enumerate(x.placed):
        first = int(np.searchsorted(tasks.key, key_base(compute_position(i), 0)))
        claim(Block(node=i), first, first + len(placed.mesh))
    for move in moves:
        first = int(np.searchsorted(tasks.key, key_base(move.position, move.number)))
        for k, hop in enumerate(move.movement.hops):
            if hop.end > hop.first:
                claim(Block(move=move, hop=k), first + hop.first, first + hop.end)
    assert (block_of >= 0).all()
    return blocks, block_of


class _Way:
    """Which blocks make the values that others read."""

    def __init__(self, x: Expansion, moves: list[Move], blocks: list[Block]) -> None:
        self.x = x
        self.moves = {_copy(move): move for move in moves}
        self.hops: dict[Copy, list[int]] = {}
        for number, block in enumerate(blocks):
            if block.move is not None:
                self.hops.setdefault(_copy(block.move), []).append(number)

    def edges(self) -> Iterator[tuple[int, int]]:
        """(block, block that reads what it makes)."""
        for copy, move in self.moves.items():
            made = self._made(Copy(copy.tensor, move.movement.source, 0))
            for number in self.hops.get(copy, ()):
                if made is not None:
                    yield made, number
                made = number
        for i, node in enumerate(self.x.site.graph.nodes):
            for arg, name in enumerate(node.inputs):
                made = None if name is None else self._read(name, i, arg, i)
                if made is not None:
                    yield made, i

    def _read(self, name: str, node: int, arg: int, reader: int) -> int | None:
        """The block that makes what a reader reads: of a view perhaps the copy of what it shows."""
        needed = self.x.placed[node].inputs[arg]
        assert needed is not None
        copy = self.x.reading(name, needed, reader)
        if copy.tensor == name:
            return self._made(copy)
        view, _ = self.x.site.producer[name]
        viewed, shown = self.x.site.viewed(view)
        return self._read(viewed, view, shown, reader)

    def _made(self, copy: Copy) -> int | None:
        """The block behind which a copy is there, None for an input where it lives; nodes are the first blocks."""
        while copy in self.moves:
            if copy in self.hops:
                return self.hops[copy][-1]
            copy = Copy(copy.tensor, self.moves[copy].movement.source, 0)
        made = self.x.site.producer.get(copy.tensor)
        return None if made is None else made[0]


def _copy(move: Move) -> Copy:
    return Copy(move.tensor, move.target, move.turn)
