"""The result of the analysis: symbolic splits, valid for every shape that a trace covers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from graphwright.describe.splitting.scatter import Mask
from graphwright.symbolic import Kind, Poly, Symbol

LO = Symbol("lo", Kind.BOUND)
END = Symbol("end", Kind.BOUND)


@dataclass(frozen=True, slots=True)
class Concat:
    """The parts of an output are concatenated along `dim`."""

    dim: int


@dataclass(frozen=True, slots=True)
class Combine:
    """The parts of an output are reduced element by element."""

    reducer: str


@dataclass(frozen=True, slots=True)
class Same:
    """Every part computes the whole output."""


Join = Concat | Combine | Same


@dataclass(frozen=True, slots=True)
class Cut:
    """The region of an input dim that a part gets: `length` elements from `start`."""

    start: Poly
    length: Poly
    fill: float | None
    first: Poly
    """The first element that the part reads; at or after `start`."""


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
    """Quantities that the regions assume to be 0 or more; other calls do not have this split."""
    equal: frozenset[tuple[Poly, Poly]] = frozenset()
    """Pairs of sizes that must be equal in a call: extents of outputs, a mask and its tensor."""
    units: tuple[Poly, ...] = (Poly.const(1),)
    """For each output, how many of its elements one step of the index is."""

    def in_units(self) -> SymbolicSplit | None:
        """The same split counted in its aligned steps: ``h`` cut at multiples of n as ``n * j``."""
        if len(self.aligned) != 1 or self.mask is not None:
            return None
        ((shift, unit),) = self.aligned
        if shift != Poly.of(LO) or len(self.units) != 1:
            return None
        wider = {LO: Poly.of(LO) * unit, END: Poly.of(END) * unit}
        last = (Poly.const(-1) // unit).atom  # is -1: (n * end - 1) // n is end - 1

        def widen(poly: Poly) -> Poly:
            known = poly.substitute(wider)
            return known.map_atoms(lambda a: Poly.const(-1) if a == last else Poly.of(a))

        cuts = {
            place: Cut(widen(cut.start), widen(cut.length), cut.fill, widen(cut.first))
            for place, cut in self.cuts.items()
        }
        return replace(
            self,
            extent=self.extent // unit,
            cuts=cuts,
            attrs={symbol: widen(value) for symbol, value in self.attrs.items()},
            aligned=frozenset(),
            not_negative=self.not_negative | {unit - 1},
            equal=self.equal | {(self.extent % unit, Poly.const(0))},
            units=(self.units[0] * unit,),
        )


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an index cannot be split."""

    index: str
    reason: str
