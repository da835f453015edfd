"""A block that computes a node: one part on every device of its mesh."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from graphwright.tasks.blocks.block import (
    NO_PAIRS,
    Block,
    BlockName,
    Ints,
    Pairs,
    every_place,
    first_key,
    node_position,
)
from graphwright.tasks.blocks.memory import NO_VALUE, MemoryLayout
from graphwright.tasks.expansion import Copy, Expansion
from graphwright.tasks.movement import Tasks
from graphwright.tasks.placing import Placed


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """The parts of a node; `arguments` are the copies that they read, None where there is none."""

    node: int
    placed: Placed
    tasks: Tasks
    arguments: tuple[Copy | None, ...]
    after: tuple[BlockName, ...]
    reads: tuple[tuple[Copy, Pairs], ...] = field(compare=False)

    @property
    def name(self) -> int:
        return self.node

    @property
    def key(self) -> int:
        return first_key(node_position(self.node), 0)

    @property
    def label(self) -> None:
        return None

    @property
    def edges(self) -> Pairs:
        return NO_PAIRS

    @property
    def stages(self) -> tuple[tuple[int, int], ...]:
        return ((0, self.tasks.num_tasks),)

    @property
    def reads_from(self) -> Pairs:
        return self.tasks.device, every_place(self.tasks.num_tasks)[1]

    @property
    def works_on(self) -> Pairs:
        return self.reads_from

    def gives(self, copy: Copy) -> Pairs:
        return every_place(self.tasks.num_tasks)

    def keeps(self, copy: Copy) -> None:
        return None

    def hold(self, memory: MemoryLayout) -> None:
        facts, i = memory.x.facts, self.node
        tasks = memory.first[i] + every_place(self.tasks.num_tasks)[1]
        operands: list[Ints] = []
        for argument, copy in enumerate(self.arguments):
            if copy is None:
                continue
            values = memory.values_of[copy]
            if not facts.is_view[i]:
                memory.use(values, tasks)
            if facts.writes_over[i] and _fits(self.placed, argument):
                operands.append(values)
        for output, name in enumerate(facts.graph.nodes[i].outputs):
            copy = Copy(name, self.placed.outputs[output], 0)
            values = memory.values_of[copy] = self._output(memory, copy, tasks)
            for operand in operands:  # where memory is made that the operand could be instead
                real = (operand != NO_VALUE) & (values != NO_VALUE)
                memory.over.add(operand[real], tasks[real])

    def _output(self, memory: MemoryLayout, made: Copy, tasks: Ints) -> Ints:
        """Where an output lies: a view where its input does, a new value where the old one does."""
        facts = memory.x.facts
        if made.tensor in facts.replaces and self._is_in_place(memory.x, made):
            return np.full(len(tasks), NO_VALUE, np.int32)
        if facts.is_view[self.node]:
            shown = self.arguments[facts.viewed(self.node)[1]]
            assert shown is not None
            return memory.values_of[shown]
        values = memory.make(made.tensor, made.sharding)
        memory.born.add(values, tasks)
        return values

    def _is_in_place(self, x: Expansion, made: Copy) -> bool:
        """Whether a new value can be written over the old one.

        It has to be where that is, and nobody may read that, or a view of it, later.
        """
        facts = x.facts
        return all(
            x.source(old) == made.sharding
            and all(r <= self.node for alias in facts.family[old] for r, _ in facts.readers[alias])
            for old in facts.replaces[made.tensor]
        )


def make_computation(
    x: Expansion, node: int, blocks_of: Callable[[str], Iterable[Block]]
) -> Computation:
    """The block of a node; `blocks_of` are those that take a tensor elsewhere.

    It waits for views that it reads past, to what they show; for its turn; and, where it writes a
    new value, until the old one and views of it have been sent where they are needed.
    """
    facts, placed = x.facts, x.placed[node]
    arguments: list[Copy | None] = []
    after: list[BlockName] = []
    names = facts.graph.nodes[node].inputs
    for name, needed in zip(names, placed.inputs, strict=True):
        if name is None:
            arguments.append(None)
            continue
        assert needed is not None
        copy = x.reading(name, needed, node)
        arguments.append(copy)
        if copy.tensor != name:
            after.append(facts.producer[name][0])
    after += facts.turns.get(node, ())
    own_key = first_key(node_position(node), 0)
    for new in facts.graph.nodes[node].outputs:
        for alias in (a for old in facts.replaces.get(new, ()) for a in facts.family[old]):
            after += [block.name for block in blocks_of(alias) if block.key < own_key]
    tasks = x.tasks(node)
    places = every_place(tasks.num_tasks)
    return Computation(
        node=node,
        placed=placed,
        tasks=tasks,
        arguments=tuple(arguments),
        after=tuple(after),
        reads=tuple((copy, places) for copy in arguments if copy is not None),
    )


def _fits(placed: Placed, argument: int) -> bool:
    """Whether the output of each part has the type of one of its inputs."""
    return all(c.types.inputs[argument] == c.types.outputs[0] for c in placed.classes)
