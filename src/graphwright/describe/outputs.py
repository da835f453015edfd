"""Pair up the splits of several outputs: one cut of the inputs has to serve all of them.

    out0[i] = x[i] * y[i]          split i cuts x and y; concatenates
    out1    = Sum(k: x[k])         split k cuts x alike;  combines by sum
    out2[j] = z[j]                 reads nothing that is cut: the same in every part

An output agrees with a joint split if it sees exactly its own split there: of the tensors that it reads, just its own
cuts; of the sizes and attributes that it uses, just its own changes (`_agrees`).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from graphwright.describe.expression import Access, Reduce, distinct, indices_of, walk
from graphwright.describe.language import size_symbol
from graphwright.describe.symbolic_split import Join, Refusal, Same, SymbolicSplit
from graphwright.describe.trace import Trace
from graphwright.symbolic import Poly, Symbol


def join_outputs(
    trace: Trace, per_output: list[list[SymbolicSplit]]
) -> tuple[list[SymbolicSplit], list[Refusal]]:
    """The splits that serve all outputs, from those of each output, and why the others do not."""
    if len(per_output) == 1:
        return per_output[0], []
    joined: dict[object, SymbolicSplit] = {}
    refused: list[Refusal] = []
    for number, candidates in enumerate(per_output):
        for split in candidates:
            found = _join_from(trace, per_output, number, split)
            if found is None:
                refused.append(Refusal(split.index, "the outputs would need different regions"))
            else:
                joined.setdefault((frozenset(found.cuts.items()), found.joins), found)
    return list(joined.values()), refused


def _join_from(
    trace: Trace, per_output: list[list[SymbolicSplit]], number: int, split: SymbolicSplit
) -> SymbolicSplit | None:
    """`split` of one output, with a split of every other output that cuts the same regions, or none."""
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
        equal=merged.equal.union(*(_empty_if_same(trace, n) for n in same)),
    )


def _fits(trace: Trace, split: SymbolicSplit, number: int, choice: SymbolicSplit) -> bool:
    """Whether output `number` may be split by `choice` where others are by `split`: what both cut is cut alike."""
    read = _tensors(trace, number)
    mine = {key: cut for key, cut in split.cuts.items() if key[0] in read}
    cut = {tensor for tensor, _ in split.cuts}
    theirs = {key: c for key, c in choice.cuts.items() if key[0] in cut}
    changed = split.attrs.keys() & choice.attrs.keys()
    return (
        bool(mine)
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
    """Whether an output sees in `merged` what it would see in its own split, or nothing of it where it has none."""
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
    """Sizes that must be 0 for an output to be the same in every part, as the kernel may take them from what is cut.

    It does not where an output's size is that of a tensor that it reads, or of an `expect`.
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
