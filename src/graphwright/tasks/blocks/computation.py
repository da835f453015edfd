"""A block that computes a node: one part on every device of its mesh."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from graphwright.tasks.blocks.block import (
    NO_PAIRS,
    Block,
    BlockName,
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
    key: int
    placed: Placed
    tasks: Tasks
    arguments: tuple[Copy | None, ...]
    after: tuple[BlockName, ...]
    reads: tuple[tuple[Copy, Pairs], ...] = field(compare=False)

    @property
    def name(self) -> int:
        return self.node

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
        facts, i, first = memory.x.facts, self.node, memory.first[self.node]
        places, values_of = every_place(self.tasks.num_tasks)[1], memory.values_of
        if not facts.is_view[i]:
            for copy in self.arguments:
                if copy is not None:
                    memory.used.add(values_of[copy], places, 0, first)
        for name, sharding in zip(facts.graph.nodes[i].outputs, self.placed.outputs, strict=True):
            copy = Copy(name, sharding, 0)
            if name in facts.replaces and self._is_in_place(memory.x, copy):
                values_of[copy] = np.full(len(places), NO_VALUE, np.int32)
            elif facts.is_view[i]:
                shown = self.arguments[facts.viewed(i)[1]]
                assert shown is not None
                values_of[copy] = values_of[shown]
            else:
                values = values_of[copy] = memory.make(name, sharding)
                memory.born.add(values, places, 0, first)
                if facts.writes_over[i]:  # the operand's memory could be the output's instead
                    for argument in _of_equal_types(self.placed):
                        operand = self.arguments[argument]
                        assert operand is not None
                        memory.over.add(values_of[operand], places, 0, first)

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
    for name, needed in zip(facts.graph.nodes[node].inputs, placed.inputs, strict=True):
        if name is None:
            arguments.append(None)
            continue
        assert needed is not None
        copy = x.reading(name, needed, node)
        arguments.append(copy)
        if copy.tensor != name:
            after.append(facts.producer[name][0])
    after += facts.turns.get(node, ())
    key = first_key(node_position(node), 0)
    for new in facts.graph.nodes[node].outputs:
        if new in facts.replaces:
            for alias in (a for old in facts.replaces[new] for a in facts.family[old]):
                after += [block.name for block in blocks_of(alias) if block.key < key]
    tasks = x.tasks(node)
    places = every_place(tasks.num_tasks)
    return Computation(
        node=node,
        key=key,
        placed=placed,
        tasks=tasks,
        arguments=tuple(arguments),
        after=tuple(after),
        reads=tuple((copy, places) for copy in arguments if copy is not None),
    )


@lru_cache(maxsize=65536)
def _of_equal_types(placed: Placed) -> tuple[int, ...]:
    """The arguments that have, in each part, the type of the output."""
    return tuple(
        argument
        for argument in range(len(placed.inputs))
        if all(c.types.inputs[argument] == c.types.outputs[0] for c in placed.classes)
    )
