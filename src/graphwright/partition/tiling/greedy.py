"""Spartan's smart tiling: maximum connectivity first, looking through views (Figure 2.8).

    FindTiling    operators and inputs in the order of how many others they touch; each takes the
                  tiling of least cost, given what has been decided
    FindCost      the sum, over all that an operator touches, of the least that an edge may take;
                  behind a view, what the view touches counts as well
    duplication   an array that several operators read may lie in a second layout, which is brought
                  once, as long as the memory for duplicates lasts (section 2.3.4)

Arrays are tiled, never left as terms: an operator that makes terms pays for adding them up, as a
`join_update` does for its update. What has been decided is not decided again: where two operators
see an array through conflicting views, the first one wins, and the second pays (Figure 3.3). With
`lookahead`, which is ours, FindCost looks through so many undecided operators as if they were
views.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from graphwright.partition.estimate import Floats
from graphwright.partition.tiling.problem import Array, TilingGraph
from graphwright.partition.tiling.space import Tilings
from graphwright.plans import Sharding, local_bytes

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """A node group of the tiling graph: its tiling nodes, which are tilings of the operator, alone
    or with a duplicate of what it makes.

    `own` is what each costs by itself, `held` the duplicate's bytes on a worker; `duplicate` is its
    number among `layouts`, or -1.
    """

    tiling: Ints
    own: Floats
    held: Floats
    duplicate: Ints
    layouts: tuple[Sharding, ...] = ()


def smart_tiling(graph: TilingGraph, memory: float = inf, lookahead: int = 0) -> list[int]:
    """A tiling for every variable, the greedy one."""
    return _Greedy(graph, memory, lookahead).run()


class _Greedy:
    def __init__(self, graph: TilingGraph, memory: float, lookahead: int) -> None:
        self.graph, self.left, self.lookahead = graph, memory, lookahead
        made: list[list[Array]] = [[] for _ in graph.tilings]
        for array in graph.arrays:
            made[array.maker].append(array)
        self.added = {array.name: self._adding_up(array) for array in graph.arrays}
        self.groups = [self._group(variable, arrays) for variable, arrays in enumerate(made)]
        self.edges: list[dict[int, Floats]] = [{} for _ in made]
        for array in graph.arrays:
            for reader, arguments in array.readers.items():
                self._connect(array, reader, arguments)
        self.chosen = [-1] * len(made)

    def run(self) -> list[int]:
        order = sorted(range(len(self.groups)), key=lambda v: (-len(self.edges[v]), v))
        for variable in order:
            group = self.groups[variable]
            cost = self._cost(variable, frozenset([variable]), self.lookahead)
            cost = np.where(group.held > self.left, inf, cost)
            best = self.chosen[variable] = int(np.argmin(cost))
            self.left -= float(group.held[best])
        return [int(self.groups[v].tiling[c]) for v, c in enumerate(self.chosen)]

    def _cost(self, variable: int, seen: frozenset[int], lookahead: int) -> Floats:
        """What each tiling node of a group costs at best."""
        cost = self.groups[variable].own.copy()
        for other, edge in self.edges[variable].items():
            if other in seen:
                continue
            if self.chosen[other] >= 0:
                cost += edge[:, self.chosen[other]]
            elif (view := self.graph.is_view(other)) or lookahead:
                behind = self._cost(other, seen | {other}, lookahead - (not view))
                cost += (edge + behind).min(axis=1)
            else:
                cost += edge.min(axis=1)
        return cost

    def _group(self, variable: int, arrays: list[Array]) -> _Group:
        """The tiling nodes of a variable."""
        graph, count = self.graph, len(self.graph.tilings[variable])
        own = np.where(_keeps_terms(graph.tilings[variable]), inf, np.zeros(count))
        for array in arrays:
            own += self.added[array.name][graph.source(array).number]
        alone = _Group(np.arange(count), own, np.zeros(count), np.full(count, -1))
        if len(arrays) != 1 or len(arrays[0].readers) < 2:
            return alone
        array = arrays[0]
        layouts = tuple(
            dict.fromkeys(
                layout
                for reader, arguments in array.readers.items()
                for argument in arguments
                for layout in graph.need(reader, argument).shardings
            )
        )
        moved = self._moved(array, layouts)[graph.source(array).number]
        local = [float(local_bytes(layout, array.type).max(initial=0)) for layout in layouts]
        return _Group(
            np.concatenate([alone.tiling, np.repeat(alone.tiling, len(layouts))]),
            np.concatenate([own, np.repeat(own, len(layouts)) + moved.ravel()]),
            np.concatenate([alone.held, np.tile(local, count)]),
            np.concatenate([alone.duplicate, np.tile(np.arange(len(layouts)), count)]),
            layouts,
        )

    def _adding_up(self, array: Array) -> Floats:
        """What adding up terms takes at least, for every source of an array."""
        return self.graph.result_bytes(replace(array, result=True))

    def _moved(self, array: Array, targets: tuple[Sharding, ...]) -> Floats:
        """What bringing an array to layouts takes, once its terms are added up."""
        moved = self.graph.bytes(array, targets) - self.added[array.name][:, None]
        return np.maximum(moved, 0.0)

    def _connect(self, array: Array, reader: int, arguments: tuple[int, ...]) -> None:
        """The edges between the tiling nodes of who makes an array and of who reads it."""
        maker, group = array.maker, self.groups[array.maker]
        number = self.graph.source(array).number[group.tiling]
        edge = np.zeros((len(number), len(self.groups[reader].tiling)))
        for argument in arguments:
            need = self.graph.need(reader, argument)
            moved = self._moved(array, need.shardings)[number]
            if group.layouts:
                at = np.array([group.layouts.index(layout) for layout in need.shardings])
                moved = np.where(group.duplicate[:, None] == at, 0.0, moved)
            edge += moved[:, need.number[self.groups[reader].tiling]]
        known = self.edges[maker].get(reader)
        self.edges[maker][reader] = edge if known is None else known + edge
        self.edges[reader][maker] = self.edges[maker][reader].T


def _keeps_terms(tilings: Tilings) -> NDArray[np.bool_]:
    """Which tilings need terms of an argument."""
    keeps = np.zeros(len(tilings), dtype=bool)
    for need in tilings.needs:
        if need is not None:
            keeps |= np.array([s.is_partial for s in need.shardings])[need.number]
    return keeps
