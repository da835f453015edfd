"""Enumerate graphs and their fingerprints: which graphs compute the same (TASO algorithm 1)?

A *class* is a tensor with its history of concatenations: everything that has this value. Its
representative is the first graph, in order of size, that computes it. A graph of size n is an
operator applied to representatives that have n - 1 operators between them:

    size 1   operators on inputs and constants
    size 2   operators on those, and on classes of size 1
    size 3   the last one: only fingerprints are kept

An operator on constants alone would be another constant, and is left out. An operator on anything
but representatives would be one substitution inside a common context, which
pruning removes (TASO section 2.5, first form); so nothing is lost by leaving it out, and each
distinct (operator, argument values) is computed once. Calls of one type are evaluated together, in
batches of bounded memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
from numpy.typing import NDArray

from graphwright.describe import Array
from graphwright.rewrite.substitutions.generate.families import Family
from graphwright.rewrite.substitutions.graphs import (
    CONSTANTS,
    Expression,
    Input,
    Param,
    Program,
    Shape,
    Term,
    program_of,
    sizes_of,
)
from graphwright.rewrite.substitutions.values import (
    PRIME,
    RESIDUES,
    constant_value,
    run_program,
)

BATCH_ELEMENTS = 4_000_000
"""Products that one batch of calls may make."""

Tell = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Class:
    """A value: its representative, and the operators that this one needs."""

    expression: Expression
    kind: str
    shape: Shape
    operators: frozenset[int]
    row: int

    @property
    def is_constant(self) -> bool:
        """Whether this is one of the constants."""
        return isinstance(self.expression, Term) and self.expression.op in CONSTANTS


@dataclass(slots=True)
class Calls:
    """All calls of one operator with the same parameters and shapes, by their argument classes."""

    op: str
    params: tuple[Param, ...]
    program: Program
    args: list[tuple[int, ...]] = field(default_factory=list)


@dataclass(slots=True)
class Enumeration:
    """The classes of a family, and pairs of graphs that compute the same."""

    family: Family
    seed: int
    classes: list[Class] = field(default_factory=list)
    others: list[tuple[Expression, Expression]] = field(default_factory=list)
    calls_of_size: dict[int, int] = field(default_factory=dict)
    classes_of_size: dict[int, int] = field(default_factory=dict)
    _values: dict[Shape, list[Array]] = field(default_factory=lambda: defaultdict(list))
    _known: dict[tuple[Shape, int], int] = field(default_factory=dict)
    _by_value: dict[tuple[tuple[int, ...], int], int] = field(default_factory=dict)
    _operators: dict[tuple[object, ...], int] = field(default_factory=dict)
    _weights: dict[tuple[int, ...], NDArray[np.uint64]] = field(default_factory=dict)

    def run(self, size: int, tell: Tell = lambda what, done, total: None) -> None:
        """Enumerate graphs of up to `size` operators."""
        rng = np.random.default_rng(self.seed)
        for leaf in self.family.leaves:
            if isinstance(leaf.expression, Input):
                value = rng.integers(1, PRIME, sizes_of(leaf.shape))
            else:
                value = np.asarray(constant_value(leaf.expression, leaf.shape, RESIDUES), np.int64)
            key = (leaf.shape, int(self._hash(value[None])[0]))
            self._add(leaf.expression, leaf.kind, key, frozenset(), value)
        for level in range(1, size + 1):
            groups = self._calls(level)
            total = sum(len(calls.args) for calls in groups)
            self.calls_of_size[level] = total
            before, done = len(self.classes), 0
            fingerprints: list[NDArray[np.uint64]] = []
            for calls in groups:
                made: list[NDArray[np.uint64]] = []
                for batch in self._batches(calls):
                    values = self._evaluate(calls.program, batch)
                    made.append(self._hash(values))
                    if level < size:
                        self._sort_in(calls, batch, made[-1], values)
                    done += len(batch)
                    tell(f"{self.family.name}, size {level}", done, total)
                fingerprints.append(np.concatenate(made))
            self.classes_of_size[level] = len(self.classes) - before
            if level == size:
                self.classes_of_size[level] = self._match(groups, fingerprints)

    def _calls(self, level: int) -> list[Calls]:
        """The calls of one size, by what they have in common."""
        by_kind: dict[str, list[int]] = defaultdict(list)
        for number, c in enumerate(self.classes):
            by_kind[c.kind].append(number)
        groups: dict[object, Calls | None] = {}
        for op, params, kinds in self.family.calls():
            for args in self._arguments(by_kind, kinds, level - 1):
                if all(self.classes[a].is_constant for a in args):
                    continue
                shapes = tuple(self.classes[a].shape for a in args)
                key = (op, params, shapes)
                if key not in groups:
                    program = program_of(op, params, shapes)
                    groups[key] = None if program is None else Calls(op, params, program)
                calls = groups[key]
                if calls is not None:
                    calls.args.append(args)
        return [calls for calls in groups.values() if calls is not None]

    def _arguments(
        self, by_kind: dict[str, list[int]], kinds: Sequence[str], operators: int
    ) -> Iterator[tuple[int, ...]]:
        """Arguments that have exactly this many operators between them."""
        first = by_kind[kinds[0]]
        sets = [c.operators for c in self.classes]
        if len(kinds) == 1:
            yield from ((a,) for a in first if len(sets[a]) == operators)
            return
        sized: dict[int, list[int]] = defaultdict(list)
        second_by_set: dict[frozenset[int], list[int]] = defaultdict(list)
        for b in by_kind[kinds[1]]:
            sized[len(sets[b])].append(b)
            second_by_set[sets[b]].append(b)
        for a in first:
            mine = sets[a]
            if len(mine) > operators:
                continue
            if len(mine) == operators:  # the other one adds no operator of its own
                for part in _parts(mine):
                    yield from ((a, b) for b in second_by_set.get(part, ()))
                continue
            for need in range(operators - len(mine), operators + 1):
                for b in sized[need]:
                    if len(mine | sets[b]) == operators:
                        yield a, b

    def _evaluate(self, program: Program, batch: Sequence[tuple[int, ...]]) -> Array:
        inputs = []
        for position in range(len(batch[0])):
            held = [self.classes[args[position]] for args in batch]
            stack = self._values[held[0].shape]
            inputs.append(np.stack([stack[c.row] for c in held]))
        return np.asarray(run_program(program, inputs, RESIDUES), np.int64)

    def _sort_in(
        self,
        calls: Calls,
        batch: Sequence[tuple[int, ...]],
        fingerprints: NDArray[np.uint64],
        values: Array,
    ) -> None:
        """Make a class of every new value; note what computes a value that is known."""
        shape = calls.program.shape
        for args, fingerprint, value in zip(batch, fingerprints.tolist(), values, strict=True):
            same = self._by_value.get((sizes_of(shape), fingerprint))
            if same is not None:
                self.others.append((self._term(calls, args), self.classes[same].expression))
            if (shape, fingerprint) not in self._known:
                kind = self.classes[args[0]].kind
                operators = self._operators_of(calls, args)
                self._add(self._term(calls, args), kind, (shape, fingerprint), operators, value)

    def _match(self, groups: Sequence[Calls], fingerprints: Sequence[NDArray[np.uint64]]) -> int:
        """Find the graphs of the last size whose value is known, or that another one has too."""
        by_sizes: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for number, calls in enumerate(groups):
            by_sizes[sizes_of(calls.program.shape)].append(number)
        distinct = 0
        for sizes, numbers in by_sizes.items():
            known = {f: c for (s, f), c in self._by_value.items() if s == sizes}
            every = np.concatenate([fingerprints[n] for n in numbers])
            values, counts = np.unique(every, return_counts=True)
            distinct += len(values)
            held = np.fromiter(known, np.uint64, len(known))
            wanted = set(values[(counts > 1) | np.isin(values, held)].tolist())
            first = {f: self.classes[c].expression for f, c in known.items()}
            for number in numbers:
                marks = np.isin(fingerprints[number], np.fromiter(wanted, np.uint64, len(wanted)))
                for at in np.flatnonzero(marks).tolist():
                    term = self._term(groups[number], groups[number].args[at])
                    same = first.setdefault(int(fingerprints[number][at]), term)
                    if same is not term:
                        self.others.append((term, same))
        return distinct

    def _term(self, calls: Calls, args: Sequence[int]) -> Term:
        return Term(calls.op, calls.params, tuple(self.classes[a].expression for a in args))

    def _operators_of(self, calls: Calls, args: tuple[int, ...]) -> frozenset[int]:
        op = "split" if calls.op.startswith("split") else calls.op
        number = self._operators.setdefault((op, calls.params, args), len(self._operators))
        return frozenset[int]({number}).union(*(self.classes[a].operators for a in args))

    def _batches(self, calls: Calls) -> Iterator[list[tuple[int, ...]]]:
        """Calls of one type, as many at once as memory allows."""
        work = prod(sizes_of(calls.program.shape))
        for arg in calls.args[0][1:]:
            work *= max(1, prod(sizes_of(self.classes[arg].shape)[1:]))
        step = max(1, BATCH_ELEMENTS // max(1, work))
        for start in range(0, len(calls.args), step):
            yield calls.args[start : start + step]

    def _add(
        self,
        expression: Expression,
        kind: str,
        key: tuple[Shape, int],
        operators: frozenset[int],
        value: Array,
    ) -> None:
        shape, fingerprint = key
        self._known[key] = len(self.classes)
        self._by_value.setdefault((sizes_of(shape), fingerprint), len(self.classes))
        rows = self._values[shape]
        self.classes.append(Class(expression, kind, shape, operators, len(rows)))
        rows.append(value)

    def _hash(self, values: Array) -> NDArray[np.uint64]:
        """A fingerprint for every tensor of a stack."""
        flat = values.reshape(len(values), -1).astype(np.uint64)
        sizes = values.shape[1:]
        if sizes not in self._weights:
            rng = np.random.default_rng([self.seed, *sizes, len(sizes)])
            self._weights[sizes] = rng.integers(1, 2**64, max(1, prod(sizes)), np.uint64)
        made: NDArray[np.uint64] = (flat * self._weights[sizes]).sum(axis=1, dtype=np.uint64)
        return made


def _parts(operators: frozenset[int]) -> Iterator[frozenset[int]]:
    """Every subset."""
    items = sorted(operators)
    for mask in range(1 << len(items)):
        yield frozenset(item for n, item in enumerate(items) if mask >> n & 1)
