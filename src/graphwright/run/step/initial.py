"""The first values of what lives between steps, part by part.

a module with values        its parameters and buffers, cut to this rank's parts
a module on "meta"          made one submodule at a time by its own `reset_parameters`, cut, and let
                            go: never all of it at once
the optimizer's state       what it would start from, made for one parameter at a time
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import nn

from graphwright.aten import (
    STEP,
    as_pairs,
    bind,
    check_counts,
    for_one,
    initial_state,
    is_rate,
)
from graphwright.errors import NoInitialValue
from graphwright.ir import Graph, Role
from graphwright.plans import Box
from graphwright.run.program import cut

Wanted = Mapping[str, Box]
"""The boxes of the inputs that this rank holds."""


def initial_parts(
    graph: Graph,
    model: nn.Module,
    loss_fn: object,
    optimizer: torch.optim.Optimizer | None,
    wanted: Wanted,
    device: torch.device,
    seed: int,
) -> dict[str, torch.Tensor]:
    """This rank's part of all that lives between steps: not of data and learning rates."""
    parts: dict[str, torch.Tensor] = {}

    def keep(name: str, value: torch.Tensor) -> None:
        if name in wanted and name not in parts:
            part = cut(as_pairs(value.detach()), wanted[name])
            parts[name] = part.to(device=device, copy=True)

    values = bind(graph, model, inputs=(), loss_fn=loss_fn)
    for name, value in values.items():
        if not value.is_meta:
            keep(name, value)
    if any(value.is_meta for value in values.values()):
        for name, value in _made_by_modules(model, seed):
            keep(name, value)
    if optimizer is not None:
        _keep_state(graph, optimizer, model, keep)
    missing = [
        name
        for name in wanted
        if name not in parts and graph.tensors[name].role is not Role.INPUT and not is_rate(name)
    ]
    unnamed = [name for name in missing if graph.tensors[name].role is Role.CONSTANT]
    if unnamed:
        tensors = ", ".join(f"{name} ({graph.tensors[name].type!r})" for name in unnamed[:5])
        raise NoInitialValue(
            f"{tensors}: the step reads a tensor that is neither of the model nor of the batch, "
            "and that no process finds again by a name. Make it a buffer (register_buffer) or "
            "another attribute of the model, or of a loss that is an nn.Module"
        )
    if missing:
        raise NoInitialValue(
            f"{', '.join(missing[:5])}{' and others' if len(missing) > 5 else ''}: there is no "
            "value to start from. If model or optimizer are others than those that the graph was "
            "captured with, give these. A module on the meta device needs a reset_parameters for "
            "every parameter; else give a module with values"
        )
    return parts


def _made_by_modules(model: nn.Module, seed: int) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters and buffers by name, from each submodule's own initialisation."""
    for number, (path, module) in enumerate(model.named_modules()):
        own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
        reset = getattr(module, "reset_parameters", None)
        if not any(value.is_meta for _, value in own) or not callable(reset):
            continue
        alone = copy.copy(module)
        alone._parameters, alone._buffers = dict(module._parameters), dict(module._buffers)
        alone._modules = {}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed + number)
            alone.to_empty(device="cpu")
            alone.reset_parameters()
        for name, value in (*alone.named_parameters(), *alone.named_buffers()):
            yield f"{path}.{name}".lstrip("."), value


def _keep_state(
    graph: Graph,
    optimizer: torch.optim.Optimizer,
    model: nn.Module,
    keep: Callable[[str, torch.Tensor], None],
) -> None:
    names = {id(p): name for name, p in model.named_parameters()}
    for number, group in enumerate(optimizer.param_groups):
        counts: dict[str, torch.Tensor] = {}
        for parameter in group["params"]:
            name = names[id(parameter)]
            if name not in graph.updates:  # nothing of it is updated, its counter neither
                continue
            values = torch.zeros(parameter.shape, dtype=parameter.dtype)
            had = optimizer.state.get(parameter, {})
            state = {**initial_state(for_one(optimizer, group, values))[values], **had}
            for key, value in state.items():
                if isinstance(value, torch.Tensor) and key == STEP and value.dim() == 0:
                    counts[name] = value.to(torch.float64)
                elif isinstance(value, torch.Tensor):
                    keep(f"{name}.{key}", value)
        label = f"optimizer.{STEP}.{number}"
        if counts and label in graph.inputs:
            check_counts(number, counts)
            keep(label, next(iter(counts.values())))
