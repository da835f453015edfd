"""The order in which every rank runs what it has to: that of the simulated step.

An action is a block, or one stage of it: a node, or one hop of a move. All ranks that take part in
one meet in it. Actions are put into one order for all ranks: nodes by the time at which the last of
their tasks starts in the simulation, hops by that at which they could start, links being free or
not; and never before what they wait for. A rank's program leaves out what it has no part in, so any
two ranks come to what they do together in the same order, and nothing waits for ever.

Actions wait for more than tasks do. A rank that has all it needs of an exchange gets nothing from
it in the simulation; in its program the exchange makes the value all the same, so whoever reads
that comes after it (`_find_readings`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from graphwright.plans import HANDLING, KINDS, TaskGraph, transfers
from graphwright.simulate import Schedule
from graphwright.tasks import Block, BlockName, Blocks, Copy


@dataclass(frozen=True, slots=True)
class Action:
    """A stage of a block, with others `before` it that go together with it (`buckets`)."""

    block: Block
    stage: int = 0
    before: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Waits:
    """Actions and which of them wait for which: `targets[i]` for `sources[i]`, sorted.

    Where several could be next, `begins` decides, then `key`. `ends` are the times at which actions
    have ended in the simulation.
    """

    actions: list[Action]
    sources: NDArray[np.int64]
    targets: NDArray[np.int64]
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]
    key: NDArray[np.int64]

    def after(self, action: int) -> NDArray[np.int64]:
        """The actions that wait for one."""
        first, last = np.searchsorted(self.sources, (action, action + 1))
        return self.targets[first:last]

    def order(self) -> list[int]:
        """The actions by their beginning, then key, but after all that they wait for."""
        count = len(self.actions)
        waits = np.bincount(self.targets, minlength=count)
        first = np.searchsorted(self.sources, np.arange(count + 1))
        begins, key = self.begins.tolist(), self.key.tolist()
        ready = [(begins[a], key[a], a) for a in np.flatnonzero(waits == 0).tolist()]
        heapq.heapify(ready)
        order: list[int] = []
        while ready:
            _, _, action = heapq.heappop(ready)
            order.append(action)
            for after in self.targets[first[action] : first[action + 1]].tolist():
                waits[after] -= 1
                if not waits[after]:
                    heapq.heappush(ready, (begins[after], key[after], after))
        assert len(order) == count
        return order


def find_waits(blocks: Blocks, tasks: TaskGraph, schedule: Schedule, small: float) -> Waits:
    """All actions that have tasks, with what each waits for, and when it begins in the simulation.

    Where devices do not compute and transfer at once, what is not `small` begins no earlier than
    there: it would hold memory for nothing.
    """
    actions: list[Action] = []
    actions_of: dict[BlockName, list[int]] = {}
    counts: list[int] = []
    for block in blocks:
        own = actions_of[block.name] = []
        for stage, (first, end) in enumerate(block.stages):
            if end > first:
                own.append(len(actions))
                actions.append(Action(block, stage))
                counts.append(end - first)
    count = len(actions)
    action_of = np.repeat(np.arange(count), counts)
    begins = np.zeros(count, dtype=np.int64)
    early = tasks.kind != 0
    if not all(device.overlaps for device in blocks.x.cluster.devices):
        early &= (tasks.kind == KINDS.index(transfers.AllReduce.name)) | (tasks.nbytes <= small)
    np.maximum.at(begins, action_of, np.where(early, schedule.ready, schedule.start))
    ends = np.zeros(count, dtype=np.int64)
    carries = tasks.kind != KINDS.index(
        HANDLING
    )  # what it takes of devices keeps no reader waiting
    np.maximum.at(ends, action_of, np.where(carries, schedule.end, 0))
    key = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(key, action_of, tasks.key)
    before = np.repeat(action_of, np.diff(tasks.succ_ptr))
    of_tasks = before * count + action_of[tasks.succ]
    of_values = [a * count + b for a, b in _find_readings(blocks, actions_of)]
    edges = np.unique(np.concatenate([of_tasks, np.array(of_values, dtype=np.int64)]))
    sources, targets = np.divmod(edges, count)
    apart = sources != targets
    return Waits(actions, sources[apart], targets[apart], begins, ends, key)


def _find_readings(
    blocks: Blocks, actions_of: dict[BlockName, list[int]]
) -> Iterator[tuple[int, int]]:
    """(action, action that reads what it makes)."""

    def made(copy: Copy) -> int | None:
        """The action behind which a copy is there, None for an input where it lives."""
        block = blocks.maker(copy)
        if block is None:
            return None
        if actions_of[block.name]:
            return actions_of[block.name][-1]
        kept = block.keeps(copy)
        return None if kept is None else made(kept[0])

    for block in blocks:
        own = actions_of[block.name]
        yield from pairwise(own)
        for copy, _ in block.reads:
            maker = made(copy)
            if own and maker is not None:
                yield maker, own[0]
