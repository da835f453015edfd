"""What a Markov chain over plans tries next: another strategy for one operator, for a group, or for
all groups that are alike.

    estimate    a configuration of a group that is good by the estimate, given its neighbours
    axis        another joint choice along one axis, or along the axes of one level
    whole       any configuration on all devices                         FlexFlow's S, A and P
    some        the same on some of the devices: some axes are fixed     FlexFlow's O
    neighbour   as a bordering group has what passes between them        nothing moves there
    copy        as the same group of another layer is spread
    alike       a configuration for the same group of all layers at once
    node        any strategy for one operator by itself                  reaches every plan

Whatever is changed, parameters live where their first reader needs them, and what updates them
follows. In `swept` proposals the light groups around follow as well, so that two heavy groups have
to agree only with each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

import numpy as np

from graphwright.machine import Cluster
from graphwright.partition.estimate import Estimate
from graphwright.partition.search.annealing.alignment import Alignment, Changes
from graphwright.partition.search.annealing.hints import HIDDEN, Hints
from graphwright.partition.space import Weight, valid_strategy
from graphwright.plans import Mesh, Strategy

WEIGHTS: Mapping[str, float] = {
    "estimate": 6.0,
    "axis": 2.0,
    "whole": 0.5,
    "some": 1.0,
    "neighbour": 3.0,
    "copy": 1.0,
    "alike": 1.0,
    "node": 0.5,
}
"""How often each kind is drawn."""
SWEPT = 0.5
"""How often light neighbours follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Strategies to try, none if the plan has them already, and the kind of change."""

    kind: str
    changes: Changes


class Proposals:
    """Random changes of plans, in a space."""

    def __init__(
        self, estimate: Estimate, weights: Mapping[str, float] = WEIGHTS, swept: float = SWEPT
    ) -> None:
        self.all, self.space = estimate.all, estimate.space
        self.cluster, self.coarse = estimate.cluster, estimate.coarse
        self.graph, self.swept = estimate.coarse.facts.graph, swept
        self.alignment, self.hints = Alignment(estimate), Hints(estimate)
        groups = dict(enumerate(self.coarse.groups))
        self.groups = [g for g, group in groups.items() if group.weight is not Weight.UPDATE]
        self.light = {g for g, group in groups.items() if group.weight is Weight.LIGHT}
        self.repeated = [
            g for g in self.groups if len(self.alignment.alike[self.alignment.key[g]]) > 1
        ]
        usable = {kind: weight for kind, weight in weights.items() if self._usable(kind)}
        self.kinds, self.weights = list(usable), list(usable.values())

    def _usable(self, kind: str) -> bool:
        if kind in ("copy", "alike"):
            return bool(self.repeated)
        if kind in ("some", "node") and not self.space.subsets:  # less than all of SOAP
            return False
        if kind in ("axis", "neighbour") and self.space.single_split:
            return False
        return bool(self.groups) and bool(self.cluster.axes)

    def draw(self, rng: Random, now: Mapping[str, Strategy]) -> Proposal:
        """A random proposal, given the strategies of all nodes now."""
        if not self.kinds:
            return Proposal(kind="none", changes={})
        kind = rng.choices(self.kinds, self.weights)[0]
        if kind == "node":
            return Proposal(kind=kind, changes=self._node(rng))
        g = rng.choice(self.repeated if kind in ("copy", "alike") else self.groups)
        changes = self._alike(rng, g, now) if kind == "alike" else self._group(kind, rng, g, now)
        if changes and kind != "alike" and rng.random() < self.swept:
            kind += ", swept"
            self._sweep(g, changes, now)
        different = {name: s for name, s in changes.items() if now[name] != s}
        return Proposal(kind=kind, changes=different)

    # -- one group --------------------------------------------------------------------------------

    def _group(self, kind: str, rng: Random, g: int, now: Mapping[str, Strategy]) -> Changes:
        """Another way to spread a group, and the updates of its parameters."""
        match kind:
            case "estimate":
                changes = self._estimated(rng, g, now)
            case "axis":
                changes = self._one_axis(rng, g, now)
            case "neighbour":
                changes = self._neighbour(rng, g, now)
            case "copy":
                changes = self._copied(rng, g, now)
            case _:
                fixed = random_axes(rng, self.cluster) if kind == "some" else {}
                changes = self._configuration(g, rng.randrange(len(self.all[g])), fixed)
        if changes:
            self.alignment.settle(g, changes)
        return changes

    def _estimated(self, rng: Random, g: int, now: Mapping[str, Strategy]) -> Changes:
        """Drawn by rank in the estimate: the n-th best 1/n times as often as the best."""
        seconds = self.hints.estimate(g, now, rng.randrange(len(HIDDEN)))
        rank = int((len(seconds) + 1) ** rng.random()) - 1
        order = np.argsort(seconds, kind="stable")
        c = int(order[min(rank, len(order) - 1)])
        return self.alignment.strategies(g, self.hints.narrowed.configurations[g].choice[c])

    def _configuration(self, g: int, c: int, fixed: Mapping[int, int]) -> Changes:
        """A configuration, with some axes fixed at a coordinate."""
        rows = self.all[g].choice[c]
        if not fixed:
            return self.alignment.strategies(g, rows)
        free = [axis for axis in range(rows.shape[1]) if axis not in fixed]
        return self.alignment.strategies(g, rows[:, free], beneath(self.alignment.whole, fixed))

    def _one_axis(self, rng: Random, g: int, now: Mapping[str, Strategy]) -> Changes:
        """Another joint choice along one axis of the group's mesh, or all axes of a level."""
        joint, group = self.alignment.group_choices[g], self.coarse.groups[g]
        axes = self.cluster.axes
        lead = now[self.graph.nodes[group.slots[group.lead][0]].name]
        if not lead.choices:
            return {}
        followed = {
            joint.options[group.lead].choices[option]: number
            for number, option in enumerate(joint.lead_option.tolist())
        }
        numbers = [followed.get(choice, 0) for choice in lead.choices]
        changed = [rng.randrange(len(numbers))]
        if lead.mesh is None and rng.random() < 0.5:
            level = axes[changed[0]].level
            changed = [axis for axis in range(len(axes)) if axes[axis].level == level]
        number = rng.randrange(len(joint.choice))
        kind = self.all[g].kinds[number]
        if lead.mesh is None and not all(self.space.allows(kind, axis) for axis in changed):
            return {}
        for axis in changed:
            numbers[axis] = number
        return self.alignment.strategies(g, joint.choice[numbers].T, lead.mesh)

    def _neighbour(self, rng: Random, g: int, now: Mapping[str, Strategy]) -> Changes:
        """As another group has what passes between them."""
        if not self.alignment.borders[g]:
            return {}
        border = rng.choice(self.alignment.borders[g])
        return self.alignment.match(g, border, self.alignment.at(border, now), rng.choice)

    def _copied(self, rng: Random, g: int, now: Mapping[str, Strategy]) -> Changes:
        """The strategies that an equal group has."""
        like = rng.choice([h for h in self.alignment.alike[self.alignment.key[g]] if h != g])
        nodes, groups = self.graph.nodes, self.coarse.groups
        return {
            nodes[i].name: now[nodes[j].name]
            for mine, its in zip(groups[g].slots, groups[like].slots, strict=True)
            for i, j in zip(mine, its, strict=True)
        }

    # -- more than one, or less -------------------------------------------------------------------

    def _alike(self, rng: Random, g: int, now: Mapping[str, Strategy]) -> Changes:
        """One configuration for all groups alike: a good one for this one, or any."""
        if rng.random() < 0.5:
            first = self._estimated(rng, g, now)
        else:
            first = self._configuration(g, rng.randrange(len(self.all[g])), {})
        nodes, groups = self.graph.nodes, self.coarse.groups
        slots = [first[nodes[slot[0]].name] for slot in groups[g].slots]
        changes: Changes = {}
        for h in self.alignment.alike[self.alignment.key[g]]:
            for strategy, members in zip(slots, groups[h].slots, strict=True):
                changes.update((nodes[i].name, strategy) for i in members)
            self.alignment.settle(h, changes)
        return changes

    def _sweep(self, g: int, changes: Changes, now: Mapping[str, Strategy]) -> None:
        """Light groups around a group follow it: by the estimate, or else as the border is."""
        around = dict.fromkeys(b.group for b in self.alignment.borders[g] if b.group in self.light)
        there = {**now, **changes}
        known = self.hints.now(g, there) is not None
        for h in around:
            if known:
                c = int(self.hints.estimate(h, there, 0).argmin())
                changes |= self.alignment.strategies(
                    h, self.hints.narrowed.configurations[h].choice[c]
                )
                self.alignment.settle(h, changes)
                continue
            border = next((b for b in self.alignment.borders[h] if b.group == g), None)
            if border is not None:
                changes |= self.alignment.match(h, border, self.alignment.at(border, there))
                self.alignment.settle(h, changes)

    def _node(self, rng: Random) -> Changes:
        node = rng.choice(self.graph.nodes)
        subsets = self.space.subsets
        facts = self.coarse.facts
        return {node.name: valid_strategy(rng, facts, node, self.cluster, subsets=subsets)}


def random_axes(rng: Random, cluster: Cluster) -> dict[int, int]:
    """Some axes and a coordinate along each; half of the time the outermost ones, so that devices
    that are close stay together."""
    axes = cluster.axes
    count = rng.randint(1, len(axes))
    chosen = range(count) if rng.random() < 0.5 else rng.sample(range(len(axes)), count)
    return {axis: rng.randrange(axes[axis].size) for axis in sorted(chosen)}


def beneath(mesh: Mesh, fixed: Mapping[int, int]) -> Mesh:
    """The devices of a mesh that have some coordinates."""
    grid = np.array(mesh.devices).reshape(mesh.shape)
    part = grid[tuple(fixed.get(axis, slice(None)) for axis in range(len(mesh.shape)))]
    return Mesh(tuple(np.ravel(part).tolist()), part.shape)
