"""How long a step takes at least, where some families of operators have been decided and others
not.

A schedule cannot be bounded by simulating less of it: with queues, a task that takes less time may
make the whole take longer. These hold whatever the order in which tasks are served:

    head[i]    no part of node i starts earlier:   the longest path of   duration + movement   that leads to it
    tail[i]    what follows each part of node i:   the longest path that leads away from it
    path       head[i] + duration[i] + tail[i]                                                        for every node
    device     of the nodes with a part on one device, run one at a time, the one with the longest tail first, interrupted at will
               when another is ready (Jackson's preemptive schedule, which is optimal for heads and tails)    for every device

Durations are those of the shortest part, where a family is undecided of its shortest choice;
movements between two families are the least over the choices left to them. All are then at most
what they will be, and so are heads, tails and Jackson's schedule.

    movement, to a head     the least over target places of the longest chain of tasks that gives something to the place
    movement, to a tail     the least over source places of the longest chain that reads the place; none where some place is not read
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from _reference_searches.finite_space import FiniteSpace
from graphwright.ir import TensorType
from graphwright.machine import PICOSECONDS
from graphwright.partition.search.annealing import Changes
from graphwright.plans import Sharding, whole_mesh
from graphwright.tasks import Expansion, GraphFacts, Movement, Placed, compiled, place_node

Longs = NDArray[np.int64]
NONE = -1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tables:
    """Durations and movements for every choice; the number after the last choice stands for an
    undecided family.

    Node i of family `family[i]` takes `duration[at[i] + choice * num_devices + device]`. Edge e
    from node `source[e]` to node `target[e]` has `head[edge_at[e] + choice of one * width[e] +
    choice of the other]`, and `tail` likewise.
    """

    num_devices: int
    num_choices: Longs
    family: Longs
    at: Longs
    duration: Longs
    source: Longs
    target: Longs
    edge_at: Longs
    width: Longs
    head: Longs
    tail: Longs

    def bound(self, choices: Longs) -> float:
        """Seconds that any plan with these choices takes at least."""
        return float(_bound(
            choices, self.num_devices, self.family, self.at, self.duration, self.source,
            self.target, self.edge_at, self.width, self.head, self.tail,
        )) / PICOSECONDS  # fmt: skip


def tabulate(space: FiniteSpace, expansion: Expansion) -> Tables:
    """The tables of a space."""
    return _Tabulating(space, expansion).run()


class _Tabulating:
    def __init__(self, space: FiniteSpace, expansion: Expansion) -> None:
        self.facts: GraphFacts = expansion.facts
        self.cache = expansion.cache
        self.cluster = space.cluster
        self.size = len(whole_mesh(self.cluster))
        choices: list[Sequence[Changes]] = [f.choices for f in space.families]
        choices.append((space.rest,))
        self.family = [len(space.families)] * len(self.facts.graph.nodes)
        for number, found in enumerate(space.families):
            for i in found.nodes:
                self.family[i] = number
        self.num_choices = [len(found) for found in choices]
        self.placed: list[list[Placed]] = [
            [
                place_node(self.facts, node, changes[node.name], self.cluster)
                for changes in choices[self.family[i]]
            ]
            for i, node in enumerate(self.facts.graph.nodes)
        ]
        self._chains: dict[tuple[object, ...], tuple[int, int]] = {}

    def run(self) -> Tables:
        """Every node's durations and every edge's movements, one after another."""
        durations: list[Longs] = []
        heads: list[Longs] = []
        tails: list[Longs] = []
        source, target, width = [], [], []
        for i, node in enumerate(self.facts.graph.nodes):
            view = self.facts.is_view[i]
            rows = np.array([self.cache.call(node.op, p, view).duration for p in self.placed[i]])
            durations.append(np.concatenate([rows, rows.min(axis=0)[None]]).ravel())
            for arg, name in enumerate(node.inputs):
                if name is None or name not in self.facts.producer:
                    continue
                maker, output = self.facts.producer[name]
                head, tail = self._edge(maker, output, i, arg)
                source.append(maker)
                target.append(i)
                width.append(self.num_choices[self.family[i]] + 1)
                heads.append(head)
                tails.append(tail)
        return Tables(
            num_devices=self.size,
            num_choices=np.array(self.num_choices),
            family=np.array(self.family),
            at=_starts(durations),
            duration=np.concatenate(durations),
            source=np.array(source),
            target=np.array(target),
            edge_at=_starts(heads),
            width=np.array(width),
            head=np.concatenate(heads),
            tail=np.concatenate(tails),
        )

    def _edge(self, i: int, output: int, j: int, arg: int) -> tuple[Longs, Longs]:
        """What moving takes at least, for each choice of the maker's family and of the reader's,
        and for none."""
        a, b = self.family[i], self.family[j]
        shape = self.num_choices[a] + 1, self.num_choices[b] + 1
        head, tail = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        type = self.facts.types[j].inputs[arg]
        for c, makes in enumerate(self.placed[i]):
            for d, reads in enumerate(self.placed[j]):
                there = reads.inputs[arg]
                assert there is not None and type is not None
                if a != b or c == d:
                    head[c, d], tail[c, d] = self._chain(type, makes.outputs[output], there)
        for table in (head, tail):
            inner = table[:-1, :-1]
            if a == b:
                table[-1, -1] = inner.diagonal().min()
            else:
                table[:-1, -1] = inner.min(axis=1)
                table[-1, :-1] = inner.min(axis=0)
                table[-1, -1] = inner.min()
        return head.ravel(), tail.ravel()

    def _chain(self, type: TensorType, source: Sharding, target: Sharding) -> tuple[int, int]:
        if source == target:
            return 0, 0
        key = (type, source, target)
        if key not in self._chains:
            moved = self.cache.movement(type, source, target)
            self._chains[key] = chains(moved)
        return self._chains[key]


def _starts(parts: Sequence[Longs]) -> Longs:
    """Where each part begins when they are put one after another."""
    return np.cumsum([0, *map(len, parts)][: len(parts)]).astype(np.int64)


def chains(moved: Movement) -> tuple[int, int]:
    """The least that a target place waits after the source is there, and that passes after any
    source place is there; or NONE."""
    edges = sorted(zip(*(e.tolist() for e in moved.edges), strict=True))
    ends = moved.duration.copy()
    for a, b in edges:
        ends[b] = max(ends[b], ends[a] + moved.duration[b])
    waits = np.zeros(len(moved.target.mesh), np.int64)
    last = np.full(moved.num_tasks, NONE, np.int64)  # to the end of what gives something to a place
    for place, task in zip(*moved.gives, strict=True):
        waits[place] = max(waits[place], ends[task])
        last[task] = moved.duration[task]
    for a, b in reversed(edges):
        if last[b] != NONE:
            last[a] = max(last[a], moved.duration[a] + last[b])
    after = np.full(len(moved.source.mesh), NONE, np.int64)
    after[moved.keeps[0]] = 0
    for place, task in zip(*moved.reads, strict=True):
        after[place] = max(after[place], last[task])
    return int(waits.min()), int(after.min())


@compiled
def _bound(
    choices: Longs, num_devices: int, family: Longs, at: Longs, duration: Longs, source: Longs,
    target: Longs, edge_at: Longs, width: Longs, head_of: Longs, tail_of: Longs,
) -> int:  # fmt: skip
    n = len(family)
    least = np.empty(n, np.int64)
    for i in range(n):
        first = at[i] + choices[family[i]] * num_devices
        least[i] = duration[first]
        for d in range(1, num_devices):
            least[i] = min(least[i], duration[first + d])
    head = np.zeros(n, np.int64)
    tail = np.zeros(n, np.int64)
    for e in range(len(source)):
        i, j = source[e], target[e]
        entry = edge_at[e] + choices[family[i]] * width[e] + choices[family[j]]
        head[j] = max(head[j], head[i] + least[i] + head_of[entry])
    for e in range(len(source) - 1, -1, -1):
        i, j = source[e], target[e]
        entry = edge_at[e] + choices[family[i]] * width[e] + choices[family[j]]
        if tail_of[entry] >= 0:
            tail[i] = max(tail[i], tail_of[entry] + least[j] + tail[j])
    best = 0
    for i in range(n):
        best = max(best, head[i] + least[i] + tail[i])
    order = np.argsort(head)
    left = np.empty(n, np.int64)
    for d in range(num_devices):
        for i in range(n):
            left[i] = duration[at[i] + choices[family[i]] * num_devices + d]
        best = max(best, _jackson(order, head, left, tail))
    return best


@compiled
def _jackson(order: Longs, head: Longs, left: Longs, tail: Longs) -> int:
    """Jackson's preemptive schedule of one device; uses up `left`."""
    n, now, best, known = len(order), 0, 0, 0
    while True:
        while known < n and head[order[known]] <= now:
            known += 1
        chosen = -1
        for k in range(known):
            i = order[k]
            if left[i] > 0 and (chosen < 0 or tail[i] > tail[chosen]):
                chosen = i
        if chosen < 0:
            while known < n and left[order[known]] == 0:
                known += 1
            if known == n:
                return best
            now = head[order[known]]
            continue
        until = now + left[chosen]
        if known < n and head[order[known]] < until:
            until = head[order[known]]
        left[chosen] -= until - now
        now = until
        if left[chosen] == 0:
            best = max(best, now + tail[chosen])
