"""What the workers of an array program do, as tasks: all ranks' programs, cut where they meet.

    segment 3 on rank 1, reads (0, 7), makes (1, 9)
        %8 = reduce(sum; %0.7, %1.6)                       a remote value and an own one
        %9 = aten.div.Tensor(%8, %2)

A segment runs without waiting: all that it reads is there when it begins. A value is named by its
rank and its number there. `Call`, `Cut` and `Constant` are the instructions of `program`.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphwright.ir import TensorType
from graphwright.plans.programs.program import Call, Constant, Cut
from graphwright.plans.sharding import Box, Sharding

Ref = tuple[int, int]
"""The rank that makes a value, and its number there."""


Region = tuple[tuple[int, int, int], ...]
"""(dim, start, stop) of the dims that are not whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A region of a value in memory of its own, to be sent."""

    value: int
    region: Region
    output: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One of `count` nearly equal shares of a value's elements, in one line."""

    value: int
    number: int
    count: int
    output: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Assemble:
    """A value made of others: (what, its place in the result)."""

    parts: tuple[tuple[Ref, Box], ...]
    type: TensorType
    output: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Concat:
    """Values one after the other along a dim, or shares of a value that has the shape of `like`."""

    parts: tuple[Ref, ...]
    dim: int
    output: int
    like: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduce:
    """Terms put together, in the order of their ranks."""

    terms: tuple[Ref, ...]
    reducer: str
    output: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """A value of another rank, as it is."""

    source: Ref
    output: int


SegmentStep = Call | Cut | Constant | Piece | Share | Assemble | Concat | Reduce | Fetch


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Steps of one rank that run as one task; the values that others, or results, are made of."""

    rank: int
    level: int
    steps: tuple[SegmentStep, ...]
    reads: tuple[Ref, ...]
    makes: tuple[Ref, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentGraph:
    """Segments, each behind those it reads from; where inputs go and results come from.

    `inputs` and `results` have for each name its value on every rank that has a part of it.
    """

    segments: tuple[Segment, ...]
    inputs: dict[str, dict[int, Ref]]
    results: dict[str, dict[int, Ref]]
    homes: dict[str, dict[int, Box]]
    shardings: dict[str, Sharding]


def refs_read(step: SegmentStep, rank: int) -> tuple[Ref, ...]:
    """The values that a step reads."""
    match step:
        case Call():
            return tuple((rank, o.value) for o in step.inputs if o is not None)
        case Cut() | Piece() | Share():
            return ((rank, step.value),)
        case Assemble():
            return tuple(ref for ref, _ in step.parts)
        case Concat():
            return step.parts if step.like is None else (*step.parts, (rank, step.like))
        case Reduce():
            return step.terms
        case Fetch():
            return (step.source,)
        case Constant():
            return ()


def refs_made(step: SegmentStep, rank: int) -> tuple[Ref, ...]:
    """The values that a step makes."""
    if isinstance(step, Call):
        return tuple((rank, value) for value in step.outputs)
    return ((rank, step.output),)
