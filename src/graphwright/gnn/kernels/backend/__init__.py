"""Frameworks whose arrays may be features: one file each, named after the framework.

A file has the four functions below, on arrays of its framework; nothing else needs to know of it.
The structure of a graph is the same for all. Which framework computes is decided by the arrays
that are given.

    sum_messages(relation, op, a, b, out_end, out_shape)    sums at an end, or a value for each edge
    extreme_message(relation, op, a, b, least)              the largest or least into each node
    edge_softmax(relation, scores)                          over the edges into each node
    scale(values, factors)                                  rows times numbers of a torch tensor

PyTorch has all with gradients of any order; JAX has gradients; NumPy has values alone.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from graphwright.gnn.storage import FeatureMismatch

_PACKAGES = {"jaxlib": "jax"}
"""Packages whose arrays are another's."""


def backend_of(array: Any) -> Any:
    """The file for an array's framework."""
    return _load(type(array).__module__.partition(".")[0], type(array).__name__)


@cache
def _load(package: str, kind: str) -> Any:
    name = f"{__name__}.{_PACKAGES.get(package, package)}"
    if find_spec(name) is None:
        raise FeatureMismatch(
            f"features of type {package}.{kind} are of no known framework: PyTorch tensors, NumPy "
            "and JAX arrays are known"
        )
    return import_module(name)
