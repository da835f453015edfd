"""How a group is spread so that it goes with a neighbour: a joint choice for every axis of the
neighbour's mesh.

    [mm]  --y: S0 R on devices 0-3-->  [gelu]    takes, axis by axis, a joint choice that needs y so
      ^
      w: lives as its first reader needs it      and the update of w one that leaves w there

Whatever a tensor is like on its way between two groups, the one that follows asks for it as it is
(or makes it as it is asked for), on the same devices. Terms of a sum that nobody can work on are
added up: along that axis everybody has all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphwright.errors import InvalidStrategy
from graphwright.ir import Role
from graphwright.partition.estimate import Estimate
from graphwright.partition.space import PARTIAL, REPLICATED, Weight, signature, typical
from graphwright.plans import Along, Mesh, Partial, Replicate, Sharding, Split, Strategy, whole_mesh
from graphwright.tasks import place_node

Rows = NDArray[np.int16]
"""Options by number, [slot, axis of the mesh]."""
Changes = dict[str, Strategy]
Pick = Callable[[Sequence[int]], int]
"""Which of several joint choices that fit equally well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Border:
    """A tensor that passes between a slot of a group and a node of another group: `number` is the
    argument or the output of the slot."""

    slot: int
    makes: bool
    number: int
    nbytes: int
    group: int
    node: int
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """A parameter whose first reader is a node of the group: what the reader needs says where it
    lives, and so how `update` is spread."""

    reader: int
    argument: int
    update: int
    resident: int


class Alignment:
    """Who borders on whom in a coarse graph, and how a group is spread to match a layout."""

    def __init__(self, estimate: Estimate) -> None:
        self.all, self.space = estimate.all, estimate.space
        self.group_choices = estimate.group_choices
        self.coarse, self.cluster = estimate.coarse, estimate.cluster
        self.facts, self.graph = self.coarse.facts, self.coarse.facts.graph
        self.whole = whole_mesh(self.cluster)
        keys = [signature(self.coarse, group) for group in self.coarse.groups]
        self.alike: dict[Hashable, list[int]] = {}
        for g, key in enumerate(keys):
            self.alike.setdefault(key, []).append(g)
        self.key = keys
        self._known: dict[Hashable, tuple[Strategy, ...]] = {}
        self.borders = [self._find_borders(g) for g in range(len(self.coarse.groups))]
        self.homes = self._find_homes()

    # -- strategies -------------------------------------------------------------------------------

    def strategies(self, g: int, rows: Rows, mesh: Mesh | None = None) -> Changes:
        """The strategies of all nodes of a group; no mesh stands for all devices."""
        key = (self.key[g], rows.tobytes(), mesh)
        slots = self._known.get(key)
        if slots is None:
            slots = self._known[key] = tuple(
                self._possible(g, slot, row, mesh) for slot, row in enumerate(rows.tolist())
            )
        changes: Changes = {}
        for strategy, nodes in zip(slots, self.coarse.groups[g].slots, strict=True):
            for i in nodes:
                changes[self.graph.nodes[i].name] = strategy
        return changes

    def _possible(self, g: int, slot: int, row: list[int], mesh: Mesh | None) -> Strategy:
        """A strategy that the slot can follow: as asked for, or replicated along the last of the
        axes for which there are too few parts."""
        choices = [self.all[g].options[slot].choices[option] for option in row]
        node = self.graph.nodes[typical(self.coarse.groups[g].slots[slot])]
        while True:
            strategy = Strategy(tuple(choices), mesh)
            split = [axis for axis, choice in enumerate(choices) if isinstance(choice, Along)]
            if not split:
                return strategy
            try:
                place_node(self.facts, node, strategy, self.cluster)
            except InvalidStrategy:
                choices[split[-1]] = Replicate()
            else:
                return strategy

    def match(self, g: int, border: Border, there: Sharding, pick: Pick = min) -> Changes:
        """The strategies of a group that take a tensor at its border as it is on the other side."""
        joint = self.group_choices[g]
        table = joint.options[border.slot].made if border.makes else joint.options[border.slot].need
        return self._match(g, table[joint.choice[:, border.slot], border.number], there, pick)

    def settle(self, g: int, changes: Changes, pick: Pick = min) -> None:
        """Let the updates of a group's parameters follow to where these then live."""
        for home in self.homes[g]:
            node = self.graph.nodes[home.reader]
            needed = place_node(self.facts, node, changes[node.name], self.cluster).inputs
            there = needed[home.argument]
            assert there is not None
            rest = self.group_choices[home.update].rest[:, home.resident]
            changes |= self._match(home.update, rest, there, pick)

    def at(self, border: Border, strategies: Mapping[str, Strategy]) -> Sharding:
        """How a tensor at a border is on the other side."""
        node = self.graph.nodes[border.node]
        placed = place_node(self.facts, node, strategies[node.name], self.cluster)
        sharding = placed.inputs[border.place] if border.makes else placed.outputs[border.place]
        assert sharding is not None
        return sharding

    def _match(self, g: int, codes: NDArray[np.int8], there: Sharding, pick: Pick) -> Changes:
        """For every axis a joint choice that has the layout's code, else replication."""
        joint, kinds = self.group_choices[g], self.all[g].kinds
        everywhere = there.mesh == self.whole
        chosen = []
        for axis, placement in enumerate(there.placements):
            wanted = REPLICATED
            if isinstance(placement, Split):
                wanted = placement.dim
            elif isinstance(placement, Partial):
                wanted = PARTIAL
            fitting = np.flatnonzero(codes == wanted).tolist() if wanted != REPLICATED else [0]
            if everywhere:
                fitting = [j for j in fitting if self.space.allows(kinds[j], axis)]
            chosen.append(pick(fitting) if fitting else 0)
        rows = joint.choice[chosen].T if chosen else joint.choice[:0].T
        return self.strategies(g, rows, None if everywhere else there.mesh)

    # -- borders ----------------------------------------------------------------------------------

    def _find_borders(self, g: int) -> list[Border]:
        """The largest first."""
        borders: dict[tuple[object, ...], Border] = {}
        for slot, nodes in enumerate(self.coarse.groups[g].slots):
            node = self.graph.nodes[typical(nodes)]
            for arg, name in enumerate(node.inputs):
                if name is not None and name in self.facts.producer:
                    self._note(borders, g, slot, False, arg, name, *self.facts.producer[name])
            for output, name in enumerate(node.outputs):
                for reader, arg in self.facts.readers[name]:
                    self._note(borders, g, slot, True, output, name, reader, arg)
        return sorted(borders.values(), key=lambda b: (-b.nbytes, b.makes, b.node))

    def _note(
        self, borders: dict[tuple[object, ...], Border], g: int,
        slot: int, makes: bool, number: int, name: str, node: int, place: int,
    ) -> None:  # fmt: skip
        other = self.coarse.group_of[node]
        if other in (g, -1):
            return
        key = (slot, makes, number, other, self.coarse.slot_of[node], place)
        nbytes = self.graph.tensors[name].type.nbytes
        borders.setdefault(
            key,
            Border(
                slot=slot, makes=makes, number=number, nbytes=nbytes,
                group=other, node=node, place=place,
            ),
        )  # fmt: skip

    def _find_homes(self) -> list[list[Home]]:
        homes: list[list[Home]] = [[] for _ in self.coarse.groups]
        for u, group in enumerate(self.coarse.groups):
            if group.weight is not Weight.UPDATE:
                continue
            for resident, name in enumerate(group.inputs):
                if self.graph.tensors[name].role is not Role.PARAMETER:
                    continue
                if not self.facts.readers[name]:
                    continue
                reader, argument = self.facts.readers[name][0]
                g = self.coarse.group_of[reader]
                if g not in (u, -1):
                    homes[g].append(
                        Home(reader=reader, argument=argument, update=u, resident=resident)
                    )
        return homes
