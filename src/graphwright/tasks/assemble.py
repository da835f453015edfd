"""The task graph of an expansion: its blocks one after the other, in the order of their keys.

A block has tasks from 0 on and says what they wait for in other blocks; here they get their numbers
in the whole, what joins them becomes edges, and what they make, use and free becomes values.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphwright.plans import TaskGraph
from graphwright.tasks.blocks import Block, Blocks, MemoryLayout, PairList, blocks, join_arrays
from graphwright.tasks.compiled import compiled
from graphwright.tasks.expansion import Expansion

Ints = NDArray[np.int32]


def assemble(expansion: Expansion) -> TaskGraph:
    """The task graph of an expansion."""
    return assemble_blocks(blocks(expansion))


def assemble_blocks(all_blocks: Blocks) -> TaskGraph:
    """The task graph of the blocks of an expansion."""
    layout = _Layout(all_blocks)
    for block in all_blocks:
        layout.add(block)
    return layout.finish()


class _Layout:
    def __init__(self, all_blocks: Blocks) -> None:
        self.blocks = all_blocks
        self.memory = MemoryLayout(all_blocks.x)
        self.columns: defaultdict[str, list[NDArray[Any]]] = defaultdict(list)
        self.edges = PairList()
        self.labels: list[str] = []
        self.num_tasks = 0

    def add(self, block: Block) -> None:
        """Lay out a block behind the others."""
        name, tasks, first = block.name, block.tasks, self.num_tasks
        self.memory.first[name] = first
        self.num_tasks += tasks.num_tasks
        self._add_columns(block)
        for before, theirs, own in self.blocks.joins(block):
            self.edges.add(self.memory.first[before] + theirs, first + own)
        sources, targets = block.edges
        if len(sources):
            self.edges.add(first + sources, first + targets)
        block.hold(self.memory)

    def _add_columns(self, block: Block) -> None:
        tasks, label, count = block.tasks, block.label, block.tasks.num_tasks
        number = block.name if isinstance(block.name, int) else len(self.labels)
        if label is not None and count:
            self.labels.append(label)
        c = self.columns
        c["key"].append(np.arange(block.key, block.key + count, dtype=np.int64))
        c["node"].append(np.full(count, number, np.int32))
        c["kind"].append(tasks.kind)
        c["duration"].append(tasks.duration)
        c["device"].append(tasks.device)
        c["nbytes"].append(tasks.nbytes)
        c["counts"].append(np.diff(tasks.resource_ptr))
        c["resource"].append(tasks.resource)
        c["load"].append(tasks.load)

    def finish(self) -> TaskGraph:
        """The task graph of all blocks."""
        c = self.columns
        pointers, successors, indegree = compressed_rows(*self.edges.arrays(), self.num_tasks)
        counts = join_arrays(c["counts"], np.int64)
        return TaskGraph(
            duration=join_arrays(c["duration"], np.int64),
            key=join_arrays(c["key"], np.int64),
            kind=join_arrays(c["kind"], np.uint8),
            node=join_arrays(c["node"], np.int32),
            device=join_arrays(c["device"], np.int32),
            nbytes=join_arrays(c["nbytes"], np.int64),
            succ_ptr=pointers,
            succ=successors,
            indegree=indegree,
            resource_ptr=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
            resource=join_arrays(c["resource"], np.int32),
            load=join_arrays(c["load"], np.int64),
            values=self.memory.finish(self.num_tasks),
            labels=tuple(self.labels),
            resource_names=self.blocks.x.cache.resource_names,
            num_devices=self.blocks.x.cache.num_devices,
        )


@compiled
def compressed_rows(
    sources: Ints, targets: Ints, num_tasks: int
) -> tuple[NDArray[np.int64], Ints, Ints]:
    """(pointers, successors, indegree) of edges, in their order, by a counting sort."""
    pointers = np.zeros(num_tasks + 1, np.int64)
    indegree = np.zeros(num_tasks, np.int32)
    for edge in range(len(sources)):
        pointers[sources[edge] + 1] += 1
        indegree[targets[edge]] += 1
    for task in range(num_tasks):
        pointers[task + 1] += pointers[task]
    successors = np.empty(len(sources), np.int32)
    place = pointers[:-1].copy()
    for edge in range(len(sources)):
        task = sources[edge]
        successors[place[task]] = targets[edge]
        place[task] += 1
    return pointers, successors, indegree
