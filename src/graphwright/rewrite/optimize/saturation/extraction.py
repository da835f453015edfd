"""The cheapest graph of an e-graph: for each class that is needed, one of its nodes.

A class is computed once however often it is read, so the cost is that of a DAG: the prices of all
that is chosen. It is a problem of zeros and ones,

    minimise    sum of price(a) x(a)                  over the alternatives a
    subject to  sum of x(a), a in c      = y(c)       a class that is needed has one alternative
                sum of x(a), a in c,
                             a reads d  <= y(d)       and so has what that reads
                y(root) = 1

which HiGHS solves exactly where it is small. Two classes do not read each other, and longer cycles
are cut off where a solution has them:

    sum over the cycle c -> d -> ... of x(a), a in c, a reads d         <= its length - 1

`greedy` chooses bottom up instead, with the price of a class shared among those that read it, and
`improved` changes a choice for as long as that saves anything: one class, or all that can be views
of one tensor, as merged tensors pay only together.

An alternative is a node, or several that are written as one kernel: a product and its bias, and a
concatenation of concatenations.

Where images may have their channels last in memory, a class of images is wanted in either layout,
and each is chosen for by itself: class c in the order of its dims is written c, with channels last
~c. A node reads and makes one of them, and a copy makes one of the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from graphwright.ir import Attrs
from graphwright.rewrite.optimize.pool import PRODUCTS, SPLITS, AtenCall, Graph
from graphwright.rewrite.optimize.saturation.egraph import EGraph

EXACT = 100
"""Alternatives that are solved exactly at most."""
CUTS, BRANCHES = 20, 1000
"""How many times cycles are cut off, and the nodes of a branch and bound."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to compute a class: a node, its price, and the classes that it reads.

    `product` is the product that is written with a bias, `parts` what a concatenation joins; `last`
    says whether images that are read have their channels last, and `turned` whether this is a copy
    of a class in the other layout.
    """

    node: int
    price: float
    reads: tuple[int, ...]
    product: int | None = None
    parts: tuple[int, ...] = ()
    last: bool = False
    turned: bool = False


Choice = Mapping[int, Alternative]
"""The alternative of each class that is needed."""


class Extraction:
    """What may be chosen below some roots; those that are images are wanted in one layout."""

    def __init__(self, egraph: EGraph, roots: Graph, *, last: bool = False) -> None:
        self.egraph, self.pool = egraph, egraph.pool
        self.last = last and self.pool.last is not None
        self.roots = tuple(dict.fromkeys(self._wanted(root, self.last) for root in roots))
        self.alternatives: dict[int, list[Alternative]] = {}
        waiting = [root for root in self.roots if not egraph.is_fixed(max(root, ~root))]
        while waiting:
            number = waiting.pop()
            if number not in self.alternatives:
                every = list(self._in_layout(number))
                made = self.alternatives[number] = _undominated(every, number)
                waiting += [read for a in made for read in a.reads]

    def _wanted(self, number: int, last: bool) -> int:
        """A term's class, in a layout where it is an image."""
        own = self.egraph.find(number)
        return ~own if last and self.pool.is_image(own) else own

    def _in_layout(self, wanted: int) -> Iterator[Alternative]:
        """Every way to compute a class in one layout."""
        pool, number = self.pool, max(wanted, ~wanted)
        nodes = self.egraph.nodes(number)
        if pool.last is None or not pool.is_image(number):
            layouts = (False,) if pool.last is None else (False, True)
            for last in layouts:
                for node in nodes:
                    if not last or pool.images(node):
                        yield from self._of(node, last)
            return
        for node in nodes:
            given = pool.entries[node].op == "input" and pool.entries[node].params[3]
            for last in (False, True) if pool.images(node) else (False,):
                if (given or (last and pool.keeps(node))) == (wanted < 0):
                    yield from self._of(node, last)
        yield Alternative(number, pool.copy(number), (~wanted,), turned=True)

    def __len__(self) -> int:
        return sum(map(len, self.alternatives.values()))

    def _of(self, node: int, last: bool) -> Iterator[Alternative]:
        pool, entry = self.pool, self.pool.entries[node]
        alone = pool.price_alone(node, last=last)
        yield Alternative(node, alone, self._reads(entry.args, last), last=last)
        if entry.op == "ewadd" and len(pool.sizes[node]) in (2, 4):
            for product, bias in (entry.args, entry.args[::-1]):
                fixed = self.egraph.is_fixed
                if fixed(bias) and not fixed(product) and pool.varies[bias] <= {1}:
                    for each in self.egraph.nodes(product):
                        if pool.entries[each].op in PRODUCTS:
                            reads = self._reads(pool.entries[each].args, last)
                            price = pool.price(each, last=last)
                            yield Alternative(node, price, reads, product=each, last=last)
        if entry.op == "concat":
            parts = self.egraph.flat(node)
            if len(parts) > 2:
                yield Alternative(node, alone, self._reads(parts, last), parts=parts, last=last)

    def _reads(self, args: Sequence[int], last: bool) -> tuple[int, ...]:
        read = (a for a in args if not self.egraph.is_fixed(a))
        return tuple(dict.fromkeys(self._wanted(a, last) for a in read))

    # -- choosing ------------------------------------------------------------------------------

    def greedy(self, share: float) -> Choice | None:
        """The cheapest of each class, bottom up; what n read costs each of them n**-share."""
        readers = Counter(
            read for made in self.alternatives.values()
            for read in {r for a in made for r in a.reads}
        )  # fmt: skip
        users: dict[int, list[int]] = {}
        for number, made in self.alternatives.items():
            for read in dict.fromkeys(r for a in made for r in a.reads):
                users.setdefault(read, []).append(number)
        cost: dict[int, float] = {}
        chosen: dict[int, Alternative] = {}
        waiting = dict.fromkeys(self.alternatives)
        while waiting:
            number = next(iter(waiting))
            del waiting[number]
            for a in self.alternatives[number]:
                if all(read in cost for read in a.reads):
                    total = a.price + 1e-12
                    total += sum(cost[read] / readers[read] ** share for read in a.reads)
                    better = total < cost.get(number, np.inf) * (1 - 1e-9)
                    if better and not _reaches(chosen, a.reads, number):
                        cost[number], chosen[number] = total, a
                        waiting.update(dict.fromkeys(users.get(number, ())))
        return self._needed(chosen)

    def _needed(self, chosen: Choice) -> Choice | None:
        """What is chosen of the classes that are needed; None where that is not possible."""
        needed: dict[int, Alternative] = {}
        waiting = [root for root in self.roots if root in self.alternatives]
        while waiting:
            number = waiting.pop()
            if number not in needed:
                if number not in chosen:
                    return None
                needed[number] = chosen[number]
                waiting += chosen[number].reads
        return needed if _cycle(needed) is None else None

    def improved(self, chosen: Choice, least: float) -> Choice:
        """A choice after changes that each make it cheaper; one pass tries them all in order."""
        switches: list[dict[int, Alternative]] = []
        views: dict[int, dict[int, Alternative]] = {}
        for number, made in self.alternatives.items():
            switches += [{number: a} for a in made] if len(made) > 1 else []
            for a in made:
                if len(a.reads) == 1 and not a.price:
                    views.setdefault(a.reads[0], {}).setdefault(number, a)
        switches += [each for each in views.values() if len(each) > 1]
        full = {number: every[0] for number, every in self.alternatives.items() if every}
        full.update(chosen)
        better = True
        while better:
            better = False
            for switch in switches:
                if any(n in chosen for n in switch) and any(
                    full[n] != a for n, a in switch.items()
                ):
                    changed = self._needed({**full, **switch})
                    cost = np.inf if changed is None else cost_of(changed)
                    if changed is not None and cost < least * (1 - 1e-9):
                        full.update(switch)
                        chosen, least, better = changed, cost, True
        return chosen

    def exact(self, seconds: float, most: float = np.inf) -> Choice | None:
        """The cheapest of all that cost at most `most`; None where that takes too long."""
        if not self.alternatives:
            return {}
        problem, deadline = _Problem(self), monotonic() + seconds
        for _ in range(CUTS):
            chosen = problem.solve(deadline - monotonic(), most)
            if chosen is None:
                return None
            if _cycle(chosen) is None:
                return chosen
            rest = dict(chosen)
            while (cycle := _cycle(rest)) is not None:
                problem.cut(cycle)
                for number in cycle:
                    rest.pop(number)
        return None

    # -- building ------------------------------------------------------------------------------

    def build(self, chosen: Choice, roots: Graph) -> Graph:
        """The graph of what was chosen, as terms of the pool."""
        made: dict[int, int] = {}

        def read(last: bool) -> Callable[[int], int]:
            fixed = self.egraph.is_fixed
            return lambda arg: arg if fixed(arg) else made[self._wanted(arg, last)]

        for number in _in_order(chosen):
            a = chosen[number]
            made[number] = made[a.reads[0]] if a.turned else self._built(a, read(a.last))
        return tuple(map(read(self.last), roots))

    def _built(self, a: Alternative, read: Callable[[int], int]) -> int:
        pool, entry = self.pool, self.pool.entries[a.node]
        if a.parts:
            joined: int | None = read(a.parts[0])
            for part in a.parts[1:]:
                assert joined is not None
                joined = pool.make("concat", entry.params, (joined, read(part)))
            assert joined is not None
            return joined
        if a.product is not None:
            held = pool.entries[a.product]
            product = pool.rebuilt(held, tuple(map(read, held.args)))
            (bias,) = (b for b in entry.args if self.egraph.is_fixed(b))
            assert product is not None
            made = pool.make("ewadd", (), (product, bias))
        else:
            made = pool.rebuilt(entry, tuple(map(read, entry.args)))
        if made is not None and pool.sizes[made] == pool.sizes[a.node]:
            return made
        assert entry.op in SPLITS  # what it splits was joined at another place
        return self._slice(a.node, read(entry.args[0]))

    def _slice(self, split: int, x: int) -> int:
        """The part of a tensor that a split gives, wherever that was joined."""
        pool, entry = self.pool, self.pool.entries[split]
        axis, size = int(entry.params[0]), pool.sizes[split]
        start = 0 if entry.op == "split0" else pool.sizes[x][axis] - size[axis]
        attrs = {"dim": axis % len(size), "start": start, "end": start + size[axis], "step": 1}
        call = AtenCall("aten.slice.Tensor", Attrs(attrs), (0,), (pool.type(split),))
        return pool.item(pool.call(call, (x,)), 0)


def _undominated(made: list[Alternative], number: int) -> list[Alternative]:
    """Without those that read no less than another and are no cheaper, or read their own class."""
    kept: list[tuple[set[int], Alternative]] = []
    for a in sorted(made, key=lambda a: (a.price, len(a.reads), a.node)):
        reads = set(a.reads)
        if number not in reads and not any(other <= reads for other, _ in kept):
            kept.append((reads, a))
    return [a for _, a in kept]


def _in_order(chosen: Choice) -> list[int]:
    """The classes, each after those that it reads."""
    order: dict[int, None] = {}
    for root in chosen:
        waiting = [root]
        while waiting:
            number = waiting[-1]
            missing = [read for read in chosen[number].reads if read not in order]
            if number in order or not missing:
                order[number] = None
                waiting.pop()
            else:
                waiting += missing
    return list(order)


def cost_of(chosen: Choice) -> float:
    """The price of all that was chosen."""
    return sum(a.price for a in chosen.values())


def _reaches(chosen: Choice, reads: Sequence[int], number: int) -> bool:
    """Whether what was chosen so far for some classes reads another one."""
    seen: set[int] = set()
    waiting = list(reads)
    while waiting:
        read = waiting.pop()
        if read == number:
            return True
        if read not in seen and read in chosen:
            seen.add(read)
            waiting += chosen[read].reads
    return False


def _cycle(chosen: Choice) -> list[int] | None:
    """A cycle of what was chosen, if there is one: its classes, each reading the next."""
    done: set[int] = set()
    for root in chosen:
        path: dict[int, Iterator[int]] = {}
        waiting = [root]
        while waiting:
            number = waiting[-1]
            if number in done:
                waiting.pop()
                continue
            if number not in path:
                path[number] = iter(chosen[number].reads)
            for read in path[number]:
                if read in path:
                    numbers = list(path)
                    return numbers[numbers.index(read) :]
                if read in chosen and read not in done:
                    waiting.append(read)
                    break
            else:
                done.add(number)
                del path[number]
                waiting.pop()
    return None


class _Problem:
    """The choice as zeros and ones: first the alternatives, then the classes."""

    def __init__(self, extraction: Extraction) -> None:
        self._all = [(number, a) for number, made in extraction.alternatives.items() for a in made]
        self._columns = {id(a): n for n, (_, a) in enumerate(self._all)}
        count = len(self._all)
        self._classes = {c: count + n for n, c in enumerate(extraction.alternatives)}
        self._size = count + len(self._classes)
        self._prices = np.zeros(self._size)
        self._prices[:count] = [a.price for _, a in self._all]
        self._scale = 1 / (self._prices.max() or 1.0)
        self._rows: list[tuple[dict[int, float], float, float]] = []
        self._low = np.zeros(self._size)
        for root in extraction.roots:
            if root in self._classes:
                self._low[self._classes[root]] = 1
        self._edges: dict[tuple[int, int], dict[int, float]] = {}
        for column, (number, a) in enumerate(self._all):
            for read in a.reads:
                self._edges.setdefault((number, read), {})[column] = 1.0
        for number, made in extraction.alternatives.items():
            own = {self._columns[id(a)]: 1.0 for a in made}
            self._rows.append(({**own, self._classes[number]: -1.0}, 0.0, 0.0))
        for (number, read), row in self._edges.items():
            self._rows.append(({**row, self._classes[read]: -1.0}, -np.inf, 0.0))
            if number < read and (read, number) in self._edges:
                self.cut((number, read))

    def cut(self, cycle: Sequence[int]) -> None:
        """Refuse solutions where each of some classes reads the next, and the last the first."""
        row: dict[int, float] = {}
        for number, read in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
            row.update(self._edges[number, read])
        self._rows.append((row, -np.inf, len(cycle) - 1.0))

    def solve(self, seconds: float, most: float) -> dict[int, Alternative] | None:
        """The cheapest choice."""
        rows = list(self._rows)
        if most < np.inf:
            priced = {n: float(p) for n, p in enumerate(self._prices) if p}
            rows.append((priced, -np.inf, most))
        places = [(r, c, v) for r, (row, _, _) in enumerate(rows) for c, v in row.items()]
        at, columns, values = (np.array(each) for each in zip(*places, strict=True))
        matrix = coo_array((values, (at, columns)), shape=(len(rows), self._size)).tocsr()
        low, high = (np.array([row[n] for row in rows]) for n in (1, 2))
        solved = milp(
            self._prices * self._scale,
            integrality=np.ones(self._size, dtype=np.int64),
            bounds=Bounds(self._low, np.ones(self._size)),
            constraints=LinearConstraint(matrix, low, high),
            options={
                "time_limit": max(seconds, 0.01),
                "node_limit": BRANCHES,
                "mip_rel_gap": 1e-6,
            },
        )
        if solved.x is None:
            return None
        return {number: a for (number, a), x in zip(self._all, solved.x, strict=False) if x > 0.5}
