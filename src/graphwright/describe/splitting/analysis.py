"""Derive all splits of an operator, once per trace, on symbols (Tofu section 4.2).

For an index variable v of one output: if a part computes only v in [lo, end), which region of every
input does it need, and does the *same kernel* compute that part from these regions alone?

    shift     an index expression E of the part, in positions of the whole: v replaced by v + lo
    region    the interval of E over the part, by `symbolic.interval_of`; its start is the offset o
    residual  R = shift(E) - o - E(sizes of the part); the part's kernel reads its own E

If R = 0, the kernel reads the right element. If R is a constant, an attribute that stands alone in
E can absorb it: a convolution's padding becomes 0 when the region includes the halo, the diagonal
of a `tril` moves. If E contains ``i // n``, R may vanish only for cuts at multiples of n (merged
heads): n is the quantum of the split. Any other split is refused, with a reason. From this one rule
it follows that a softmax does not split along the dim it sums over, a layer norm not along the dims
it normalises, and a misaligned reshape not at all.

A split along an output index concatenates its parts. A split along a reduced index combines them
with the reducer, if partial results pass through the rest of the expression (`passes_partial`). A
lookup ``w[idx[i], j]`` is a hidden sum over the rows of w: each part holds some rows and masks the
others, and the parts are summed. Its gradient is a scatter,
``Sum(p: where(idx[p] == v, g[p, j], 0))``: each part makes some rows v and masks the g of others. A
random number depends only on the position of its element in the whole output (`expression.Random`),
so it does not prevent a split.

A split of several outputs must cut the inputs identically for all of them; see `outputs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import product

from graphwright.describe.language import (
    Access,
    Call,
    Const,
    Expr,
    IndexValue,
    OpaqueCall,
    Reduce,
    Trace,
    children,
    distinct,
    indices_of,
    out_symbol,
    size_symbol,
    walk,
)
from graphwright.describe.properties import degree, rounds
from graphwright.describe.splitting.outputs import join_outputs
from graphwright.describe.splitting.scatter import Mask, Scatter, find_scatter
from graphwright.describe.splitting.symbolic_split import (
    END,
    LO,
    Combine,
    Concat,
    Cut,
    Join,
    Refusal,
    SymbolicSplit,
)
from graphwright.errors import NonAffineIndex
from graphwright.symbolic import (
    Atom,
    Interval,
    Kind,
    Poly,
    Quotient,
    Remainder,
    Symbol,
    assumed,
    interval_of,
)

_lo, _end = Poly.of(LO), Poly.of(END)


class _Refused(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Partitions:
    """All splits of a trace, and the reasons why other indices have none."""

    splits: tuple[SymbolicSplit, ...]
    refusals: tuple[Refusal, ...]


def partitions(trace: Trace) -> Partitions:
    """Derive all symbolic splits of the operator."""
    per_output: list[list[SymbolicSplit]] = []
    refusals: list[Refusal] = []
    for number in range(len(trace.outputs)):
        splits, refused = _output_splits(trace, number)
        per_output.append(splits)
        refusals += refused
    joined, unmatched = join_outputs(trace, per_output)
    return Partitions(tuple(joined), tuple(refusals + unmatched))


# -- one output ----------------------------------------------------------------------------------


def _output_splits(trace: Trace, number: int) -> tuple[list[SymbolicSplit], list[Refusal]]:
    output = trace.outputs[number]
    splits: list[SymbolicSplit] = []
    refused: list[Refusal] = []
    candidates: list[tuple[Symbol, Join | None]] = [
        (v, Concat(dim)) for dim, v in enumerate(output.variables)
    ]
    for expr in distinct(output.body):
        if isinstance(expr, Reduce):
            passes = passes_partial(output.body, expr)
            if expr.reducer == "sum" and expr is not output.body and rounds(trace, number):
                passes = False  # what each part rounds does not add up
            combine = _combine(trace, number, expr) if passes else None
            candidates += [(v, combine) for v in expr.variables]
    for variable, join in candidates:
        try:
            if join is None:
                raise _Refused("a function needs the complete result of its reduction")
            splits.append(_split(trace, number, variable, join, find_scatter(output, variable)))
        except (_Refused, NonAffineIndex) as refusal:
            refused.append(Refusal(variable.name, str(refusal)))
    return splits + _lookups(trace, number), refused


def _split(
    trace: Trace, number: int, variable: Symbol, join: Join, scatter: Scatter | None
) -> SymbolicSplit:
    """Split along `variable`: at any position if possible, else at aligned positions."""
    try:
        return _split_shifted(trace, number, join, _Shift(variable, aligns=False), scatter)
    except _Refused:
        return _split_shifted(trace, number, join, _Shift(variable, aligns=True), scatter)


def _split_shifted(
    trace: Trace, number: int, join: Join, shift: _Shift, scatter: Scatter | None
) -> SymbolicSplit:
    variable = shift.variable
    if isinstance(join, Concat):
        out_size = {out_symbol(number, len(trace.outputs), join.dim): _end - _lo}
    else:
        out_size = {}
    _check_output_size(trace, out_size)
    reads = _reads(trace, number)
    used = list(reads.values)
    if scatter is not None:  # the mask shifts the index that the variable is compared with
        for _ in range(scatter.num_comparisons):
            used.remove(Poly.of(variable))
    ranges = {v: Interval(Poly.const(0), extent - 1) for v, extent in trace.extents.items()}
    ranges[variable] = Interval(_lo, _end - 1)

    moved: dict[tuple[int, int], list[_Read]] = {}
    unmoved: list[Poly] = []
    for key, indices in reads.dims.items():
        if not any(i is not None and variable in i.indices for i, _ in indices):
            unmoved += [i for i, _ in indices if i is not None]
            continue
        options: list[_Read] = []
        for i, fill in indices:
            if i is None or variable not in i.indices:
                raise _Refused(
                    f"dim {key[1]} of {trace.names[key[0]]} is also read without {variable}"
                )
            options.append(_Read(i, shift(i), interval_of(i, ranges), fill))
        if any(read.shifted != read.index for read in options):
            moved[key] = options
        else:  # ``i % n`` with an aligned i: every part reads the dim as the whole does
            unmoved += [read.index for read in options]
    values = [(i, shift(i)) for i in (*used, *unmoved)]

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
            aligned=frozenset(shift.aligned | _multiples(trace, {**sizes, **attrs})),
            mask=scatter.mask if scatter is not None else None,
            not_negative=_not_negative(moved),
            equal=_mask_sizes(trace, number, scatter.mask) if scatter else frozenset(),
        )
    raise failure


def _multiples(trace: Trace, local: Mapping[Symbol, Poly]) -> set[tuple[Poly, Poly]]:
    """What cuts must be multiples of, for sizes that a part has no more."""
    return {(_lo, Poly.const(of)) for size, of in trace.multiples if size.substitute(local) != size}


def _not_negative(moved: Mapping[tuple[int, int], list[_Read]]) -> frozenset[Poly]:
    return frozenset(p for reads in moved.values() for read in reads for p in assumed(read.index))


def _mask_sizes(trace: Trace, number: int, mask: Mask) -> frozenset[tuple[Poly, Poly]]:
    """Pair the sizes of a mask, which are its index's, with those of the tensor it masks."""
    index = trace.names[mask.index]
    if mask.scattered is not None:
        masked = [Poly.of(size_symbol(trace.names[mask.scattered], d)) for d in mask.dims]
    else:
        masked = [trace.extents[trace.outputs[number].variables[d]] for d in mask.dims]
    return frozenset((Poly.of(size_symbol(index, n)), size) for n, size in enumerate(masked))


@dataclass(slots=True)
class _Shift:
    """Replaces `variable` by `variable` + lo in index expressions.

    With `aligns`, ``(i + lo) // n`` becomes ``i // n + lo // n``, which is valid for lo % n == 0;
    `aligned` collects these conditions.
    """

    variable: Symbol
    aligns: bool
    aligned: set[tuple[Poly, Poly]] = field(default_factory=set)

    def __call__(self, index: Poly) -> Poly:
        if self.variable not in index.indices:
            return index
        if not self.aligns:
            return index.substitute({self.variable: Poly.of(self.variable) + _lo})
        return index.map_atoms(self._shift_atom)

    def _shift_atom(self, atom: Atom) -> Poly:
        if isinstance(atom, Symbol):
            return Poly.of(atom) + _lo if atom == self.variable else Poly.of(atom)
        if self.variable in atom.denominator.indices:
            raise _Refused(f"{atom!r} divides by {self.variable}")
        if self.variable not in atom.numerator.indices:
            return Poly.of(atom)
        distance = self(atom.numerator) - atom.numerator
        if distance.indices:
            raise _Refused(f"{atom!r} does not move evenly with {self.variable}")
        self.aligned.add((distance, atom.denominator))
        match atom:
            case Quotient(_, denominator):
                return Poly.of(atom) + distance // denominator
            case Remainder():
                return Poly.of(atom)


@dataclass(frozen=True, slots=True)
class _Read:
    index: Poly
    shifted: Poly
    region: Interval
    fill: float | None


@dataclass(slots=True)
class _Reads:
    """The indices of every dim that is read (None: the whole dim), and those used as values."""

    dims: dict[tuple[int, int], list[tuple[Poly | None, float | None]]] = field(
        default_factory=dict
    )
    values: list[Poly] = field(default_factory=list)


@cache
def _reads(trace: Trace, number: int) -> _Reads:
    reads = _Reads()
    for expr in walk(trace.outputs[number].body):
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
    """Possible starts of a region: the first element read, or the shift of the index itself."""
    shift = options[0].shifted - options[0].index
    return list(dict.fromkeys([_first(options)] if shift.indices else [_first(options), shift]))


def _fill(options: list[_Read]) -> float | None:
    """The value outside of the tensor, for the reads that may leave it."""
    fills = {read.fill for read in options} - {None}
    if len(fills) > 1:
        raise _Refused(f"one dim is padded with different values: {sorted(map(str, fills))}")
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
        raise _Refused(f"regions of one dim end at {a!r} and {b!r}, which cannot be compared")
    return difference


def _absorb(
    trace: Trace,
    moved: Mapping[tuple[int, int], list[_Read]],
    cuts: Mapping[tuple[int, int], Cut],
    sizes: Mapping[Symbol, Poly],
    values: list[tuple[Poly, Poly]],
) -> dict[Symbol, Poly]:
    """Choose attribute values that absorb the residuals; refuse residuals that none can absorb."""
    pinned = {s for name, poly, _ in trace.guards if name == "is" for s in poly.symbols}
    places = [
        (read.index, read.shifted, cuts[key].start, f"{trace.names[key[0]]}[.. {read.index!r} ..]")
        for key, options in moved.items()
        for read in options
    ]
    places += [(index, shifted, Poly.const(0), f"the value {index!r}") for index, shifted in values]
    attrs: dict[Symbol, Poly] = {}
    for index, shifted, start, what in places:
        local = index.substitute({**sizes, **attrs})
        if shifted - start == local:
            continue
        for symbol, value in _solutions(index.substitute(sizes), shifted, start):
            if symbol not in pinned and symbol not in attrs and not value.indices:
                attrs[symbol] = value
                break
        else:
            raise _Refused(f"{what} would be {local!r} in a part, not {shifted - start!r}")
    changed = {**sizes, **attrs}
    for index, shifted, start, what in places:
        if shifted - start != index.substitute(changed):
            raise _Refused(f"{what} would need different attributes than the rest of a part")
    return attrs


def _solutions(local: Poly, shifted: Poly, start: Poly) -> Iterator[tuple[Symbol, Poly]]:
    """Solve ``local == shifted - start`` for each attribute that stands alone in `local`."""
    for monomial, coefficient in local.terms:
        if len(monomial) != 1 or abs(coefficient) != 1:
            continue
        match monomial[0]:
            case Symbol(name, Kind.ATTR) as symbol if not name.startswith("fixed."):
                yield symbol, Poly.of(symbol) + (shifted - start - local) * coefficient
            case Quotient(numerator, denominator) if len(local.terms) == 1:
                moved = shifted.atom
                if isinstance(moved, Quotient) and moved.denominator == denominator:
                    yield from _solutions(numerator, moved.numerator, start * denominator)
            case _:
                pass


def _check_extents(
    trace: Trace, number: int, variable: Symbol, local: Mapping[Symbol, Poly]
) -> None:
    """Check that in a part `variable` covers the part, and other indices keep their extents."""
    output = trace.outputs[number]
    bound = {v for e in distinct(output.body) if isinstance(e, Reduce) for v in e.variables}
    for other in (*output.variables, *bound):
        extent = trace.extents[other]
        want = _end - _lo if other == variable else extent
        if extent.substitute(local) != want:
            raise _Refused(f"{other} runs over {extent!r}, which is not {want!r} in a part")
    for poly in trace.expected:
        if poly.substitute(local) not in (poly, Poly.const(0)):
            raise _Refused("the kernel would compute a different size for a part")


def _check_output_size(trace: Trace, out_size: Mapping[Symbol, Poly]) -> None:
    """Refuse early if the size of an output must not change."""
    known = out_size.keys() | trace.fixed.keys()
    for poly in trace.expected:
        if poly.symbols <= known and poly.substitute(out_size) not in (poly, Poly.const(0)):
            raise _Refused("the kernel needs the whole dim")


# -- reductions ----------------------------------------------------------------------------------


def _combine(trace: Trace, number: int, reduction: Reduce | None = None) -> Combine:
    """How partial results of a reduction combine; a lookup is a sum, of truth values `or`."""
    reducer = "sum" if reduction is None else reduction.reducer
    is_bool = trace.output_dtypes[number] == "bool"
    return Combine("any" if is_bool and reducer == "sum" else reducer)


def passes_partial(expr: Expr, reduction: Reduce) -> bool:
    """Whether partial results of `reduction` pass through `expr`, to be combined afterwards."""
    if reduction.reducer in ("argmax", "argmin"):
        return False
    if expr is reduction:
        return True
    inside = [child for child in children(expr) if any(e is reduction for e in distinct(child))]
    if len(inside) != 1 or not passes_partial(inside[0], reduction):
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


# -- data-dependent lookups ----------------------------------------------------------------------


def _lookups(trace: Trace, number: int) -> list[SymbolicSplit]:
    output = trace.outputs[number]
    splits: list[SymbolicSplit] = []
    if not any(isinstance(e, Access) and children(e) for e in distinct(output.body)):
        return splits  # no index depends on data
    accesses = [e for e in walk(output.body) if isinstance(e, Access)]
    for access in accesses:
        if sum(a.tensor == access.tensor for a in accesses) > 1:
            continue
        looked_up = [(d, i) for d, i in enumerate(access.index) if isinstance(i, Access)]
        if len(looked_up) != 1 or degree(output.body, {access.tensor}) != 1:
            continue
        dim, index = looked_up[0]
        if index.fill is not None or sum(a.tensor == index.tensor for a in accesses) > 1:
            continue  # the mask changes the index, so nothing else may read it
        variables = [i.atom if isinstance(i, Poly) else None for i in index.index]
        if not all(v in output.variables and variables.count(v) == 1 for v in variables):
            continue
        size = Poly.of(size_symbol(access.name, dim))
        mask = Mask(index.tensor, tuple(output.variables.index(v) for v in variables))
        used = set().union(*(i.symbols for e in walk(output.body) for i in indices_of(e)))
        bound = [v for e in walk(output.body) if isinstance(e, Reduce) for v in e.variables]
        ranges = [trace.extents[v] for v in (*output.variables, *bound)]
        if size.symbols & used.union(*(r.symbols for r in (*ranges, *trace.expected))):
            continue
        splits.append(
            SymbolicSplit(
                index=f"{access.name}.{dim}",
                reduced=True,
                extent=size,
                joins=(_combine(trace, number),),
                cuts={(access.tensor, dim): Cut(_lo, _end - _lo, None, _lo)},
                mask=mask,
                equal=_mask_sizes(trace, number, mask),
            )
        )
    return splits
