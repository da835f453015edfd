"""The memory of a task graph while blocks are laid out one after the other.

    values     pieces of memory on devices; a copy has one at each of its places, or none
    born       (value, task): from when on they are there
    used       (value, task): until when they are needed: what nobody uses any more is free
    over       (value, task) where a task could write what it makes over what it reads

In `used` and `over` NO_VALUE may stand for what a copy has at some place, and counts for nothing.

Values are numbered in the order in which they are made, tasks as in the task graph.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphwright.plans import CATEGORIES, Sharding, Values
from graphwright.tasks.expansion import Copy, Expansion

Ints = NDArray[np.int32]
NO_VALUE = -1
COMMUNICATION = CATEGORIES.index("communication")


class PairList:
    """Pairs of numbers, collected as arrays that count from different numbers on."""

    def __init__(self) -> None:
        self._added: list[tuple[NDArray[Any], int, NDArray[Any], int]] = []

    def add(
        self,
        first: NDArray[Any],
        second: NDArray[Any],
        first_from: int = 0,
        second_from: int = 0,
    ) -> None:
        """Pairs of numbers; those of an array are counted from a number on."""
        if len(first):
            self._added.append((first, first_from, second, second_from))

    def arrays(self) -> tuple[Ints, Ints]:
        """All pairs."""
        if not self._added:
            return _NONE, _NONE
        first, first_from, second, second_from = zip(*self._added, strict=True)
        counts = np.fromiter(map(len, first), np.int64, len(first))
        return _counted(first, first_from, counts), _counted(second, second_from, counts)


_NONE: Ints = np.zeros(0, np.int32)


def _counted(
    arrays: tuple[NDArray[Any], ...], begin: tuple[int, ...], counts: NDArray[np.int64]
) -> Ints:
    """All arrays one after the other, each counted from a number on."""
    joined = np.concatenate(arrays, dtype=np.int32, casting="same_kind")
    joined += np.repeat(np.array(begin, np.int32), counts)
    return joined


class MemoryLayout:
    """The memory of the blocks so far; `first` has the number of each block's first task."""

    def __init__(self, x: Expansion) -> None:
        self.x = x
        self.first: dict[int | Copy, int] = {}
        self.values_of: dict[Copy, Ints] = {}
        self.born, self.used, self.over = PairList(), PairList(), PairList()
        self.num_values = 0
        self._added: list[tuple[NDArray[np.int64], Ints, int, bool]] = []
        self._from_start: list[Ints] = []
        graph = x.facts.graph
        self.replaced = {old for old in graph.updates if self._is_replaced(old)}
        for name in graph.inputs:
            sharding, stays = x.source(name), name not in self.replaced
            values = self.make(name, sharding, persistent=stays)
            if not stays:
                self._from_start.append(values)
            self.values_of[Copy(name, sharding, 0)] = values

    def make(self, tensor: str, sharding: Sharding, persistent: bool = False) -> Ints:
        """Memory for a tensor in a sharding."""
        cache = self.x.cache
        nbytes = cache.local_bytes(sharding, self.x.facts.graph.tensors[tensor].type)
        category = self.x.facts.category[tensor]
        return self.add(nbytes, cache.devices(sharding.mesh), category, persistent)

    def add(
        self, nbytes: NDArray[np.int64], devices: Ints, category: int, persistent: bool = False
    ) -> Ints:
        """New values, one for each size and device."""
        count, first = len(nbytes), self.num_values
        self._added.append((nbytes, devices, category, persistent))
        self.num_values += count
        return np.arange(first, first + count, dtype=np.int32)

    def finish(self, num_tasks: int) -> Values:
        """All values, when everything has been laid out."""
        for values in self._from_start:
            self.born.add(values, np.full(len(values), num_tasks, dtype=np.int32))
        updates, source = self.x.facts.graph.updates, self.x.source
        left = [Copy(updates[old], source(old), 0) for old in self.replaced]
        left += [Copy(name, self.x.result(name), 0) for name in self.x.facts.results]
        for copy in left:  # what the step leaves is there until its end
            values = self.values_of[copy]
            self.used.add(values, np.full(len(values), num_tasks, dtype=np.int32))
        birth_value, birth_task = self.born.arrays()
        use_value, use_task = _real(*self.used.arrays())
        over_value, over_task = _real(*self.over.arrays())
        counts = [len(nbytes) for nbytes, _, _, _ in self._added]
        return Values(
            nbytes=join_arrays([nbytes for nbytes, _, _, _ in self._added], np.int64),
            device=join_arrays([devices for _, devices, _, _ in self._added], np.int32),
            category=np.repeat(np.array([c for _, _, c, _ in self._added], np.uint8), counts),
            persistent=np.repeat(np.array([p for _, _, _, p in self._added], np.bool_), counts),
            birth_value=birth_value,
            birth_task=birth_task,
            use_value=use_value,
            use_task=use_task,
            over_value=over_value,
            over_task=over_task,
        )

    def _is_replaced(self, old: str) -> bool:
        """Whether other memory takes the place of an input: its new value is made elsewhere."""
        facts = self.x.facts
        new = facts.graph.updates[old]
        alone = facts.replaces[new] == [old] and new in facts.producer
        return alone and self.x.source(new) != self.x.source(old)


def _real(values: Ints, tasks: Ints) -> tuple[Ints, Ints]:
    """The pairs of a value and a task whose value there is."""
    real = values != NO_VALUE
    return (values, tasks) if real.all() else (values[real], tasks[real])


def join_arrays(arrays: list[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    """All arrays one after the other."""
    if not arrays:
        return np.zeros(0, dtype=dtype)
    return np.concatenate(arrays).astype(dtype, copy=False)
