"""A block that brings a tensor to a sharding in which it is needed, hop by hop.

What is moved once the tensor is made follows the block of its producer. What is fetched for its
first reader precedes that reader's: inputs of the graph and views of them, and what is brought back
for late nodes. A node that computes somewhat earlier then sets its pace.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from graphwright.plans import Sharding
from graphwright.tasks.blocks.block import (
    NUMBER_BITS,
    BlockName,
    Ints,
    Pairs,
    first_key,
    node_position,
)
from graphwright.tasks.blocks.memory import COMMUNICATION, NO_VALUE, MemoryLayout
from graphwright.tasks.expansion import Copy, Expansion
from graphwright.tasks.movement import EXTERNAL, Movement


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The copy `name` made of the copy `source` of the same tensor.

    `position` and `number` say where the move stands among all blocks.
    """

    name: Copy
    source: Copy
    movement: Movement
    position: int
    number: int
    pacemaker: int | None

    @property
    def tensor(self) -> str:
        return self.name.tensor

    @property
    def target(self) -> Sharding:
        return self.name.sharding

    @property
    def turn(self) -> int:
        return self.name.turn

    @property
    def key(self) -> int:
        return first_key(self.position, self.number)

    @property
    def label(self) -> str:
        return f"%{self.tensor}{' again' if self.turn else ''}"

    @property
    def tasks(self) -> Movement:
        return self.movement

    @property
    def edges(self) -> Pairs:
        return self.movement.edges

    @property
    def stages(self) -> tuple[tuple[int, int], ...]:
        return tuple((hop.first, hop.end) for hop in self.movement.hops)

    @property
    def reads(self) -> tuple[tuple[Copy, Pairs], ...]:
        return ((self.source, self.movement.reads),)

    @property
    def after(self) -> tuple[BlockName, ...]:
        return () if self.pacemaker is None else (self.pacemaker,)

    @property
    def reads_from(self) -> Pairs:
        return self.movement.reads_from()

    @property
    def works_on(self) -> Pairs:
        return self.movement.works_on()

    def gives(self, copy: Copy) -> Pairs:
        return self.movement.gives

    def keeps(self, copy: Copy) -> tuple[Copy, Pairs]:
        return self.source, self.movement.keeps

    # -- memory -----------------------------------------------------------------------------------

    def hold(self, memory: MemoryLayout) -> None:
        """The buffers on the way, and the result: in the last of them, or where the source is."""
        m, base = self.movement, memory.first[self.name]
        source = memory.values_of[self.source]
        olds = [
            old
            for old in memory.x.facts.replaces.get(self.tensor, ())
            if memory.x.source(old) == self.target and not self.turn
        ]
        sizes = m.buffer_nbytes
        if not memory.replaced.issuperset(olds):  # the last step writes to where the old value is
            sizes = sizes.copy()
            sizes[m.result[m.result != EXTERNAL]] = 0
        first = memory.num_values
        memory.add(sizes, m.buffer_device, COMMUNICATION)
        memory.born.add(*m.births, first, base)
        memory.used.add(*m.uses, first, base)
        memory.used.add(source[m.source_uses[0]], m.source_uses[1], 0, base)
        outside = m.result == EXTERNAL
        values = (m.result + first).astype(np.int32, copy=False)
        if outside.any():
            there = m.result_place >= 0
            own = np.where(there, source[np.where(there, m.result_place, 0)], NO_VALUE)
            values[outside] = own[outside]
            if m.gives[0].size and len(memory.x.needs(self.tensor)) > 1:
                self._keep_terms(memory, values, outside)
            if olds and memory.replaced.issuperset(olds):
                self._settle_slices(memory, values, outside & there)
            if not self.turn and memory.x.kept(self.tensor) == "after":
                self._copy_slices(memory, values, outside & there)
        memory.values_of[self.name] = values

    # Where a result lies in the source's memory, it may need its own:

    def _keep_terms(self, memory: MemoryLayout, values: Ints, outside: NDArray[np.bool_]) -> None:
        """Sums are made in place, but not where somebody else still needs the terms."""
        places, tasks = self.movement.gives
        written = np.zeros(len(values), dtype=bool)
        written[places] = True
        fresh = np.flatnonzero(written & outside)
        self._give_memory(memory, values, fresh, COMMUNICATION)
        given = np.isin(places, fresh)
        memory.born.add(values[places[given]], tasks[given], 0, memory.first[self.name])

    def _settle_slices(self, memory: MemoryLayout, values: Ints, own: NDArray[np.bool_]) -> None:
        """Part of a new value stays until the next step."""
        fresh = np.flatnonzero(own)
        self._give_memory(memory, values, fresh, memory.x.facts.category[self.tensor])
        self._bear_with_source(memory, values, fresh)

    def _copy_slices(self, memory: MemoryLayout, values: Ints, own: NDArray[np.bool_]) -> None:
        """Part of what a device has, where the whole is not to be held for it."""
        m, type = self.movement, memory.x.facts.graph.tensors[self.tensor].type
        whole = memory.x.cache.local_bytes(m.source, type)[np.where(own, m.result_place, 0)]
        smaller = own & (memory.x.cache.local_bytes(m.target, type) < whole)
        smaller[m.gives[0]] = False
        fresh = np.flatnonzero(smaller)
        if len(fresh):
            self._give_memory(memory, values, fresh, COMMUNICATION)
            self._bear_with_source(memory, values, fresh)

    def _give_memory(
        self, memory: MemoryLayout, values: Ints, fresh: NDArray[np.intp], category: int
    ) -> None:
        """Memory for what some places have at the end."""
        type = memory.x.facts.graph.tensors[self.tensor].type
        sizes = memory.x.cache.local_bytes(self.target, type)[fresh]
        values[fresh] = memory.add(sizes, self.movement.target_device[fresh], category)

    def _bear_with_source(
        self, memory: MemoryLayout, values: Ints, fresh: NDArray[np.intp]
    ) -> None:
        maker, _ = memory.x.facts.producer[self.tensor]
        memory.born.add(values[fresh], self.movement.result_place[fresh], 0, memory.first[maker])


def find_moves(x: Expansion, tensor: str) -> list[Move]:
    """How a tensor gets to each sharding in which it is needed and is not, turn by turn."""
    source, facts, needs = x.source(tensor), x.facts, x.needs(tensor)
    moves: list[Move] = []
    if not needs or (len(needs) == 1 and (source, 0) in needs):
        return moves
    made = facts.producer.get(tensor)
    type = facts.graph.tensors[tensor].type
    for (target, turn), first in needs.items():
        if target == source and not turn:
            continue
        copy = Copy(tensor, target, turn)
        start = x.start(copy)
        if first is not None and (turn or facts.is_resident(tensor)):
            position, pacemaker = node_position(first) - 1, facts.pacemaker(first)
        elif made is not None:
            position, pacemaker = node_position(made[0]), None
        else:  # an input that takes the place of another at the end of the step
            position, pacemaker = node_position(len(x.placed)) - 1, None
        moves.append(
            Move(
                name=copy,
                source=Copy(tensor, start, 0),
                movement=x.cache.movement(
                    type, start, target, facts.is_gathered(tensor), facts.order.get(tensor)
                ),
                position=position,
                number=_number(copy),
                pacemaker=pacemaker,
            )
        )
    return moves


@lru_cache(maxsize=1 << 20)
def _number(copy: Copy) -> int:
    """A number from 1 on that depends on the copy alone."""
    words = f"{copy.tensor} {_digest(copy.sharding)}" + " again" * copy.turn
    digest = blake2b(words.encode(), digest_size=8).digest()
    return 1 + int.from_bytes(digest, "big") % ((1 << NUMBER_BITS) - 1)


@lru_cache(maxsize=65536)
def _digest(sharding: Sharding) -> str:
    return blake2b(repr(sharding).encode(), digest_size=8).hexdigest()
