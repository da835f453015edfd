"""One evaluation for every plan, whoever made it: simulated, so that rows compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graphwright.ir import Graph
from graphwright.plans import Plan, figures_of
from graphwright.simulate import Simulator
from graphwright.tasks import Costs, GraphFacts, facts_of


def evaluate(graph: Graph | GraphFacts, plan: Plan, costs: Costs) -> Plan:
    """The plan with its figures: simulated time, memory and bytes."""
    return with_figures(Simulator(facts_of(graph), plan.cluster, costs), plan)


def with_figures(
    simulator: Simulator, plan: Plan, estimate: tuple[float, float] | None = None
) -> Plan:
    """The plan with its figures, beside the additive estimate, (seconds, bytes), that a search went
    by."""
    return replace(plan, figures=simulator.figures(plan, estimate))


def largest_tensors(graph: Graph, count: int = 5) -> Sequence[tuple[str, int]]:
    """The names and bytes of the largest tensors of a graph."""
    sizes = ((name, tensor.type.nbytes) for name, tensor in graph.tensors.items())
    return sorted(sizes, key=lambda item: -item[1])[:count]


def better(plans: Sequence[Plan], key: str) -> Plan:
    """The plan whose figure of that name is least, of equals the fastest."""
    return min(plans, key=lambda p: (getattr(figures_of(p), key), figures_of(p).time))
