"""Graphwright: write a model for one device, and work out how to run it on whatever you have.

>>> import graphwright as gw
>>> graph = gw.capture(model, loss_fn, batch, optimizer=torch.optim.Adam)    # nothing is allocated
>>> gw.splits(graph.nodes[0].op, graph.nodes[0].attrs, gw.types_of(graph, graph.nodes[0]))
>>> plan = gw.plan(graph, "dgx-h100").fastest(memory="40GB")                 # of every worthwhile trade-off
>>> gw.simulate(graph, plan).save("timeline.json")

Names are loaded when they are first used, so importing the package is quick and needs no PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from graphwright.version import __version__

if TYPE_CHECKING:
    from graphwright.aten.replay import replay
    from graphwright.capture.api import capture
    from graphwright.describe import reference, splits, types_of
    from graphwright.describe.registry import describe
    from graphwright.errors import GraphwrightError
    from graphwright.ir import Graph, load, save, verify
    from graphwright.machine import cluster
    from graphwright.partition import plan, profile
    from graphwright.plans import Frontier, Plan, Strategy
    from graphwright.report.pictures.plot import plot
    from graphwright.run import check_operator
    from graphwright.run.compile import compile_step as compile
    from graphwright.run.processes.launch import launch
    from graphwright.simulate.api import simulate

_WHERE = {
    "Frontier": "plans",
    "Graph": "ir",
    "GraphwrightError": "errors",
    "capture": "capture",
    "Plan": "plans",
    "Strategy": "plans",
    "check_operator": "run",
    "cluster": "machine",
    "compile": "run",
    "describe": "describe",
    "launch": "run",
    "load": "ir",
    "plan": "partition",
    "plot": "report",
    "profile": "partition",
    "reference": "describe",
    "replay": "capture",
    "save": "ir",
    "simulate": "simulate",
    "splits": "describe",
    "types_of": "describe",
    "verify": "ir",
}

__all__ = [
    "Frontier",
    "Graph",
    "GraphwrightError",
    "Plan",
    "Strategy",
    "__version__",
    "capture",
    "check_operator",
    "cluster",
    "compile",
    "describe",
    "launch",
    "load",
    "plan",
    "plot",
    "profile",
    "reference",
    "replay",
    "save",
    "simulate",
    "splits",
    "types_of",
    "verify",
]


def __getattr__(name: str) -> object:
    if name in _WHERE:
        return getattr(import_module(f"graphwright.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'graphwright' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
