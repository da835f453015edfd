"""Comparing a captured graph, replayed, with the eager training that it stands for."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from graphwright import capture
from graphwright.aten import as_pairs
from graphwright.ir import Graph, Phase

TOLERANCE = 1e-6

torch.set_num_threads(1)  # tensors are tiny here: threads would only wait for each other


def difference(found: Tensor, wanted: Tensor) -> float:
    """The largest error, relative to the largest element (absolute where all are tiny)."""
    if not wanted.numel():
        return 0.0
    error = (found.double() - wanted.double()).abs().max().item()
    return error / max(wanted.double().abs().max().item(), 1e-8)


def assert_trains_alike(
    model: nn.Module,
    loss_fn: Callable[[Any, Any], Tensor] | None,
    batch: Any,
    optimizer: type[torch.optim.Optimizer] | Callable[[nn.Module], torch.optim.Optimizer] | None,
    optimizer_options: Mapping[str, Any] | None = None,
    *,
    steps: int = 3,
    tolerance: float = TOLERANCE,
) -> Graph:
    """Capture, replay `steps` steps, train eagerly for as many, compare everything that is kept.

    `optimizer` is a class, with options, or a function from the model to an optimizer.
    """
    eager = copy.deepcopy(model)
    is_class = isinstance(optimizer, type)
    given = optimizer if is_class or optimizer is None else optimizer(model)
    options = optimizer_options if is_class else None
    graph = capture.capture(model, loss_fn, batch, optimizer=given, optimizer_options=options)
    assert_provenance(graph)
    values = capture.bind(
        graph, model, batch, loss_fn=loss_fn, optimizer=given, optimizer_options=options
    )
    running = _eager_optimizer(eager, optimizer, optimizer_options)
    for step in range(steps):
        torch.manual_seed(step)
        outputs = capture.replay(graph, values)
        values = capture.advance(graph, values, outputs)
        torch.manual_seed(step)
        loss = _eager_step(eager, loss_fn, batch, running)
        errors = {"loss": difference(outputs["loss"], loss)}
        for name, tensor in _kept(eager, running).items():
            if name in values:
                errors[name] = difference(values[name], as_pairs(tensor))
        if optimizer is None:
            for name, parameter in eager.named_parameters():
                if parameter.grad is not None:
                    errors[f"{name}.grad"] = difference(outputs[f"{name}.grad"], parameter.grad)
        worst = max(errors, key=lambda name: errors[name])
        assert errors[worst] <= tolerance, f"step {step}: {worst} differs by {errors[worst]:.3g}"
    return graph


def assert_provenance(graph: Graph) -> None:
    """Every backward node has a forward partner, every update node a parameter, every gradient its `of`."""
    for node in graph.nodes:
        if node.phase is Phase.BACKWARD:
            assert node.partner is not None, node
        if node.phase is Phase.UPDATE:
            assert node.parameter is not None, node
    for name, tensor in graph.tensors.items():
        if name.endswith(".grad"):
            assert tensor.of == name.removesuffix(".grad"), tensor


def _eager_optimizer(model: nn.Module, optimizer: Any, options: Any) -> Any:
    if optimizer is None:
        return None
    if isinstance(optimizer, type):
        return optimizer([p for p in model.parameters() if p.requires_grad], **(options or {}))
    return optimizer(model)


def _eager_step(model: nn.Module, loss_fn: Any, batch: Any, optimizer: Any) -> Tensor:
    inputs, targets = (batch, None) if loss_fn is None else batch
    model.zero_grad()
    if isinstance(inputs, tuple):
        output = model(*inputs)
    elif isinstance(inputs, Mapping):
        output = model(**inputs)
    else:
        output = model(inputs)
    if loss_fn is None:
        loss = output if isinstance(output, Tensor) else output.loss
    else:
        loss = loss_fn(output, targets)
    loss.backward()
    if optimizer is not None:
        optimizer.step()
    return loss.detach()


def _kept(model: nn.Module, optimizer: Any) -> dict[str, Tensor]:
    """Parameters, buffers and optimizer state by the names they have in a graph."""
    found = {name: p.detach() for name, p in (*model.named_parameters(), *model.named_buffers())}
    if optimizer is None:
        return found
    names = {id(p): name for name, p in model.named_parameters()}
    for number, group in enumerate(optimizer.param_groups):
        for parameter in group["params"]:
            for key, value in optimizer.state.get(parameter, {}).items():
                if isinstance(value, Tensor):
                    shared = key == "step" and value.dim() == 0
                    label = (
                        f"optimizer.step.{number}" if shared else f"{names[id(parameter)]}.{key}"
                    )
                    found[label] = value
    return found
