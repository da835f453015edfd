"""Spartan's smart tiling: maximum connectivity first, looking through views (Figure 2.8).

    FindTiling    node groups in the order of how many others they touch; each takes the tiling of
                  least cost, given what has been decided (`find_tilings`)
    FindCost      the sum, over all that a group touches, of the least that an edge may take;
                  behind a view, or an edge that leaves but one tiling, what lies there counts as
                  well
    duplication   an array that several operators read may lie in a second layout, which is brought
                  once, as long as the memory for duplicates lasts (section 2.3.4)

In the thesis what a `join_update` takes to update its result are edges to nodes between the
operator and its result (Figure 2.7b); here they are the operator's `own` costs. They do not count
for what it touches: a product's form without an update would look free to one operand, which does
not see what the form takes of the other. Equal connectivity goes by what is at stake, as in
Spartan's published code.

Arrays are tiled, never left as terms: an operator that makes terms pays for adding them up. What
has been decided is not decided again: where two operators see an array through conflicting views,
the first one wins, and the second pays (Figure 3.3). With `lookahead`, which is ours, FindCost
looks through so many undecided operators as if they were views.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from graphwright.partition.estimate import Floats
from graphwright.partition.tiling.problem import Array, TilingGraph
from graphwright.partition.tiling.space import Tilings
from graphwright.plans import Sharding, local_bytes

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeGroups:
    """A tiling graph as Figure 2.8 reads it: node groups, each with its tiling nodes.

    own      what each tiling node takes by itself
    edges    of each group by the groups it touches: [its tiling node, theirs] of what that takes
    views    whether a group's tiling follows from the one that it looks at
    held     bytes of duplicates on a worker
    """

    own: Sequence[Floats]
    edges: Sequence[Mapping[int, Floats]]
    views: Sequence[bool]
    held: Sequence[Floats]


def find_tilings(groups: NodeGroups, memory: float = inf, lookahead: int = 0) -> list[int]:
    """The tiling node of every group: FindTiling."""
    return _Finding(groups, lookahead).find(memory)


class _Finding:
    def __init__(self, groups: NodeGroups, lookahead: int) -> None:
        self.groups, self.lookahead = groups, lookahead
        self.left = [np.isfinite(own) for own in groups.own]
        """Which tiling nodes of each group what is decided leaves possible."""

    def find(self, memory: float) -> list[int]:
        chosen = [-1] * len(self.left)
        for group in sorted(range(len(chosen)), key=self._order):
            cost = self._cost(group, frozenset([group]), self.lookahead)
            cost = np.where(self.groups.held[group] > memory, inf, cost)
            best = chosen[group] = int(np.argmin(cost))
            memory -= float(self.groups.held[group][best])
            self._decide(group, best)
        return chosen

    def _order(self, group: int) -> tuple[int, float, int]:
        """Those that touch most come first, of these the ones with most at stake."""
        edges = self.groups.edges[group].values()
        stake = sum(float(edge[np.isfinite(edge)].max(initial=0.0)) for edge in edges)
        return -len(edges), -stake, group

    def _cost(self, group: int, seen: frozenset[int], lookahead: int) -> Floats:
        """What each tiling node of a group takes at best: FindCost."""
        cost = np.where(self.left[group], self.groups.own[group], inf)
        for other, edge in self.groups.edges[group].items():
            if other in seen:
                continue
            behind = np.where(self.left[other], 0.0, inf)
            if (view := self.groups.views[other] or _tied(edge)) or lookahead:
                behind = self._cost(other, seen | {other}, lookahead - (not view))
            cost += (edge + behind).min(axis=1)
        return cost

    def _decide(self, group: int, tiling: int) -> None:
        """Leave a group but one tiling node, and others but those with an edge to what is left."""
        self.left[group] = np.arange(len(self.left[group])) == tiling
        changed = [group]
        while changed:
            of = changed.pop()
            for other, edge in self.groups.edges[of].items():
                possible = np.isfinite(edge[self.left[of]]).any(axis=0)
                if (self.left[other] & ~possible).any():
                    self.left[other] &= possible
                    changed.append(other)


def _tied(edge: Floats) -> bool:
    """Whether each tiling of one end leaves the other but one."""
    return edge.shape[1] > 1 and bool((np.isfinite(edge).sum(axis=1) == 1).all())


def smart_tiling(graph: TilingGraph, memory: float = inf, lookahead: int = 0) -> list[int]:
    """A tiling for every variable, the greedy one."""
    made = _Groups(graph)
    chosen = find_tilings(made.node_groups(), memory, lookahead)
    return [int(group.tiling[c]) for group, c in zip(made.groups, chosen, strict=True)]


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


class _Groups:
    """The node groups of a tiling graph of ours."""

    def __init__(self, graph: TilingGraph) -> None:
        self.graph = graph
        made: list[list[Array]] = [[] for _ in graph.tilings]
        for array in graph.arrays:
            made[array.maker].append(array)
        self.added = {array.name: self._adding_up(array) for array in graph.arrays}
        self.groups = [self._group(variable, arrays) for variable, arrays in enumerate(made)]
        self.edges: list[dict[int, Floats]] = [{} for _ in made]
        for array in graph.arrays:
            for reader, arguments in array.readers.items():
                self._connect(array, reader, arguments)

    def node_groups(self) -> NodeGroups:
        return NodeGroups(
            own=[group.own for group in self.groups],
            edges=self.edges,
            views=[self.graph.is_view(variable) for variable in range(len(self.groups))],
            held=[group.held for group in self.groups],
        )

    def _group(self, variable: int, arrays: list[Array]) -> _Group:
        """The tiling nodes of a variable."""
        graph, count = self.graph, len(self.graph.tilings[variable])
        own = np.where(_keeps_terms(graph.tilings[variable]), inf, np.zeros(count))
        for array in arrays:
            added = self.added[array.name] + graph.kept_bytes(array)
            own += added[graph.source(array).number]
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
