"""Where the pieces of a tensor are: on every axis of a mesh split, replicated, or partial.

    float32[8, 6] on a mesh of (2, 3):

    (Split(0), Split(1))      tiles of [4, 2]
    (Split(0), Replicated())  tiles of [4, 6], three times each
    (Split(0), Split(0))      six ways along dim 0, the first axis outermost
    (Partial("sum"), ...)     full-size terms, still to be added up

A dim of size s that is cut n ways has its cuts at s*p // n, so uneven sizes are fine. An operator
may need other pieces than that (a halo, or cuts at multiples of a group's size): then `pieces`
lists them for the dim.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from graphwright.errors import InvalidStrategy
from graphwright.ir import DTYPE_BYTES, TensorType
from graphwright.plans.mesh import Mesh, part_numbers


@dataclass(frozen=True, slots=True)
class Split:
    """Every device along the axis has its part of `dim`."""

    dim: int

    def __str__(self) -> str:
        return f"S{self.dim}"


@dataclass(frozen=True, slots=True)
class Replicated:
    """Every device along the axis has the same."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True, slots=True)
class Partial:
    """The devices along the axis have terms, to be put together by `reducer`."""

    reducer: str = "sum"

    def __str__(self) -> str:
        return f"P({self.reducer})"


Placement = Split | Replicated | Partial
Box = tuple[tuple[int, int], ...]
"""(start, stop) of each dim."""
Pieces = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Sharding:
    """A placement for every axis of a mesh; `pieces` are the parts of dims not cut evenly."""

    mesh: Mesh
    placements: tuple[Placement, ...]
    pieces: tuple[tuple[int, Pieces], ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)
    _axes: dict[int, tuple[int, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            placements = tuple(
                parse_placement(p) if isinstance(p, str) else p for p in self.placements
            )
        except TypeError:
            placements = (None,)  # type: ignore[assignment]
        if not all(isinstance(p, Split | Replicated | Partial) for p in placements):
            raise InvalidStrategy(
                f"{self.placements!r} are no placements; give one for every axis: 'S0', 'R' or "
                "'P(sum)'"
            )
        object.__setattr__(self, "placements", placements)
        axes: dict[int, tuple[int, ...]] = {}
        for axis, placement in enumerate(self.placements):
            if isinstance(placement, Split):
                axes[placement.dim] = (*axes.get(placement.dim, ()), axis)
        object.__setattr__(self, "_axes", axes)
        if len(self.placements) != len(self.mesh.shape):
            raise InvalidStrategy(
                f"{len(self.placements)} placements for a mesh of {len(self.mesh.shape)} axes "
                f"{self.mesh.shape}"
            )
        for dim, pieces in self.pieces:
            if len(pieces) != self.ways(dim):
                raise InvalidStrategy(
                    f"dim {dim} is split {self.ways(dim)} ways, but {len(pieces)} pieces are given"
                )
        object.__setattr__(self, "_hash", hash((self.mesh, self.placements, self.pieces)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Sharding):
            return NotImplemented
        return (
            self.placements == other.placements
            and self.pieces == other.pieces
            and self.mesh == other.mesh
        )

    def axes_of(self, dim: int) -> tuple[int, ...]:
        """The axes along which `dim` is split, outermost first."""
        return self._axes.get(dim, ())

    def ways(self, dim: int) -> int:
        """How many parts `dim` is split into."""
        return prod(self.mesh.shape[a] for a in self.axes_of(dim))

    @property
    def is_partial(self) -> bool:
        """Whether terms are still to be put together."""
        return any(isinstance(p, Partial) for p in self.placements)

    def __str__(self) -> str:
        halo = "~" if self.pieces else ""
        return f"[{' '.join(map(str, self.placements))}]{halo}"


@lru_cache(maxsize=65536)
def shared_sharding(
    mesh: Mesh, placements: tuple[Placement, ...], pieces: tuple[tuple[int, Pieces], ...] = ()
) -> Sharding:
    """One object for all shardings that are equal, which are then quickly compared."""
    return Sharding(mesh, placements, pieces)


def replicated(mesh: Mesh) -> Sharding:
    """The whole tensor on every device of the mesh."""
    return shared_sharding(mesh, (Replicated(),) * len(mesh.shape))


def even_cuts(size: int, ways: int) -> NDArray[np.int64]:
    """The positions at which a dim is cut: part p is [cuts[p], cuts[p + 1])."""
    return np.arange(ways + 1, dtype=np.int64) * size // ways


def even_pieces(size: int, ways: int) -> NDArray[np.int64]:
    """(start, stop) of every part of a dim that is cut evenly."""
    cuts = even_cuts(size, ways)
    return np.stack([cuts[:-1], cuts[1:]], axis=1)


@lru_cache(maxsize=65536)
def boxes(sharding: Sharding, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """The start and stop of each dim that every device holds: [device of the mesh, dim, 2]."""
    made = np.zeros((len(sharding.mesh), len(shape), 2), dtype=np.int64)
    given = dict(sharding.pieces)
    for dim, size in enumerate(shape):
        axes = sharding.axes_of(dim)
        if not axes:
            made[:, dim, 1] = size
            continue
        pieces = (
            np.array(given[dim], dtype=np.int64)
            if dim in given
            else even_pieces(size, sharding.ways(dim))
        )
        made[:, dim] = pieces[part_numbers(sharding.mesh, axes)]
    made.setflags(write=False)
    return made


def as_box(bounds: NDArray[np.int64]) -> Box:
    """(start, stop) of each dim in plain numbers, from an array such as a row of `boxes`."""
    return tuple((start, stop) for start, stop in bounds.tolist())


@lru_cache(maxsize=65536)
def local_bytes(sharding: Sharding, type: TensorType) -> NDArray[np.int64]:
    """The bytes that every device holds, in the order of the mesh."""
    held = boxes(sharding, type.shape)
    made: NDArray[np.int64] = (held[:, :, 1] - held[:, :, 0]).prod(axis=1) * DTYPE_BYTES[type.dtype]
    made.setflags(write=False)
    return made


def check_sharding(sharding: Sharding, type: TensorType, what: str) -> None:
    """Refuse a sharding that the tensor cannot have."""
    for placement in sharding.placements:
        if isinstance(placement, Split) and not 0 <= placement.dim < type.rank:
            raise InvalidStrategy(f"{what} is {type}, which has no dim {placement.dim} to split")


def parse_placement(word: str) -> Placement:
    """The placement that a word spells: R, S0, P(sum)."""
    if word == "R":
        return Replicated()
    if word.startswith("S") and word[1:].isdecimal() and len(word) < 6:
        return Split(int(word[1:]))
    if word.startswith("P(") and word.endswith(")"):
        return Partial(word[2:-1])
    raise InvalidStrategy(f"{word!r} is no placement; one of R, S0, S1, ..., P(sum)")
