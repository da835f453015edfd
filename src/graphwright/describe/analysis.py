"""Find every way to split an operator, once per trace, on symbols (Tofu section 4.2).

The question for an index variable v of one output: if a part computes v in [lo, end) only, which region of every
input does it need, and does the *same kernel* compute that part when it is given just these regions?

    advance   each index expression E as the part sees it from the whole: E with v replaced by v + lo
    region    the interval of E over the part, by `symbolic.interval_of`; its start is the offset o
    residual  R = advance(E) - o - E(sizes of the part); the part's kernel reads its own E

R = 0 means that the kernel reads the right element. Where R is a constant, an attribute that stands alone in E can
absorb it (a convolution's padding becomes 0 when the halo is part of the region, the diagonal of a `tril` moves).
Where E goes through ``i // n``, the identity may need cuts at multiples of n (merged heads): such a split has a
quantum. Anything else is refused, with its reason. So a softmax does not split along the dim it sums over, a layer norm not
along what it normalises, and a misaligned reshape never: all from the one rule.

A split along an output's index concatenates; along a reduced index it combines by the reducer, where the rest of
the expression lets partial results through (`passes`). A data-dependent lookup ``w[idx[i], j]`` is a hidden sum over
the rows of w: a part holds some rows, masks what it does not hold, and the parts are added up. Its gradient is a
scatter, ``Sum(p: where(idx[p] == v, g[p, j], 0))``: a part makes some rows v, and masks the g of the others.

With several outputs a split must cut the inputs for all of them alike; `_join` pairs up what each output allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

from graphwright.describe.expression import (
    Access,
    Call,
    Const,
    Expr,
    IndexValue,
    OpaqueCall,
    Reduce,
    children,
    walk,
)
from graphwright.describe.language import size_symbol
from graphwright.describe.properties import degree
from graphwright.describe.scatter import Mask, Scatter, find_scatter
from graphwright.describe.trace import Trace, out_symbol
from graphwright.errors import NonAffineIndex
from graphwright.symbolic import (
    Atom,
    Interval,
    Kind,
    Poly,
    Quotient,
    Remainder,
    Symbol,
    interval_of,
)

LO = Symbol("lo", Kind.BOUND)
END = Symbol("end", Kind.BOUND)
_lo, _end = Poly.of(LO), Poly.of(END)


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


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an index cannot be split."""

    index: str
    reason: str


class _Refused(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Partitions:
    """All splits of a trace, and why the other indices have none."""

    splits: tuple[SymbolicSplit, ...]
    refusals: tuple[Refusal, ...]


def partitions(trace: Trace) -> Partitions:
    """Every split of the operator, on symbols."""
    if trace.random:
        reason = "its elements are drawn at random, so parts would draw other numbers"
        labels = [v.name for output in trace.outputs for v in output.variables]
        return Partitions((), tuple(Refusal(label, reason) for label in dict.fromkeys(labels)))
    per_output: list[list[SymbolicSplit]] = []
    refusals: list[Refusal] = []
    for number in range(len(trace.outputs)):
        found, refused = _output_splits(trace, number)
        per_output.append(found)
        refusals += refused
    splits, unmatched = _join(trace, per_output)
    return Partitions(tuple(splits), tuple(refusals + unmatched))


# -- one output -------------------------------------------------------------------------------------


def _output_splits(trace: Trace, number: int) -> tuple[list[SymbolicSplit], list[Refusal]]:
    output = trace.outputs[number]
    found: list[SymbolicSplit] = []
    refused: list[Refusal] = []
    candidates: list[tuple[Symbol, Join | None]] = [
        (v, Concat(dim)) for dim, v in enumerate(output.variables)
    ]
    for expr in walk(output.body):
        if isinstance(expr, Reduce):
            combine = Combine(expr.reducer) if passes(output.body, expr) else None
            candidates += [(v, combine) for v in expr.variables]
    for variable, join in candidates:
        try:
            if join is None:
                raise _Refused(
                    "its reduction is inside a function that partial results cannot pass"
                )
            found.append(_split(trace, number, variable, join, find_scatter(output, variable)))
        except (_Refused, NonAffineIndex) as refusal:
            refused.append(Refusal(variable.name, str(refusal)))
    found += _lookups(trace, number)
    return found, refused


def _split(
    trace: Trace, number: int, variable: Symbol, join: Join, scatter: Scatter | None
) -> SymbolicSplit:
    """The split along `variable`: at any position if that can be, otherwise at aligned ones."""
    try:
        return _split_moving(trace, number, join, _Motion(variable, aligns=False), scatter)
    except _Refused:
        return _split_moving(trace, number, join, _Motion(variable, aligns=True), scatter)


def _split_moving(
    trace: Trace, number: int, join: Join, motion: _Motion, scatter: Scatter | None
) -> SymbolicSplit:
    variable = motion.variable
    if isinstance(join, Concat):
        out_size = {out_symbol(number, len(trace.outputs), join.dim): _end - _lo}
    else:
        out_size = {}
    _check_kept(trace, out_size)
    reads = _reads(trace.outputs[number].body)
    if scatter is not None:  # the mask moves what the variable is compared with
        for _ in range(scatter.num_comparisons):
            reads.values.remove(Poly.of(variable))
    ranges = {v: Interval(Poly.const(0), extent - 1) for v, extent in trace.extents.items()}
    ranges[variable] = Interval(_lo, _end - 1)

    moved: dict[tuple[int, int], list[_Read]] = {}
    still: list[Poly] = []
    for key, indices in reads.dims.items():
        if any(i is not None and variable in i.indices for i, _ in indices):
            options: list[_Read] = []
            for i, fill in indices:
                if i is None or variable not in i.indices:
                    raise _Refused(
                        f"dim {key[1]} of {trace.names[key[0]]} is also read independently of {variable}"
                    )
                options.append(_Read(i, motion.advance(i), interval_of(i, ranges), fill))
            if any(read.advanced != read.index for read in options):
                moved[key] = options
            else:  # ``i % n`` with an aligned i: every part reads the dim as the whole does
                still += [read.index for read in options]
    values = [(i, motion.advance(i)) for i in (*reads.values, *still)]

    failure = _Refused("")
    for starts in product(*(_starts(options) for options in moved.values())):
        cuts = {
            key: Cut(start, _hull_end(options) - start + 1, _fill(options), _first(options))
            for (key, options), start in zip(moved.items(), starts, strict=True)
        }
        sizes = out_size | {
            size_symbol(trace.names[a], d): cut.length for (a, d), cut in cuts.items()
        }
        try:
            attrs = _absorb(trace, moved, cuts, sizes, values)
            _check_extents(trace, number, variable, {**sizes, **attrs})
        except _Refused as refusal:
            failure = refusal
            continue
        return SymbolicSplit(
            index=variable.name,
            reduced=not isinstance(join, Concat),
            extent=trace.extents[variable],
            joins=(join,),
            cuts=cuts,
            attrs=attrs,
            aligned=frozenset(motion.aligned),
            mask=scatter.mask if scatter is not None else None,
        )
    raise failure


@dataclass(slots=True)
class _Motion:
    """Moves `variable` up by lo in index expressions.

    With `aligns`, ``(i + lo) // n`` becomes ``i // n + lo // n``, which holds where lo is a multiple of n; those
    conditions are kept in `aligned`.
    """

    variable: Symbol
    aligns: bool
    aligned: set[tuple[Poly, Poly]] = field(default_factory=set)

    def advance(self, index: Poly) -> Poly:
        if self.variable not in index.indices:
            return index
        if not self.aligns:
            return index.substitute({self.variable: Poly.of(self.variable) + _lo})
        total = Poly.const(0)
        for monomial, coefficient in index.terms:
            term = Poly.const(coefficient)
            for atom in monomial:
                term = term * self._advance_atom(atom)
            total = total + term
        return total

    def _advance_atom(self, atom: Atom) -> Poly:
        if isinstance(atom, Symbol):
            return Poly.of(atom) + _lo if atom == self.variable else Poly.of(atom)
        if self.variable not in atom.numerator.indices:
            return Poly.of(atom)
        shift = self.advance(atom.numerator) - atom.numerator
        if shift.indices:
            raise _Refused(f"{atom!r} does not move evenly with {self.variable}")
        self.aligned.add((shift, atom.denominator))
        match atom:
            case Quotient(_, denominator):
                return Poly.of(atom) + shift // denominator
            case Remainder():
                return Poly.of(atom)


@dataclass(frozen=True, slots=True)
class _Read:
    index: Poly
    advanced: Poly
    region: Interval
    fill: float | None


@dataclass(slots=True)
class _Reads:
    """Every index of every read dim (None: all of it), and every index used as a value."""

    dims: dict[tuple[int, int], list[tuple[Poly | None, float | None]]] = field(
        default_factory=dict
    )
    values: list[Poly] = field(default_factory=list)


def _reads(body: Expr) -> _Reads:
    reads = _Reads()
    for expr in walk(body):
        match expr:
            case Access(tensor, index, fill):
                for dim, i in enumerate(index):
                    poly = i if isinstance(i, Poly) else None
                    known = reads.dims.setdefault((tensor, dim), [])
                    if (poly, fill) not in known:
                        known.append((poly, fill))
            case IndexValue(index):
                reads.values.append(index)
            case OpaqueCall(index=index):
                reads.values.extend(index)
            case Reduce("argmax" | "argmin", variables):
                reads.values.extend(Poly.of(v) for v in variables)
            case _:
                pass
    return reads


def _starts(options: list[_Read]) -> list[Poly]:
    """Where a region may begin: at the first element read, or where the index expression itself begins."""
    shift = options[0].advanced - options[0].index
    return list(dict.fromkeys([_first(options)] if shift.indices else [_first(options), shift]))


def _fill(options: list[_Read]) -> float | None:
    """What lies outside of the tensor; reads that never leave it do not mind."""
    fills = {read.fill for read in options} - {None}
    if len(fills) > 1:
        raise _Refused(f"it reads different values outside of one dim: {sorted(map(str, fills))}")
    return next(iter(fills), None)


def _first(options: list[_Read]) -> Poly:
    lows = [read.region.low for read in options]
    return min(lows, key=lambda low: _order(low, lows[0]))


def _hull_end(options: list[_Read]) -> Poly:
    highs = [read.region.high for read in options]
    return max(highs, key=lambda high: _order(high, highs[0]))


def _order(a: Poly, b: Poly) -> int:
    difference = (a - b).constant
    if difference is None:
        raise _Refused(
            f"it reads the regions up to {a!r} and {b!r} of one dim, which cannot be compared"
        )
    return difference


def _absorb(
    trace: Trace,
    moved: Mapping[tuple[int, int], list[_Read]],
    cuts: Mapping[tuple[int, int], Cut],
    sizes: Mapping[Symbol, Poly],
    values: list[tuple[Poly, Poly]],
) -> dict[Symbol, Poly]:
    """New values for the attributes that take up residuals; refuses what none can take up."""
    pinned = {s for name, poly, _ in trace.guards if name == "is" for s in poly.symbols}
    places = [
        (read.index, read.advanced, cuts[key].start, f"{trace.names[key[0]]}[.. {read.index!r} ..]")
        for key, options in moved.items()
        for read in options
    ]
    places += [
        (index, advanced, Poly.const(0), f"the value {index!r}") for index, advanced in values
    ]
    attrs: dict[Symbol, Poly] = {}
    for index, advanced, start, what in places:
        local = index.substitute({**sizes, **attrs})
        if advanced - start == local:
            continue
        for symbol, value in _taken_up(index.substitute(sizes), advanced, start):
            if symbol not in pinned and symbol not in attrs and not value.indices:
                attrs[symbol] = value
                break
        else:
            raise _Refused(f"{what} would be {local!r} in a part, and not {advanced - start!r}")
    changed = {**sizes, **attrs}
    for index, advanced, start, what in places:
        if advanced - start != index.substitute(changed):
            raise _Refused(f"{what} would need other attributes than the rest of a part")
    return attrs


def _taken_up(local: Poly, advanced: Poly, start: Poly) -> Iterator[tuple[Symbol, Poly]]:
    """Attributes that stand alone in an index, with the value that makes ``local == advanced - start``."""
    for monomial, coefficient in local.terms:
        if len(monomial) != 1 or abs(coefficient) != 1:
            continue
        match monomial[0]:
            case Symbol(name, Kind.ATTR) as symbol if not name.startswith("fixed."):
                yield symbol, Poly.of(symbol) + (advanced - start - local) * coefficient
            case Quotient(numerator, denominator) if len(local.terms) == 1:
                moved = advanced.atom
                if isinstance(moved, Quotient) and moved.denominator == denominator:
                    yield from _taken_up(numerator, moved.numerator, start * denominator)
            case _:
                pass


def _check_extents(
    trace: Trace, number: int, variable: Symbol, local: Mapping[Symbol, Poly]
) -> None:
    """Other indices keep their extents in a part, and `variable` runs over the part alone."""
    output = trace.outputs[number]
    bound = {v for e in walk(output.body) if isinstance(e, Reduce) for v in e.variables}
    for other in (*output.variables, *bound):
        extent = trace.extents[other]
        want = _end - _lo if other == variable else extent
        if extent.substitute(local) != want:
            raise _Refused(f"{other} runs over {extent!r}, which is not {want!r} in a part")
    for poly in trace.expected:
        if poly.substitute(local) not in (poly, Poly.const(0)):
            raise _Refused("the kernel would compute another size for a part")


def _check_kept(trace: Trace, out_size: Mapping[Symbol, Poly]) -> None:
    """Refuse early where an output's size has to stay what it is."""
    known = out_size.keys() | trace.fixed.keys()
    for poly in trace.expected:
        if poly.symbols <= known and poly.substitute(out_size) not in (poly, Poly.const(0)):
            raise _Refused("the kernel needs all of this dim")


# -- reductions -------------------------------------------------------------------------------------


def passes(expr: Expr, reduction: Reduce) -> bool:
    """Whether combining partial results of `reduction` gives `expr`: every step up to the root lets them through."""
    if reduction.reducer in ("argmax", "argmin"):
        return False
    if expr is reduction:
        return True
    inside = [child for child in children(expr) if any(e is reduction for e in walk(child))]
    if len(inside) != 1 or not passes(inside[0], reduction):
        return False
    match expr:
        case Reduce(reducer):
            return reducer == reduction.reducer
        case Call("cast", _):
            return True
        case Call("mul" | "neg", _):
            return reduction.reducer == "sum"
        case Call("div", (top, _)):
            return reduction.reducer == "sum" and top is inside[0]
        case Call("where", (condition, a, b)):
            rest = b if inside[0] is a else a
            return inside[0] is not condition and reduction.reducer == "sum" and rest == Const(0)
        case _:
            return False


# -- data-dependent lookups -------------------------------------------------------------------------


def _lookups(trace: Trace, number: int) -> list[SymbolicSplit]:
    output = trace.outputs[number]
    found: list[SymbolicSplit] = []
    accesses = [e for e in walk(output.body) if isinstance(e, Access)]
    for access in accesses:
        if sum(a.tensor == access.tensor for a in accesses) > 1:
            continue
        looked_up = [(d, i) for d, i in enumerate(access.index) if isinstance(i, Access)]
        if len(looked_up) != 1 or degree(output.body, {access.tensor}) != 1:
            continue
        dim, index = looked_up[0]
        variables = [i.atom if isinstance(i, Poly) else None for i in index.index]
        if not all(v in output.variables for v in variables):
            continue
        size = Poly.of(size_symbol(access.name, dim))
        if any(
            size.symbols & e.index.symbols for e in walk(output.body) if isinstance(e, IndexValue)
        ):
            continue
        found.append(
            SymbolicSplit(
                index=f"{access.name}.{dim}",
                reduced=True,
                extent=size,
                joins=(Combine("sum"),),
                cuts={(access.tensor, dim): Cut(_lo, _end - _lo, None, _lo)},
                mask=Mask(index.tensor, tuple(output.variables.index(v) for v in variables)),
            )
        )
    return found


# -- several outputs --------------------------------------------------------------------------------


def _join(
    trace: Trace, per_output: list[list[SymbolicSplit]]
) -> tuple[list[SymbolicSplit], list[Refusal]]:
    if len(per_output) == 1:
        return per_output[0], []
    joined: dict[object, SymbolicSplit] = {}
    refused: list[Refusal] = []
    for number, candidates in enumerate(per_output):
        for split in candidates:
            merged: SymbolicSplit | None = split
            joins: list[Join] = []
            for other, choices in enumerate(per_output):
                if other == number:
                    joins.append(split.joins[0])
                    continue
                merged, join = _match(trace, merged, other, choices) if merged else (None, Same())
                joins.append(join)
            if merged is None:
                refused.append(Refusal(split.index, "the outputs would need different regions"))
                continue
            key = (frozenset(merged.cuts.items()), tuple(joins))
            joined.setdefault(key, replace(merged, joins=tuple(joins)))
    return list(joined.values()), refused


def _match(
    trace: Trace, split: SymbolicSplit, number: int, choices: list[SymbolicSplit]
) -> tuple[SymbolicSplit | None, Join]:
    body = trace.outputs[number].body
    read = {e.tensor for e in walk(body) if isinstance(e, Access)}
    mine = {key: cut for key, cut in split.cuts.items() if key[0] in read}
    for choice in choices:
        theirs = {k: c for k, c in choice.cuts.items() if any(k[0] == a for a, _ in split.cuts)}
        if mine == theirs and mine and choice.mask == split.mask:
            try:
                attrs = _merge_attrs(split.attrs, choice.attrs)
            except _Refused:
                continue
            merged = replace(
                split,
                cuts={**choice.cuts, **split.cuts},
                attrs=attrs,
                aligned=split.aligned | choice.aligned,
                reduced=split.reduced and choice.reduced,
            )
            return merged, choice.joins[0]
    changed = {*split.attrs, *(size_symbol(trace.names[a], d) for a, d in split.cuts)}
    if not mine and changed.isdisjoint(_parameters(trace, number)):
        return split, Same()
    return None, Same()


def _parameters(trace: Trace, number: int) -> set[Symbol]:
    """The sizes and attributes that an output's values and extents depend on."""
    output = trace.outputs[number]
    expressions = list(walk(output.body))
    used = {s for e in expressions if isinstance(e, IndexValue) for s in e.index.symbols}
    bound = [v for e in expressions if isinstance(e, Reduce) for v in e.variables]
    return used.union(*(trace.extents[v].symbols for v in (*output.variables, *bound)))


def _merge_attrs(a: Mapping[Symbol, Poly], b: Mapping[Symbol, Poly]) -> dict[Symbol, Poly]:
    if any(a[s] != b[s] for s in a.keys() & b.keys()):
        raise _Refused("the outputs need different attributes")
    return {**a, **b}
