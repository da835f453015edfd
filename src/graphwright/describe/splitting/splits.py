"""The splits of one call of an operator: its symbolic splits, with sizes substituted.

    >>> for split in splits("aten.mm", {}, Types(...)): print(split)
    i: 0 of out; a[0]
    j: 1 of out; b[1]
    k: sum; a[1], b[0]

A `Split` cuts its index into parts at aligned positions. A `Part` gives the region of each input
that the kernel reads (with a halo, and a fill value beyond the edges), its attributes, and the
regions of its outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import pairwise
from math import gcd
from types import SimpleNamespace

from graphwright.describe.language import Description, Trace, Types, find, restate_attr, trace
from graphwright.describe.splitting.analysis import Partitions, partitions
from graphwright.describe.splitting.concrete import concrete_outputs
from graphwright.describe.splitting.scatter import Mask
from graphwright.describe.splitting.symbolic_split import (
    END,
    LO,
    Combine,
    Concat,
    Join,
    Refusal,
    Same,
    SymbolicSplit,
)
from graphwright.errors import DescriptionError, MisalignedSplit, NonAffineIndex
from graphwright.ir import Attr, TensorType
from graphwright.symbolic import Symbol


@dataclass(frozen=True, slots=True)
class Slice:
    """Elements [start, stop) of a dim; beyond the tensor's edges, `fill`."""

    start: int
    stop: int
    fill: float | None = None

    @property
    def size(self) -> int:
        return self.stop - self.start


Region = tuple[Slice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The input regions, output regions and attributes of one part of a split."""

    lo: int
    end: int
    inputs: tuple[Region | None, ...]
    outputs: tuple[Region, ...]
    attrs: Mapping[str, Attr]
    mask: Mask | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One way to split a call of an operator.

    `joins` says for each output whether parts concatenate, combine or are all the same. Cuts are
    allowed only at multiples of `quantum`.
    """

    index: str
    extent: int
    quantum: int
    joins: tuple[Join, ...]
    cut_dims: frozenset[tuple[int, int]]
    call: _Call = field(repr=False, compare=False)
    symbolic: SymbolicSplit = field(repr=False, compare=False)

    @property
    def reducer(self) -> str | None:
        """The reducer that combines the parts, or None if no output needs one."""
        return next((j.reducer for j in self.joins if isinstance(j, Combine)), None)

    @property
    def units(self) -> tuple[int, ...]:
        """For each output, how many of its elements one step of the index is."""
        return tuple(int(unit.evaluate(self.call.values)) for unit in self.symbolic.units)

    @property
    def max_parts(self) -> int:
        """The largest number of non-empty parts."""
        return -(-self.extent // self.quantum)

    def cuts(self, num_parts: int) -> tuple[int, ...]:
        """Balanced, aligned positions: part p is [cuts[p], cuts[p + 1])."""
        if not 1 <= num_parts <= self.max_parts:
            raise MisalignedSplit(
                f"{self.call.op} splits along {self.index} (extent {self.extent}, quantum "
                f"{self.quantum}) into at most {self.max_parts} parts, not {num_parts}"
            )
        units = self.max_parts
        return tuple(
            min(self.extent, (units * p // num_parts) * self.quantum) for p in range(num_parts + 1)
        )

    def parts(self, num_parts: int) -> tuple[Part, ...]:
        """`num_parts` parts of nearly equal size."""
        cuts = self.cuts(num_parts)
        return tuple(self.part(a, b) for a, b in pairwise(cuts))

    def part(self, lo: int, end: int) -> Part:
        """The part that computes [lo, end) of the index."""
        if not 0 <= lo < end <= self.extent:
            raise MisalignedSplit(f"[{lo}, {end}) is not in [0, {self.extent}) of {self.index}")
        if lo % self.quantum or (end % self.quantum and end != self.extent):
            raise MisalignedSplit(
                f"{self.call.op} splits along {self.index} at multiples of {self.quantum}; "
                f"[{lo}, {end}) is not aligned"
            )
        if not _is_valid(self, lo, end):
            raise MisalignedSplit(
                f"{self.call.op} cannot compute {self.index} in [{lo}, {end}) alone"
            )
        return _part(self, lo, end)

    def __str__(self) -> str:
        joins = ", ".join(dict.fromkeys(_show(j) for j in self.joins))
        names = self.call.trace.names
        cut = ", ".join(f"{names[a]}[{d}]" for a, d in sorted(self.cut_dims))
        return f"{self.index}: {joins}; cuts {cut or 'nothing'}"


def _show(join: Join) -> str:
    match join:
        case Concat(dim):
            return f"concatenate dim {dim}"
        case Combine(reducer):
            return f"combine by {reducer}"
        case Same():
            return "the same in every part"


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """One call of an operator, with the values of all symbols."""

    op: str
    attrs: Mapping[str, Attr]
    types: Types
    trace: Trace
    values: Mapping[Symbol, int]


def splits(op: str, attrs: Mapping[str, Attr], types: Types) -> tuple[Split, ...]:
    """All basic splits of a call; none if the operator has no description."""
    description = find(op)
    return () if description is None else splits_of(description, attrs, types)


def splits_of(
    description: Description, attrs: Mapping[str, Attr], types: Types
) -> tuple[Split, ...]:
    """All basic splits of a call, for a given description."""
    return _splits(_CallKey(description, attrs, types))


def refusals(op: str, attrs: Mapping[str, Attr], types: Types) -> tuple[Refusal, ...]:
    """The reasons why other indices of a described operator cannot be split."""
    description = find(op)
    return () if description is None else analyse(trace(description, attrs, types)).refusals


class _CallKey:
    """A call as a cache key."""

    __slots__ = ("_hash", "_text", "attrs", "description", "types")

    def __init__(self, description: Description, attrs: Mapping[str, Attr], types: Types) -> None:
        self.description, self.attrs, self.types = description, attrs, types
        self._text = repr(sorted(attrs.items(), key=_by_name))  # 1, 1.0 and True are equal
        self._hash = hash((id(description), self._text, types))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _CallKey)
            and self.description is other.description
            and self.types == other.types
            and self._text == other._text
        )


def _by_name(item: tuple[str, Attr]) -> str:
    return item[0]


@lru_cache(maxsize=65536)
def _splits(key: _CallKey) -> tuple[Split, ...]:
    traced = trace(key.description, key.attrs, key.types)
    values = traced.environment(key.attrs, key.types)
    call = _Call(key.description.op, key.attrs, key.types, traced, values)
    candidates = (_concrete(symbolic, call) for symbolic in analyse(traced).splits)
    return tuple(split for split in candidates if split is not None)


@cache
def analyse(traced: Trace) -> Partitions:
    """The symbolic splits of a trace, cached."""
    return partitions(traced)


def _concrete(symbolic: SymbolicSplit, call: _Call) -> Split | None:
    extent = int(symbolic.extent.evaluate(call.values))
    if extent < 2 or not _applies(symbolic, call):
        return None
    quantum = _quantum(symbolic, call, extent)
    if quantum >= extent:
        return None
    split = Split(
        index=symbolic.index,
        extent=extent,
        quantum=quantum,
        joins=symbolic.joins,
        cut_dims=frozenset(symbolic.cuts),
        call=call,
        symbolic=symbolic,
    )
    return split if all(_is_valid(split, *b) for b in _probes(split)) and _differs(split) else None


def _differs(split: Split) -> bool:
    """Whether a part's call differs from the whole call; if not, it makes the whole output."""
    differs = bool(split.cut_dims) or split.symbolic.mask is not None
    return differs or _part(split, 0, split.quantum).attrs != split.call.attrs


def _applies(symbolic: SymbolicSplit, call: _Call) -> bool:
    """Whether the call satisfies the analysis's assumptions on signs and sizes."""
    values = call.values
    return (
        all(int(poly.evaluate(values)) >= 0 for poly in symbolic.not_negative)
        and all(int(divisor.evaluate(values)) > 0 for _, divisor in symbolic.aligned)
        and all(int(a.evaluate(values)) == int(b.evaluate(values)) for a, b in symbolic.equal)
    )


def _quantum(symbolic: SymbolicSplit, call: _Call, extent: int) -> int:
    """The smallest step that makes every shift a multiple of its divisor; `extent` or more if none.

    A shift may contain a quotient (``lo // n`` for a dim merged from three), which is exact once lo
    is a multiple of n; so the step grows until nothing changes.
    """
    quantum, before = 1, 0
    while quantum != before and quantum < extent:
        before = quantum
        for shift, divisor in symbolic.aligned:
            step = int(shift.evaluate({**call.values, LO: quantum, END: quantum}))
            size = int(divisor.evaluate(call.values))
            quantum *= size // gcd(step, size)
    return quantum


def _probes(split: Split) -> set[tuple[int, int]]:
    """The parts to check: two halves, and the first and last part of the finest cut."""
    last = (split.max_parts - 1) * split.quantum
    return {(0, split.quantum), (last, split.extent), *pairwise(split.cuts(2))}


def _is_valid(split: Split, lo: int, end: int) -> bool:
    """Whether a part's regions cover its reads, lie inside their tensors, and give its values."""
    values = {**split.call.values, LO: lo, END: end}
    for (arg, dim), cut in split.symbolic.cuts.items():
        t = split.call.types.inputs[arg]
        assert t is not None
        start, first = int(cut.start.evaluate(values)), int(cut.first.evaluate(values))
        stop = start + int(cut.length.evaluate(values))
        if first < start or (cut.fill is None and not 0 <= start <= stop <= t.shape[dim]):
            return False
        if stop < start:
            return False
    return _matches_trace(split, _part(split, lo, end))


def _matches_trace(split: Split, part: Part) -> bool:
    """Whether the description of a part keeps the fixed values and agrees with the whole's trace.

    It does if the part takes the same decisions as the whole; otherwise compare the two traces.
    """
    traced = split.call.trace
    types = local_types(split, part)
    try:
        values = traced.environment(part.attrs, types)
        if any(values[symbol] != split.call.values[symbol] for symbol in traced.fixed):
            return False
        if traced.holds(values):
            return True
        own = trace(traced.description, part.attrs, types)
        if (own.outputs, own.extents, own.fixed) == (traced.outputs, traced.extents, traced.fixed):
            return True
        own_values = own.environment(part.attrs, types)
        return concrete_outputs(own, own_values) == concrete_outputs(traced, values)
    except (DescriptionError, NonAffineIndex, ArithmeticError, LookupError):
        return False


def local_types(split: Split, part: Part) -> Types:
    """The input and output types of one part's kernel."""
    types = split.call.types
    inputs = tuple(
        None if t is None or region is None else TensorType(_sizes(region), t.dtype)
        for t, region in zip(types.inputs, part.inputs, strict=True)
    )
    outputs = tuple(
        TensorType(_sizes(region), t.dtype)
        for t, region in zip(types.outputs, part.outputs, strict=True)
    )
    return Types(inputs, outputs)


def _part(split: Split, lo: int, end: int) -> Part:
    call, symbolic = split.call, split.symbolic
    values = {**call.values, LO: lo, END: end}
    inputs: list[Region | None] = []
    for arg, t in enumerate(call.types.inputs):
        if t is None:
            inputs.append(None)
            continue
        region: list[Slice] = []
        for dim, size in enumerate(t.shape):
            cut = symbolic.cuts.get((arg, dim))
            if cut is None:
                region.append(Slice(0, size))
            else:
                start = int(cut.start.evaluate(values))
                region.append(Slice(start, start + int(cut.length.evaluate(values)), cut.fill))
        inputs.append(tuple(region))
    outputs = tuple(
        tuple(
            Slice(lo * unit, end * unit) if join == Concat(dim) else Slice(0, size)
            for dim, size in enumerate(t.shape)
        )
        for join, unit, t in zip(split.joins, split.units, call.types.outputs, strict=True)
    )
    return Part(
        lo=lo,
        end=end,
        inputs=tuple(inputs),
        outputs=outputs,
        attrs=_local_attrs(call, symbolic, values, inputs, outputs),
        mask=symbolic.mask,
    )


def _local_attrs(
    call: _Call,
    symbolic: SymbolicSplit,
    values: Mapping[Symbol, int],
    inputs: list[Region | None],
    outputs: tuple[Region, ...],
) -> Mapping[str, Attr]:
    changed = {s.name: int(poly.evaluate(values)) for s, poly in symbolic.attrs.items()}
    attrs = {name: _with_changes(name, value, changed) for name, value in call.attrs.items()}
    tensors = [None if r is None else SimpleNamespace(shape=_sizes(r)) for r in inputs]
    outs = [SimpleNamespace(shape=_sizes(r)) for r in outputs]
    for name, restate in call.trace.description.restated.items():
        if name in attrs:
            new = restate_attr(restate, call.trace.names, tensors, outs, attrs)
            attrs[name] = tuple(new) if isinstance(new, list) else new  # type: ignore[assignment]
    return attrs


def _with_changes(name: str, value: Attr, changed: Mapping[str, int]) -> Attr:
    if isinstance(value, tuple):
        return tuple(_with_changes(f"{name}.{n}", v, changed) for n, v in enumerate(value))
    return changed.get(name, value)


def _sizes(region: Region) -> tuple[int, ...]:
    return tuple(piece.size for piece in region)
