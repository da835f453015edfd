"""The tiling graph as an additive problem: a variable for each array that is given, each operator,
and each array that several operators read.

    x -----------+                    unary         adding up the terms of a result
    (input)      |                    maker, reader bytes from where it is made to where it is
                 v                                  needed
    mm ------> copies of y ---> add   maker, copies bytes to all layouts of a set
    (operator) (sets of layouts)      copies, reader nothing if the set has what it needs, else
          \\----------------> mul                   impossible

A copy in one layout serves all operators that need it, so what an array costs depends on the set of
layouts in which it is needed: that set is a variable of its own (Spartan section 2.3.4,
duplication; `layout_sets`). `memory` counts duplicates: what a worker holds of an array's layouts
beyond the smallest.

Times are bytes received. Tilings that take the same are told apart by less than a byte in all:
those listed first are preferred.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from graphwright.frozen import FrozenDict
from graphwright.ir import TensorType
from graphwright.machine import Cluster
from graphwright.partition.estimate import Floats, Pair, Problem, Table
from graphwright.partition.tiling.layout_sets import layout_sets
from graphwright.partition.tiling.space import (
    SMALL,
    Layouts,
    Tilings,
    given_tilings,
    input_tilings,
    node_tilings,
)
from graphwright.partition.tiling.transfers import transfer_bytes
from graphwright.partition.tiling.workers import Sides
from graphwright.plans import Sharding, local_bytes
from graphwright.tasks import GraphFacts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Array:
    """An array: which variable makes it, as which output, and who reads it, by which arguments.

    `result`: it is returned, so that terms of it are added up. `share` is what adding them up takes
    of what the shardings say.
    """

    name: str
    type: TensorType
    maker: int
    output: int
    readers: Mapping[int, tuple[int, ...]]
    result: bool
    share: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TilingGraph:
    """Variables: the inputs of the graph, then its operators, each with its tilings; and the arrays
    between them."""

    facts: GraphFacts
    cluster: Cluster
    sides: Sides
    small: float
    tilings: tuple[Tilings, ...]
    arrays: tuple[Array, ...]
    _known: dict[tuple[object, ...], Floats] = field(default_factory=dict, init=False, repr=False)

    @property
    def num_inputs(self) -> int:
        return len(self.facts.graph.inputs)

    def is_view(self, variable: int) -> bool:
        """Whether a variable is an operator that shows an array another way."""
        node = variable - self.num_inputs
        return node >= 0 and self.facts.is_view[node]

    def restricted(self, kept: Mapping[int, Sequence[int]]) -> TilingGraph:
        """The same graph with some of the tilings of some variables."""
        known: dict[tuple[int, tuple[int, ...]], Tilings] = {}
        tilings = list(self.tilings)
        for variable, numbers in kept.items():
            key = id(tilings[variable]), tuple(numbers)
            if key not in known:
                known[key] = tilings[variable].only(numbers)
            tilings[variable] = known[key]
        return replace(self, tilings=tuple(tilings))

    def source(self, array: Array) -> Layouts:
        """Where an array is made, under every tiling of its maker."""
        return self.tilings[array.maker].made[array.output]

    def need(self, variable: int, argument: int) -> Layouts:
        """How an argument is needed, under every tiling of its reader."""
        layouts = self.tilings[variable].needs[argument]
        assert layouts is not None
        return layouts

    def bytes(self, array: Array, targets: tuple[Sharding, ...]) -> Floats:
        """Bytes from every source of an array to every one of `targets`."""
        sources = self.source(array).shardings
        key = (array.type, sources, targets, array.share)
        moved = self._known.get(key)
        if moved is None:
            moved = transfer_bytes(self.cluster, array.type, sources, targets)
            if array.share != 1.0:
                terms = np.array([source.is_partial for source in sources])
                moved[terms] *= array.share
            self._known[key] = moved
        return moved

    def homes(self, array: Array) -> tuple[Sharding, ...]:
        """The shardings in which a result may be added up."""
        return input_tilings(array.type, self.cluster, self.sides, self.small).made[0].shardings

    def result_bytes(self, array: Array) -> Floats:
        """Bytes that adding up a result takes at least, for every source of it."""
        sources = self.source(array).shardings
        if not array.result or not any(source.is_partial for source in sources):
            return np.zeros(len(sources))
        terms = np.array([source.is_partial for source in sources])
        targets = self.homes(array)
        return np.where(terms, self.bytes(array, targets).min(axis=1), 0.0)


def tiling_bytes(graph: TilingGraph, tilings: Sequence[int]) -> float:
    """The bytes received under a tiling for every variable."""
    total = 0.0
    for array in graph.arrays:
        source = int(graph.source(array).number[tilings[array.maker]])
        needed = dict.fromkeys(
            graph.need(reader, argument)[tilings[reader]]
            for reader, arguments in array.readers.items()
            for argument in arguments
        )
        total += float(graph.bytes(array, tuple(needed))[source].sum())
        if not any(not (layout.is_partial or layout.pieces) for layout in needed):
            total += float(graph.result_bytes(array)[source])
    return total


def make_tiling_graph(
    facts: GraphFacts,
    cluster: Cluster,
    sides: Sides,
    *,
    small: float = SMALL,
    fixed: Mapping[str, Sharding] = FrozenDict(),
    share: Mapping[int, float] = FrozenDict(),
) -> TilingGraph:
    """The tiling graph of a graph; `share` says for operators by their positions what adding up
    their terms was seen to take of what was planned."""
    graph = facts.graph
    variable = {name: v for v, name in enumerate(graph.inputs)}
    first = len(graph.inputs)
    tilings = [
        given_tilings(fixed[name])
        if name in fixed
        else input_tilings(graph.tensors[name].type, cluster, sides, small)
        for name in graph.inputs
    ]
    of_call: dict[int, Tilings] = {}
    for node, call, attrs, types in zip(
        graph.nodes, facts.call, facts.attrs, facts.types, strict=True
    ):
        if call not in of_call:
            of_call[call] = node_tilings(node.op, attrs, types, cluster, sides, small)
        tilings.append(of_call[call])
    arrays = []
    for name, readings in facts.readers.items():
        made = facts.producer.get(name)
        readers: dict[int, tuple[int, ...]] = {}
        for node_number, arg in readings:
            at = first + node_number
            readers[at] = (*readers.get(at, ()), arg)
        arrays.append(
            Array(
                name=name,
                type=graph.tensors[name].type,
                maker=variable[name] if made is None else first + made[0],
                output=0 if made is None else made[1],
                readers=readers,
                result=name in facts.results,
                share=1.0 if made is None else share.get(made[0], 1.0),
            )
        )
    return TilingGraph(
        facts=facts,
        cluster=cluster,
        sides=sides,
        small=small,
        tilings=tuple(tilings),
        arrays=tuple(arrays),
    )


@dataclass(frozen=True, slots=True, eq=False)
class TilingProblem:
    """The additive problem of a tiling graph; tilings that need larger sets of layouts than it has
    take at least `beyond` bytes."""

    problem: Problem
    beyond: float


def make_problem(graph: TilingGraph, *, count_duplicates: bool = False) -> TilingProblem:
    """The additive problem; the variables of sets of layouts come last.

    To count duplicates, a set has all layouts that an array is needed in, not just those that
    several operators may need: its memory then depends on nothing else.
    """
    return _Tables(graph, count_duplicates).problem()


class _Tables:
    def __init__(self, graph: TilingGraph, count_duplicates: bool) -> None:
        self.graph, self.count_duplicates = graph, count_duplicates
        self.time: list[Floats] = []
        self.memory: list[Floats] = []
        self.pairs: dict[Pair, tuple[Floats, Floats]] = {}
        self.tables: dict[tuple[object, ...], tuple[Floats, Floats]] = {}
        self.beyond = inf
        fraction = 0.5 / max(1, len(graph.tilings))
        for tilings in graph.tilings:
            preference = np.arange(len(tilings)) / max(1, len(tilings))
            self.time.append(fraction * preference)
            self.memory.append(np.zeros(len(tilings)))

    def problem(self) -> TilingProblem:
        for array in self.graph.arrays:
            if len(array.readers) > 1:
                self._share(array)
            elif array.readers:
                self._pass(array, next(iter(array.readers)))
            elif array.result:
                extra = self.graph.result_bytes(array)
                self.time[array.maker] += extra[self.graph.source(array).number]
        known: dict[tuple[int, int], Table] = {}
        tables: dict[Pair, Table] = {}
        for pair, (time, memory) in self.pairs.items():
            key = id(time), id(memory)
            if key not in known:
                known[key] = Table(time[..., None], memory[..., None])
            tables[pair] = known[key]
        unary = tuple(
            Table(time[:, None], memory[:, None])
            for time, memory in zip(self.time, self.memory, strict=True)
        )
        return TilingProblem(Problem(unary, tables), self.beyond)

    def _pass(self, array: Array, reader: int) -> None:
        """An array that one operator reads, perhaps by several arguments."""
        source = self.graph.source(array)
        arguments = array.readers[reader]
        key = ("pass", array.type, array.share, array.result, id(source), arguments,
               id(self.graph.tilings[reader]))  # fmt: skip
        if key not in self.tables:
            sets, number = self._needed(reader, arguments)
            time, held = self._costs(array, sets)
            shape = len(source.number), len(number)
            expanded = np.broadcast_to(held[number], shape)
            self.tables[key] = time[source.number][:, number], expanded
        self._add(array.maker, reader, *self.tables[key])

    def _share(self, array: Array) -> None:
        """An array that several operators read: a variable for the layouts that some have in
        common; what one alone needs is between its maker and that one."""
        source = self.graph.source(array)
        needed = {reader: self._needed(reader, args) for reader, args in array.readers.items()}
        common = self._common(array, [own for own, _ in needed.values()])
        kinds = Counter(
            tuple(dict.fromkeys(one & common for one in own)) for own, _ in needed.values()
        )
        sets, most = layout_sets(tuple(kinds.items()))
        for (choices, count), limit in zip(kinds.items(), most, strict=True):
            if limit < min(count, len(choices)):
                self.beyond = min(self.beyond, self._least(array, choices, limit + 1))
        time, held = self._costs(array, sets)
        variable = len(self.time)
        if common:
            self.time.append(np.zeros(len(sets)))
            self.memory.append(held)
            nothing = np.zeros((len(source.number), 1))
            self._add(array.maker, variable, time[source.number], nothing)
        for reader, (own, number) in needed.items():
            tilings = id(self.graph.tilings[reader])
            alone = tuple(one - common for one in own)
            if any(alone):
                alone_key = ("alone", array.type, array.share, id(source), common, tilings,
                       array.readers[reader])  # fmt: skip
                if alone_key not in self.tables:
                    moved, more = self._costs(replace(array, result=False), alone)
                    self.tables[alone_key] = moved[source.number][:, number], more[number]
                self._add(array.maker, reader, *self.tables[alone_key])
            if not common:
                continue
            key = ("has", sets, common, tilings, array.readers[reader])
            if key not in self.tables:
                inside = [[one & common <= every for one in own] for every in sets]
                self.tables[key] = np.where(inside, 0.0, np.inf)[:, number], np.zeros(1)
            self._add(variable, reader, *self.tables[key])

    def _least(self, array: Array, choices: tuple[frozenset[Sharding], ...], count: int) -> float:
        """The bytes that bringing an array to so many of some layouts takes at least."""
        if any(len(one) > 1 for one in choices):
            return 0.0
        moved = self.graph.bytes(array, tuple(layout for one in choices for layout in one))
        return float(np.sort(moved, axis=1)[:, :count].sum(axis=1).min())

    def _common(
        self, array: Array, needed: Sequence[tuple[frozenset[Sharding], ...]]
    ) -> frozenset[Sharding]:
        """The layouts in which several readers may need an array: all, if one of them may be where
        a result is added up, or if duplicates are counted."""
        layouts = [frozenset[Sharding]().union(*own) for own in needed]
        added_up = any(source.is_partial for source in self.graph.source(array).shardings)
        if self.count_duplicates or (array.result and added_up):
            return frozenset[Sharding]().union(*layouts)
        counts = Counter(layout for own in layouts for layout in own)
        return frozenset(layout for layout, count in counts.items() if count > 1)

    def _needed(
        self, reader: int, arguments: tuple[int, ...]
    ) -> tuple[tuple[frozenset[Sharding], ...], NDArray[np.int64]]:
        """The sets of layouts in which a reader may need an array, and the one of each tiling."""
        own = [self.graph.need(reader, argument) for argument in arguments]
        if len(own) == 1:
            return tuple(frozenset([s]) for s in own[0].shardings), own[0].number
        numbers: dict[frozenset[Sharding], int] = {}
        of_each = [
            numbers.setdefault(frozenset(layouts[tiling] for layouts in own), len(numbers))
            for tiling in range(len(self.graph.tilings[reader]))
        ]
        return tuple(numbers), np.array(of_each, dtype=np.int64)

    def _costs(self, array: Array, sets: tuple[frozenset[Sharding], ...]) -> tuple[Floats, Floats]:
        """[source, set] of the bytes to every layout of a set, and the duplicates of every set."""
        key = ("costs", array.type, array.share, array.result,
               self.graph.source(array).shardings, sets)  # fmt: skip
        if key in self.tables:
            return self.tables[key]
        layouts = tuple(dict.fromkeys(layout for one in sets for layout in sorted(one, key=str)))
        has = np.array([[layout in one for layout in layouts] for one in sets], dtype=np.float64)
        time = self.graph.bytes(array, layouts) @ has.T
        local = np.array([local_bytes(s, array.type).max(initial=0) for s in layouts], dtype=float)
        smallest = np.where(has > 0, local, np.inf).min(axis=1, initial=np.inf)
        held = has @ local - np.where(np.isinf(smallest), 0.0, smallest)
        if array.result:
            whole = np.array([not (s.is_partial or s.pieces) for s in layouts], dtype=np.float64)
            time += self.graph.result_bytes(array)[:, None] * (has @ whole == 0)
        self.tables[key] = time, held
        return time, held

    def _add(self, u: int, v: int, time: Floats, memory: Floats) -> None:
        memory = np.broadcast_to(memory, time.shape)
        if u > v:
            u, v, time, memory = v, u, time.T, memory.T
        if (u, v) in self.pairs:
            before = self.pairs[u, v]
            time, memory = before[0] + time, before[1] + memory
        self.pairs[u, v] = time, memory
