"""Match the splits of several outputs: one cut of the inputs must serve all of them.

    out0[i] = x[i] * y[i]          split i cuts x and y; concatenates
    out1    = Sum(k: x[k])         split k cuts x in the same way; combines by sum
    out2[j] = z[j]                 reads no tensor that is cut: the same in every part

If one output is cut at multiples of n where another is cut anywhere (n query heads share one key
head), the first one's split is counted in steps of n, and cuts the same regions (`in_units`).

An output agrees with a joint split if the tensors that it reads have exactly the cuts of its own
split, and the sizes and attributes that it uses exactly the changes of its own split (`_agrees`).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from graphwright.describe.language import (
    Access,
    Reduce,
    Trace,
    distinct,
    indices_of,
    size_symbol,
    walk,
)
from graphwright.describe.splitting.symbolic_split import Join, Refusal, Same, SymbolicSplit
from graphwright.symbolic import Poly, Symbol


def join_outputs(
    trace: Trace, per_output: list[list[SymbolicSplit]]
) -> tuple[list[SymbolicSplit], list[Refusal]]:
    """The splits that serve all outputs, and the reasons why the others do not."""
    if len(per_output) == 1:
        return per_output[0], []
    choices = [[*own, *(w for s in own if (w := s.in_units()) is not None)] for own in per_output]
    joined: dict[object, SymbolicSplit] = {}
    refused: list[Refusal] = []
    for number, candidates in enumerate(per_output):
        for split in candidates:
            joint = _join_from(trace, choices, number, split)
            wider = split.in_units()
            if joint is None and wider is not None:
                joint = _join_from(trace, choices, number, wider)
            if joint is None:
                refused.append(Refusal(split.index, "the outputs need different regions"))
            else:
                joined.setdefault((frozenset(joint.cuts.items()), joint.joins), joint)
    return list(joined.values()), refused


def _join_from(
    trace: Trace, per_output: list[list[SymbolicSplit]], number: int, split: SymbolicSplit
) -> SymbolicSplit | None:
    """Extend the split of one output with a split, or none, of every other output."""
    merged = split
    chosen: list[SymbolicSplit | None] = []
    for other, choices in enumerate(per_output):
        if other == number:
            chosen.append(split)
            continue
        choice = next((c for c in choices if _fits(trace, merged, other, c)), None)
        chosen.append(choice)
        if choice is not None:
            merged = _merge(merged, choice)
    if not all(_agrees(trace, n, own, merged) for n, own in enumerate(chosen)):
        return None
    joins: tuple[Join, ...] = tuple(Same() if own is None else own.joins[0] for own in chosen)
    same = [n for n, own in enumerate(chosen) if own is None]
    return replace(
        merged,
        joins=joins,
        units=tuple(Poly.const(1) if own is None else own.units[0] for own in chosen),
        equal=merged.equal.union(*(_empty_if_same(trace, n) for n in same)),
    )


def _fits(trace: Trace, split: SymbolicSplit, number: int, choice: SymbolicSplit) -> bool:
    """Whether `choice`, a split of output `number`, cuts the tensors of `split` identically.

    Where neither cuts a tensor, a shift of the same attributes says that both are of one index.
    """
    read = _tensors(trace, number)
    mine = {key: cut for key, cut in split.cuts.items() if key[0] in read}
    cut = {tensor for tensor, _ in split.cuts}
    theirs = {key: c for key, c in choice.cuts.items() if key[0] in cut}
    changed = split.attrs.keys() & choice.attrs.keys()
    return (
        bool(mine or (changed and not split.cuts and not choice.cuts))
        and mine == theirs
        and choice.mask == split.mask
        and all(split.attrs[s] == choice.attrs[s] for s in changed)
    )


def _merge(split: SymbolicSplit, choice: SymbolicSplit) -> SymbolicSplit:
    return replace(
        split,
        cuts={**choice.cuts, **split.cuts},
        attrs={**choice.attrs, **split.attrs},
        aligned=split.aligned | choice.aligned,
        reduced=split.reduced and choice.reduced,
        not_negative=split.not_negative | choice.not_negative,
        equal=split.equal | choice.equal | {(split.extent, choice.extent)},
    )


def _agrees(trace: Trace, number: int, own: SymbolicSplit | None, merged: SymbolicSplit) -> bool:
    """Whether `merged` is, for an output, the same as its own split (None: no change at all)."""
    read, used = _tensors(trace, number), _symbols(trace, number)
    cuts = {} if own is None else own.cuts
    attrs = {} if own is None else own.attrs
    if any(cuts.get(key) != cut for key, cut in merged.cuts.items() if key[0] in read):
        return False
    if any(attrs.get(s) != value for s, value in merged.attrs.items() if s in used):
        return False
    resized = {size_symbol(trace.names[a], d) for a, d in merged.cuts.keys() - cuts.keys()}
    return resized.isdisjoint(used) and (own is not None or merged.mask is None)


def _empty_if_same(trace: Trace, number: int) -> set[tuple[Poly, Poly]]:
    """Sizes that must be 0 for an output to be the same in every part.

    The kernel may derive an output's size from a tensor that is cut, unless the output reads a
    tensor of that size or the description states the size with `expect`.
    """
    output = trace.outputs[number]
    reads = [e for e in walk(output.body) if isinstance(e, Access)]
    plain = {i.atom for read in reads for i in read.index if isinstance(i, Poly)}
    expected = set().union(*(poly.symbols for poly in trace.expected))
    extents = [trace.extents[v] for v in output.variables if v not in plain]
    return {(extent, Poly.const(0)) for extent in extents if not extent.symbols <= expected}


def _tensors(trace: Trace, number: int) -> set[int]:
    return {e.tensor for e in distinct(trace.outputs[number].body) if isinstance(e, Access)}


def _symbols(trace: Trace, number: int) -> set[Symbol]:
    """The sizes and attributes that an output's values, indices and extents depend on."""
    output = trace.outputs[number]
    expressions = list(distinct(output.body))
    bound = [v for e in expressions if isinstance(e, Reduce) for v in e.variables]
    polys: list[Poly] = [trace.extents[v] for v in (*output.variables, *bound)]
    return set().union(*(p.symbols for p in chain(polys, *map(indices_of, expressions))))
