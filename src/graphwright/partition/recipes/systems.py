"""The plans of experts and of other systems, each as a restriction of the same search.

A recipe of experts fixes the heavy operators; what lies between them follows at the least cost.

    one_weird_trick   samples for convolutions, parameters for fully-connected layers (Krizhevsky)

Those for large models are in `sharded`.

Others decide group by group, or operator by operator:

    spartan           greedily, the largest tensor first, or the best connected group
    all_row           every tensor by its first dim, each operator as is best for that
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from numpy.typing import NDArray

from graphwright.describe import Soap, Types
from graphwright.ir import Attrs, Role, TensorType
from graphwright.machine import Cluster
from graphwright.partition.estimate import Estimate, Prices
from graphwright.partition.search import greedy, largest_of_groups, least
from graphwright.partition.space import (
    REPLICATED,
    Coarse,
    Codes,
    Configurations,
    Group,
    Options,
    Weight,
    can_tile,
    options,
    to_sharding,
)
from graphwright.plans import Along, Plan, Replicate, Strategy, make_plan, whole_mesh
from graphwright.tasks import Costs

Rule = Callable[[Soap, bool, int], bool]
"""Whether a split of this class, which may make sums of terms, is wanted along the axes of a
level."""


def one_weird_trick(estimate: Estimate) -> Plan:
    """Samples, but the columns of the weight where an operator multiplies by a matrix."""
    coarse = estimate.coarse
    return _follow(
        estimate,
        lambda group: _columns if _is_fully_connected(coarse, group) else _samples,
        "one-weird-trick",
    )


def _samples(kind: Soap, reduces: bool, level: int) -> bool:
    return kind is Soap.SAMPLE


def _columns(kind: Soap, reduces: bool, level: int) -> bool:
    return kind is Soap.PARAMETER and not reduces


def _follow(estimate: Estimate, rule_of: Callable[[Group], Rule], name: str) -> Plan:
    """Heavy groups as their rules say, the rest at the least cost."""
    wanted: dict[int, NDArray[np.int64]] = {}
    for g, (group, every) in enumerate(zip(estimate.coarse.groups, estimate.all, strict=True)):
        if group.weight is Weight.HEAVY:
            wanted[g] = most_split(every, group, rule_of(group), estimate.cluster)
        else:
            wanted[g] = every.uniform()
    chosen = estimate.select(wanted)
    return chosen.plan(least(chosen.problem()), name)


def most_split(
    every: Configurations, group: Group, rule: Rule, cluster: Cluster
) -> NDArray[np.int64]:
    """The configurations that have as many parts as a rule allows."""
    levels = len(cluster.levels)
    counts = every.mix.reshape(len(every), levels, -1)
    good = (every.mix >= 0).all(axis=1)
    for level in range(levels):
        for number, kind in enumerate(every.kinds):
            if kind is not None and not rule(kind, every.reduces[number], level):
                good &= counts[:, level, number] <= 0
    sizes = np.array([axis.size for axis in cluster.axes])
    units = np.array(every.options[group.lead].units)
    split = units[every.choice[:, group.lead]] > 0
    parts = np.where(good, np.where(split, sizes, 1).prod(axis=1), 0)
    return np.flatnonzero(parts == parts.max())


def _is_fully_connected(coarse: Coarse, group: Group) -> bool:
    """Whether the lead multiplies by a matrix that is a parameter, or a view of one."""
    facts = coarse.facts
    node = facts.graph.nodes[group.slots[group.lead][0]]
    read = (facts.graph.tensors[facts.root[name]] for name in node.inputs if name is not None)
    return any(tensor.role is Role.PARAMETER and tensor.type.rank == 2 for tensor in read)


def spartan(estimate: Estimate) -> Plan:
    """The better of Spartan's two greedy orders."""
    problem, sizes = estimate.problem(), largest_of_groups(estimate)
    assignments = [greedy(problem, sizes, order) for order in ("largest", "connected")]
    return estimate.plan(min(assignments, key=lambda a: a.time), "spartan")


def all_row(coarse: Coarse, cluster: Cluster, costs: Costs) -> Plan:
    """Each operator by itself, given that all it reads and makes lies in rows."""
    facts, rows = coarse.facts, _FirstDim(cluster, costs)
    strategies: dict[str, Strategy] = {}
    for i, node in enumerate(facts.graph.nodes):
        strategies[node.name] = rows.best(node.op, facts.attrs[i], facts.types[i])
    mesh = whole_mesh(cluster)
    inputs = {
        name: to_sharding(rows.layout(facts.graph.tensors[name].type), mesh)
        for name in facts.graph.inputs
    }
    return make_plan(facts.graph, cluster, strategies, inputs=inputs, algorithm="all-row")


class _FirstDim:
    """Tensors that are all split along their first dim."""

    def __init__(self, cluster: Cluster, costs: Costs) -> None:
        self.sizes = [axis.size for axis in cluster.axes]
        self.prices = Prices(cluster, costs)
        self.known: dict[tuple[str, Attrs, Types], Strategy] = {}

    def layout(self, type: TensorType) -> Codes:
        """Along as many axes as there are rows for."""
        row, ways = np.full(len(self.sizes), REPLICATED, dtype=np.int8), 1
        for axis, size in enumerate(self.sizes):
            if type.rank and type.shape[0] >= ways * size:
                row[axis] = 0
                ways *= size
        return row

    def best(self, op: str, attrs: Attrs, types: Types) -> Strategy:
        """The one choice for all axes that moves the least from and to rows."""
        key = (op, attrs, types)
        if key not in self.known:
            every = options(op, attrs, types)
            possible = [o for o in range(len(every.choices)) if self._can(key, every, o)]
            split = [o for o in possible if every.units[o]] or possible
            number = min(split, key=lambda o: (self._moved(types, every, o), o))
            self.known[key] = Strategy((every.choices[number],) * len(self.sizes))
        return self.known[key]

    def _can(self, call: tuple[str, Attrs, Types], every: Options, option: int) -> bool:
        choice = every.choices[option]
        if isinstance(choice, Along):
            ways = prod(self.sizes)
            return ways <= every.units[option] and can_tile(*call, ((choice.index, ways),))
        return isinstance(choice, Replicate)

    def _moved(self, types: Types, every: Options, option: int) -> float:
        axes, total = len(self.sizes), 0.0
        for arg, type in enumerate(types.inputs):
            if type is not None:
                total += self._price(type, self.layout(type), every.need[option, arg], axes)
        for output, type in enumerate(types.outputs):
            made = np.full(axes, every.made[option, output], dtype=np.int8)
            total += float(self.prices.table(type, made[None], self.layout(type)[None])[1][0, 0])
        return total

    def _price(self, type: TensorType, source: Codes, code: int, axes: int) -> float:
        target = np.full(axes, code, dtype=np.int8)
        return float(self.prices.table(type, source[None], target[None])[1][0, 0])
