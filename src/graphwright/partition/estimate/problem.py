"""The additive problem that every exact search solves: choose one configuration for each variable.

    time(x)   = sum over variables v   of  unary[v].time[x_v]
              + sum over pairs (u, v)  of  pairs[u, v].time[x_u, x_v]
    memory(x) = the same with .memory

A variable is a group of operators that are split alike, a configuration is one way to split them, a
pair's table is what moving the tensors between two groups takes. An entry of a table may hold
several options, such as keeping a moved copy or moving it again: the last dim of the arrays; one of
them is chosen too. An option that an entry does not have takes infinite time.

Nothing here knows about graphs or devices: algorithms can be tested on random problems, and
compared with each other on any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Time and memory of every entry and option; shape (configurations, options), or (of one, of
    the other, options) for a pair.

    `key` is a hash of the content: equal tables have equal keys, so that equal sub-problems are
    solved once.
    """

    time: Floats
    memory: Floats
    key: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        time = np.ascontiguousarray(self.time, dtype=np.float64)
        memory = np.ascontiguousarray(self.memory, dtype=np.float64)
        assert time.shape == memory.shape and time.ndim in (2, 3)
        object.__setattr__(self, "time", time)
        object.__setattr__(self, "memory", memory)
        digest = blake2b(digest_size=16)
        digest.update(repr(time.shape).encode())
        digest.update(time.tobytes())
        digest.update(memory.tobytes())
        object.__setattr__(self, "key", digest.digest())


Pair = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Variables by number; pairs (u, v) with u < v, each at most once."""

    unary: tuple[Table, ...]
    pairs: Mapping[Pair, Table]

    def __post_init__(self) -> None:
        for (u, v), table in self.pairs.items():
            assert 0 <= u < v < len(self.unary)
            assert table.time.shape[:2] == (len(self.unary[u].time), len(self.unary[v].time))

    @property
    def num_variables(self) -> int:
        return len(self.unary)

    def evaluate(self, choices: Sequence[int], options: Mapping[Pair, int]) -> tuple[float, float]:
        """The time and memory of an assignment; the first option where none is named."""
        time = memory = 0.0
        for v, table in enumerate(self.unary):
            time += table.time[choices[v], options.get((v, v), 0)]
            memory += table.memory[choices[v], options.get((v, v), 0)]
        for (u, v), table in self.pairs.items():
            option = options.get((u, v), 0)
            time += table.time[choices[u], choices[v], option]
            memory += table.memory[choices[u], choices[v], option]
        return float(time), float(memory)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assignment:
    """A configuration for every variable, an option for every table that has some: (v, v) for a
    variable's own, (u, v) for a pair's."""

    choices: NDArray[np.int64]
    options: Mapping[Pair, int]
    time: float
    memory: float
