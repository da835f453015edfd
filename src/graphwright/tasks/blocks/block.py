"""What a block is: tasks that belong together, what they read, wait for, make and free.

A kind of block is a frozen dataclass with the properties and methods of `Block`. It says all that
is to be known of it, so that whoever times, changes or runs blocks does not ask for their kind.

A place is that of a device in the mesh of a copy's sharding. To add a kind:

1. Write its file in this folder: the dataclass, and a function `(expansion, tensor) -> blocks` that
   finds all of the kind that a tensor has. Assembling, scheduling, memory, the incremental
   simulation and the order of programs follow.
2. Name that function in `KINDS` of `graph.py`.
3. Say in a case of `Lowering.act` (`lower/lowering.py`) which instructions a rank runs for it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from graphwright.tasks.blocks.memory import MemoryLayout
from graphwright.tasks.expansion import Copy
from graphwright.tasks.movement import Tasks, join_on_device

Ints = NDArray[np.int32]
Pairs = tuple[Ints, Ints]
BlockName = int | Copy
"""The position of the node that a block computes, or the copy that it makes."""

NO_PAIRS: Pairs = (np.zeros(0, np.int32), np.zeros(0, np.int32))
NUMBER_BITS, TASK_BITS = 26, 17


class Block(Protocol):
    """Tasks that belong together: what they are, read, wait for, make and hold."""

    @property
    def name(self) -> BlockName:
        """No two blocks of an expansion have one name."""

    @property
    def key(self) -> int:
        """The key of the first task; the others follow."""

    @property
    def label(self) -> str | None:
        """What its tasks are called, None for the parts of a node."""

    @property
    def tasks(self) -> Tasks:
        """The tasks, numbered from 0, and what they occupy."""

    @property
    def edges(self) -> Pairs:
        """(task, task of the same block that waits for it)."""

    @property
    def stages(self) -> tuple[tuple[int, int], ...]:
        """The first task, and that behind the last, of what it does one after the other."""

    @property
    def reads(self) -> tuple[tuple[Copy, Pairs], ...]:
        """Copies, and for each (place, task that reads what is there)."""

    @property
    def after(self) -> tuple[BlockName, ...]:
        """Blocks that it waits for, device by device, without reading anything from them."""

    @property
    def reads_from(self) -> Pairs:
        """(device, task that reads what is there): who comes `after` this block waits for these."""

    @property
    def works_on(self) -> Pairs:
        """(device, task that reads or writes there): these wait for what the block is `after`."""

    def gives(self, copy: Copy) -> Pairs:
        """(place, task that it has a copy from); the block has made the copy."""

    def keeps(self, copy: Copy) -> tuple[Copy, Pairs] | None:
        """The copy that this one was made of, and (place in that, place that keeps some of it)."""

    def hold(self, memory: MemoryLayout) -> None:
        """Lay out the memory of what the block makes, uses and frees."""


def first_key(position: int, number: int) -> int:
    """The key of a block's first task.

    Keys are topological, and depend on nothing but what the block is: blocks go by their position,
    those of one position by their number.
    """
    return (position << (NUMBER_BITS + TASK_BITS)) | (number << TASK_BITS)


def node_position(node: int) -> int:
    """The position of a node's block and of what follows it at once; one less precedes it."""
    return 2 * node + 2


@lru_cache(maxsize=4096)
def every_place(count: int) -> Pairs:
    """(place, task) for what has one task at each place; both are one array."""
    places = np.arange(count, dtype=np.int32)
    places.setflags(write=False)
    return places, places


def join_places(first: Pairs, second: Pairs) -> Pairs:
    """(a, b) for each (place, a) of the first and (place, b) of the second."""
    if first[0] is first[1]:
        return second
    if second[0] is second[1]:
        return first[1], first[0]
    return join_on_device(first, second)
