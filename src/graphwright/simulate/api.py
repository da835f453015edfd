"""Time a plan without running it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from math import prod
from pathlib import Path

from graphwright.errors import InvalidMeasurement, InvalidOption, PlanMismatch
from graphwright.ir import Graph, collection_paused
from graphwright.machine import Cluster
from graphwright.machine import cluster as find_cluster
from graphwright.plans import Along, Figures, Plan, Strategy, make_plan
from graphwright.rewrite import graph_of_plan, rejoin
from graphwright.simulate.costs import CostModel
from graphwright.simulate.engine import schedule
from graphwright.simulate.memory import memory
from graphwright.simulate.timeline import Timeline, figures
from graphwright.tasks import (
    Costs,
    Expansion,
    Fused,
    GraphFacts,
    NotSymmetric,
    SymmetricTemplates,
    Templates,
    assemble,
    fusion_of,
    periods,
)

MOST_PARTS = 1 << 22
"""How many parts of operators are timed one by one to compare plans."""


def simulate(
    graph: Graph,
    plan: Plan | Mapping[str, Strategy | str] | str | Path,
    cluster: Cluster | str | None = None,
    *,
    costs: Costs | None = None,
    compiled: bool = False,
) -> Timeline:
    """How long one step takes, what each device and link does when, and what is in memory.

    `plan` is a `Plan` or the file of one, or a strategy for each node by its name (nodes without
    one are replicated). `cluster` is a `Cluster`, the name of one, or a TOML file; a plan's own if
    not given. Without `costs`, operators take what was measured for them on the cluster's devices
    (`graphwright calibrate`), otherwise what their arithmetic and bytes suggest; `compiled` prices
    the kernels that `torch.compile` makes of them (`gw.compile(..., torch_compile=True)`).

    >>> timeline = gw.simulate(graph, plan)
    >>> timeline.makespan, timeline.memory.peak.max()
    >>> timeline.save("timeline.json")      # for Perfetto; .png or .svg for a picture
    """
    if not isinstance(graph, Graph):
        raise PlanMismatch(
            f"{type(graph).__name__} is no graph; "
            "capture one with gw.capture, or read it with gw.load"
        )
    if isinstance(plan, str | Path) and str(plan).endswith(".json"):
        plan = Plan.load(plan)
    if not isinstance(plan, Plan | Mapping):
        raise PlanMismatch(
            f"{plan!r} is no plan; give a Plan, a saved one's .json, or strategies by the names of "
            "nodes. graphwright.partition makes some: data_parallel(graph, cluster)"
        )
    check_compiled(compiled, costs)
    model = CostModel(compiled=compiled) if costs is None else costs
    if (
        isinstance(model, type)
        or not hasattr(model, "compute")
        or not hasattr(model, "communicate")
    ):
        raise InvalidMeasurement(
            f"{costs!r} gives no costs; leave it out, or give a simulate.CostModel()"
        )
    if isinstance(plan, Plan):
        _check_is_unlimited(plan)
        graph = graph_of_plan(graph, plan)
    chosen = _on_cluster(graph, plan, None if cluster is None else find_cluster(cluster))
    with collection_paused():
        return Simulator(GraphFacts(graph), chosen.cluster, model).run(chosen)


def _check_is_unlimited(plan: Plan) -> None:
    """Refuse a plan that swaps: what its memory plans cost is not in its blocks."""
    if plan.memory is not None:
        raise InvalidOption(
            f"the plan runs in {plan.memory:,} bytes of each device, and swaps the rest: "
            "gw.swap(graph, partition=plan).timeline has its step; replace(plan, memory=None) is "
            "the plan without that limit"
        )


def check_compiled(compiled: object, costs: Costs | None) -> None:
    """Refuse what is no truth value, or says what costs are that are given."""
    if not isinstance(compiled, bool):
        raise InvalidOption(f"compiled is True or False, not {compiled!r}")
    if compiled and costs is not None:
        raise InvalidOption(
            "compiled=True chooses the costs, which are given: leave costs out, or give "
            "costs=CostModel(compiled=True)"
        )


class Simulator:
    """Times plans of one graph on one cluster; what they have in common is worked out once.

    `together` times kernels that a plan leaves together as one, as they run; else part by part, as
    searches compare plans.
    """

    def __init__(
        self, facts: GraphFacts, cluster: Cluster, costs: Costs, *, together: bool = True
    ) -> None:
        self.facts, self.costs, self.together = facts, costs, together
        self.known: dict[str, GraphFacts] = {}
        self.templates = Templates(cluster, costs)
        self.symmetric = [SymmetricTemplates(cluster, costs, p) for p in periods(cluster)]
        self.nearly = [SymmetricTemplates(cluster, costs, p, nearly=True) for p in periods(cluster)]

    def run(self, plan: Plan) -> Timeline:
        """The timeline of one step, device by device."""
        facts, plan = self._rejoined(plan)
        return self._run(plan, Expansion(facts, plan, self.costs, self.templates))

    def figures(self, plan: Plan, estimate: tuple[float, float] | None = None) -> Figures:
        """The figures of one step; devices that do the same are timed once.

        A plan of more than MOST_PARTS parts whose devices do almost the same is timed as if they
        did.
        """
        facts, plan = self._rejoined(plan)
        meshes = (plan.strategy(node.name).mesh for node in facts.graph.nodes)
        parts = sum(plan.cluster.num_devices if m is None else len(m.devices) for m in meshes)
        expansion = Expansion(facts, plan, self.costs, self.templates)
        for templates in self.nearly if parts > MOST_PARTS else self.symmetric:
            expansion.cache = templates
            with suppress(NotSymmetric):
                return figures(self._run(plan, expansion), estimate)
        expansion.cache = self.templates
        return figures(self._run(plan, expansion), estimate)

    def _rejoined(self, plan: Plan) -> tuple[GraphFacts, Plan]:
        """The graph and the plan as they run; a fusing cost model says itself what is one kernel.

        Plans that put the same together share the facts.
        """
        if not self.together or fusion_of(self.costs) != "none":
            return self.facts, plan
        graph, rejoined = rejoin(self.facts.graph, plan)
        if graph is self.facts.graph:
            return self.facts, plan
        facts = self.known.get(graph.program_hash)
        if facts is None:
            facts = self.known[graph.program_hash] = GraphFacts(graph)
        return facts, rejoined

    def _run(self, plan: Plan, expansion: Expansion) -> Timeline:
        tasks = assemble(expansion)
        times = schedule(tasks)
        return Timeline(
            graph=expansion.facts.graph,
            cluster=plan.cluster,
            tasks=tasks,
            schedule=times,
            memory=memory(tasks, times),
            plan=plan.algorithm,
            seed=plan.seed,
            repeated=_repeated(expansion, plan),
            costs=_sources(self.costs),
        )


def _on_cluster(
    graph: Graph, plan: Plan | Mapping[str, Strategy | str], on: Cluster | None
) -> Plan:
    """The plan, on the cluster that it is asked for."""
    if not isinstance(plan, Plan):
        if on is None:
            raise PlanMismatch("strategies alone do not say on which machine; give a cluster")
        return make_plan(graph, on, plan)
    if on is None:
        return plan
    if on.num_devices != plan.cluster.num_devices:
        raise PlanMismatch(
            f"the plan is for {plan.cluster.num_devices} devices ({plan.cluster.name}), "
            f"but {on.name} has {on.num_devices}; plan again for it"
        )
    return replace(plan, cluster=on)


def _repeated(expansion: Expansion, plan: Plan) -> float:
    """The share of all computing that other devices do as well."""
    total = repeated = 0.0
    known: dict[tuple[int, Strategy, Fused], tuple[float, float]] = {}
    facts = expansion.facts
    for i, (node, call) in enumerate(zip(facts.graph.nodes, facts.call, strict=True)):
        strategy = plan.strategy(node.name)
        key = (call, strategy, expansion.fused[i])
        times = known.get(key)
        if times is None:
            spent, shape = float(expansion.duration(i).sum()), expansion.placed[i].mesh.shape
            alike = (
                n for n, c in zip(shape, strategy.choices, strict=True) if not isinstance(c, Along)
            )
            times = known[key] = spent, spent * (1 - 1 / prod(alike))
        total += times[0]
        repeated += times[1]
    return repeated / total if total else 0.0


def _sources(costs: Costs) -> str:
    """How many of the distinct calls went by measurements."""
    if not isinstance(costs, CostModel):
        return "given"
    distinct = costs.num_measured + costs.num_estimated
    if not costs.num_measured:
        return "estimated: none of the operators was measured on such a device"
    return f"{costs.num_measured} of {distinct} distinct calls measured, the others estimated"
