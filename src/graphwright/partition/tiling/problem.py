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
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from graphwright.frozen import FrozenDict
from graphwright.ir import TensorType
from graphwright.machine import Cluster
from graphwright.partition.estimate import Floats, Pair, Problem, Table
from graphwright.partition.tiling.layout_sets import Sets, layout_sets
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
from graphwright.plans import Sharding, Split, local_bytes
from graphwright.tasks import GraphFacts

_KEPT_SHARE = 64
"""What lies where it is not likely to be read costs one part in so many."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Array:
    """An array: which variable makes it, as which output, and who reads it, by which arguments.

    `result`: it is returned, so that terms of it are added up. `share` is what adding them up takes
    of what the shardings say. `kept`: programs to come will read it (`TilingGraph.kept_bytes`).
    """

    name: str
    type: TensorType
    maker: int
    output: int
    readers: Mapping[int, tuple[int, ...]]
    result: bool
    share: float = 1.0
    kept: bool = False


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

    def kept_bytes(self, array: Array) -> Floats:
        """What a result that is kept costs, for every source of it, because it lies where those who
        read it next are not likely to need it: a share of its bytes, unless it is cut along its
        longest dim. What is long is most often summed over, or worked on row by row."""
        sources = self.source(array).shardings
        longest = sorted(array.type.shape)[-2:]
        if not array.kept or len(longest) < 2 or longest[1] < 2 * longest[0]:
            return np.zeros(len(sources))
        dim = array.type.shape.index(longest[1])
        badly = [not s.is_partial and set(s.placements) != {Split(dim)} for s in sources]
        return np.where(badly, array.type.nbytes / _KEPT_SHARE, 0.0)


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
        total += float(graph.kept_bytes(array)[source])
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
    kept: Collection[str] = (),
) -> TilingGraph:
    """The tiling graph of a graph; `share` says for operators by their positions what adding up
    their terms was seen to take of what was planned, `kept` which results will be read again."""
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
                kept=made is not None and name in kept,
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
    """The additive problem of a tiling graph.

    Tilings that need sets of layouts that it does not have take at least `beyond` bytes. A variable
    of sets that lacks some has one more entry, `other`, which stands for all of those: it serves
    every reader and takes no more than any of them. So the least with these entries bounds the
    least of all tilings, and where the best does without, it is the best.
    """

    problem: Problem
    beyond: float
    other: Mapping[int, int]


def make_problem(
    graph: TilingGraph,
    *,
    count_duplicates: bool = False,
    other: bool = False,
    bound: float = inf,
    known: Sequence[int] | None = None,
) -> TilingProblem:
    """The additive problem; the variables of sets of layouts come last.

    To count duplicates, a set has all layouts that an array is needed in, not just those that
    several operators may need: its memory then depends on nothing else. `other` asks for the
    entries that stand for sets that are left out, but for those that take more than `bound`; the
    sets of `known` tilings are not.
    """
    return _Tables(graph, count_duplicates, other, bound, known).problem()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Shared:
    """The tables of an array that several operators read: between its maker and its sets of
    layouts, and for each reader between its maker and it, and between the sets and it."""

    common: bool
    time: Floats
    held: Floats
    other: int | None
    beyond: float
    alone: list[tuple[Floats, Floats] | None]
    has: list[Floats]


def _members(sets: Sequence[frozenset[Sharding]], layouts: Sequence[Sharding]) -> Sets:
    """[set, layout]: whether a set has it."""
    made = [[layout in one for layout in layouts] for one in sets]
    return np.array(made, dtype=bool).reshape(len(sets), len(layouts))


class _Tables:
    def __init__(
        self,
        graph: TilingGraph,
        count_duplicates: bool,
        with_other: bool,
        bound: float,
        known: Sequence[int] | None,
    ) -> None:
        self.graph, self.count_duplicates, self.with_other = graph, count_duplicates, with_other
        self.bound, self.known = bound, known
        self.other: dict[int, int] = {}
        self.shared: dict[tuple[object, ...], _Shared] = {}
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
            if array.kept:
                kept = self.graph.kept_bytes(array)
                self.time[array.maker] = (
                    self.time[array.maker] + kept[self.graph.source(array).number]
                )
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
        return TilingProblem(Problem(unary, tables), self.beyond, self.other)

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
        readers = tuple((id(self.graph.tilings[r]), args) for r, args in array.readers.items())
        known = () if self.known is None else tuple(self.known[r] for r in array.readers)
        source = self.graph.source(array)
        key = array.type, array.share, array.result, id(source), readers, known
        if key not in self.shared:
            self.shared[key] = self._shared(array)
        shared, variable = self.shared[key], len(self.time)
        self.beyond = min(self.beyond, shared.beyond)
        if shared.common:
            self.time.append(np.zeros(len(shared.held)))
            self.memory.append(shared.held)
            self._add(array.maker, variable, shared.time, np.zeros((len(source.number), 1)))
            if shared.other is not None:
                self.other[variable] = shared.other
        for reader, alone, has in zip(array.readers, shared.alone, shared.has, strict=True):
            if alone is not None:
                self._add(array.maker, reader, *alone)
            if shared.common:
                self._add(variable, reader, has, np.zeros(1))

    def _shared(self, array: Array) -> _Shared:
        source = self.graph.source(array)
        needed = [self._needed(reader, args) for reader, args in array.readers.items()]
        common = self._common(array, [own for own, _ in needed])
        layouts = tuple(sorted(common, key=str))
        kinds = Counter(tuple(dict.fromkeys(one & common for one in own)) for own, _ in needed)
        required = None
        if self.known is not None:
            sets = [
                own[int(number[self.known[reader]])] & common
                for reader, (own, number) in zip(array.readers, needed, strict=True)
            ]
            required = _members([frozenset[Sharding]().union(*sets)], layouts)[0]
        found = layout_sets(
            [(_members(choices, layouts), count) for choices, count in kinds.items()],
            self.graph.bytes(array, layouts),
            self.bound,
            required,
        )
        time, held = self._costs_of(array, layouts, found.has)
        other = None
        if found.beyond is not None and self.with_other:
            other, held = len(held), np.append(held, 0.0)
            time = np.hstack([time, found.beyond[:, None]])
        alone: list[tuple[Floats, Floats] | None] = []
        has: list[Floats] = []
        for own, number in needed:
            moved = None
            rest = tuple(one - common for one in own)
            if any(rest):
                bytes_, more = self._costs(replace(array, result=False), rest)
                moved = bytes_[source.number][:, number], more[number]
            alone.append(moved)
            members = _members([one & common for one in own], layouts)
            inside = ~(members[None] & ~found.has[:, None]).any(axis=2)
            if other is not None:
                inside = np.vstack([inside, np.ones((1, len(own)), dtype=bool)])
            has.append(np.where(inside, 0.0, inf)[:, number])
        return _Shared(
            common=bool(common),
            time=time[source.number],
            held=held,
            other=other,
            beyond=inf if found.beyond is None else float(found.beyond.min()),
            alone=alone,
            has=has,
        )

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
        if key not in self.tables:
            layouts = tuple(dict.fromkeys(s for one in sets for s in sorted(one, key=str)))
            self.tables[key] = self._costs_of(array, layouts, _members(sets, layouts))
        return self.tables[key]

    def _costs_of(
        self, array: Array, layouts: tuple[Sharding, ...], sets: Sets
    ) -> tuple[Floats, Floats]:
        has = sets.astype(np.float64)
        time = self.graph.bytes(array, layouts) @ has.T
        local = np.array([local_bytes(s, array.type).max(initial=0) for s in layouts], dtype=float)
        smallest = np.where(sets, local, np.inf).min(axis=1, initial=np.inf)
        held = has @ local - np.where(np.isinf(smallest), 0.0, smallest)
        if array.result:
            whole = np.array([not (s.is_partial or s.pieces) for s in layouts], dtype=np.float64)
            time += self.graph.result_bytes(array)[:, None] * (has @ whole == 0)
        return time, held

    def _add(self, u: int, v: int, time: Floats, memory: Floats) -> None:
        memory = np.broadcast_to(memory, time.shape)
        if u > v:
            u, v, time, memory = v, u, time.T, memory.T
        if (u, v) in self.pairs:
            before = self.pairs[u, v]
            time, memory = before[0] + time, before[1] + memory
        self.pairs[u, v] = time, memory
