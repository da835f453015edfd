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

A random number depends on the place of its element in the whole output alone (`expression.Random`), so it is no obstacle.

With several outputs a split must cut the inputs for all of them alike; `outputs` pairs up what each output allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
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
    distinct,
    indices_of,
    walk,
)
from graphwright.describe.language import size_symbol
from graphwright.describe.outputs import join_outputs
from graphwright.describe.properties import degree
from graphwright.describe.scatter import Mask, Scatter, find_scatter
from graphwright.describe.symbolic_split import (
    END,
    LO,
    Combine,
    Concat,
    Cut,
    Join,
    Refusal,
    SymbolicSplit,
)
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
    assumed,
    interval_of,
)

_lo, _end = Poly.of(LO), Poly.of(END)


class _Refused(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Partitions:
    """All splits of a trace, and why the other indices have none."""

    splits: tuple[SymbolicSplit, ...]
    refusals: tuple[Refusal, ...]


def partitions(trace: Trace) -> Partitions:
    """Every split of the operator, on symbols."""
    per_output: list[list[SymbolicSplit]] = []
    refusals: list[Refusal] = []
    for number in range(len(trace.outputs)):
        found, refused = _output_splits(trace, number)
        per_output.append(found)
        refusals += refused
    splits, unmatched = join_outputs(trace, per_output)
    return Partitions(tuple(splits), tuple(refusals + unmatched))


# -- one output -------------------------------------------------------------------------------------


def _output_splits(trace: Trace, number: int) -> tuple[list[SymbolicSplit], list[Refusal]]:
    output = trace.outputs[number]
    found: list[SymbolicSplit] = []
    refused: list[Refusal] = []
    candidates: list[tuple[Symbol, Join | None]] = [
        (v, Concat(dim)) for dim, v in enumerate(output.variables)
    ]
    for expr in distinct(output.body):
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
    reads = _reads(trace, number)
    used = list(reads.values)
    if scatter is not None:  # the mask moves what the variable is compared with
        for _ in range(scatter.num_comparisons):
            used.remove(Poly.of(variable))
    ranges = {v: Interval(Poly.const(0), extent - 1) for v, extent in trace.extents.items()}
    ranges[variable] = Interval(_lo, _end - 1)

    moved: dict[tuple[int, int], list[_Read]] = {}
    still: list[Poly] = []
    for key, indices in reads.dims.items():
        if not any(i is not None and variable in i.indices for i, _ in indices):
            still += [i for i, _ in indices if i is not None]
            continue
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
    values = [(i, motion.advance(i)) for i in (*used, *still)]

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
            not_negative=_not_negative(moved),
            equal=_covered(trace, number, scatter.mask) if scatter is not None else frozenset(),
        )
    raise failure


def _not_negative(moved: Mapping[tuple[int, int], list[_Read]]) -> frozenset[Poly]:
    return frozenset(p for reads in moved.values() for read in reads for p in assumed(read.index))


def _covered(trace: Trace, number: int, mask: Mask) -> frozenset[tuple[Poly, Poly]]:
    """A mask has the shape of the index, and must fit what it covers: the source of a scatter, or the output."""
    index = trace.names[mask.index]
    if mask.scattered is not None:
        covered = [Poly.of(size_symbol(trace.names[mask.scattered], d)) for d in mask.dims]
    else:
        covered = [trace.extents[trace.outputs[number].variables[d]] for d in mask.dims]
    return frozenset((Poly.of(size_symbol(index, n)), size) for n, size in enumerate(covered))


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
        return index.map_atoms(self._advance_atom)

    def _advance_atom(self, atom: Atom) -> Poly:
        if isinstance(atom, Symbol):
            return Poly.of(atom) + _lo if atom == self.variable else Poly.of(atom)
        if self.variable in atom.denominator.indices:
            raise _Refused(f"{atom!r} divides by {self.variable}")
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
    bound = {v for e in distinct(output.body) if isinstance(e, Reduce) for v in e.variables}
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
    inside = [child for child in children(expr) if any(e is reduction for e in distinct(child))]
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
    if not any(isinstance(e, Access) and children(e) for e in distinct(output.body)):
        return found  # no index depends on data
    accesses = [e for e in walk(output.body) if isinstance(e, Access)]
    for access in accesses:
        if sum(a.tensor == access.tensor for a in accesses) > 1:
            continue
        looked_up = [(d, i) for d, i in enumerate(access.index) if isinstance(i, Access)]
        if len(looked_up) != 1 or degree(output.body, {access.tensor}) != 1:
            continue
        dim, index = looked_up[0]
        if index.fill is not None or sum(a.tensor == index.tensor for a in accesses) > 1:
            continue  # the mask changes the index, so that nothing else may see it
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
        found.append(
            SymbolicSplit(
                index=f"{access.name}.{dim}",
                reduced=True,
                extent=size,
                joins=(Combine("sum"),),
                cuts={(access.tensor, dim): Cut(_lo, _end - _lo, None, _lo)},
                mask=mask,
                equal=_covered(trace, number, mask),
            )
        )
    return found
