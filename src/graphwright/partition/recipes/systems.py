"""The plans of other systems and of experts, each as a restriction of the same search.

    one-weird-trick   samples for convolutions, parameters for fully-connected layers (Krizhevsky 2014)
    zero              samples for all operators; parameters, gradients and state live in parts (ZeRO, FSDP)
    megatron          samples between nodes; within a node every heavy operator is split along parameters or heads
    optcnn            least time, nothing else (OptCNN)
    tofu              least bytes, one axis at a time, nothing replicated (Tofu)
    icml18            the same for all axes at once, but no sums of terms (Jia et al. 2018, as Tofu compares with it)
    equal-chop        least bytes, each operator split along one index only
    spartan           greedily, the largest tensor first
    all-row           every tensor by its first dim, each operator as is best for that

A recipe fixes the heavy operators; what lies between them follows at the least cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from graphwright.describe import Soap, Types
from graphwright.ir import Attrs, Role, TensorType
from graphwright.machine import Cluster
from graphwright.partition.estimate import Model, Prices
from graphwright.partition.recipes.plain import BASELINES, data_parallel
from graphwright.partition.search import TOFU, greedy, largest_of_groups, least, narrow, recursive
from graphwright.partition.space import (
    REPLICATED,
    Coarse,
    Codes,
    Configurations,
    Group,
    Options,
    Space,
    Weight,
    can_tile,
    options,
    to_sharding,
)
from graphwright.plans import Along, Plan, Replicate, Strategy, make_plan, whole_mesh
from graphwright.tasks import Costs

Rule = Callable[[Soap, bool, int], bool]
"""Whether a split of this class, which may make sums of terms, is wanted along the axes of a level."""

RECIPES = ("data", "layers", "one-weird-trick", "zero", "megatron")
"""What people do, without a search."""
SYSTEMS = ("optcnn", "tofu", "icml18", "equal-chop", "spartan", "all-row")
"""What other systems find."""


def other_plan(
    name: str,
    coarse: Coarse,
    cluster: Cluster,
    costs: Costs,
    model: Model | None = None,
    *,
    batch_dim: int = 0,
) -> Plan:
    """The plan of a recipe or a system; `model` saves work where there is one already."""
    if name == "data":
        return data_parallel(coarse.site.graph, cluster, batch_dim)
    if name in BASELINES:
        return BASELINES[name](coarse.site.graph, cluster)
    plain = Space(batch_dim=batch_dim)
    match name:
        case "one-weird-trick" | "zero" | "megatron":
            return _follow_recipe(name, model or Model(coarse, cluster, costs, plain))
        case "optcnn":
            own = model or Model(coarse, cluster, costs, replace(plain, reuse=False))
            return own.plan(least(narrow(own, own.space.width)), name)
        case "tofu":
            return replace(recursive(coarse, cluster, costs).plan, algorithm=name)
        case "icml18":
            space = replace(TOFU, reduction=False, width=64)
        case "equal-chop":
            space = replace(TOFU, single_split=True)
        case "spartan":
            return _spartan(coarse, cluster, costs)
        case _:
            return _all_row(coarse, cluster, costs)
    found = Model(coarse, cluster, costs, space, measure="bytes")
    return found.plan(least(narrow(found, space.width)), name)


def _follow_recipe(name: str, model: Model) -> Plan:
    before = list(model.active)
    innermost = len(model.cluster.levels) - 1

    def samples(kind: Soap, reduces: bool, level: int) -> bool:
        return kind is Soap.SAMPLE

    def columns(kind: Soap, reduces: bool, level: int) -> bool:
        return kind is Soap.PARAMETER and not reduces

    def within_node(kind: Soap, reduces: bool, level: int) -> bool:
        if level < innermost:
            return kind is Soap.SAMPLE
        return kind is not Soap.SAMPLE

    wanted: dict[int, NDArray[np.int64]] = {}
    for g, group in enumerate(model.coarse.groups):
        found = model.all[g]
        if group.weight is Weight.HEAVY:
            rule: Rule = samples
            if name == "megatron":
                rule = within_node
            elif name == "one-weird-trick" and _is_fully_connected(model.coarse, group):
                rule = columns
            wanted[g] = most_split(found, group, rule, model)
        elif group.weight is Weight.UPDATE and name == "zero":
            wanted[g] = _most_stored_in_parts(found, model)
        else:
            wanted[g] = found.uniform()
    model.select(wanted)
    plan = model.plan(least(model.problem()), name)
    model.select(dict(enumerate(before)))
    return plan


def most_split(found: Configurations, group: Group, rule: Rule, model: Model) -> NDArray[np.int64]:
    """The configurations that have as many parts as a rule allows."""
    levels = len(model.cluster.levels)
    counts = found.mix.reshape(len(found), levels, -1)
    good = (found.mix >= 0).all(axis=1)
    for level in range(levels):
        for number, kind in enumerate(found.kinds):
            if kind is not None and not rule(kind, found.reduces[number], level):
                good &= counts[:, level, number] <= 0
    sizes = np.array([axis.size for axis in model.cluster.axes])
    units = np.array(found.options[group.lead].units)
    split = units[found.choice[:, group.lead]] > 0
    parts = np.where(good, np.where(split, sizes, 1).prod(axis=1), 0)
    return np.flatnonzero(parts == parts.max())


def _most_stored_in_parts(found: Configurations, model: Model) -> NDArray[np.int64]:
    sizes = np.array([axis.size for axis in model.cluster.axes])
    if found.rest.shape[1] == 0:
        return np.arange(len(found))
    parts = np.where(found.rest >= 0, sizes, 1).prod(axis=2).min(axis=1)
    return np.flatnonzero(parts == parts.max())


def _is_fully_connected(coarse: Coarse, group: Group) -> bool:
    """Whether the lead multiplies by a matrix that is a parameter, or a view of one."""
    site = coarse.site
    node = site.graph.nodes[group.slots[group.lead][0]]
    for name in node.inputs:
        while name is not None and name in site.producer and site.is_view[site.producer[name][0]]:
            maker = site.graph.nodes[site.producer[name][0]]
            name = next((n for n in maker.inputs if n is not None), None)
        if name is not None:
            tensor = site.graph.tensors[name]
            if tensor.role is Role.PARAMETER and tensor.type.rank == 2:
                return True
    return False


def _spartan(coarse: Coarse, cluster: Cluster, costs: Costs) -> Plan:
    model = Model(coarse, cluster, costs, TOFU, measure="bytes")
    problem = narrow(model, 64)
    found = min(
        (greedy(problem, largest_of_groups(model), order) for order in ("largest", "connected")),
        key=lambda a: a.time,
    )
    return model.plan(found, "spartan")


def _all_row(coarse: Coarse, cluster: Cluster, costs: Costs) -> Plan:
    """Each operator by itself, given that all it reads and makes lies in rows."""
    site, rows = coarse.site, _Rows(cluster, costs)
    strategies: dict[str, Strategy] = {}
    for i, node in enumerate(site.graph.nodes):
        strategies[node.name] = rows.best(node.op, site.attrs[i], site.types[i])
    mesh = whole_mesh(cluster)
    inputs = {
        name: to_sharding(rows.layout(site.graph.tensors[name].type), mesh)
        for name in site.graph.inputs
    }
    return make_plan(site.graph, cluster, strategies, inputs=inputs, algorithm="all-row")


class _Rows:
    """Tensors that are all split along their first dim."""

    def __init__(self, cluster: Cluster, costs: Costs) -> None:
        self.sizes = [axis.size for axis in cluster.axes]
        self.prices = Prices(cluster, costs)
        self.found: dict[tuple[str, Attrs, Types], Strategy] = {}

    def layout(self, type: TensorType) -> Codes:
        """Along as many axes as there are rows for."""
        row, ways = np.full(len(self.sizes), REPLICATED, dtype=np.int8), 1
        for axis, size in enumerate(self.sizes):
            if type.rank and type.shape[0] >= ways * size:
                row[axis] = 0
                ways *= size
        return row

    def best(self, op: str, attrs: Attrs, types: Types) -> Strategy:
        """One choice for all axes: the one that moves the least between rows and what it needs and makes."""
        key = (op, attrs, types)
        if key not in self.found:
            every = options(op, attrs, types)
            possible = [o for o in range(len(every.choices)) if self._can(key, every, o)]
            split = [o for o in possible if every.units[o]] or possible
            number = min(split, key=lambda o: (self._moved(types, every, o), o))
            self.found[key] = Strategy((every.choices[number],) * len(self.sizes))
        return self.found[key]

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
