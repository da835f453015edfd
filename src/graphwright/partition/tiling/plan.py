"""Tilings for the arrays of a program: `plan_tilings`, and the plan that it returns.

plan = plan_tilings(graph, workers=4)
plan.shardings["x"]     where an array is: by rows, by columns, in blocks
plan.copies["x"]        the other layouts that it is brought to
plan.nbytes             what all workers together receive from others
plan.plan               the same as a plan for a cluster: it can be simulated, lowered and run
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from time import perf_counter

from graphwright.errors import InvalidStrategy, PlanMismatch
from graphwright.frozen import FrozenDict
from graphwright.ir import Graph
from graphwright.machine import Cluster
from graphwright.partition.registry import check_number
from graphwright.partition.tiling.algorithms import (
    ExactTiling,
    TilingAlgorithm,
    find_tiling_algorithm,
)
from graphwright.partition.tiling.explain import explain_tilings
from graphwright.partition.tiling.feedback import Feedback
from graphwright.partition.tiling.problem import (
    Array,
    TilingGraph,
    make_tiling_graph,
    tiling_bytes,
)
from graphwright.partition.tiling.space import SMALL
from graphwright.partition.tiling.transfers import received
from graphwright.partition.tiling.workers import sides_of, worker_cluster
from graphwright.plans import (
    Plan,
    Sharding,
    Strategy,
    check_sharding,
    local_bytes,
    make_plan,
    whole_mesh,
)
from graphwright.tasks import GraphFacts, Placed, facts_of, place_node

_UNEVEN = 1e-3
"""By what share the bytes of terms may differ from what was counted, where parts are uneven."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TilingPlan:
    """How every array of a program is tiled, and what that costs.

    shardings      where each tensor is made, or, for an input, lies
    copies         the other layouts in which operators need it, each brought once
    received       bytes that workers receive from others, by the operator that they are for
    moved          the same by tensor: what bringing it to its copies takes
    duplicates     bytes on the fullest worker of layouts beyond the smallest of each array
    exact          whether no other tilings take fewer bytes
    seconds        how long planning took
    """

    graph: Graph
    plan: Plan
    shardings: Mapping[str, Sharding]
    copies: Mapping[str, tuple[Sharding, ...]]
    received: Mapping[str, int]
    moved: Mapping[str, int]
    duplicates: int
    algorithm: str
    exact: bool
    seconds: float = field(compare=False)

    @property
    def workers(self) -> int:
        return self.plan.cluster.num_devices

    @property
    def nbytes(self) -> int:
        """The bytes that all workers together receive from others."""
        return sum(self.received.values())

    def strategy(self, node: str) -> Strategy:
        """How an operator is split, by the name of its node."""
        return self.plan.strategy(node)

    def update_bytes(self, node: str) -> int:
        """The bytes that adding up the terms of an operator's results takes, if they fill them."""
        made = self.graph.producer(node)
        return sum(
            self.moved[name]
            for name in (() if made is None else made.outputs)
            if self.shardings[name].is_partial
        )

    def explain(self) -> str:
        """Every array with its tiles, the copies of it, and the bytes that they cost."""
        return explain_tilings(self)

    def __repr__(self) -> str:
        least = ", the least there is" if self.exact else ""
        return (
            f"TilingPlan({len(self.shardings):,} arrays on {self.workers} workers, "
            f"{self.algorithm}: {self.nbytes:,} bytes received{least})"
        )


def plan_tilings(
    graph: Graph | GraphFacts,
    workers: int,
    *,
    memory: float | None = None,
    fixed: Mapping[str, Sharding] = FrozenDict(),
    algorithm: TilingAlgorithm | str = ExactTiling(),  # noqa: B008
    feedback: Feedback = Feedback(),  # noqa: B008
    small: float = SMALL,
    kept: Collection[str] = (),
) -> TilingPlan:
    """Choose a tiling for every array of a graph, with the fewest bytes received from other
    workers.

    memory      the most bytes of duplicates on a worker: layouts of an array beyond its smallest;
                None for no limit
    fixed       shardings of graph inputs that are already there, on the mesh of the workers
    algorithm   "exact", "greedy" or "rows", or one of their values
    feedback    what earlier runs took, for operators whose terms touch part of their output
    small       what touches no more bytes than this may be computed, or lie, on all workers
    kept        results that programs to come will read: they are cut along their longest dim where
                that takes few bytes, as those programs are not known

    The search counts terms as if parts were even and no worker fetched anything twice; the plan has
    the bytes of its transfers, and is called exact only if they are what was counted.
    """
    start = perf_counter()
    chooser = find_tiling_algorithm(algorithm)
    facts, cluster = facts_of(graph), worker_cluster(workers)
    check_number("small", small, least=0)
    if memory is not None:
        check_number("memory", memory, least=0)
    _check_fixed(facts, cluster, fixed)
    tiling_graph = make_tiling_graph(
        facts,
        cluster,
        sides_of(cluster),
        small=float(small),
        fixed=fixed,
        share=feedback.shares(facts),
        kept=kept,
    )
    while True:
        chosen = chooser.choose(tiling_graph, inf if memory is None else float(memory))
        wrong = _unplaceable(tiling_graph, chosen.tilings)
        if not wrong:
            break
        tiling_graph = tiling_graph.restricted(wrong)
    made = _make_plan(tiling_graph, chosen.tilings, chooser.name)
    counted = tiling_bytes(tiling_graph, chosen.tilings)
    exact = chosen.exact and made.nbytes <= counted * (1 + _UNEVEN) + 1
    return replace(made, exact=exact, seconds=perf_counter() - start)


def _check_fixed(facts: GraphFacts, cluster: Cluster, fixed: Mapping[str, Sharding]) -> None:
    for name, sharding in fixed.items():
        if name not in facts.graph.inputs:
            raise PlanMismatch(
                f"fixed has a sharding for {name!r}, which is not an input of the graph; its "
                f"inputs are {', '.join(facts.graph.inputs) or 'none'}"
            )
        mesh = getattr(sharding, "mesh", None)
        if mesh != whole_mesh(cluster) or sharding.is_partial or sharding.pieces:
            raise InvalidStrategy(
                f"fixed: {name}: give a Sharding in even parts on the mesh of {cluster.name}, of "
                f"shape {whole_mesh(cluster).shape}, not {sharding!r}"
            )
        check_sharding(sharding, facts.graph.tensors[name].type, f"fixed: {name}")


def _unplaceable(graph: TilingGraph, chosen: list[int]) -> dict[int, list[int]]:
    """The other tilings of operators that cannot be cut along two indices as was chosen."""
    wrong: dict[int, list[int]] = {}
    for variable in range(graph.num_inputs, len(chosen)):
        tilings, number = graph.tilings[variable], chosen[variable]
        try:
            _place(graph, variable, tilings.strategies[number])
        except InvalidStrategy:
            wrong[variable] = [n for n in range(len(tilings)) if n != number]
    return wrong


def _place(graph: TilingGraph, variable: int, strategy: Strategy) -> Placed:
    node = graph.facts.graph.nodes[variable - graph.num_inputs]
    return place_node(graph.facts, node, strategy, graph.cluster)


def _result(
    graph: TilingGraph, array: Array, source: Sharding, needed: Iterable[Sharding]
) -> Sharding:
    """Where a result is added up: where an operator needs it, or as takes the fewest bytes."""
    whole = [s for s in needed if not (s.is_partial or s.pieces)]
    return min(
        whole or graph.homes(array),
        key=lambda target: received(graph.cluster, array.type, source, target),
    )


def _make_plan(graph: TilingGraph, chosen: list[int], name: str) -> TilingPlan:
    """The plan of some tilings, with the bytes of its transfers."""
    facts, first = graph.facts, graph.num_inputs
    nodes = facts.graph.nodes
    strategies = [
        tilings.strategies[number]
        for tilings, number in zip(graph.tilings[first:], chosen[first:], strict=True)
    ]
    placed = [_place(graph, first + i, strategy) for i, strategy in enumerate(strategies)]
    inputs = {
        given: graph.tilings[v].made[0][chosen[v]] for v, given in enumerate(facts.graph.inputs)
    }
    shardings: dict[str, Sharding] = {}
    copies: dict[str, tuple[Sharding, ...]] = {}
    counted = {node.name: 0 for node in nodes}
    moved = dict.fromkeys(facts.graph.tensors, 0)
    duplicates = 0
    results: dict[str, Sharding] = {}
    for array in graph.arrays:
        made = facts.producer.get(array.name)
        source = inputs[array.name] if made is None else placed[made[0]].outputs[made[1]]
        first_reader: dict[Sharding, str] = {}
        for reader, argument in facts.readers[array.name]:
            needed = placed[reader].inputs[argument]
            assert needed is not None
            first_reader.setdefault(needed, nodes[reader].name)
        sizes = [int(local_bytes(s, array.type).max(initial=0)) for s in first_reader]
        duplicates += sum(sizes) - min(sizes, default=0)
        if array.result and source.is_partial and made is not None:
            results[array.name] = _result(graph, array, source, first_reader)
            first_reader.setdefault(results[array.name], nodes[made[0]].name)
        for needed, node in first_reader.items():
            nbytes = received(graph.cluster, array.type, source, needed)
            counted[node] += nbytes
            moved[array.name] += nbytes
        shardings[array.name] = source
        copies[array.name] = tuple(s for s in first_reader if s != source)
    plan = make_plan(
        facts.graph,
        graph.cluster,
        {node.name: strategy for node, strategy in zip(nodes, strategies, strict=True)},
        inputs=inputs,
        results=results,
        algorithm=name,
    )
    return TilingPlan(
        graph=facts.graph,
        plan=plan,
        shardings=FrozenDict(shardings),
        copies=FrozenDict(copies),
        received=FrozenDict(counted),
        moved=FrozenDict(moved),
        duplicates=duplicates,
        algorithm=name,
        exact=False,
        seconds=0.0,
    )
