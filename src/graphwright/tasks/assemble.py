"""The task graph of an expansion: its blocks one after the other, in the order of their keys.

A block has tasks from 0 on and says what they wait for in other blocks; here they get their numbers
in the whole, what joins them becomes edges, and what they make, use and free becomes values.
Equal calls share a template, so nothing is copied before the end, and then by NumPy at once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphwright.plans import TaskGraph
from graphwright.tasks.blocks import Block, Blocks, MemoryLayout, PairList, blocks, join_arrays
from graphwright.tasks.compiled import compiled
from graphwright.tasks.expansion import Expansion
from graphwright.tasks.movement import Tasks

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


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
        self.templates: dict[Tasks, int] = {}
        self.added: list[tuple[int, int, int]] = []  # number of the template, key, node or label
        self.edges = PairList()
        self.labels: list[str] = []
        self.num_tasks = 0

    def add(self, block: Block) -> None:
        """Lay out a block behind the others."""
        name, tasks, first, firsts = block.name, block.tasks, self.num_tasks, self.memory.first
        firsts[name] = first
        self.num_tasks += tasks.num_tasks
        template = self.templates.setdefault(tasks, len(self.templates))
        number = name if isinstance(name, int) else len(self.labels)
        self.added.append((template, block.key, number))
        label = block.label
        if label is not None and tasks.num_tasks:
            self.labels.append(label)
        for before, theirs, own in self.blocks.joins(block):
            self.edges.add(theirs, own, firsts[before], first)
        self.edges.add(*block.edges, first, first)
        block.hold(self.memory)

    def finish(self) -> TaskGraph:
        """The task graph of all blocks."""
        pointers, successors, indegree = compressed_rows(*self.edges.arrays(), self.num_tasks)
        template, key, node = np.array(self.added, np.int64).reshape(-1, 3).T
        each = list(self.templates)
        counts = np.array([tasks.num_tasks for tasks in each], np.int64)[template]
        at, within = _gather([tasks.num_tasks for tasks in each], template)
        occupied = join_arrays([np.diff(tasks.resource_ptr) for tasks in each], np.int64)[at]
        at_resource, _ = _gather([len(tasks.resource) for tasks in each], template)
        return TaskGraph(
            duration=join_arrays([tasks.duration for tasks in each], np.int64)[at],
            key=np.repeat(key, counts) + within,
            kind=join_arrays([tasks.kind for tasks in each], np.uint8)[at],
            node=np.repeat(node.astype(np.int32), counts),
            device=join_arrays([tasks.device for tasks in each], np.int32)[at],
            nbytes=join_arrays([tasks.nbytes for tasks in each], np.int64)[at],
            succ_ptr=pointers,
            succ=successors,
            indegree=indegree,
            resource_ptr=np.concatenate([np.zeros(1, np.int64), np.cumsum(occupied)]),
            resource=join_arrays([tasks.resource for tasks in each], np.int32)[at_resource],
            load=join_arrays([tasks.load for tasks in each], np.int64)[at_resource],
            values=self.memory.finish(self.num_tasks),
            labels=tuple(self.labels),
            resource_names=self.blocks.x.cache.resource_names,
            num_devices=self.blocks.x.cache.num_devices,
        )


def _gather(sizes: list[int], chosen: Longs) -> tuple[Longs, Longs]:
    """Where the entries of some templates, one after the other, are among those of all of them;
    and the number of each in its own."""
    count = np.array(sizes, np.int64)
    counts = count[chosen]
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat((np.cumsum(count) - count)[chosen], counts) + within, within


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
