"""The order in which every rank runs what it has to: that of the simulated step.

A block is a node, or one hop of a movement; all ranks that take part in one meet in it. Blocks are put into one order for all ranks: by the
time at which the last of their tasks starts in the simulation, and never before what they wait for. A rank's program leaves out what it has no
part in, so any two ranks come to what they do together in the same order, and nothing waits for ever.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphwright.plans import TaskGraph
from graphwright.simulate import Schedule
from graphwright.tasks import Expansion, Move, compute_position, key_base


@dataclass(frozen=True, slots=True)
class Block:
    """A node by its position in the graph, or hop number `hop` of a move."""

    node: int | None = None
    move: Move | None = None
    hop: int = 0


def order_blocks(x: Expansion, tasks: TaskGraph, schedule: Schedule) -> list[Block]:
    """All nodes, and all hops that transfer something, in the order in which ranks run them."""
    blocks, block_of = _find_blocks(x, tasks)
    count = len(blocks)
    begins = np.zeros(count, dtype=np.int64)
    np.maximum.at(begins, block_of, schedule.start)
    key = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(key, block_of, tasks.key)
    before = np.repeat(np.arange(len(tasks)), np.diff(tasks.succ_ptr))
    edges = np.unique(block_of[before].astype(np.int64) * count + block_of[tasks.succ])
    sources, targets = np.divmod(edges, count)
    apart = sources != targets
    return [blocks[b] for b in _sort(sources[apart], targets[apart], begins, key)]


def _find_blocks(x: Expansion, tasks: TaskGraph) -> tuple[list[Block], NDArray[np.int32]]:
    block_of = np.full(len(tasks), -1, dtype=np.int32)
    blocks: list[Block] = []

    def claim(block: Block, first: int, end: int) -> None:
        block_of[first:end] = len(blocks)
        blocks.append(block)

    for i, placed in enumerate(x.placed):
        first = int(np.searchsorted(tasks.key, key_base(compute_position(i), 0)))
        claim(Block(node=i), first, first + len(placed.mesh))
    for name in x.site.graph.tensors:
        for move in x.moves(name).values():
            first = int(np.searchsorted(tasks.key, key_base(move.position, move.number)))
            for k, hop in enumerate(move.movement.hops):
                if hop.end > hop.first:
                    claim(Block(move=move, hop=k), first + hop.first, first + hop.end)
    assert (block_of >= 0).all()
    return blocks, block_of


def _sort(
    sources: NDArray[np.int64],
    targets: NDArray[np.int64],
    begins: NDArray[np.int64],
    key: NDArray[np.int64],
) -> list[int]:
    """Blocks by their beginning, then key, but after all that they wait for."""
    count = len(begins)
    waits = np.bincount(targets, minlength=count)
    first = np.searchsorted(sources, np.arange(count + 1))
    ready = [(int(begins[b]), int(key[b]), b) for b in np.flatnonzero(waits == 0).tolist()]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, _, block = heapq.heappop(ready)
        order.append(block)
        for after in targets[first[block] : first[block + 1]].tolist():
            waits[after] -= 1
            if not waits[after]:
                heapq.heappush(ready, (int(begins[after]), int(key[after]), after))
    assert len(order) == count
    return order
