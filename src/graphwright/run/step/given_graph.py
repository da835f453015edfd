"""Is a given graph the one that model, loss and optimizer make?

    graph=g    --names and types of its inputs--> example of the batch --capture--> the same values?

A step runs the graph's operators with the model's values, so another model of the same shapes,
another loss or other options of the optimizer would change what is trained without a word. Only
capturing again proves that they agree. If the example cannot be captured, because the batch holds
more than tensors in tuples and dicts, that waits for the first batch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from graphwright.aten import map_named, split_batch, without_autocast
from graphwright.capture import read_arguments
from graphwright.errors import GraphwrightError, PlanMismatch
from graphwright.ir import Graph, Role

Capture = Callable[[Any], Graph]
"""Captures what was given to `gw.compile` or `SwapPlan.compile` with an example of the batch."""


def check_given(
    graph: Graph, capture: Capture, has_targets: bool, device: torch.device
) -> Callable[[Any], None] | None:
    """Refuse a graph that another model makes; returns what the first batch has to pass, if any.

    Examples are on the model's `device`: libraries choose operators by it.
    """
    try:
        _compare(graph, capture, _example(graph, has_targets, device))
    except PlanMismatch:
        raise
    except GraphwrightError:
        return lambda batch: _compare(graph, capture, _whole(graph, batch, has_targets, device))
    return None


def _compare(graph: Graph, capture: Capture, example: Any) -> None:
    with warnings.catch_warnings(), without_autocast():
        warnings.simplefilter("ignore")  # they were seen when the graph was captured
        captured = capture(example)
    if captured.hash != graph.hash and captured.value_hash() != graph.value_hash():
        raise PlanMismatch(
            "the graph was not captured from this model, loss and optimizer: an operator, a shape "
            "or an option such as betas or weight_decay differs. Give what it was captured from, "
            "or capture and plan again. If the batch holds more than tensors, give gw.compile an "
            "example of it (batch=...) instead of the graph; check_graph=False trusts the graph "
            "as it is"
        )


def _example(graph: Graph, has_targets: bool, device: torch.device) -> Any:
    """A batch without values that has the graph's names: tuples for numbers, dicts for words."""
    tree: dict[str, Any] = {"inputs": {}, "targets": {}}
    given: dict[str, Any] = {
        name: _without_values(graph, name, device)
        for name in graph.inputs
        if graph.tensors[name].role is Role.INPUT
    }
    for name, value in {**given, **read_arguments(graph)}.items():
        *path, last = name.split(".")
        place = tree
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    inputs = _sequence(tree["inputs"])
    if not has_targets:
        return inputs
    targets = _sequence(tree["targets"])
    return inputs, targets[0] if isinstance(targets, tuple) and len(targets) == 1 else targets


def _sequence(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    inner = {key: _sequence(value) for key, value in tree.items()}
    numbers = [str(number) for number in range(len(inner))]
    if set(inner) == set(numbers):
        return tuple(inner[number] for number in numbers)
    return inner


def _whole(graph: Graph, batch: Any, has_targets: bool, device: torch.device) -> Any:
    """A batch, or a part of one, with all tensors as large as the graph's, and without values."""

    def enlarge(name: str, tensor: torch.Tensor) -> torch.Tensor:
        return _without_values(graph, name, device) if name in graph.tensors else tensor

    inputs, targets = split_batch(batch, has_targets=has_targets)
    inputs = map_named(enlarge, "inputs", inputs)
    return (inputs, map_named(enlarge, "targets", targets)) if has_targets else inputs


def _without_values(graph: Graph, name: str, device: torch.device) -> torch.Tensor:
    type = graph.tensors[name].type
    return torch.empty(type.shape, dtype=getattr(torch, type.dtype), device=device)
