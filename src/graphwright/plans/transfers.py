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
stands in the class. Pricing, staging, lowering and the links of `run` read it there, or dispatch
over the kind with `match`; mypy finds a `match` that lacks a case. Files, tables and pictures know
a kind by its `name`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

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
class AllGather(_Kind):
    """Each device gets the parts of all others in its group."""

    name = "all_gather"
    colour = "#7b5ea7"
    edges = "ring"


@dataclass(frozen=True, slots=True)
class ReduceScatter(_Kind):
    """Terms are put together, and each device of a group gets its part of the result."""

    name = "reduce_scatter"
    colour = "#e29ac0"
    edges = "ring"
    reduces = True


@dataclass(frozen=True, slots=True)
class AllReduce(_Kind):
    """Terms are put together, and each device of a group gets the whole: a reduce-scatter, then an
    all-gather.
    """

    name = "all_reduce"
    colour = "#d1495b"
    edges = "ring"
    phases = 2
    reduces = True
    in_place = True


@dataclass(frozen=True, slots=True)
class AllToAll(_Kind):
    """Each device of a group sends each other a part of its part."""

    name = "all_to_all"
    colour = "#2a9d8f"
    edges = "all pairs"


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
