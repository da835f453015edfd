"""How sure a prediction is: by how much a step may differ from it, as a share.

    calls      the mean of their spreads in the store, by the time that they take
               a call that was not measured may take half as much again, or half
    machine    how far rounds of computing and transfers are from one another (`strain`)
    the rest   what the simulation leaves out (docs/simulation.md), and how far a machine's rates
               move within minutes: `LEFT_OUT`, by what predictions of random plans were off

The sum is a rule of thumb and no bound; `benchmarks/prediction_error.py` says how often steps lie
within it.
"""

from __future__ import annotations

from graphwright.ir import Graph
from graphwright.machine import Store
from graphwright.plans import Plan
from graphwright.run.measure.calls import calls_of_plan
from graphwright.run.measure.strain import load_strain
from graphwright.simulate import CostModel

ESTIMATED = 0.5
"""How far off a formula is taken to be."""
LEFT_OUT = 0.1
"""Means over random plans were 4% to 11% off, on machines with nothing else to do."""


def how_sure(graph: Graph, plan: Plan, store: Store | None = None) -> float:
    """The share by which a step of a plan may differ from its prediction."""
    store = store or Store()
    costs, device = CostModel(store), plan.cluster.devices[0]
    total = apart = 0.0
    for op, attrs, types in calls_of_plan(graph, plan):
        seconds = costs.compute(op, attrs, types, device)
        measured = costs.measurement(op, attrs, types, device) if seconds else None
        total += seconds
        apart += ESTIMATED * seconds if measured is None else measured.spread
    return (apart / total if total else 0.0) + load_strain(store, plan.cluster).spread + LEFT_OUT
