"""All blocks of an expansion, and who waits for whom: the one answer to "who reads which copy".

    blocks(expansion)        the blocks, in the order of their keys
    joins(block)             what it waits for, task by task, in any other block
    befores(block)           the same block by block: cheap, to compare what was with what is
    renewed(nodes, kept)     the blocks after a change, of which only those near it are made anew

    producer part --> reader part                same sharding: device by device
    producer part --> move --> reader part       moved; where a device keeps some of its own,
                                                 its part waits for the producer as well

`assemble` makes the task graph of them, `simulate.Incremental` compares them before and after a
change, and `lower` orders them and turns them into programs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from operator import attrgetter

from graphwright.tasks.blocks.block import (
    Block,
    BlockName,
    Ints,
    Pairs,
    every_place,
    join_places,
)
from graphwright.tasks.blocks.computation import Computation, make_computation
from graphwright.tasks.blocks.move import find_moves
from graphwright.tasks.expansion import Copy, Expansion
from graphwright.tasks.movement import join_on_device
from graphwright.tasks.templates import Templates

Origin = BlockName | str
"""A block, or an input of the graph where it lives."""

KINDS: tuple[Callable[[Expansion, str], Iterable[Block]], ...] = (find_moves,)
"""What finds the blocks of a tensor, kind by kind; every node has a `Computation` beside them."""


def blocks(x: Expansion) -> Blocks:
    """The blocks of an expansion."""
    made = Blocks(x)
    for name in x.facts.graph.tensors:
        own = _find_blocks(x, name)
        if own:
            made.tensors[name] = own
    for i in range(len(x.placed)):
        made.nodes[i] = make_computation(x, i, made.of_tensor)
    return made


class Blocks:
    """The blocks of an expansion: one of each node, and those of each tensor.

    Those that follow a change have the blocks before it as their `base`, and none but others here.
    """

    def __init__(self, x: Expansion, base: Blocks | None = None) -> None:
        self.x, self.base = x, base
        self.nodes: dict[int, Computation] = {}
        self.tensors: dict[str, Mapping[Copy, Block]] = {}
        self.reused = x.reused

    def __iter__(self) -> Iterator[Block]:
        """All blocks in the order of their keys."""
        assert self.base is None, "merge the change first"
        moving = (block for own in self.tensors.values() for block in own.values())
        return iter(sorted([*self.nodes.values(), *moving], key=attrgetter("key")))

    def __getitem__(self, name: BlockName) -> Block:
        return self.node(name) if isinstance(name, int) else self._of(name.tensor)[name]

    def node(self, i: int) -> Computation:
        """The block of a node."""
        return self.nodes[i] if self.base is None or i in self.nodes else self.base.nodes[i]

    def of_tensor(self, name: str) -> Collection[Block]:
        """The blocks that take a tensor elsewhere."""
        return self._of(name).values()

    def maker(self, copy: Copy) -> Block | None:
        """The block that makes a copy, None for an input where it lives."""
        block = self._of(copy.tensor).get(copy)
        if block is None and copy.tensor in self.x.facts.producer:
            return self.node(self.x.facts.producer[copy.tensor][0])
        return block

    # -- who waits for whom -----------------------------------------------------------------------

    def joins(
        self, block: Block, among: Collection[BlockName] | None = None
    ) -> Iterator[tuple[BlockName, Ints, Ints]]:
        """(a block, its tasks, the tasks of `block` that wait for these); `among` some, or all.

        Readers of a copy wait for who gives it and, where it is kept, for what it is of.
        """
        producer = self.x.facts.producer
        for read, pairs in block.reads:
            copy, readers = read, pairs
            while (maker := self._of(copy.tensor).get(copy)) is not None:
                if among is None or maker.name in among:
                    yield maker.name, *join_places(maker.gives(copy), readers)
                kept = maker.keeps(copy)
                if kept is None:
                    break
                copy, (at_source, at_copy) = kept
                readers = join_places((at_copy, at_source), readers)
            else:  # as its node makes it, each part at its own place
                made = producer.get(copy.tensor)
                if made is not None and (among is None or made[0] in among):
                    yield made[0], *readers
        for name in block.after:
            if among is None or name in among:
                yield name, *_device_by_device(self[name], block, self.x.cache)

    def befores(self, block: Block) -> tuple[tuple[Origin, ...], ...]:
        """For each copy that a block reads the way to it, and what the block is after."""
        return (*(self._way(copy) for copy, _ in block.reads), block.after)

    def _way(self, copy: Copy) -> tuple[Origin, ...]:
        """Where a copy comes from, its maker first."""
        block = self._of(copy.tensor).get(copy)
        if block is None:
            made = self.x.facts.producer.get(copy.tensor)
            return (copy.tensor if made is None else made[0],)
        kept = block.keeps(copy)
        return (copy,) if kept is None else (copy, *self._way(kept[0]))

    # -- changes ----------------------------------------------------------------------------------

    def renewed(self, nodes: Collection[int], kept: Iterable[str]) -> Blocks:
        """The blocks of the expansion as it is now, where these are of before a change.

        That has placed some nodes anew, or says otherwise which copies of some tensors are kept.
        Only blocks near it are made, and those that come out as they were are left as they are.
        """
        facts = self.x.facts
        tensors = self._near(nodes, kept)
        new, reused = Blocks(self.x, base=self), self.reused | self.x.reused
        for name in tensors:
            old, own = self._of(name), _find_blocks(self.x, name)
            new.tensors[name] = {
                copy: old[copy] if old.get(copy) == block else block for copy, block in own.items()
            }
        again = set(nodes)
        for name in tensors:
            writer = facts.writer(name)
            if writer is not None:
                again.add(writer)
            if name in reused:
                again.update(reader for reader, _ in facts.readers[name] if facts.late[reader])
        for i in sorted(again):
            block = make_computation(self.x, i, new.of_tensor)
            new.nodes[i] = self.node(i) if self.node(i) == block else block
        return new

    def merge(self, new: Blocks) -> None:
        """Take over what a change has made anew."""
        self.nodes.update(new.nodes)
        self.tensors.update(new.tensors)
        self.reused = new.reused

    def _near(self, nodes: Collection[int], kept: Iterable[str]) -> list[str]:
        """The tensors whose blocks may differ after a change."""
        facts, near = self.x.facts, dict.fromkeys(kept)
        for i in nodes:
            node = facts.graph.nodes[i]
            for name in (*node.inputs, *node.outputs):
                if name is not None:
                    near[name] = None
                    if name in facts.graph.updates:  # it may live elsewhere, and so its new value
                        near[facts.graph.updates[name]] = None
        for name in list(near):  # who reads a view may bring back what that shows
            if name in self.reused or name in self.x.reused:
                near.update(dict.fromkeys(facts.family[facts.root[name]]))
        return list(near)

    def _of(self, tensor: str) -> Mapping[Copy, Block]:
        own = self.tensors.get(tensor)
        if own is None and self.base is not None:
            own = self.base.tensors.get(tensor)
        return _NONE if own is None else own


_NONE: Mapping[Copy, Block] = {}


def _find_blocks(x: Expansion, tensor: str) -> dict[Copy, Block]:
    own: dict[Copy, Block] = {}
    for find in KINDS:
        for block in find(x, tensor):
            assert isinstance(block.name, Copy)
            own[block.name] = block
    return own


def _device_by_device(before: Block, after: Block, templates: Templates) -> Pairs:
    """(task of the one, task of the other that waits for it) for every device that both are on."""
    match before, after:
        case Computation(), Computation():
            if before.placed.mesh is after.placed.mesh:
                return every_place(after.tasks.num_tasks)
            return templates.common_places(before.placed.mesh, after.placed.mesh)
        case _:
            own, theirs = join_on_device(after.works_on, before.reads_from)
            return theirs, own
