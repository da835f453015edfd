"""The table of transfers: every way in which data goes between devices, one class a kind.

    kind            from -> to                       bytes cross            a rank's instruction
    AllGather       split -> replicated              a ring                 Collective
    ReduceScatter   terms -> split                   a ring                 Collective
    AllReduce       terms -> replicated              a ring, twice          Collective
    AllToAll        split one dim -> another         all pairs              Exchange
    Exchange        any regions -> any regions       routes of messages     Exchange
    Send            one message of an exchange       its own route
    Slice           replicated -> split, or terms    nothing                Cut
                    of which all but one are zero

A kind is a value without fields: what it says is the same for all transfers of the kind, so it
stands in the class. Pricing, the search between shardings, staging, measuring, lowering and the
links of `run` read it there. Files, tables and pictures know a kind by its `name`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from graphwright.plans.sharding import Partial, Placement, Replicated, Split

Ints = NDArray[np.int64]
Edges = Literal["ring", "all pairs", "messages", "none"]


@dataclass(frozen=True, slots=True)
class _Kind:
    """What is known of a kind.

    `edges` is what its bytes cross: in each group along the axes that it changes a ring or all
    pairs, or routes of its own. `phases` is how often it passes over its devices. With `reduces`,
    terms are put together; with `in_place`, they are where the result will be.
    """

    name: ClassVar[str]
    colour: ClassVar[str]
    edges: ClassVar[Edges]
    phases: ClassVar[int] = 1
    reduces: ClassVar[bool] = False
    in_place: ClassVar[bool] = False

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class _GroupKind(_Kind, ABC):
    """What goes on in groups along axes of a mesh, where `before` becomes `after`.

    The formulas take the bytes that the places of groups, [group, place], have before, have after,
    and lack: those of `after` that they do not have.
    """

    before: ClassVar[Placement]
    after: ClassVar[Placement]

    @abstractmethod
    def on_edges(self, had: Ints, part: Ints, missing: Ints) -> Ints:
        """The bytes on each edge of the groups."""

    @abstractmethod
    def received(self, had: Ints, part: Ints, missing: Ints) -> int:
        """The bytes that all devices of the groups receive together."""

    def size(self, had: Ints, part: Ints) -> Ints:
        """The bytes by which a measurement names it: of the tensor that a group gathers or reduces,
        or of what a device has before it exchanges it.
        """
        return had


@dataclass(frozen=True, slots=True)
class AllGather(_GroupKind):
    """Each device gets the parts of all others in its group."""

    name = "all_gather"
    colour = "#7b5ea7"
    edges = "ring"
    before, after = Split(0), Replicated()

    def on_edges(self, had: Ints, part: Ints, missing: Ints) -> Ints:
        """What a device lacks, less what its successor has already."""
        return (part - np.roll(had, -1, axis=1)).ravel()

    def received(self, had: Ints, part: Ints, missing: Ints) -> int:
        return int((part - had).sum())

    def size(self, had: Ints, part: Ints) -> Ints:
        return part


@dataclass(frozen=True, slots=True)
class ReduceScatter(_GroupKind):
    """Terms are put together, and each device of a group gets its part of the result."""

    name = "reduce_scatter"
    colour = "#e29ac0"
    edges = "ring"
    reduces = True
    before, after = Partial(), Split(0)

    def on_edges(self, had: Ints, part: Ints, missing: Ints) -> Ints:
        """The terms of all parts but its own."""
        return (had - part).ravel()

    def received(self, had: Ints, part: Ints, missing: Ints) -> int:
        n: int = part.shape[1]
        return int(part.sum()) * (n - 1)


@dataclass(frozen=True, slots=True)
class AllReduce(_GroupKind):
    """Terms are put together, and each device of a group gets the whole: a reduce-scatter, then an
    all-gather.
    """

    name = "all_reduce"
    colour = "#d1495b"
    edges = "ring"
    phases = 2
    reduces = True
    in_place = True
    before, after = Partial(), Replicated()

    def on_edges(self, had: Ints, part: Ints, missing: Ints) -> Ints:
        """2 (n-1)/n of what it has, in a group of n: as much in both phases."""
        n: int = had.shape[1]
        return np.ravel(2 * (n - 1) * had // n)

    def received(self, had: Ints, part: Ints, missing: Ints) -> int:
        n: int = had.shape[1]
        return 2 * (n - 1) * int(had[:, 0].sum())


@dataclass(frozen=True, slots=True)
class AllToAll(_GroupKind):
    """Each device of a group sends each other a part of its part."""

    name = "all_to_all"
    colour = "#2a9d8f"
    edges = "all pairs"
    before, after = Split(0), Split(1)

    def on_edges(self, had: Ints, part: Ints, missing: Ints) -> Ints:
        """What devices lack, evenly over all pairs."""
        count = missing.size * (missing.shape[1] - 1)  # a group of one has no edges
        each = -(-int(missing.sum()) // max(1, count))
        return np.full(count, each, dtype=np.int64)

    def received(self, had: Ints, part: Ints, missing: Ints) -> int:
        return int(missing.sum())


@dataclass(frozen=True, slots=True)
class Exchange(_Kind):
    """Each device fetches what it does not have, from the nearest device that has it: halos,
    shifts, other devices.
    """

    name = "exchange"
    colour = "#8a817c"
    edges = "messages"


@dataclass(frozen=True, slots=True)
class Send(_Kind):
    """One message: what an exchange of few of them consists of."""

    name = "send"
    colour = "#3d5a80"
    edges = "messages"


@dataclass(frozen=True, slots=True)
class Slice(_Kind):
    """Every device takes its part of what it has: nothing is transferred."""

    name = "slice"
    colour = ""
    edges = "none"


CollectiveKind = AllGather | ReduceScatter | AllReduce
"""What a group of ranks does as one operation of its links."""
GroupKind = CollectiveKind | AllToAll
"""What goes on in groups of devices along axes of a mesh."""
HopKind = GroupKind | Exchange | Slice
"""What brings a tensor from one sharding to another."""
TransferKind = GroupKind | Exchange | Send
"""What occupies links: each is a task."""

TRANSFERS: tuple[TransferKind, ...] = (
    AllGather(), ReduceScatter(), AllReduce(), AllToAll(), Exchange(), Send(),
)  # fmt: skip
"""In the order of their numbers in a task graph: a new one comes last."""
