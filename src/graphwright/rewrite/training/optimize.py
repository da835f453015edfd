"""The pass: search each piece of a training graph, and write what was found.

    gw.plan(graph, cluster, passes=[Optimize()])

Forward, backward and update nodes are cut into pieces of their own, at narrow places. Equal pieces
are searched once. Prices are formulas and the budget counts graphs, so every process that applies
the pass to a graph makes the same one of it. If the whole is not cheaper, the graph stays as it is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from math import isfinite
from typing import ClassVar

from graphwright.describe import is_described, is_random, types_of
from graphwright.errors import InvalidOption
from graphwright.ir import PERSISTENT_ROLES, Graph, Role
from graphwright.machine import cluster
from graphwright.rewrite.optimize import (
    ALPHA,
    Found,
    Matcher,
    Pattern,
    Price,
    Region,
    backtrack,
    cut,
    is_steady,
    usual_patterns,
)
from graphwright.rewrite.passes import Pass, register
from graphwright.rewrite.substitutions import CONSTANTS, Term, leaves_of
from graphwright.rewrite.training.prices import FormulaPrice
from graphwright.rewrite.training.reading import TrainingPool, TrainingReader
from graphwright.rewrite.training.writing import TrainingWriter

WORTH = 0.999
"""A graph of this share of the price or less is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What the pass did: how often each rule was used, and the seconds before and after."""

    rules: dict[int, int]
    before: float
    after: float

    def __str__(self) -> str:
        used = ", ".join(f"{n} x {count}" for n, count in self.rules.items()) or "none"
        return (
            f"rules used: {used}; predicted on one device "
            f"{1e3 * self.before:.3g} ms -> {1e3 * self.after:.3g} ms"
        )


_APPLIED: dict[str, Applied] = {}


def rules_of(graph: Graph) -> Applied | None:
    """What the pass did to make a graph, where that was in this process."""
    return _APPLIED.get(graph.program_hash)


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class Optimize(Pass):
    """Rewrite a training graph by proved substitutions, where that is cheaper by prices.

    `alpha` and `budget` are those of `gw.optimize`; `prices` names the cluster whose device the
    formulas are for. Sums are added up in another order, so it is not exact.
    """

    name: ClassVar[str] = "optimize"
    exact: ClassVar[bool] = False
    alpha: float = ALPHA
    budget: int = 100
    prices: str = "dgx-a100"

    def __post_init__(self) -> None:
        alpha: object = self.alpha
        budget: object = self.budget
        prices: object = self.prices
        if not isinstance(alpha, int | float) or not isfinite(alpha) or alpha < 1:
            raise InvalidOption(f"Optimize(alpha={alpha!r}): a number of 1 or more; 1 is greedy")
        if not isinstance(budget, int) or isinstance(budget, bool) or budget < 1:
            raise InvalidOption(f"Optimize(budget={budget!r}): a number of graphs, 1 or more")
        if not isinstance(prices, str):
            raise InvalidOption(f"Optimize(prices={prices!r}): the name of a cluster")
        cluster(prices)

    def rewrite(self, graph: Graph) -> Graph:
        """The graph in its cheapest form that was found."""
        price = FormulaPrice(cluster(self.prices).devices[0])
        made, rules = Search(graph, price, self.alpha, self.budget).run()
        before, after = price_of(graph, price), price_of(made, price)
        if not rules or after > WORTH * before or _draws(made) != _draws(graph):
            made, rules, after = graph, Counter(), before
        applied = Applied(rules=dict(rules.most_common()), before=before, after=after)
        _APPLIED[made.program_hash] = applied
        return made


def _draws(graph: Graph) -> list[str]:
    """The nodes that draw at random, in the order in which they do."""
    return [node.name for node in graph.nodes if is_described(node.op) and is_random(graph, node)]


def price_of(graph: Graph, price: Price) -> float:
    """Seconds of all nodes, one after the other."""
    return sum(price(node.op, node.attrs, types_of(graph, node)) for node in graph.nodes)


def training_patterns() -> tuple[Pattern, ...]:
    """Those rules that make no constants: each step would compute them again."""
    return tuple(p for p in usual_patterns() if not _makes_constants(p))


def _makes_constants(pattern: Pattern) -> bool:
    return any(isinstance(e, Term) and e.op in CONSTANTS for e in leaves_of(*pattern.target))


class Search:
    """The pieces of one graph, and the best form of each that is distinct."""

    def __init__(self, graph: Graph, price: Price, alpha: float, budget: int) -> None:
        self.graph, self.alpha, self.budget = graph, alpha, budget
        self.pool = TrainingPool(price)
        self.matcher = Matcher(self.pool, training_patterns())
        self.steady = steady_tensors(graph)
        self.found: dict[tuple[int, ...], Found] = {}

    def run(self) -> tuple[Graph, Counter[int]]:
        """The graph with the best form of each piece, and how often each rule was used."""
        regions = [
            region
            for _, nodes in groupby(self.graph.nodes, key=lambda node: node.phase)
            for region in cut(self.graph, self.steady, list(nodes))
        ]
        alike = Counter(self._read(region, 1)[2] for region in regions)
        used: Counter[int] = Counter()
        writer = TrainingWriter(self.pool, self.graph)
        started: dict[str, Region] = {region.nodes[0].name: region for region in regions}
        for node in self.graph.nodes:
            if self.steady.issuperset(node.outputs):
                writer.keep(node)
            region = started.get(node.name)
            if region is None:
                continue
            share = alike[self._read(region, 1)[2]]
            reader, outputs, _ = self._read(region, share)
            best = self.best(outputs)
            new = best.graph
            if writer.can_write(region, reader, outputs, new):
                used.update(pattern.rule for pattern in best.applied)
            else:
                new = outputs
            writer.write(region, reader, outputs, new)
        return writer.edit.build(), used

    def best(self, outputs: tuple[int, ...]) -> Found:
        """The cheapest form of a piece."""
        if outputs not in self.found:
            self.found[outputs] = backtrack(
                self.matcher, outputs, alpha=self.alpha, budget=self.budget
            )
        return self.found[outputs]

    def _read(
        self, region: Region, share: int
    ) -> tuple[TrainingReader, tuple[int, ...], tuple[object, ...]]:
        reader = TrainingReader(self.pool, self.graph, self.steady, share)
        outputs = reader.read(region)
        return reader, outputs, reader.key(outputs)


def steady_tensors(graph: Graph) -> frozenset[str]:
    """What depends on parameters, buffers and optimizer state alone."""
    given = PERSISTENT_ROLES | {Role.CONSTANT}
    steady = {name for name in graph.inputs if graph.tensors[name].role in given}
    for node in graph.nodes:
        inputs = [name for name in node.inputs if name is not None]
        known = is_described(node.op) and not is_random(graph, node)
        if known and is_steady(node.op, inputs) and steady.issuperset(inputs):
            steady.update(node.outputs)
    return frozenset(steady)
