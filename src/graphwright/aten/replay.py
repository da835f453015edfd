"""Running a graph with real tensors, one operator after another.

    inputs  = bind(graph, model, batch)          real values for all of graph.inputs
    outputs = replay(graph, inputs)              all of graph.outputs
    inputs  = advance(graph, inputs, outputs)    the next step's inputs: every update in place

Nothing is clever here: this is the meaning of a graph, which other ways to run it are checked by.

The tensors that a step reads beside parameters, buffers and batch are constants of the graph. Every
process finds them again by name:

    self.table = torch.randn(...)              a plain attribute of a module    `layer.table`
    loss = lambda y, t: f(y, teacher(t))       what the loss reads              `loss_fn.teacher...`
    partial(F.cross_entropy, weight=w)         what it is given                 `loss_fn.weight`
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from inspect import getclosurevars, ismethod
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from graphwright.aten.autocast import without_autocast
from graphwright.aten.batches import named_tensors, split_batch
from graphwright.aten.invoke import call_kernel
from graphwright.aten.operators import as_pairs
from graphwright.aten.optimizers import (
    STEP,
    OptimizerLike,
    check_counts,
    initial_state,
    learning_rates,
    make_optimizer,
    rate_label,
)
from graphwright.aten.types import tensor_type, to_dtype
from graphwright.errors import ReplayError, UnknownOperator
from graphwright.ir import CONSTANT_OP, Graph, Node, Role, TensorType


def replay(graph: Graph, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Run a graph and return its outputs by name.

    Random nodes draw from the default generator in the order of the graph, as the eager step does.
    """
    values = _checked(graph, inputs)
    device = next((t.device for t in values.values()), torch.device("cpu"))
    last_use = _last_uses(graph)
    with torch.no_grad(), without_autocast():
        for index, node in enumerate(graph.nodes):
            arguments = [None if name is None else values[name] for name in node.inputs]
            try:
                result = run_node(graph, node, arguments, device)
            except (UnknownOperator, RuntimeError, TypeError, IndexError) as error:
                raise ReplayError(f"{node!r} failed: {error}") from error
            values.update(zip(node.outputs, result, strict=True))
            for name in last_use.get(index, ()):
                del values[name]
    return {name: values[name] for name in graph.outputs}


def advance(
    graph: Graph, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the inputs of the next step: the same, with every update made."""
    return {**inputs, **{old: outputs[new] for old, new in graph.updates.items()}}


def bind(
    graph: Graph,
    model: nn.Module,
    batch: Any = None,
    *,
    inputs: Any = None,
    loss_fn: object = None,
    optimizer: OptimizerLike | None = None,
    optimizer_options: Mapping[str, Any] | None = None,
    constants: Mapping[str, Tensor] | None = None,
) -> dict[str, Tensor]:
    """Return real values for the graph's inputs, from a real model and batch.

    `batch` is what the graph was captured with: (inputs, targets), or the inputs of a model that
    returns its own loss; give `inputs` for an inference graph. Optimizer state is what the
    optimizer holds, or what it would start from. Learning rates (`optimizer.lr.<group>`) are what
    the optimizer's groups say now.
    """
    model = eager_module(model)
    values = {**(constants or {}), **named_constants(model, loss_fn)}
    modules = [("", model)]
    if isinstance(loss_fn, nn.Module):
        modules.append(("loss_fn.", loss_fn))
    for prefix, module in modules:
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            values[prefix + name] = tensor.detach()
    given, targets = inputs, ()
    if inputs is None:
        wanted = {n for n in graph.inputs if graph.tensors[n].role is Role.INPUT}
        alone = wanted == {name for name, _ in named_tensors("inputs", batch)}
        given, targets = split_batch(batch, has_targets=not alone)
    values.update(named_tensors("inputs", given))
    values.update(named_tensors("targets", targets))
    if optimizer is not None:
        _bind_state(values, graph, make_optimizer(optimizer, optimizer_options, model), model)
    return {name: as_pairs(values[name]) for name in graph.inputs if name in values}


def eager_module(model: nn.Module) -> nn.Module:
    """The module that `torch.compile` wraps, or the module itself."""
    module: nn.Module = getattr(model, "_orig_mod", model)
    return module


def named_constants(model: nn.Module, loss_fn: object = None) -> dict[str, Tensor]:
    """The tensors that are neither parameters nor buffers nor given, by name."""
    constants = dict(_attributes(model))
    for name, tensor in _read_by(loss_fn):
        constants.setdefault(f"loss_fn.{name}", tensor)
    return constants


def _attributes(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for path, part in module.named_modules():
        for name, value in part.__dict__.items():
            if isinstance(value, Tensor):
                yield f"{path}.{name}".lstrip("."), value


def _read_by(loss_fn: object) -> Iterator[tuple[str, Tensor]]:
    """What a loss has as attributes, is given by `partial`, or finds around it."""
    if isinstance(loss_fn, nn.Module):
        yield from _attributes(loss_fn)  # its parameters and buffers are those of the step
        return
    if isinstance(loss_fn, partial):
        held: dict[str, Any] = {str(number): value for number, value in enumerate(loss_fn.args)}
        yield from _tensors_of({**held, **loss_fn.keywords})
        yield from _read_by(loss_fn.func)
        return
    holder = loss_fn.__self__ if ismethod(loss_fn) else loss_fn
    if not isinstance(holder, BuiltinFunctionType):
        yield from _tensors_of(getattr(holder, "__dict__", {}))
    function = loss_fn.__func__ if ismethod(loss_fn) else loss_fn
    if not isinstance(function, FunctionType):
        return
    try:
        around = getclosurevars(function)
    except ValueError:  # a variable around it has no value yet
        return
    yield from _tensors_of({**around.globals, **around.nonlocals})


def _tensors_of(held: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    for name, value in held.items():
        if isinstance(value, Tensor):
            yield name, value
        elif isinstance(value, nn.Module):
            for inner, tensor in (*value.named_parameters(), *value.named_buffers()):
                yield f"{name}.{inner}", tensor
            for inner, tensor in _attributes(value):
                yield f"{name}.{inner}", tensor


def _bind_state(
    values: dict[str, Tensor], graph: Graph, optimizer: torch.optim.Optimizer, model: nn.Module
) -> None:
    names = {id(p): name for name, p in model.named_parameters()}
    for number, rate in learning_rates(optimizer).items():
        values[rate_label(number)] = rate
    states = initial_state(optimizer)
    for number, group in enumerate(optimizer.param_groups):
        counts: dict[str, Tensor] = {}
        for parameter in group["params"]:
            name = names[id(parameter)]
            if name not in graph.updates:  # nothing of it is updated, its counter neither
                continue
            for key, value in states[parameter].items():
                if isinstance(value, Tensor) and key == STEP and not value.dim():
                    counts[name] = value.to(torch.float64)
                elif isinstance(value, Tensor):
                    values[f"{name}.{key}"] = value.detach()
        label = f"optimizer.{STEP}.{number}"
        if counts and label in graph.inputs:
            check_counts(number, counts)
            values[label] = next(iter(counts.values()))


def _checked(graph: Graph, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    values: dict[str, Tensor] = {}
    for name in graph.inputs:
        if name not in inputs:
            raise ReplayError(
                f"input {name} ({graph.tensors[name]!r}) is missing; see capture.bind"
            )
        if tensor_type(inputs[name]) != graph.tensors[name].type:
            raise ReplayError(
                f"input {name} is {tensor_type(inputs[name])!r}, the graph was captured with "
                f"{graph.tensors[name].type!r}"
            )
        values[name] = inputs[name].detach()
    return values


def _last_uses(graph: Graph) -> dict[int, list[str]]:
    """Return, for each node's index, the tensors that nothing reads after it."""
    last: dict[str, int] = {}
    for index, node in enumerate(graph.nodes):
        last.update(dict.fromkeys((n for n in node.inputs if n is not None), index))
        last.update(dict.fromkeys(node.outputs, index))
    kept = set(graph.outputs)
    uses: dict[int, list[str]] = {}
    for name, index in last.items():
        if name not in kept:
            uses.setdefault(index, []).append(name)
    return uses


def run_node(
    graph: Graph, node: Node, arguments: Sequence[Tensor | None], device: torch.device
) -> Sequence[Tensor]:
    """What a node makes of its arguments."""
    if node.op == CONSTANT_OP:
        return (_constant(node, graph.tensors[node.name].type, device),)
    return call_kernel(node.op, arguments, node.attrs, device)


def _constant(node: Node, type: TensorType, device: torch.device) -> Tensor:
    return torch.tensor(node.attrs["value"], dtype=to_dtype(type.dtype), device=device).reshape(
        type.shape
    )
