"""Graphwright: write a model for one device, and work out how to run it on whatever you have.

>>> import graphwright as gw
>>> graph = gw.capture(model, loss_fn, batch, optimizer=torch.optim.Adam)    # allocates nothing
>>> plan = gw.plan(graph, "dgx-h100").fastest(memory="40GB")    # one of all worthwhile trade-offs
>>> gw.simulate(graph, plan).save("timeline.json")

Names are loaded when they are first used, so importing the package is quick and needs no PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from graphwright.version import __version__

if TYPE_CHECKING:
    from graphwright.capture.api import capture
    from graphwright.describe import splits
    from graphwright.describe.language.registry import describe
    from graphwright.errors import GraphwrightError
    from graphwright.ir import Graph, load, save
    from graphwright.machine import cluster
    from graphwright.partition import plan, profile
    from graphwright.pipeline import optimize
    from graphwright.plans import Frontier, Plan
    from graphwright.report import plot
    from graphwright.run import check_operator, compile, launch, swap
    from graphwright.simulate.api import simulate

_PACKAGE_OF = {
    "Frontier": "plans",
    "Graph": "ir",
    "GraphwrightError": "errors",
    "Plan": "plans",
    "capture": "capture",
    "check_operator": "run",
    "cluster": "machine",
    "compile": "run",
    "describe": "describe",
    "launch": "run",
    "load": "ir",
    "optimize": "pipeline",
    "plan": "partition",
    "plot": "report",
    "profile": "partition",
    "save": "ir",
    "simulate": "simulate",
    "splits": "describe",
    "swap": "run",
}

__all__ = ["__version__", *_PACKAGE_OF]


def __getattr__(name: str) -> object:
    if name in _PACKAGE_OF:
        return getattr(import_module(f"graphwright.{_PACKAGE_OF[name]}"), name)
    raise AttributeError(f"module 'graphwright' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
