"""From a graph in groups to the additive problem: one variable for each group, one table for each two groups that something passes between.

    unary    what the group's parts compute, what moves inside of it, what it holds at the fullest moment
    pair     what moves between two groups, and the copies of it that are held; three options where a copy may be held or not:
             0  the reader's copy is kept for the backward pass, and so is the original where its maker needs it
             1  it is not kept, and moved again (FSDP's second gather)
             2  the maker's original is not kept, and moved back from the copy

A moved copy that nobody holds is there for a while, and the largest such at the fullest moment too, perhaps. A sum cannot say which one is the
largest, so each counts by a share: as if the copies of about `IN_TRANSIT` operators were there at a time.

Equal groups have equal configurations and equal tables, so each is worked out once, however many layers there are. Groups with too
many configurations keep the most promising (`narrow`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from graphwright.describe import sample_dims
from graphwright.ir import Role, TensorType
from graphwright.machine import Cluster
from graphwright.partition.estimate.compute import Work
from graphwright.partition.estimate.moving import Prices
from graphwright.partition.estimate.problem import Assignment, Pair, Problem, Table
from graphwright.partition.estimate.stepwise import Stepwise
from graphwright.partition.space import (
    REPLICATED,
    Coarse,
    Codes,
    Configurations,
    Given,
    Group,
    Joint,
    Link,
    Links,
    Space,
    Weight,
    add_plans,
    configure,
    distinct_rows,
    find_links,
    joint_choices,
    signature,
    to_sharding,
    typical,
    ways_of,
)
from graphwright.plans import Kept, Plan, make_plan, whole_mesh
from graphwright.tasks import Costs

Floats = NDArray[np.float64]
Measure = Literal["time", "bytes"]
NUM_OPTIONS = 3
IN_TRANSIT = 8
MOST_IN_TRANSIT = 0.3
"""Of each moved copy that is not held, this over the number of heavy groups is counted, at most the latter."""


@dataclass(slots=True, eq=False)
class _Rows:
    """Layouts of one tensor under every configuration: the distinct rows, and which one each configuration has."""

    rows: Codes
    number: NDArray[np.int64]
    local: Floats


class Model:
    """The additive problem of a graph on a cluster, and the way back to plans."""

    def __init__(
        self,
        coarse: Coarse,
        cluster: Cluster,
        costs: Costs,
        space: Space | None = None,
        *,
        measure: Measure = "time",
        plans: Sequence[Plan] = (),
        prices: Prices | Stepwise | None = None,
    ) -> None:
        self.coarse, self.cluster, self.costs = coarse, cluster, costs
        self.space = space or Space()
        self.measure: Measure = measure
        self.sizes = np.array([axis.size for axis in cluster.axes], dtype=np.float64)
        self.prices = prices or Prices(cluster, costs)
        self.work = Work(coarse.site, cluster, costs)
        self.links: Links = find_links(coarse)
        heavy = sum(group.weight is Weight.HEAVY for group in coarse.groups)
        self.transit = min(MOST_IN_TRANSIT, IN_TRANSIT / max(1, heavy))
        self._signature = _numbers(signature(coarse, group) for group in coarse.groups)
        self._passing = dict(
            zip(
                self.links.between,
                _numbers(frozenset(c.items()) for c in self.links.between.values()),
                strict=True,
            )
        )
        self._giving = dict(
            zip(
                self.links.given,
                _numbers(frozenset(c.items()) for c in self.links.given.values()),
                strict=True,
            )
        )
        self._joints: dict[int, Joint] = {}
        self._tables: dict[Hashable, Table] = {}
        self._priced: dict[Hashable, Floats] = {}
        self._rows: dict[Hashable, _Rows] = {}
        self.all = self._configurations()
        self.seeds: list[list[int | None]] = [[] for _ in coarse.groups]
        self._add_plans(plans)
        self.configurations = list(self.all)
        self.active = [np.arange(len(found)) for found in self.all]

    # -- configurations ---------------------------------------------------------------------------

    def joints(self, g: int) -> Joint:
        """The joint choices of a group along one axis."""
        found = self._joints.get(self._signature[g])
        if found is None:
            found = self._joints[self._signature[g]] = joint_choices(
                self.coarse, self.coarse.groups[g], reduction=self.space.reduction
            )
        return found

    def _configurations(self) -> list[Configurations]:
        samples = sample_dims(self.coarse.site.graph, self.space.batch_dim)
        known: dict[Hashable, Configurations] = {}
        found = []
        for g, (group, key) in enumerate(zip(self.coarse.groups, self._signature, strict=True)):
            if key not in known:
                joint = self.joints(g)
                known[key] = configure(self.coarse, group, joint, self.cluster, self.space, samples)
            found.append(known[key])
        return found

    def _add_plans(self, plans: Sequence[Plan]) -> None:
        """Configurations that known plans give the groups, so that no search does worse than they do."""
        if not plans:
            return
        for g, group in enumerate(self.coarse.groups):
            united, self.seeds[g] = add_plans(self.coarse, group, self.all[g], plans)
            if len(united) > len(self.all[g]):
                self.all[g] = united

    def signature(self, g: int) -> int:
        """Equal for groups that do the same in different layers."""
        return self._signature[g]

    def key(self, g: int) -> Hashable:
        """Equal for groups with equal operators and equal configurations."""
        return self._signature[g], self.configurations[g].key

    def select(self, wanted: Mapping[int, NDArray[np.int64]]) -> None:
        """Go on with some of all configurations of some groups, by their numbers; those of known plans stay."""
        known: dict[Hashable, Configurations] = {}
        for g, numbers in wanted.items():
            seeds = [s for s in self.seeds[g] if s is not None]
            numbers = np.union1d(numbers, np.array(seeds, dtype=np.int64)).astype(np.int64)
            if np.array_equal(numbers, self.active[g]):
                continue
            key = (self._signature[g], self.all[g].key, numbers.tobytes())
            if key not in known:
                known[key] = self.all[g].only(numbers)
            self.configurations[g], self.active[g] = known[key], numbers

    # -- tables -----------------------------------------------------------------------------------

    def unary(self, g: int) -> Table:
        """Time and memory of a group by itself."""
        key = (self.key(g), self._passing.get((g, g)), self._giving.get(g))
        found = self._tables.get(key)
        if found is None:
            own = self.links.between.get((g, g), Counter())
            found = self._tables[key] = self._unary(g, own, self.links.given.get(g, Counter()))
        return found

    def _unary(self, g: int, own: Counter[Link], given: Counter[Given]) -> Table:
        group, found = self.coarse.groups[g], self.configurations[g]
        time, memory = np.zeros(len(found)), np.zeros(len(found))
        if self.measure == "time":
            for slot, nodes in enumerate(group.slots):
                time += len(nodes) * self.work.seconds(
                    typical(nodes), found.options[slot], found.choice[:, slot]
                )
        for link, count in own.items():
            moved, held, _ = self._move(g, g, link)
            diagonal = np.arange(len(found))
            time += count * moved[diagonal, diagonal]
            memory += count * held[diagonal, diagonal]
        for item, count in given.items():
            moved_in, held_in = self._receive(g, item)
            time += count * moved_in
            memory += count * held_in
        if group.weight is Weight.UPDATE:
            more_time, more_memory = self._residents(g, group)
            time, memory = time + more_time, memory + more_memory
        return Table(time[:, None], memory[:, None])

    def _residents(self, g: int, group: Group) -> tuple[Floats, Floats]:
        """What a group's residents occupy, and what bringing new values to where they live takes."""
        graph = self.coarse.site.graph
        found = self.configurations[g]
        time, memory = np.zeros(len(found)), np.zeros(len(found))
        for r, name in enumerate(group.inputs):
            type = graph.tensors[name].type
            home = self._layouts(g, ("rest", r), found.rest[:, r], type)
            memory += home.local[home.number]
            made = self.coarse.site.producer.get(graph.updates[name])
            if made is not None and self.coarse.group_of[made[0]] == g:
                slot = self.coarse.slot_of[made[0]]
                source = self._layouts(g, ("made", slot, made[1]), found.made(slot, made[1]), type)
                time += self._price(type, source, home)[source.number, home.number]
        return time, memory

    def pair(self, a: int, b: int) -> Table | None:
        """What passes between two groups, a < b; None for nothing."""
        there, back = self._passing.get((a, b)), self._passing.get((b, a))
        if there is None and back is None:
            return None
        key = (self.key(a), self.key(b), there, back)
        found = self._tables.get(key)
        if found is None:
            links = (self.links.between.get(pair, Counter()) for pair in ((a, b), (b, a)))
            found = self._tables[key] = self._pair(a, b, *links)
        return found

    def _pair(self, a: int, b: int, there: Counter[Link], back: Counter[Link]) -> Table:
        shape = len(self.configurations[a]), len(self.configurations[b])
        time, memory = np.zeros((*shape, NUM_OPTIONS)), np.zeros((*shape, NUM_OPTIONS))
        choice = False
        for maker, reader, links, turn in ((a, b, there, False), (b, a, back, True)):
            for link, count in links.items():
                moved, held, options = self._move(maker, reader, link)
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
        useless = np.zeros_like(time, dtype=bool)
        for o in range(1, NUM_OPTIONS):
            for p in range(o):
                useless[..., o] |= (time[..., p] <= time[..., o]) & (
                    memory[..., p] <= memory[..., o]
                )
        time[useless] = np.inf
        memory[useless] = 0.0
        used = [o for o in range(NUM_OPTIONS) if np.isfinite(time[..., o]).any()]
        last = max(used) + 1
        return Table(time[..., :last], memory[..., :last])

    # -- moving -----------------------------------------------------------------------------------

    def _move(
        self, maker: int, reader: int, link: Link
    ) -> tuple[Floats, Floats, list[tuple[Floats, Floats]] | None]:
        """[maker's configuration, reader's]: time, bytes held, and (more time, bytes held instead) for each of the options."""
        makes, reads = self.configurations[maker], self.configurations[reader]
        if link.slot is None:
            source = self._layouts(
                maker, ("rest", link.output), makes.rest[:, link.output], link.type
            )
        else:
            place = ("made", link.slot, link.output)
            source = self._layouts(maker, place, makes.made(link.slot, link.output), link.type)
        shape = len(makes), len(reads)
        moved, held, again, back, passing = (np.zeros(shape) for _ in range(5))
        earlier: list[tuple[_Rows, bool]] = []
        original = source.local[source.number][:, None]
        direct = np.zeros(shape, dtype=bool)
        for slot, arg, late in sorted(link.readers, key=lambda r: r[2]):
            target = self._layouts(reader, ("need", slot, arg), reads.need(slot, arg), link.type)
            same = self._same(source, target)[source.number][:, target.number]
            fresh, before = np.ones(len(reads), dtype=bool), np.zeros(len(reads), dtype=bool)
            for other, was_late in earlier:
                equal = (other.rows[other.number] == target.rows[target.number]).all(axis=1)
                if was_late == late:
                    fresh &= ~equal
                else:
                    before |= equal
            price = self._price(link.type, source, target)[source.number][:, target.number]
            moved += price * (fresh & ~before)
            away = fresh & ~same
            np.maximum(passing, away * target.local[target.number], out=passing)
            if late and link.held:
                held += away * target.local[target.number]
                direct |= same
                again += price * (before & fresh)
                if link.kept and maker != reader:
                    reverse = self._price(link.type, target, source)[target.number][
                        :, source.number
                    ]
                    back += reverse.T * (before & fresh)
            earlier.append((target, late))
        passing *= self.transit
        if not link.held:
            return moved, passing, None
        copies, zero = held, np.zeros(shape)
        whole = original + zero if link.owner else zero
        held = copies + whole * (direct | link.kept)
        if not self.space.reuse or maker == reader:
            return moved, held, None
        options = [(zero, held), (again, whole + passing), (zero, held)]
        if link.kept and link.owner:
            options[2] = (back, np.where(copies == 0, held, copies + passing))
        return moved, held, options

    def _receive(self, g: int, item: Given) -> tuple[Floats, Floats]:
        """Data as the loader splits it; other inputs that nobody updates are where their first reader needs them."""
        found = self.configurations[g]
        time, memory = np.zeros(len(found)), np.zeros(len(found))
        if item.batch and self.space.loader:
            row = batch_layout(item.type, self.cluster, self.space.batch_dim)
            source = _Rows(row[None], np.zeros(len(found), dtype=np.int64), np.zeros(1))
            earlier: list[_Rows] = []
            for slot, arg, _ in item.readers:
                target = self._layouts(g, ("need", slot, arg), found.need(slot, arg), item.type)
                fresh = np.ones(len(found), dtype=bool)
                for other in earlier:
                    fresh &= (other.rows[other.number] != target.rows[target.number]).any(axis=1)
                time += self._price(item.type, source, target)[0, target.number] * fresh
                earlier.append(target)
        elif item.first:
            slot, arg, _ = item.readers[0]
            target = self._layouts(g, ("need", slot, arg), found.need(slot, arg), item.type)
            memory += target.local[target.number]
        return time, memory

    def _layouts(self, g: int, place: Hashable, codes: Codes, type: TensorType) -> _Rows:
        key = (self.configurations[g].key, self._signature[g], place)
        found = self._rows.get(key)
        if found is None:
            rows, number = distinct_rows(codes)
            local = type.nbytes / ways_of(rows, self.sizes)
            found = self._rows[key] = _Rows(rows, number, local)
        return found

    def _price(self, type: TensorType, source: _Rows, target: _Rows) -> Floats:
        key = (type, source.rows.tobytes(), target.rows.tobytes())
        found = self._priced.get(key)
        if found is None:
            seconds, moved = self.prices.table(type, source.rows, target.rows)
            found = self._priced[key] = seconds if self.measure == "time" else moved
        return found

    def _same(self, source: _Rows, target: _Rows) -> NDArray[np.bool_]:
        equal: NDArray[np.bool_] = (source.rows[:, None] == target.rows[None]).all(axis=2)
        return equal

    # -- the problem and the way back -------------------------------------------------------------

    def problem(self) -> Problem:
        """All tables."""
        unary = tuple(self.unary(g) for g in range(len(self.coarse.groups)))
        pairs: dict[Pair, Table] = {}
        for a, b in self.links.between:
            u, v = min(a, b), max(a, b)
            if u != v and (u, v) not in pairs:
                table = self.pair(u, v)
                if table is not None:
                    pairs[u, v] = table
        return Problem(unary, pairs)

    def plan(self, found: Assignment, algorithm: str, seed: int | None = None) -> Plan:
        """The plan of an assignment: a strategy for every node, a place for everything that lives between steps."""
        site, mesh = self.coarse.site, whole_mesh(self.cluster)
        strategies, inputs = {}, {}
        for g, group in enumerate(self.coarse.groups):
            c = int(found.choices[g])
            configurations = self.configurations[g]
            for slot, nodes in enumerate(group.slots):
                strategy = configurations.strategy(c, slot)
                for node in nodes:
                    strategies[site.graph.nodes[node].name] = strategy
            if group.weight is Weight.UPDATE:
                for r, name in enumerate(group.inputs):
                    inputs[name] = to_sharding(configurations.rest[c, r], mesh)
        if self.space.loader:
            for name in site.graph.inputs:
                tensor = site.graph.tensors[name]
                if tensor.role is Role.INPUT:
                    row = batch_layout(tensor.type, self.cluster, self.space.batch_dim)
                    inputs[name] = to_sharding(row, mesh)
        return make_plan(
            site.graph,
            self.cluster,
            strategies,
            inputs=inputs,
            keep=self._kept(found),
            algorithm=algorithm,
            seed=seed,
        )

    def _kept(self, found: Assignment) -> dict[str, Kept]:
        """Which copies are not kept: a tensor that several groups hold is moved again only if all of them say so."""
        votes: dict[str, set[int]] = {}
        for (maker, reader), names in self.links.held.items():
            option = found.options.get((min(maker, reader), max(maker, reader)), 0)
            for name in names:
                votes.setdefault(name, set()).add(option)
        words: dict[int, Kept] = {1: "before", 2: "after"}
        return {
            name: words[option]
            for name, said in votes.items()
            if len(said) == 1
            and (option := next(iter(said))) in words
            and not (option == 2 and name not in self.coarse.site.producer)
        }


def _numbers(values: Iterable[Hashable]) -> list[int]:
    """Equal values get equal numbers: hashed once, compared often."""
    known: dict[Hashable, int] = {}
    return [known.setdefault(value, len(known)) for value in values]


def batch_layout(type: TensorType, cluster: Cluster, dim: int) -> Codes:
    """How a loader splits data: by samples, over the innermost axes first, while there is as many for each."""
    row = np.full(len(cluster.axes), REPLICATED, dtype=np.int8)
    ways = 1
    for axis in reversed(range(len(cluster.axes))):
        size = cluster.axes[axis].size
        if dim < type.rank and type.shape[dim] % (ways * size) == 0:
            ways *= size
            row[axis] = dim
    return row
