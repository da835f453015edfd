"""The tables of the additive problem: what a group takes by itself, and what passes between two.

    unary    what its parts compute, what moves inside it, what it holds when memory is fullest
    pair     what moves between two groups, and the copies of it that are held. Where a copy may be
             held or not, an entry has three options:
             0  the reader's copy is kept for the backward pass, and so is the original where its
                maker needs it
             1  it is not kept, and moved again (FSDP's second gather)
             2  the maker's original is not kept, and moved back from the copy

A moved copy that nobody holds is there for a while, perhaps at the fullest moment too. A sum cannot
say which one is the largest then, so each counts by a share: as if the copies of about `IN_TRANSIT`
operators were there at a time.

Equal groups with equal configurations have equal tables, so each is worked out once, however many
layers there are, and shared by all estimates that are narrowed from one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from graphwright.ir import TensorType
from graphwright.machine import Cluster
from graphwright.partition.estimate.compute import ComputeTimes
from graphwright.partition.estimate.moving import Prices
from graphwright.partition.estimate.problem import Floats, Table
from graphwright.partition.estimate.stepwise import Stepwise
from graphwright.partition.space import (
    REPLICATED,
    Coarse,
    Codes,
    Configurations,
    Flow,
    Given,
    Group,
    Space,
    Weight,
    distinct_rows,
    find_flows,
    signature,
    typical,
    ways_of,
)
from graphwright.tasks import Costs

Key = TypeVar("Key", bound=Hashable)
Measure = Literal["time", "bytes"]
NUM_OPTIONS = 3
IN_TRANSIT = 8
MOST_IN_TRANSIT = 0.3
"""Of a moved copy that is not held, IN_TRANSIT over the number of heavy groups counts, at most
this."""


@dataclass(frozen=True, slots=True, eq=False)
class _Layouts:
    """One tensor under every configuration: the distinct layouts, which one each configuration has,
    and the bytes of a device's part in each."""

    rows: Codes
    number: NDArray[np.int64]
    local: Floats

    @property
    def held(self) -> Floats:
        """The bytes of a device's part under every configuration."""
        return self.local[self.number]

    def each(self) -> Codes:
        """The layout of every configuration."""
        return np.asarray(self.rows[self.number])


@dataclass(slots=True, eq=False)
class _Moved:
    """[maker's configuration, reader's] of one flow, summed over its readers.

    `time` to bring it, `copies` the bytes of the copies held, `again` to bring it a second time,
    `back` to bring the original back from a copy, `passing` the largest copy on its way, and
    whether a reader takes the original itself (`direct`).
    """

    time: Floats
    copies: Floats
    again: Floats
    back: Floats
    passing: Floats
    direct: NDArray[np.bool_]


class CostTables:
    """Works out the tables of groups under any configurations, each once."""

    def __init__(
        self,
        coarse: Coarse,
        cluster: Cluster,
        costs: Costs,
        space: Space,
        measure: Measure,
        prices: Prices | Stepwise | None = None,
    ) -> None:
        self.coarse, self.cluster, self.costs = coarse, cluster, costs
        self.space, self.measure = space, measure
        self.flows = find_flows(coarse)
        self.signature = _numbers(signature(coarse, group) for group in coarse.groups)
        heavy = sum(group.weight is Weight.HEAVY for group in coarse.groups)
        self.transit = min(MOST_IN_TRANSIT, IN_TRANSIT / max(1, heavy))
        self._sizes = np.array([axis.size for axis in cluster.axes], dtype=np.float64)
        self._prices = prices or Prices(cluster, costs)
        self._times = ComputeTimes(coarse.facts, cluster, costs)
        self._passing = _numbered(self.flows.between)
        self._given = _numbered(self.flows.given)
        self._tables: dict[Hashable, Table] = {}
        self._priced: dict[Hashable, Floats] = {}
        self._layouts: dict[Hashable, _Layouts] = {}

    def key(self, g: int, configurations: Configurations) -> Hashable:
        """Equal for groups with equal operators and equal configurations."""
        return self.signature[g], configurations.key

    # -- tables -----------------------------------------------------------------------------------

    def unary(self, g: int, own: Configurations) -> Table:
        """Time and memory of a group by itself."""
        key = (self.key(g, own), self._passing.get((g, g)), self._given.get(g))
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = self._unary(g, own)
        return table

    def _unary(self, g: int, own: Configurations) -> Table:
        group = self.coarse.groups[g]
        time, memory = np.zeros(len(own)), np.zeros(len(own))
        if self.measure == "time":
            for slot, nodes in enumerate(group.slots):
                time += len(nodes) * self._times.seconds(
                    typical(nodes), own.options[slot], own.choice[:, slot]
                )
        for flow, count in self.flows.between.get((g, g), Counter()).items():
            moved, held, _ = self._move((g, own), (g, own), flow)
            time += count * moved.diagonal()
            memory += count * held.diagonal()
        for item, count in self.flows.given.get(g, Counter()).items():
            moved_in, held_in = self._receive(g, own, item)
            time += count * moved_in
            memory += count * held_in
        if group.weight is Weight.UPDATE:
            more_time, more_memory = self._residents(g, own, group)
            time, memory = time + more_time, memory + more_memory
        return Table(time[:, None], memory[:, None])

    def pair(self, a: int, of_a: Configurations, b: int, of_b: Configurations) -> Table | None:
        """What passes between two groups, a < b; None for nothing."""
        there, back = self._passing.get((a, b)), self._passing.get((b, a))
        if there is None and back is None:
            return None
        key = (self.key(a, of_a), self.key(b, of_b), there, back)
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = self._pair(a, of_a, b, of_b)
        return table

    def _pair(self, a: int, of_a: Configurations, b: int, of_b: Configurations) -> Table:
        shape = len(of_a), len(of_b), NUM_OPTIONS
        time, memory = np.zeros(shape), np.zeros(shape)
        choice = False
        first, second = (a, of_a), (b, of_b)
        for maker, reader, turn in ((first, second, False), (second, first, True)):
            for flow, count in self.flows.between.get((maker[0], reader[0]), Counter()).items():
                moved, held, options = self._move(maker, reader, flow)
                if turn:
                    moved, held = moved.T, held.T
                time += count * moved[..., None]
                if options is None:
                    memory += count * held[..., None]
                    continue
                choice = True
                for o, (more, instead) in enumerate(options):
                    time[..., o] += count * (more.T if turn else more)
                    memory[..., o] += count * (instead.T if turn else instead)
        if not choice:
            return Table(time[..., :1], memory[..., :1])
        return _without_useless_options(time, memory)

    def _residents(self, g: int, own: Configurations, group: Group) -> tuple[Floats, Floats]:
        """What a group's residents occupy, and what it takes to bring new values home."""
        graph = self.coarse.facts.graph
        time, memory = np.zeros(len(own)), np.zeros(len(own))
        for r, name in enumerate(group.inputs):
            type = graph.tensors[name].type
            home = self._lie(g, own, ("rest", r), type)
            memory += home.held
            made = self.coarse.facts.producer.get(graph.updates[name])
            if made is not None and self.coarse.group_of[made[0]] == g:
                source = self._lie(g, own, ("made", self.coarse.slot_of[made[0]], made[1]), type)
                time += self._price(type, source, home)[source.number, home.number]
        return time, memory

    # -- moving -----------------------------------------------------------------------------------

    def _move(
        self, maker: tuple[int, Configurations], reader: tuple[int, Configurations], flow: Flow
    ) -> tuple[Floats, Floats, list[tuple[Floats, Floats]] | None]:
        """[maker's configuration, reader's]: time, bytes held, and, where there is a choice,
        (more time, bytes held instead) for each option."""
        place = ("rest", flow.output) if flow.slot is None else ("made", flow.slot, flow.output)
        source = self._lie(*maker, place, flow.type)
        inside = maker[0] == reader[0]
        moved = self._sum_readers(source, reader, flow, inside)
        if not flow.held:
            return moved.time, moved.passing, None
        zero = np.zeros(moved.time.shape)
        original = source.held[:, None] + zero if flow.owner else zero
        held = moved.copies + original * (moved.direct | flow.kept)
        if not self.space.reuse or inside:
            return moved.time, held, None
        options = [(zero, held), (moved.again, original + moved.passing), (zero, held)]
        if flow.kept and flow.owner:
            instead = np.where(moved.copies == 0, held, moved.copies + moved.passing)
            options[2] = (moved.back, instead)
        return moved.time, held, options

    def _sum_readers(
        self, source: _Layouts, reader: tuple[int, Configurations], flow: Flow, inside: bool
    ) -> _Moved:
        """What the readers of a flow take together: equal layouts are brought once before the
        fullest moment and once after it."""
        g, own = reader
        shape = len(source.number), len(own)
        moved = _Moved(
            time=np.zeros(shape),
            copies=np.zeros(shape),
            again=np.zeros(shape),
            back=np.zeros(shape),
            passing=np.zeros(shape),
            direct=np.zeros(shape, dtype=bool),
        )
        earlier: list[tuple[_Layouts, bool]] = []
        for slot, arg, late in sorted(flow.readers, key=lambda r: r[2]):
            target = self._lie(g, own, ("need", slot, arg), flow.type)
            same = (source.rows[:, None] == target.rows[None]).all(axis=2)
            same = same[source.number][:, target.number]
            fresh, before = np.ones(len(own), dtype=bool), np.zeros(len(own), dtype=bool)
            for other, was_late in earlier:
                equal = (other.each() == target.each()).all(axis=1)
                if was_late == late:
                    fresh &= ~equal
                else:
                    before |= equal
            price = self._price(flow.type, source, target)[source.number][:, target.number]
            moved.time += price * (fresh & ~before)
            away = fresh & ~same
            np.maximum(moved.passing, away * target.held, out=moved.passing)
            if late and flow.held:
                moved.copies += away * target.held
                moved.direct |= same
                moved.again += price * (before & fresh)
                if flow.kept and not inside:
                    reverse = self._price(flow.type, target, source)
                    reverse = reverse[target.number][:, source.number]
                    moved.back += reverse.T * (before & fresh)
            earlier.append((target, late))
        moved.passing *= self.transit
        return moved

    def _receive(self, g: int, own: Configurations, item: Given) -> tuple[Floats, Floats]:
        """Data comes as the loader splits it, other inputs as their first reader needs them."""
        time, memory = np.zeros(len(own)), np.zeros(len(own))
        if item.batch and self.space.loader:
            row = batch_layout(item.type, self.cluster, self.space.batch_dim)
            source = _Layouts(row[None], np.zeros(len(own), dtype=np.int64), np.zeros(1))
            earlier: list[_Layouts] = []
            for slot, arg, _ in item.readers:
                target = self._lie(g, own, ("need", slot, arg), item.type)
                fresh = np.ones(len(own), dtype=bool)
                for other in earlier:
                    fresh &= (other.each() != target.each()).any(axis=1)
                time += self._price(item.type, source, target)[0, target.number] * fresh
                earlier.append(target)
        elif item.first:
            slot, arg, _ = item.readers[0]
            memory += self._lie(g, own, ("need", slot, arg), item.type).held
        return time, memory

    def _lie(
        self, g: int, own: Configurations, place: tuple[str, *tuple[int, ...]], type: TensorType
    ) -> _Layouts:
        """How a tensor lies under every configuration: as ("rest", resident), as ("made", slot,
        output) or as ("need", slot, argument) says."""
        key = (own.key, self.signature[g], place)
        layouts = self._layouts.get(key)
        if layouts is None:
            match place:
                case ("rest", resident):
                    codes = own.rest[:, resident]
                case ("made", slot, output):
                    codes = own.made(slot, output)
                case (_, slot, argument):
                    codes = own.need(slot, argument)
            rows, number = distinct_rows(codes)
            local = type.nbytes / ways_of(rows, self._sizes)
            layouts = self._layouts[key] = _Layouts(rows, number, local)
        return layouts

    def _price(self, type: TensorType, source: _Layouts, target: _Layouts) -> Floats:
        key = (type, source.rows.tobytes(), target.rows.tobytes())
        priced = self._priced.get(key)
        if priced is None:
            seconds, nbytes = self._prices.table(type, source.rows, target.rows)
            priced = self._priced[key] = seconds if self.measure == "time" else nbytes
        return priced


def _without_useless_options(time: Floats, memory: Floats) -> Table:
    """A table in which options that another of the entry beats in both take infinite time; options
    at the end that no entry has are left out."""
    useless = np.zeros_like(time, dtype=bool)
    for o in range(1, NUM_OPTIONS):
        for p in range(o):
            useless[..., o] |= (time[..., p] <= time[..., o]) & (memory[..., p] <= memory[..., o])
    time[useless] = np.inf
    memory[useless] = 0.0
    used = [o for o in range(NUM_OPTIONS) if np.isfinite(time[..., o]).any()]
    last = max(used) + 1
    return Table(time[..., :last], memory[..., :last])


def _numbers(values: Iterable[Hashable]) -> list[int]:
    """Equal values get equal numbers: hashed once, compared often."""
    known: dict[Hashable, int] = {}
    return [known.setdefault(value, len(known)) for value in values]


def _numbered(counters: Mapping[Key, Counter[Any]]) -> dict[Key, int]:
    """A number for each counter, the same for equal ones."""
    contents = (frozenset(counter.items()) for counter in counters.values())
    return dict(zip(counters, _numbers(contents), strict=True))


def batch_layout(type: TensorType, cluster: Cluster, dim: int) -> Codes:
    """How a loader splits data: by samples, evenly, over the innermost axes first."""
    row = np.full(len(cluster.axes), REPLICATED, dtype=np.int8)
    ways = 1
    for axis in reversed(range(len(cluster.axes))):
        size = cluster.axes[axis].size
        if dim < type.rank and type.shape[dim] % (ways * size) == 0:
            ways *= size
            row[axis] = dim
    return row
