"""Rules as patterns over the pool: where they match, and which terms they make there.

A rule is used in both directions where it can be. Its terms are brought to the pool's form first
(no activations inside convolutions), and rules that then say the same, or nothing, are dropped.

A rule from `concat(a, f, g)` to t is *lifted*: where f and g are two tensors of a graph, they are
the splits of t, as split0(concat(f, g)) = f. So biases and activations follow the products that
were merged: relu(split0(m)), relu(split1(m)) become the splits of relu(m).

A pattern of one output matches a term, whatever graph that is in, so its outcomes are found once
for each term. A rule with several outputs is matched output by output within a graph: for each
output the terms that fit are known, and pairs are joined on the inputs that they share. Outputs
that share none are only matched where they read the two splits of one tensor, along the axis of the
target's: elsewhere, nothing is saved by computing them together.

Which terms are equal is asked of an `Equality`: `Apart` for a search over graphs, where each term
is itself alone, or the classes of an e-graph, where a pattern may take any member of a class.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Protocol

from graphwright.rewrite.optimize.pool import COMMUTATIVE, SPLITS, Graph, Pool
from graphwright.rewrite.substitutions import (
    CONSTANTS,
    Expression,
    Guard,
    Input,
    Rule,
    Substitution,
    Term,
    every_rule,
    holds_for,
    inputs_of,
    leaves_of,
    subterms,
    suggested_shapes,
)

Binding = dict[str, int]
MayJoin = Callable[[int, tuple[int, ...]], bool]
"""Whether a pattern of several outputs, by its number, may take these terms together."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One direction of a rule, in the pool's form."""

    rule: int
    reverse: bool
    source: tuple[Term, ...]
    target: tuple[Expression, ...]
    guards: tuple[Guard, ...]
    splits: bool
    """Whether the source has splits, which go by the shapes of what they are made of."""

    def __str__(self) -> str:
        return f"rule {self.rule}{' reversed' if self.reverse else ''}"


@dataclass(frozen=True, slots=True)
class Change:
    """An outcome of a match: which terms stand in place of which, and by what rule."""

    pattern: Pattern
    replaced: Mapping[int, int]
    index: int = 0
    """The number of the pattern among those of several outputs."""


@cache
def usual_patterns() -> tuple[Pattern, ...]:
    """Those of all rules that come with the package."""
    return patterns_of(every_rule())


def patterns_of(rules: Iterable[Rule]) -> tuple[Pattern, ...]:
    """Every direction of every rule that can change a graph of the pool."""
    found: dict[object, Pattern] = {}
    for rule in rules:
        directions = [(rule.substitution, False)]
        if rule.substitution.is_reversible:
            directions.append((rule.substitution.reversed(), True))
        for direction, reverse in directions:
            for item in (direction, _lifted(direction)):
                pattern = None if item is None else _pattern(rule.number, item, reverse)
                if pattern is not None:
                    key = (_key(pattern.source), _key(pattern.target), pattern.guards)
                    found.setdefault(key, pattern)
    return tuple(found.values())


def _lifted(item: Substitution) -> Substitution | None:
    """From both parts of a concatenation to the splits of what it is equal to."""
    root, target = item.source[0], item.target[0]
    if len(item.source) > 1 or not isinstance(root, Term) or root.op != "concat":
        return None
    if not all(isinstance(a, Term) and a.op not in (*CONSTANTS, "concat") for a in root.args):
        return None
    if root.args[0] == root.args[1] or not isinstance(target, Term) or target.op == "concat":
        return None
    splits = tuple(Term(op, root.params, (target,)) for op in SPLITS)
    return Substitution(root.args, splits, item.guards)


def _pattern(number: int, item: Substitution, reverse: bool) -> Pattern | None:
    source = tuple(map(_plain, item.source))
    target = tuple(map(_plain, item.target))
    if _key(source) == _key(target):
        return None
    if _transposes(target) > _transposes(source):
        return None  # what a transposed operand costs depends on strides, which prices do not see
    guards = tuple(Guard(g.name, tuple(map(_plain, g.args))) for g in item.guards)
    terms = tuple(e for e in source if isinstance(e, Term) and e.op not in CONSTANTS)
    splits = any(isinstance(e, Term) and e.op in SPLITS for e in subterms(*source))
    made = Pattern(number, reverse, terms, target, guards, splits)
    return made if len(terms) == len(source) else None


def _transposes(side: Iterable[Expression]) -> int:
    return sum(isinstance(e, Term) and e.op == "transpose" for e in subterms(*side))


def _plain(expression: Expression) -> Expression:
    """The same without activations inside convolutions."""
    values: dict[Expression, Expression] = {}
    for e in subterms(expression):
        if isinstance(e, Term):
            made = Term(e.op, e.params, tuple(values.get(a, a) for a in e.args))
            if e.op == "conv" and e.params[2] == "relu":
                made = Term("relu", (), (Term("conv", (*e.params[:2], "none"), made.args),))
            values[e] = made
    return values.get(expression, expression)


def _key(side: Iterable[Expression]) -> tuple[str, ...]:
    """The same for sums and products whose arguments change places."""
    return tuple(map(_ordered, side))


def _ordered(e: Expression) -> str:
    if isinstance(e, Input):
        return e.name
    args = [_ordered(a) for a in e.args]
    if e.op in COMMUTATIVE:
        args.sort()
    return f"{e.op}({', '.join([*map(str, e.params), *args])})"


class Equality(Protocol):
    """Which terms are equal."""

    def nodes(self, number: int) -> Sequence[int]:
        """The terms that a term is equal to, itself or another like it among them."""

    def find(self, number: int) -> int:
        """The same number for all equal terms."""

    def is_instance(self, source: Sequence[int | None], places: Sequence[int]) -> bool:
        """Whether terms that a source makes of its inputs are those that it was found at."""


class Apart:
    """Every term is equal to itself alone."""

    def nodes(self, number: int) -> Sequence[int]:
        """The term."""
        return (number,)

    def find(self, number: int) -> int:
        """The term."""
        return number

    def is_instance(self, source: Sequence[int | None], places: Sequence[int]) -> bool:
        """They are: nothing was taken for equal."""
        return True


class Matcher:
    """Finds changes of graphs of one pool; what it has found of a term it keeps."""

    def __init__(
        self, pool: Pool, patterns: Iterable[Pattern], equality: Equality | None = None
    ) -> None:
        self.pool = pool
        self.patterns = tuple(patterns)
        self.equality: Equality = Apart() if equality is None else equality
        self._single: dict[object, list[Pattern]] = defaultdict(list)
        self._joint: dict[Pattern, int] = {}  # with their numbers
        self._loose: dict[Pattern, object] = {}  # with the axis of their splits
        for pattern in self.patterns:
            if len(pattern.source) == 1:
                root = pattern.source[0]
                self._single[root.op, root.params].append(pattern)
            else:
                self._joint[pattern] = len(self._joint)
                first, second = (set(inputs_of(output)) for output in pattern.source[:2])
                split = pattern.target[0]
                if first.isdisjoint(second) and isinstance(split, Term):
                    self._loose[pattern] = split.params
        self._changes: dict[int, tuple[Change, ...]] = {}
        self._bindings: dict[tuple[Term, int], tuple[Binding, ...]] = {}
        self._pairs: dict[tuple[int, ...], Change | None] = {}

    def changes(self, graph: Graph) -> Iterator[Change]:
        """Every change that a rule makes somewhere in a graph: first those of several outputs."""
        numbers = [n for n in self.pool.reachable(graph) if not self.pool.fixed[n]]
        yield from self.joint_changes(numbers)
        for number in numbers:
            yield from self.changes_of(number)

    @property
    def loose(self) -> tuple[Pattern, ...]:
        """Patterns of what reads both splits of a tensor: they follow what was merged there."""
        return tuple(self._loose)

    def merged(
        self, graph: Graph, pattern: Pattern, apart: frozenset[int] = frozenset()
    ) -> tuple[Graph, frozenset[int]] | None:
        """The graph after one change by a rule of several outputs, and what it made of them.

        None where the rule fits nowhere but at terms of `apart`.
        """
        pool = self.pool
        numbers = [n for n in pool.reachable(graph) if not (pool.fixed[n] or n in apart)]
        for change in self.joint_changes(numbers, (pattern,)):
            made = pool.replace(graph, change.replaced)
            if made is not None and made != graph:
                splits = (pool.entries[n] for n in change.replaced.values())
                return made, frozenset(e.args[0] for e in splits if e.op in SPLITS)
        return None

    def forget(self) -> None:
        """Drop what was found, as more terms have become equal."""
        self._changes.clear()
        self._bindings.clear()
        self._pairs.clear()

    def changes_of(self, number: int) -> tuple[Change, ...]:
        """What rules of one output make of a term."""
        known = self._changes.get(number)
        if known is None:
            known = self._changes[number] = tuple(self._find(number))
        return known

    def _find(self, number: int) -> Iterator[Change]:
        entry = self.pool.entries[number]
        seen = {number}
        for pattern in self._single.get((entry.op, entry.params), ()):
            for binding in self._bind_node(pattern.source[0], number, {}):
                made = self._make(pattern, binding, (number,))
                if made is not None and made[0] not in seen:
                    seen.add(made[0])
                    yield Change(pattern, {number: made[0]})

    def joint_changes(
        self,
        numbers: list[int],
        patterns: Iterable[Pattern] | None = None,
        may_join: MayJoin | None = None,
    ) -> Iterator[Change]:
        """What rules of several outputs make of some terms, those that may be taken together."""
        by_root: dict[object, list[int]] = defaultdict(list)
        for number in numbers:
            entry = self.pool.entries[number]
            by_root[entry.op, entry.params].append(number)
        beside: dict[object, dict[int, set[int]]] | None = None
        for pattern in self._joint if patterns is None else patterns:
            if all(by_root.get((t.op, t.params)) for t in pattern.source):
                loose = None
                if pattern in self._loose:
                    beside = self._beside(numbers) if beside is None else beside
                    loose = beside.get(self._loose[pattern], {})
                index = self._joint[pattern]
                for places, binding in self._join(
                    index, pattern.source, by_root, loose, may_join, (), {}
                ):
                    key = (index, *places, *binding.values())
                    if key not in self._pairs:
                        made = self._make(pattern, binding, places)
                        self._pairs[key] = (
                            None if made is None
                            else Change(pattern, dict(zip(places, made, strict=True)), index)
                        )  # fmt: skip
                    change = self._pairs[key]
                    if change is not None:
                        yield change

    def _join(
        self,
        index: int,
        source: tuple[Term, ...],
        by_root: Mapping[object, list[int]],
        beside: Mapping[int, set[int]] | None,
        may_join: MayJoin | None,
        places: tuple[int, ...],
        binding: Binding,
    ) -> Iterator[tuple[tuple[int, ...], Binding]]:
        if len(places) == len(source):
            yield places, binding
            return
        output = source[len(places)]
        candidates: Iterable[int] = by_root[output.op, output.params]
        if beside is not None:
            near = beside if not places else beside.get(places[0], ())
            candidates = [number for number in candidates if number in near]
        find = self.equality.find
        for number in candidates:
            if any(find(number) == find(place) for place in places):
                continue
            for bound in self._bindings_of(output, number):
                if may_join is not None and not may_join(index, (*places, number)):
                    break
                shared = ((binding[name], bound[name]) for name in bound if name in binding)
                if all(a == b or find(a) == find(b) for a, b in shared):
                    joined = {**binding, **bound, **binding}
                    yield from self._join(
                        index, source, by_root, beside, may_join, (*places, number), joined
                    )

    def _beside(self, numbers: list[int]) -> dict[object, dict[int, set[int]]]:
        """For each axis and term that reads a first split along it, those that read the second."""
        entries, find = self.pool.entries, self.equality.find
        readers: dict[int, list[int]] = defaultdict(list)
        for number in numbers:
            for arg in entries[number].args:
                readers[find(arg)].append(number)
        seconds = {self.place_of(n): n for n in numbers if entries[n].op == "split1"}
        beside: dict[object, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        for number in numbers:
            if entries[number].op == "split0":
                second = seconds.get(self.place_of(number))
                others = () if second is None else readers[find(second)]
                for reader in readers[find(number)] if others else ():
                    beside[entries[number].params][reader].update(others)
        return beside

    def place_of(self, split: int) -> tuple[object, int, int]:
        """Where a split divides what: the axis, the tensor, and the size of the first part."""
        entry, sizes = self.pool.entries[split], self.pool.sizes
        axis: int = entry.params[0]
        size = sizes[split][axis]
        first = size if entry.op == "split0" else sizes[entry.args[0]][axis] - size
        return axis, self.equality.find(entry.args[0]), first

    def _bindings_of(self, output: Term, number: int) -> tuple[Binding, ...]:
        key = (output, number)
        known = self._bindings.get(key)
        if known is None:
            known = self._bindings[key] = tuple(self._bind_node(output, number, {}))
        return known

    # -- one term ------------------------------------------------------------------------------

    def _bind(self, pattern: Expression, number: int, binding: Binding) -> Iterator[Binding]:
        """Every binding of a pattern's inputs under which it is equal to a term."""
        if isinstance(pattern, Input):
            held = binding.get(pattern.name)
            if held is None:
                yield {**binding, pattern.name: number}
            elif self.equality.find(held) == self.equality.find(number):
                yield binding
            return
        for node in self.equality.nodes(number):
            yield from self._bind_node(pattern, node, binding)

    def _bind_node(self, pattern: Term, number: int, binding: Binding) -> Iterator[Binding]:
        """Every binding under which a pattern is this term, its arguments equal to the term's."""
        entry = self.pool.entries[number]
        if entry.op != pattern.op:
            return
        if pattern.op in CONSTANTS:
            name = str(pattern)
            if entry.params[0] == pattern.params and binding.get(name, number) == number:
                yield {**binding, name: number}
            return
        if entry.params != pattern.params:
            return
        yield from self._bind_all(pattern.args, entry.args, binding)
        if pattern.op in COMMUTATIVE and entry.args[0] != entry.args[1]:
            yield from self._bind_all(pattern.args, entry.args[::-1], binding)

    def _bind_all(
        self, patterns: tuple[Expression, ...], args: tuple[int, ...], binding: Binding
    ) -> Iterator[Binding]:
        if not patterns:
            yield binding
            return
        for bound in self._bind(patterns[0], args[0], binding):
            yield from self._bind_all(patterns[1:], args[1:], bound)

    def _make(
        self, pattern: Pattern, binding: Binding, places: tuple[int, ...]
    ) -> tuple[int, ...] | None:
        """The target's terms, or None where it does not fit or would read what it replaces."""
        pool = self.pool
        if len(places) > 1:
            for value in binding.values():
                if not pool.below(value).isdisjoint(places):
                    return None
        if not all(self._holds(guard, binding) for guard in pattern.guards):
            return None
        if pattern.splits:
            instance = [self._term(e, binding) for e in pattern.source]
            if not self.equality.is_instance(instance, places):
                return None
        new = [
            leaf for leaf in leaves_of(*pattern.target)
            if isinstance(leaf, Term) and str(leaf) not in binding
        ]  # fmt: skip
        if not new:
            return self._fitting(pattern, binding, places)
        shapes = {n: pool.sizes[n] for n in {*binding.values(), *places}}
        dtype = pool.dtypes[places[0]]
        for chosen in product(*(suggested_shapes(leaf, shapes.values()) for leaf in new)):
            more = dict(binding)
            for leaf, shape in zip(new, chosen, strict=True):
                assert isinstance(leaf, Term)
                made = pool.constant(leaf.op, leaf.params, shape, dtype)
                if made is None:
                    break
                more[str(leaf)] = made
            else:
                fitting = self._fitting(pattern, more, places)
                if fitting is not None:
                    return fitting
        return None

    def _fitting(
        self, pattern: Pattern, binding: Binding, places: tuple[int, ...]
    ) -> tuple[int, ...] | None:
        made: list[int] = []
        for target, place in zip(pattern.target, places, strict=True):
            number = self._term(target, binding)
            if number is None or self.pool.sizes[number] != self.pool.sizes[place]:
                return None
            if self.pool.dtypes[number] != self.pool.dtypes[place]:
                return None
            made.append(number)
        return tuple(made)

    def _term(self, expression: Expression, binding: Binding) -> int | None:
        if isinstance(expression, Input):
            return binding[expression.name]
        if expression.op in CONSTANTS:
            return binding.get(str(expression))
        args: list[int] = []
        for arg in expression.args:
            number = self._term(arg, binding)
            if number is None:
                return None
            args.append(number)
        return self.pool.make(expression.op, expression.params, tuple(args))

    def _holds(self, guard: Guard, binding: Binding) -> bool:
        terms = [self._term(arg, binding) for arg in guard.args]
        known = [self.pool.sizes[t] for t in terms if t is not None]
        return len(known) == len(terms) and holds_for(guard.name, known)
