"""From operators to proved substitutions: enumerate, prune, prove, confirm.

    graphs -> pairs with one fingerprint -> input renaming -> common subgraph -> the rest of them,
    the smallest first: follows from kept ones? proved from the properties? -> kept

Every kept substitution is evaluated on residues once more, with shapes drawn anew: a proved one
that differs there would show a wrong axiom, and is an error. `Counts` has the number at each step.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from graphwright.rewrite.substitutions.derive import Derivations, order
from graphwright.rewrite.substitutions.errors import WrongProperty
from graphwright.rewrite.substitutions.generate.confirm import Values
from graphwright.rewrite.substitutions.generate.enumerate import Enumeration, Tell
from graphwright.rewrite.substitutions.generate.families import FAMILIES, Family
from graphwright.rewrite.substitutions.graphs import (
    Expression,
    Input,
    Substitution,
    Term,
    leaves_of,
    oriented,
    size_of,
)
from graphwright.rewrite.substitutions.prove import Prover
from graphwright.rewrite.substitutions.prune import prune_common, prune_renamed
from graphwright.rewrite.substitutions.values import counterexamples
from graphwright.symbolic import prove as logic

SIZE = 3
SEED, SECOND_SEED = 2019, 2020
DRAWS = 4


@dataclass(slots=True)
class Counts:
    """How many graphs and substitutions there were at each step.

    `initial` to `common` are TASO's steps; `coincidences` differ at a second seed, `derived` follow
    from smaller ones, `special` hold only for shapes of the enumeration, `unknown` hold wherever
    they were tried, but are not proved; none of these is kept.
    """

    graphs: dict[int, int] = field(default_factory=dict)
    values: dict[int, int] = field(default_factory=dict)
    initial: int = 0
    renamed: int = 0
    common: int = 0
    coincidences: int = 0
    derived: int = 0
    special: int = 0
    unknown: int = 0
    proved: int = 0

    def to_dict(self) -> dict[str, object]:
        """The counts as JSON has them."""
        return json.loads(json.dumps(asdict(self)))  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved:
    """A substitution and its proof."""

    substitution: Substitution
    proof: logic.Proof


@dataclass(slots=True)
class Outcome:
    """What was proved, what was not, and the counts."""

    proved: list[Proved] = field(default_factory=list)
    unknown: list[Substitution] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)


def silent(what: str, done: int, total: int) -> None:
    """Tell nobody."""


def build(
    size: int = SIZE,
    families: Sequence[Family] = FAMILIES,
    prover: Prover | None = None,
    tell: Tell = silent,
) -> Outcome:
    """Every substitution of graphs of up to `size` operators that is proved and not redundant."""
    outcome = Outcome()
    kept: list[tuple[Substitution, Family]] = []
    for family in families:
        kept += [(item, family) for item in candidates(family, size, outcome.counts, tell)]
    kept.sort(key=lambda pair: _rank(pair[0]))
    distinct: dict[object, Substitution] = {}
    for item, _ in kept:
        renamed = item.canonical()
        distinct.setdefault((renamed.source, renamed.target), renamed)
    keep_proved(list(distinct.values()), outcome, prover or Prover(), tell)
    return outcome


def _rank(item: Substitution) -> tuple[object, ...]:
    """The smallest first, and of one size those that others may be instances of."""
    outputs = (*item.source, *item.target)
    constants = sum(not isinstance(leaf, Input) for leaf in leaves_of(*outputs))
    sides = sorted(map(order, outputs), reverse=True)
    return item.size, constants, len(item.source), -len(item.inputs), sides


def candidates(
    family: Family, size: int, counts: Counts, tell: Tell = silent
) -> list[Substitution]:
    """Pairs of graphs of a family with equal values, pruned as TASO does."""
    found = Enumeration(family, SEED)
    found.run(size, tell)
    for level in found.calls_of_size:
        counts.graphs[level] = counts.graphs.get(level, 0) + found.calls_of_size[level]
        counts.values[level] = counts.values.get(level, 0) + found.classes_of_size[level]
    items = [*_single(found.others), *_split_pairs(found.others, size)]
    counts.initial += len(items)
    tell(f"{family.name}: {len(items)} pairs, renaming inputs", 0, 0)
    items = prune_renamed(items)
    counts.renamed += len(items)
    tell(f"{family.name}: {len(items)} pairs, common subgraphs", 0, 0)
    second = Values(family, SECOND_SEED)
    items = prune_common(items, second.equal)
    counts.common += len(items)
    same = [
        item
        for item in items
        if all(second.equal(a, b) for a, b in zip(item.source, item.target, strict=True))
    ]
    counts.coincidences += len(items) - len(same)
    return same


def _single(pairs: Sequence[tuple[Expression, Expression]]) -> Iterator[Substitution]:
    for a, b in pairs:
        item = oriented((a,), (b,)) if a != b else None
        if item is not None and not isinstance(item.source[0], Input):
            yield item


def _split_pairs(
    pairs: Sequence[tuple[Expression, Expression]], size: int
) -> Iterator[Substitution]:
    """Two graphs side by side, and one graph whose result is split: the outputs of both."""
    halves: dict[Expression, dict[str, Expression]] = defaultdict(dict)
    for a, b in pairs:
        if isinstance(a, Term) and a.op in ("split0", "split1"):
            halves[Term("split0", a.params, a.args)].setdefault(a.op, b)
    for whole, found in halves.items():
        if len(found) < 2 or not isinstance(whole, Term):
            continue
        apart = (found["split0"], found["split1"])
        joined = (whole, Term("split1", whole.params, whole.args))
        if apart[0] == apart[1] or not all(isinstance(e, Term) and e.args for e in apart):
            continue
        item = oriented(apart, joined)
        if item is not None and size_of(*apart) <= size:
            yield item


def keep_proved(
    items: Sequence[Substitution], outcome: Outcome, prover: Prover, tell: Tell = silent
) -> None:
    """Prove what does not follow from substitutions that are kept already."""
    known, rng = Derivations(), np.random.default_rng(SEED)
    for number, item in enumerate(items):
        tell("proving", number, len(items))
        if known.derive(item):
            outcome.counts.derived += 1
            continue
        proof, guards = prover.prove(item.source, item.target)
        item = replace(item, guards=guards)
        differences = list(counterexamples(item, rng, DRAWS))
        differ = any(given is not None for given in differences)
        if proof.verdict is not logic.Verdict.PROVED:
            if differ:
                outcome.counts.special += 1
            else:
                outcome.counts.unknown += 1
                outcome.unknown.append(item)
            continue
        if differ:
            given = next(given for given in differences if given is not None)
            raise WrongProperty(
                f"{item} is proved from {'; '.join(proof.axioms)}, but its sides differ for "
                f"{', '.join(f'{e}: {shape}' for e, shape in given.items())}"
            )
        if len(differences) == DRAWS:  # no shapes were found: the guards exclude each other
            outcome.counts.special += 1
            continue
        if guards and known.derive(item):
            outcome.counts.derived += 1
            continue
        known.add(item)
        outcome.counts.proved += 1
        outcome.proved.append(Proved(substitution=item, proof=proof))
