"""The inputs of a step, and those that it changed.

declare     parameters, buffers and the batch become inputs of the graph
collect     what the step changed becomes an output, as the new value of an input
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphwright.aten import map_named, named_tensors, refuse_arrays
from graphwright.capture.record import (
    Functionalisation,
    as_parameter,
    carry_hooks,
    functional,
    refuse_changed_settings,
    setting_of,
    value_of,
)
from graphwright.capture.step.recording import Recording
from graphwright.errors import ComplexInput, InvalidBatch, UnsupportedModel
from graphwright.ir import Role


def declare(recording: Recording, mode: Functionalisation) -> None:
    """Make parameters, buffers and the batch inputs of the graph, with fake tensors for them."""
    for prefix, module in zip(("", "loss_fn."), recording.modules(), strict=False):
        for name, parameter in module.named_parameters():
            _declare_one(recording, prefix + name, parameter, Role.PARAMETER)
        for name, buffer in module.named_buffers():
            _declare_one(recording, prefix + name, buffer, Role.BUFFER)
            recording.values[prefix + name].content = setting_of(module, name)
    with mode:
        for name, original in recording.originals.items():
            fake = recording.tensors[name]
            trains = recording.training and original.requires_grad
            wrapped = functional(fake, requires_grad=trains)
            if recording.values[name].role is Role.PARAMETER:
                as_parameter(wrapped)
            if trains:
                carry_hooks(name, original, wrapped, recording.recorder, recording.values[name])
            recording.tensors[name] = wrapped
        _declare_batch(recording)


def _declare_one(recording: Recording, name: str, tensor: Tensor, role: Role) -> None:
    if any(tensor is known for known in (recording.originals.get(name),)):
        return
    _check_dense(name, tensor, role)
    fake = recording.recorder.empty(tensor)
    recording.originals[name] = tensor
    recording.values[name] = recording.recorder.declare(name, fake, role)
    recording.tensors[name] = fake


def _declare_batch(recording: Recording) -> None:
    given: dict[str, Tensor] = {}
    names: dict[int, list[str]] = {}
    for prefix, tree in (("inputs", recording.inputs), ("targets", recording.targets)):
        refuse_arrays(prefix, tree)
        for name, tensor in named_tensors(prefix, tree):
            _check_dense(name, tensor, Role.INPUT)
            if name in recording.values:
                raise UnsupportedModel(
                    f"the model has a {recording.values[name].role} called {name}, which is the "
                    "name of a "
                    "tensor of the batch; rename that attribute of the model"
                )
            fake = recording.recorder.empty(tensor)
            recording.values[name] = recording.recorder.declare(name, fake, Role.INPUT)
            given[name] = functional(fake)
            names.setdefault(id(tensor), []).append(name)
    if not given:
        raise InvalidBatch("the batch holds no tensor; give example inputs with their shapes")
    recording.given_twice = [
        {name: given[name] for name in same} for same in names.values() if len(same) > 1
    ]
    recording.inputs = map_named(lambda name, _: given[name], "inputs", recording.inputs)
    recording.targets = map_named(lambda name, _: given[name], "targets", recording.targets)


def collect(recording: Recording) -> None:
    """Find what the step changed."""
    for prefix, module in zip(("", "loss_fn."), recording.modules(), strict=False):
        for name, buffer in module.named_buffers():
            if prefix + name in recording.tensors:
                recording.tensors[prefix + name] = buffer  # it may have been assigned anew
    for name, tensor in recording.tensors.items():
        new = value_of(tensor)
        if new is not recording.values[name]:
            if new.type != recording.values[name].type:
                if recording.recorder.tape.is_made_from_nothing(new):
                    continue  # a table that the step makes for its shapes, in every step anew
                raise UnsupportedModel(
                    f"the step turns {name} from {recording.values[name].type!r} into "
                    f"{new.type!r}; a value that is kept between steps has to keep its shape and "
                    "dtype. If that happens in the first step alone, run the model once before "
                    "capturing it"
                )
            recording.results.updates[name] = new
    refuse_changed_settings(recording.results.updates, recording.values)
    for same in recording.given_twice:
        if any(value_of(tensor) is not recording.values[name] for name, tensor in same.items()):
            raise UnsupportedModel(
                f"{' and '.join(same)} of the batch are one tensor, and the model writes to it; "
                "give each a tensor of its own"
            )


def _check_dense(name: str, tensor: Tensor, role: Role) -> None:
    if nn.parameter.is_lazy(tensor):
        raise UnsupportedModel(
            f"{name} has no shape yet (a lazy module); run the model once before capturing it"
        )
    if tensor.is_complex() and role is not Role.BUFFER:
        raise ComplexInput(f"{name} is {tensor.dtype}; use two real tensors (torch.view_as_real)")
    if tensor.layout != torch.strided or tensor.is_nested or tensor.is_quantized:
        raise UnsupportedModel(f"{name} is not a dense tensor ({tensor.layout}); convert it first")
