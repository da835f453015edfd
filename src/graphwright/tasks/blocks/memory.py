"""The memory of a task graph while blocks are laid out one after the other.

    values     pieces of memory on devices; a copy has one at each of its places, or none
    born       from when on they are there
    used       until when they are needed: what nobody uses any more is free
    over       tasks that could write what they make over what they read

Values are numbered in the order in which they are made, tasks as in the task graph.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphwright.plans import CATEGORIES, Sharding, Values
from graphwright.tasks.expansion import Copy, Expansion, resting

Ints = NDArray[np.int32]
NO_VALUE = -1
COMMUNICATION = CATEGORIES.index("communication")


class PairList:
    """Pairs of numbers, collected as arrays."""

    def __init__(self) -> None:
        self.first: list[NDArray[Any]] = []
        self.second: list[NDArray[Any]] = []

    def add(self, first: NDArray[Any], second: NDArray[Any]) -> None:
        if len(first):
            self.first.append(first)
            self.second.append(second)

    def arrays(self) -> tuple[Ints, Ints]:
        return join_arrays(self.first, np.int32), join_arrays(self.second, np.int32)


class MemoryLayout:
    """The memory of the blocks so far; `first` has the number of each block's first task."""

    def __init__(self, x: Expansion) -> None:
        self.x = x
        self.first: dict[int | Copy, int] = {}
        self.values_of: dict[Copy, Ints] = {}
        self.born, self.used, self.over = PairList(), PairList(), PairList()
        self.num_values = 0
        self._columns: defaultdict[str, list[NDArray[Any]]] = defaultdict(list)
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
        category = self.x.facts.category(tensor)
        return self.add(nbytes, cache.devices(sharding.mesh), category, persistent)

    def add(
        self, nbytes: NDArray[np.int64], devices: Ints, category: int, persistent: bool = False
    ) -> Ints:
        """New values, one for each size and device."""
        count, first = len(nbytes), self.num_values
        self._columns["nbytes"].append(nbytes)
        self._columns["device"].append(devices)
        self._columns["category"].append(np.full(count, category, np.uint8))
        self._columns["persistent"].append(np.full(count, persistent, np.bool_))
        self.num_values += count
        return np.arange(first, first + count, dtype=np.int32)

    def use(self, values: Ints, tasks: Ints) -> None:
        """Tasks read values, those of them that there are."""
        real = values != NO_VALUE
        if not real.all():
            values, tasks = values[real], tasks[real]
        self.used.add(values, tasks)

    def finish(self, num_tasks: int) -> Values:
        """All values, when everything has been laid out."""
        for values in self._from_start:
            self.born.add(values, np.full(len(values), num_tasks, dtype=np.int32))
        updates, source = self.x.facts.graph.updates, self.x.source
        left = [Copy(updates[old], source(old), 0) for old in self.replaced]
        for name in self.x.facts.results:
            sharding = source(name)
            left.append(Copy(name, resting(sharding) if sharding.is_partial else sharding, 0))
        for copy in left:  # what the step leaves is there until its end
            values = self.values_of[copy]
            self.use(values, np.full(len(values), num_tasks, dtype=np.int32))
        birth_value, birth_task = self.born.arrays()
        use_value, use_task = self.used.arrays()
        over_value, over_task = self.over.arrays()
        return Values(
            nbytes=join_arrays(self._columns["nbytes"], np.int64),
            device=join_arrays(self._columns["device"], np.int32),
            category=join_arrays(self._columns["category"], np.uint8),
            persistent=join_arrays(self._columns["persistent"], np.bool_),
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


def join_arrays(arrays: list[NDArray[Any]], dtype: type[np.generic]) -> NDArray[Any]:
    """All arrays one after the other."""
    if not arrays:
        return np.zeros(0, dtype=dtype)
    return np.concatenate(arrays).astype(dtype, copy=False)
