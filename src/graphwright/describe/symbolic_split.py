"""What the analysis finds: one way to split an operator, on symbols, for every shape that a trace covers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from graphwright.describe.scatter import Mask
from graphwright.symbolic import Kind, Poly, Symbol

LO = Symbol("lo", Kind.BOUND)
END = Symbol("end", Kind.BOUND)


@dataclass(frozen=True, slots=True)
class Concat:
    """The parts of an output stand side by side along `dim`."""

    dim: int


@dataclass(frozen=True, slots=True)
class Combine:
    """The parts of an output are put together element by element."""

    reducer: str


@dataclass(frozen=True, slots=True)
class Same:
    """Every part computes the whole output."""


Join = Concat | Combine | Same


@dataclass(frozen=True, slots=True)
class Cut:
    """The region of one dim of an input that a part reads: `length` elements from `start`."""

    start: Poly
    length: Poly
    fill: float | None
    first: Poly
    """The first element that is really read; never before `start`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolicSplit:
    """One way to split an operator, for every shape that its trace covers."""

    index: str
    reduced: bool
    extent: Poly
    joins: tuple[Join, ...]
    cuts: Mapping[tuple[int, int], Cut]
    attrs: Mapping[Symbol, Poly] = field(default_factory=dict)
    aligned: frozenset[tuple[Poly, Poly]] = frozenset()
    mask: Mask | None = None
    not_negative: frozenset[Poly] = frozenset()
    """What the regions take to be 0 or more; a call where it is not has no such split."""
    equal: frozenset[tuple[Poly, Poly]] = frozenset()
    """Sizes that have to be equal in a call: the ranges of several outputs, a mask and what it covers."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an index cannot be split."""

    index: str
    reason: str
