"""A finite space of plans, small enough to be searched to the end: heavy groups choose, everything
else follows.

    conv1: 10 configurations   conv2: 10   fc1: 15   ...            the product of these is the space
      + relu, pool               + relu      + relu                  light groups go with the heavy group from which most bytes come or to
      + updates                  + updates   + updates               which most go; parameters' updates with their first readers

A heavy group and all that follows it are a *family*. How a family is spread depends on its own
choice alone, so a plan is a number for each family, and what the simulator needs of one node or of
one tensor depends on one or two of these numbers (`lower_bounds`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from random import Random

from graphwright.errors import InvalidStrategy
from graphwright.partition.estimate import Estimate
from graphwright.partition.search.annealing import Alignment, Border, Changes, Proposal
from graphwright.partition.space import Weight
from graphwright.plans import Plan, Replicate, Strategy, make_plan
from graphwright.tasks import place_node


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Family:
    """Groups that are spread together: the heavy one's number, its nodes with theirs, and the
    strategies of all of them for each choice."""

    group: int
    nodes: tuple[int, ...]
    choices: tuple[Changes, ...]

    def __len__(self) -> int:
        return len(self.choices)


class FiniteSpace:
    """The plans in which all groups follow the heavy ones."""

    def __init__(self, estimate: Estimate) -> None:
        self.estimate, self.alignment = estimate, Alignment(estimate)
        self.graph, self.cluster = estimate.coarse.facts.graph, estimate.cluster
        guides = self._guides()
        self.families = tuple(
            self._family(g, guides)
            for g, group in enumerate(estimate.coarse.groups)
            if group.weight is Weight.HEAVY
        )
        inside = {name for family in self.families for name in family.choices[0]}
        same = Strategy((Replicate(),) * len(self.cluster.axes))
        self.rest: Changes = {n.name: same for n in self.graph.nodes if n.name not in inside}

    @property
    def num_plans(self) -> int:
        """The size of the space."""
        return prod(map(len, self.families))

    def strategies(self, choices: Sequence[int]) -> Changes:
        """The strategies of all nodes."""
        found = dict(self.rest)
        for family, c in zip(self.families, choices, strict=True):
            found |= family.choices[c]
        return found

    def plan(self, choices: Sequence[int], algorithm: str = "exhaustive") -> Plan:
        """The plan of a choice for every family."""
        return make_plan(self.graph, self.cluster, self.strategies(choices), algorithm=algorithm)

    def draw(self, rng: Random, now: Mapping[str, Strategy]) -> Proposal:
        """Another choice for one family, for annealing in this space."""
        family = rng.choice(self.families)
        wanted = rng.choice(family.choices)
        return Proposal(kind="family", changes={n: s for n, s in wanted.items() if now[n] != s})

    def _guides(self) -> dict[int, tuple[int, Border]]:
        """For each light group the group that it follows, decided earlier, and the border between
        them."""
        groups = self.estimate.coarse.groups
        decided = {g for g, group in enumerate(groups) if group.weight is Weight.HEAVY}
        waiting = [g for g, group in enumerate(groups) if group.weight is Weight.LIGHT]
        guides: dict[int, tuple[int, Border]] = {}
        while True:
            found = {
                h: next((b for b in self.alignment.borders[h] if b.group in decided), None)
                for h in waiting
                if h not in decided
            }
            ready = {h: border for h, border in found.items() if border is not None}
            if not ready:
                return guides
            for h, border in ready.items():
                guides[h] = border.group, border
                decided.add(h)

    def _family(self, g: int, guides: Mapping[int, tuple[int, Border]]) -> Family:
        members = [g]
        for h, (guide, _) in guides.items():  # those who guide come before those who follow
            if guide in members:
                members.append(h)
        choices = []
        for c in range(len(self.estimate.all[g])):
            changes = self.alignment.strategies(g, self.estimate.all[g].choice[c])
            self.alignment.settle(g, changes)
            for h in members[1:]:
                border = guides[h][1]
                changes |= self.alignment.match(h, border, self.alignment.at(border, changes))
                self.alignment.settle(h, changes)
            if changes not in choices and self._possible(changes):
                choices.append(changes)
        position = self.estimate.coarse.facts.position
        return Family(
            group=g,
            nodes=tuple(sorted(position[name] for name in choices[0])),
            choices=tuple(choices),
        )

    def _possible(self, changes: Changes) -> bool:
        facts = self.estimate.coarse.facts
        try:
            for name, strategy in changes.items():
                place_node(facts, self.graph.nodes[facts.position[name]], strategy, self.cluster)
        except InvalidStrategy:
            return False
        return True
