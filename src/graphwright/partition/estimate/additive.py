"""The additive estimate of a graph on a cluster: groups, their configurations, and the way to
plans.

    make_estimate(coarse, cluster, costs, space)      every configuration of every group
        .select({group: numbers})                     the same with fewer: a new estimate
        .problem()                                    a variable for each group, a table for each
                                                      two that something passes between
        .plan(assignment, name)                       a strategy for every node

An estimate does not change. Those that are selected from one share its tables (`cost_tables`), so
that going on with fewer configurations and coming back costs nothing. Groups with too many
configurations keep the most promising (`search.narrow`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from graphwright.describe import sample_dims
from graphwright.ir import Role
from graphwright.machine import Cluster
from graphwright.partition.estimate.cost_tables import CostTables, Measure, batch_layout
from graphwright.partition.estimate.moving import Prices
from graphwright.partition.estimate.problem import Assignment, Pair, Problem, Table
from graphwright.partition.estimate.stepwise import Stepwise
from graphwright.partition.space import (
    Coarse,
    Configurations,
    GroupChoices,
    Space,
    Weight,
    add_plans,
    configure,
    find_group_choices,
    to_sharding,
)
from graphwright.plans import Kept, Plan, Strategy, make_plan, whole_mesh
from graphwright.tasks import Costs

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Estimate:
    """Groups and the configurations that a search may choose from.

    all              every configuration of each group
    active           the numbers of those in use
    configurations   those in use
    seeds            for each group the numbers that known plans gave it, None where a plan has none
    group_choices    for each group its joint choices along one axis
    """

    tables: CostTables
    all: tuple[Configurations, ...]
    active: tuple[Ints, ...]
    configurations: tuple[Configurations, ...]
    seeds: tuple[tuple[int | None, ...], ...]
    group_choices: tuple[GroupChoices, ...]

    @property
    def coarse(self) -> Coarse:
        return self.tables.coarse

    @property
    def cluster(self) -> Cluster:
        return self.tables.cluster

    @property
    def costs(self) -> Costs:
        return self.tables.costs

    @property
    def space(self) -> Space:
        return self.tables.space

    def signature(self, g: int) -> int:
        """Equal for groups that do the same in different layers."""
        return self.tables.signature[g]

    def key(self, g: int) -> Hashable:
        """Equal for groups with equal operators and equal configurations."""
        return self.tables.key(g, self.configurations[g])

    # -- fewer configurations, or others ----------------------------------------------------------

    def select(self, wanted: Mapping[int, Ints]) -> Estimate:
        """The estimate with some configurations of some groups; those of known plans stay."""
        active, configurations = list(self.active), list(self.configurations)
        known: dict[Hashable, Configurations] = {}
        for g, numbers in wanted.items():
            seeds = [s for s in self.seeds[g] if s is not None]
            numbers = np.union1d(numbers, np.array(seeds, dtype=np.int64)).astype(np.int64)
            if np.array_equal(numbers, active[g]):
                continue
            key = (self.signature(g), self.all[g].key, numbers.tobytes())
            if key not in known:
                known[key] = self.all[g].only(numbers)
            configurations[g], active[g] = known[key], numbers
        return replace(self, active=tuple(active), configurations=tuple(configurations))

    def having(self, configurations: Sequence[Configurations]) -> Estimate:
        """The estimate with other configurations, which are all there are; no plan is known."""
        every = tuple(configurations)
        return replace(
            self,
            all=every,
            configurations=every,
            active=_numbers_of(every),
            seeds=((),) * len(every),
        )

    # -- the problem and the way back -------------------------------------------------------------

    def unary(self, g: int) -> Table:
        """Time and memory of a group by itself."""
        return self.tables.unary(g, self.configurations[g])

    def pair(self, a: int, b: int) -> Table | None:
        """What passes between two groups, a < b; None for nothing."""
        return self.tables.pair(a, self.configurations[a], b, self.configurations[b])

    def problem(self) -> Problem:
        """All tables."""
        unary = tuple(self.unary(g) for g in range(len(self.configurations)))
        pairs: dict[Pair, Table] = {}
        for a, b in self.tables.flows.between:
            u, v = min(a, b), max(a, b)
            if u != v and (u, v) not in pairs:
                table = self.pair(u, v)
                if table is not None:
                    pairs[u, v] = table
        return Problem(unary, pairs)

    def plan(self, assignment: Assignment, algorithm: str, seed: int | None = None) -> Plan:
        """The plan of an assignment: a strategy for every node, a home for what is kept."""
        facts, mesh = self.coarse.facts, whole_mesh(self.cluster)
        strategies, inputs = {}, {}
        known: dict[tuple[Configurations, int], tuple[Strategy, ...]] = {}
        for g, group in enumerate(self.coarse.groups):
            c = int(assignment.choices[g])
            configurations = self.configurations[g]
            chosen = known.get((configurations, c))
            if chosen is None:
                chosen = known[configurations, c] = configurations.strategies(c)
            for strategy, nodes in zip(chosen, group.slots, strict=True):
                for node in nodes:
                    strategies[facts.graph.nodes[node].name] = strategy
            if group.weight is Weight.UPDATE:
                for r, name in enumerate(group.inputs):
                    inputs[name] = to_sharding(configurations.rest[c, r], mesh)
        if self.space.loader:
            for name in facts.graph.inputs:
                tensor = facts.graph.tensors[name]
                if tensor.role is Role.INPUT:
                    row = batch_layout(tensor.type, self.cluster, self.space.batch_dim)
                    inputs[name] = to_sharding(row, mesh)
        return make_plan(
            facts.graph,
            self.cluster,
            strategies,
            inputs=inputs,
            keep=self._kept(assignment),
            algorithm=algorithm,
            seed=seed,
        )

    def _kept(self, assignment: Assignment) -> dict[str, Kept]:
        """Which copies are dropped: only where all groups that hold a tensor say so."""
        votes: dict[str, set[int]] = {}
        for (maker, reader), names in self.tables.flows.held.items():
            option = assignment.options.get((min(maker, reader), max(maker, reader)), 0)
            for name in names:
                votes.setdefault(name, set()).add(option)
        words: dict[int, Kept] = {1: "before", 2: "after"}
        return {
            name: words[option]
            for name, said in votes.items()
            if len(said) == 1
            and (option := next(iter(said))) in words
            and not (option == 2 and name not in self.coarse.facts.producer)
        }


def make_estimate(
    coarse: Coarse,
    cluster: Cluster,
    costs: Costs,
    space: Space | None = None,
    *,
    measure: Measure = "time",
    plans: Sequence[Plan] = (),
    prices: Prices | Stepwise | None = None,
) -> Estimate:
    """The estimate with every configuration in a space, and those that known plans give the groups,
    so that no search does worse than they do."""
    space = space or Space()
    tables = CostTables(coarse, cluster, costs, space, measure, prices)
    samples = sample_dims(coarse.facts.graph, space.batch_dim)
    known: dict[int, tuple[GroupChoices, Configurations]] = {}
    for group, key in zip(coarse.groups, tables.signature, strict=True):
        if key not in known:
            joint = find_group_choices(coarse, group, reduction=space.reduction)
            known[key] = joint, configure(coarse, group, joint, cluster, space, samples)
    every = [known[key][1] for key in tables.signature]
    seeds: list[tuple[int | None, ...]] = [()] * len(every)
    for g, group in enumerate(coarse.groups if plans else ()):
        united, numbers = add_plans(coarse, group, every[g], plans)
        seeds[g] = tuple(numbers)
        if len(united) > len(every[g]):
            every[g] = united
    return Estimate(
        tables=tables,
        all=tuple(every),
        active=_numbers_of(every),
        configurations=tuple(every),
        seeds=tuple(seeds),
        group_choices=tuple(known[key][0] for key in tables.signature),
    )


def _numbers_of(every: Sequence[Configurations]) -> tuple[Ints, ...]:
    return tuple(np.arange(len(configurations)) for configurations in every)
