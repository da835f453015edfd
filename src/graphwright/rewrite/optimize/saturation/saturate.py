"""Equality saturation (TENSAT: Yang et al. 2021): all rules at once, then the cheapest graph.

A rule does not replace a graph here: what it makes is added to the class of what it was found at.
So no order of rules has to be chosen, and rules that gain only together are found together. After
some rounds, or where nothing is new, `Extraction` chooses.

Rules of several outputs merge two tensors into one and its splits. TENSAT takes all pairs, for a
round or two, as their number is squared in each. Here each tensor is taken once by each rule, so
that what was merged in one round is merged again in the next:

    round 1    a b    c d    e f    g h
    round 2     ab cd         ef gh         groups of 2, 4, 8, ... stand beside each other
    round 3       abcd efgh                 in the e-graph, and the cheapest are chosen

A concatenation of tensors that are splits of one is taken as that one (`_joined`), by the same two
facts that the pool's normal form goes by: concatenation is associative, and undoes a split.

Left out (`saturating`): rules that make an identity kernel or matrix, as they fit every tensor; of
one output, those that add operators, take a kernel apart, or merely pad one; of several outputs,
those where one is made of another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from time import monotonic

from graphwright.rewrite.optimize.backtracking import Found
from graphwright.rewrite.optimize.patterns import Change, Matcher, Pattern
from graphwright.rewrite.optimize.pool import COMMUTATIVE, SPLITS, Graph, Pool
from graphwright.rewrite.optimize.saturation.egraph import EGraph
from graphwright.rewrite.optimize.saturation.extraction import EXACT, Choice, Extraction, cost_of
from graphwright.rewrite.substitutions import Expression, Term, is_operator, subterms

IDENTITIES = frozenset({"I_conv", "I_matmul", "I_ewmul"})
ROUNDS, NODES = 30, 3000
DEPTH = 2
"""How far above a changed class a pattern's root may be."""
SHARES = (1.0, 0.5, 0.0)
SECONDS = 10.0
"""What exact extraction may take of the clock; its own limits are in steps."""


def saturating(patterns: Iterable[Pattern]) -> tuple[Pattern, ...]:
    """The patterns that an e-graph takes."""
    return tuple(p for p in patterns if _is_taken(p))


def _is_taken(pattern: Pattern) -> bool:
    if _identities(pattern.target) - _identities(pattern.source):
        return False
    if len(pattern.source) > 1:
        inner = {e for out in pattern.source for e in subterms(out) if e != out}
        return inner.isdisjoint(pattern.source)
    if _size(pattern.target) > _size(pattern.source):
        return False
    if _unpadded(pattern.target) == _unpadded(pattern.source):
        return False
    return not _is_concat(pattern.target[0])


def _is_concat(expression: Expression) -> bool:
    return isinstance(expression, Term) and expression.op == "concat"


def _size(side: Iterable[Expression]) -> int:
    """The number of operators, without paddings of kernels."""
    return sum(is_operator(e) and e.op != "enlarge" for e in subterms(*side))  # type: ignore[union-attr]


def _unpadded(side: Iterable[Expression]) -> tuple[Expression, ...]:
    """The same with all kernels as they are."""
    values: dict[Expression, Expression] = {}
    side = tuple(side)
    for e in subterms(*side):
        if isinstance(e, Term):
            args = tuple(values.get(a, a) for a in e.args)
            values[e] = args[0] if e.op == "enlarge" else Term(e.op, e.params, args)
    return tuple(values.get(e, e) for e in side)


def _identities(side: Iterable[Expression]) -> set[str]:
    return {e.op for e in subterms(*side) if isinstance(e, Term)} & IDENTITIES


def saturate(
    pool: Pool,
    patterns: tuple[Pattern, ...],
    graph: Graph,
    *,
    rounds: int = ROUNDS,
    nodes: int = NODES,
    deadline: float = float("inf"),
) -> Found:
    """The cheapest graph of an e-graph of at most about `nodes` nodes after some rounds."""
    return Saturation(pool, patterns, graph).run(rounds, nodes, deadline)


class Saturation:
    """An e-graph of one graph, and how far rules have been applied to it."""

    def __init__(self, pool: Pool, patterns: tuple[Pattern, ...], graph: Graph) -> None:
        self.pool, self.graph, self.egraph = pool, graph, EGraph(pool)
        self.matcher = Matcher(pool, patterns, self.egraph)
        self.made: dict[int, Pattern] = {}
        self._taken: set[tuple[int, int]] = set()
        self._merged: dict[int, frozenset[int]] = {}
        for output in graph:
            self.egraph.add(output)

    def run(self, rounds: int, nodes: int, deadline: float) -> Found:
        """Apply rules until nothing is new or a limit is met, then extract."""
        for _ in range(rounds):
            if len(self.egraph) >= nodes or monotonic() >= deadline or not self.round(nodes):
                break
        return self.best(deadline)

    def round(self, nodes: int) -> bool:
        """Apply every rule once wherever it is new; tells whether anything changed."""
        egraph = self.egraph
        roots = self._affected()
        egraph.changed.clear()
        self.matcher.forget()
        every = self._every()
        changes = list(self._merges(every))
        for node in roots:
            changes += self.matcher.changes_of(node)
        for change in changes:
            if len(egraph) >= nodes:
                break
            self._apply(change)
        egraph.rebuild()
        for node in self._every():
            if self.pool.entries[node].op == "concat":
                self._join(node)
        egraph.rebuild()
        return bool(egraph.changed)

    def _merges(self, every: list[int]) -> Iterator[Change]:
        """What rules of several outputs make: each takes a tensor once, and no tensor twice."""
        find = self.egraph.find
        self._taken = {(index, find(number)) for index, number in self._taken}
        self._merged = {find(number): parts for number, parts in self._merged.items()}
        for node in every:
            if self.pool.entries[node].op == "concat" and find(node) not in self._merged:
                parts = (self._parts(find(part)) for part in self.egraph.flat(node))
                self._merged[find(node)] = frozenset[int]().union(*parts)
        for change in self.matcher.joint_changes(every, may_join=self._may_join):
            self._taken.update((change.index, find(place)) for place in change.replaced)
            yield change

    def _may_join(self, index: int, places: tuple[int, ...]) -> bool:
        classes = list(map(self.egraph.find, places))
        if any((index, number) in self._taken for number in classes):
            return False
        parts = [self._parts(number) for number in classes]
        return len(frozenset[int]().union(*parts)) == sum(map(len, parts))

    def _parts(self, number: int) -> frozenset[int]:
        """The tensors that were merged to this one."""
        return self._merged.get(number) or frozenset((number,))

    def _apply(self, change: Change) -> None:
        egraph = self.egraph
        if any(self._mixes(n) or self._only_moves(n) for n in change.replaced.values()):
            return
        for place, number in change.replaced.items():
            egraph.add(number)
            for each in self.pool.below(number):
                if each not in self.made and not self.pool.fixed[each] and egraph.is_new(each):
                    self.made[each] = change.pattern
            egraph.union(place, number)
        wholes = {
            egraph.find(self.pool.entries[number].args[0]) for number in change.replaced.values()
            if self.pool.entries[number].op in SPLITS
        }  # fmt: skip
        if len(change.replaced) > 1 and len(wholes) == 1:
            parts = (self._parts(egraph.find(place)) for place in change.replaced)
            self._merged.setdefault(wholes.pop(), frozenset[int]().union(*parts))

    def _mixes(self, number: int) -> bool:
        """Whether what is new joins a tensor with itself, or weights with what is computed."""
        pool = self.pool
        entry = pool.entries[number]
        if self.egraph.holds(number) or pool.fixed[number]:
            return False
        if entry.op == "concat":
            a, b = entry.args
            if pool.fixed[a] != pool.fixed[b] or self.egraph.same(a, b):
                return True
        return any(map(self._mixes, entry.args))

    def _only_moves(self, number: int) -> bool:
        """Whether a sum or product of two concatenations needs both of them made anew."""
        entries, egraph = self.pool.entries, self.egraph
        entry = entries[number]
        return entry.op in COMMUTATIVE and all(
            entries[a].op == "concat" and not self.pool.fixed[a] and egraph.knows(a) is None
            for a in entry.args
        )

    def _every(self) -> list[int]:
        egraph = self.egraph
        classes = egraph.below(self.graph)
        return sorted(n for c in classes if not egraph.is_fixed(c) for n in egraph.nodes(c))

    def _affected(self) -> list[int]:
        """The nodes whose patterns may match anew."""
        egraph = self.egraph
        classes = dict.fromkeys(c for c in map(egraph.find, egraph.changed))
        layer = list(classes)
        for _ in range(DEPTH):
            above = dict.fromkeys(egraph.find(user) for c in layer for user in egraph.users(c))
            layer = [c for c in above if c not in classes]
            classes.update(dict.fromkeys(layer))
        return sorted(n for c in classes if not egraph.is_fixed(c) for n in egraph.nodes(c))

    # -- concatenations ------------------------------------------------------------------------

    def _join(self, node: int) -> None:
        """Take neighbours in a concatenation that are the splits of one tensor as that tensor."""
        egraph, pool = self.egraph, self.pool
        params = pool.entries[node].params
        parts = list(egraph.flat(node))
        while len(parts) > 1:
            joined = list(self._joined(parts, params))
            if len(joined) == len(parts):
                return
            parts = joined
            made: int | None = parts[0]
            for part in parts[1:]:
                made = None if made is None else pool.make("concat", params, (made, part))
            if made is None:
                return
            egraph.add(made)
            egraph.union(node, made)

    def _joined(self, parts: list[int], params: tuple[object, ...]) -> Iterator[int]:
        place = 0
        while place < len(parts):
            whole = None
            if place + 1 < len(parts):
                whole = self._whole(parts[place], parts[place + 1], params)
            yield parts[place] if whole is None else whole
            place += 1 if whole is None else 2

    def _whole(self, first: int, second: int, params: tuple[object, ...]) -> int | None:
        """The tensor that two are the splits of."""
        entries = self.pool.entries
        held = {}
        for node in self.egraph.nodes(first):
            if entries[node].op == SPLITS[0] and entries[node].params == params:
                held[self.matcher.place_of(node)] = entries[node].args[0]
        for node in self.egraph.nodes(second):
            if entries[node].op == SPLITS[1] and entries[node].params == params:
                whole = held.get(self.matcher.place_of(node))
                if whole is not None:
                    return whole
        return None

    # -- the best ------------------------------------------------------------------------------

    def best(self, deadline: float) -> Found:
        """The cheapest graph that extraction finds."""
        pool = self.pool
        original = least = pool.cost(self.graph)
        best, used = self.graph, Counter[Pattern]()
        for last in (False,) if pool.last is None else (False, True):
            extraction = Extraction(self.egraph, self.graph, last=last)
            for chosen in self._choices(extraction, deadline):
                made = extraction.build(chosen, self.graph)
                if (cost := pool.cost(made)) < least:
                    taken = (a for a in chosen.values() if not a.turned)
                    nodes = (n for a in taken for n in (a.node, a.product) if n is not None)
                    best, least = made, cost
                    used = Counter(self.made[n] for n in nodes if n in self.made)
        return Found(
            graph=best,
            cost=least,
            original=original,
            applied=tuple(used.elements()),
            seen=len(self.egraph),
        )

    def _choices(self, extraction: Extraction, deadline: float) -> Iterator[Choice]:
        greedy = (extraction.greedy(share) for share in SHARES)
        kept = [chosen for chosen in greedy if chosen is not None]
        for chosen in kept:
            yield extraction.improved(chosen, cost_of(chosen))
        if len(extraction) <= EXACT:
            exact = extraction.exact(min(SECONDS, deadline - monotonic()))
            if exact is not None:
                yield exact
