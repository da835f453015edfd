"""The tilings that operators and arrays may have: for every side of the grid one choice.

    aten.mm on 2 x 2 workers       a        b        out
    i i                            S0 S0    R  R     S0 S0      rows
    i j                            S0 R     R  S1    S0 S1      blocks
    i k                            S0 S1    R  S0    S0 P
    k k                            S1 S1    S0 S0    P  P       the other form of a product

Work is shared: along each side an operator is split, or passes terms on, wherever it can. It may
also compute the same on all workers if it is a view, which computes nothing, or touches so little
that sharing would not pay (`SMALL`); and a graph input that small may lie on all workers from the
beginning.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from graphwright.describe import Types, properties
from graphwright.errors import InvalidStrategy
from graphwright.ir import Attrs, TensorType
from graphwright.machine import Cluster
from graphwright.partition.space import Options, options
from graphwright.partition.tiling.workers import Sides
from graphwright.plans import (
    Along,
    Choice,
    Keep,
    Partial,
    Pieces,
    Placement,
    Replicate,
    Replicated,
    Sharding,
    Split,
    Strategy,
    shared_sharding,
    whole_mesh,
)
from graphwright.tasks import Placed, place

SMALL = 1 << 20
"""What touches no more bytes than this may be computed, or lie, on all workers."""
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Layouts:
    """An array under every tiling of an operator: distinct shardings, and which one each has."""

    shardings: tuple[Sharding, ...]
    number: Ints

    def only(self, kept: Ints) -> Layouts:
        """The layouts under some of the tilings."""
        return layouts_of([self.shardings[n] for n in self.number[kept].tolist()])

    def __getitem__(self, tiling: int) -> Sharding:
        return self.shardings[int(self.number[tiling])]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tilings:
    """What an operator, or an input of the graph, may choose from.

    `strategies` is empty for an input; `needs` has an entry for every argument, `made` one for
    every output.
    """

    strategies: tuple[Strategy, ...]
    needs: tuple[Layouts | None, ...]
    made: tuple[Layouts, ...]

    def __len__(self) -> int:
        return len(self.made[0].number)

    def only(self, kept: Iterable[int]) -> Tilings:
        """Some of the tilings."""
        numbers = np.array(list(kept), dtype=np.int64)
        return Tilings(
            strategies=tuple(self.strategies[n] for n in numbers) if self.strategies else (),
            needs=tuple(None if need is None else need.only(numbers) for need in self.needs),
            made=tuple(made.only(numbers) for made in self.made),
        )


def layouts_of(shardings: list[Sharding]) -> Layouts:
    """The layouts with these shardings, tiling by tiling."""
    numbers: dict[Sharding, int] = {}
    of_each = [numbers.setdefault(sharding, len(numbers)) for sharding in shardings]
    return Layouts(tuple(numbers), np.array(of_each, dtype=np.int64))


@lru_cache(maxsize=4096)
def input_tilings(type: TensorType, cluster: Cluster, sides: Sides, small: float) -> Tilings:
    """The shardings in which an input of the graph may lie: in as many parts as it can be."""
    mesh = whole_mesh(cluster)
    lengths = _lengths(cluster, sides)
    rows: list[tuple[int, ...]] = []
    for row in product((*range(type.rank), -1), repeat=len(sides)):
        if all(
            prod(n for d, n in zip(row, lengths, strict=True) if d == dim) <= type.shape[dim]
            for dim in set(row) - {-1}
        ):
            rows.append(row)
    if type.nbytes > small:
        rows = _maximal(rows, -1, range(type.rank))
    shardings = []
    for row in rows:
        placements: list[Placement] = [Replicated()] * len(mesh.shape)
        for dim, side in zip(row, sides, strict=True):
            for axis in side:
                placements[axis] = Replicated() if dim < 0 else Split(dim)
        shardings.append(shared_sharding(mesh, tuple(placements)))
    return Tilings(strategies=(), needs=(), made=(layouts_of(shardings),))


def given_tilings(sharding: Sharding) -> Tilings:
    """One sharding, which is given."""
    return Tilings(strategies=(), needs=(), made=(layouts_of([sharding]),))


@lru_cache(maxsize=4096)
def node_tilings(
    op: str, attrs: Attrs, types: Types, cluster: Cluster, sides: Sides, small: float
) -> Tilings:
    """Every tiling of a call, those that split its first indices first."""
    return _CallTilings(op, attrs, types, cluster, sides).find(small)


def _lengths(cluster: Cluster, sides: Sides) -> list[int]:
    return [prod(cluster.axes[axis].size for axis in side) for side in sides]


def _maximal(
    rows: list[tuple[int, ...]], idle: int, splits: Iterable[int]
) -> list[tuple[int, ...]]:
    """Rows in which no idle side could be split with the others as they are."""
    known, splits = set(rows), tuple(splits)
    return [
        row
        for row in rows
        if not any(
            choice == idle and (*row[:side], other, *row[side + 1 :]) in known
            for side, choice in enumerate(row)
            for other in splits
        )
    ]


class _CallTilings:
    def __init__(self, op: str, attrs: Attrs, types: Types, cluster: Cluster, sides: Sides) -> None:
        self.op, self.attrs, self.types = op, attrs, types
        self.mesh, self.sides = whole_mesh(cluster), sides
        self.lengths = _lengths(cluster, sides)
        self.options: Options = options(op, attrs, types)
        self.placed: dict[tuple[int, tuple[int, ...]], Placed | None] = {}

    def find(self, small: float) -> Tilings:
        rows = self._rows(small)
        return Tilings(
            strategies=tuple(self._strategy(row) for row in rows),
            needs=tuple(
                None
                if type is None
                else layouts_of([self._sharding(row, arg, output=False) for row in rows])
                for arg, type in enumerate(self.types.inputs)
            ),
            made=tuple(
                layouts_of([self._sharding(row, output, output=True) for row in rows])
                for output in range(len(self.types.outputs))
            ),
        )

    def _rows(self, small: float) -> list[tuple[int, ...]]:
        """Numbers of options, side by side; replication comes last."""
        own = self.options
        count = len(own.choices)
        order = [*range(1, count), 0]
        rows = [row for row in product(order, repeat=len(self.sides)) if self._possible(row)]
        touched = sum(t.nbytes for t in (*self.types.inputs, *self.types.outputs) if t is not None)
        if touched > small and not properties(self.op, self.attrs, self.types).view:
            splits = [n for n in range(count) if isinstance(own.choices[n], Along)]
            rows = _maximal(rows, 0, splits)
        return rows

    def _possible(self, row: tuple[int, ...]) -> bool:
        own = self.options
        for option in set(row):
            used = tuple(side for side, chosen in enumerate(row) if chosen == option)
            if isinstance(own.choices[option], Along):
                ways = prod(self.lengths[side] for side in used)
                if ways > own.units[option] or self._place(option, used) is None:
                    return False
        return not any(a in row and b in row for a, b in own.clashes)

    def _strategy(self, row: tuple[int, ...]) -> Strategy:
        choices: list[Choice] = [Replicate()] * len(self.mesh.shape)
        for option, side in zip(row, self.sides, strict=True):
            for axis in side:
                choices[axis] = self.options.choices[option]
        return Strategy(tuple(choices))

    def _place(self, option: int, used: tuple[int, ...]) -> Placed | None:
        """The call split along one index, over some of the sides; None if it cannot be."""
        key = option, used
        if key not in self.placed:
            row = tuple(option if side in used else 0 for side in range(len(self.sides)))
            try:
                self.placed[key] = place(
                    self.op, self.attrs, self.types, self._strategy(row), self.mesh
                )
            except InvalidStrategy:
                self.placed[key] = None
        return self.placed[key]

    def _sharding(self, row: tuple[int, ...], number: int, *, output: bool) -> Sharding:
        """How an argument is needed, or an output made: what each choice by itself says."""
        placements: list[Placement] = [Replicated()] * len(self.mesh.shape)
        pieces: list[tuple[int, Pieces]] = []
        for option in set(row) - {0}:
            used = tuple(side for side, chosen in enumerate(row) if chosen == option)
            axes = [axis for side in used for axis in self.sides[side]]
            match self.options.choices[option]:
                case Keep(arguments):
                    if output or number in arguments:
                        for axis in axes:
                            placements[axis] = Partial("sum")
                case _:
                    placed = self._place(option, used)
                    assert placed is not None
                    own = placed.outputs[number] if output else placed.inputs[number]
                    assert own is not None
                    pieces += own.pieces
                    for axis in axes:
                        placements[axis] = own.placements[axis]
        return shared_sharding(self.mesh, tuple(placements), tuple(sorted(pieces)))
