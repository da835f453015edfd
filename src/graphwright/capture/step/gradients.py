"""Forward and backward of a step, once for each micro-batch, and clipping.

forward     loss = loss_fn(model(inputs), targets)          these two once for each micro-batch,
backward    loss.backward()                                 if gradients are accumulated
clip        clip_grad_norm_(model.parameters(), ...)        if asked for
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from graphwright.aten import call, casting, own_loss
from graphwright.capture.record import value_of
from graphwright.capture.step.clip import clip
from graphwright.capture.step.micro import micro_batches
from graphwright.capture.step.mixed import cast_inputs, cast_parameters
from graphwright.capture.step.recording import Recording
from graphwright.errors import NoTrainingStep
from graphwright.ir import Phase, Role


def record_gradients(recording: Recording) -> None:
    """Run forward and backward, for each micro-batch if there are several."""
    parts = micro_batches(
        recording.accumulate, recording.inputs, recording.targets, recording.batch_dim
    )
    if recording.accumulate == 1:
        for inputs, targets in parts:
            with _lowered(recording) as settle:
                loss = _forward(recording, inputs, targets)
                settle()
                recording.results.outputs[recording.free_name("loss")] = value_of(loss)
                _backward(recording, loss)
    else:
        _accumulate(recording, parts)
    for name, tensor in recording.trained().items():
        assert tensor.grad is not None
        grad = value_of(tensor.grad)
        recording.results.gradients[name] = grad
        recording.results.owners.setdefault(grad, name)
        recording.results.owners[recording.values[name]] = name
    recording.results.gradients_returned = recording.optimizer is None


def clip_gradients(recording: Recording, max_norm: float) -> None:
    """Scale the gradients of the model, not those of a loss with parameters of its own."""
    own = {id(parameter) for parameter in recording.model.parameters()}
    recording.recorder.provenance.phase = Phase.UPDATE
    given = {
        name: tensor.grad
        for name, tensor in recording.trained().items()
        if tensor.grad is not None and id(tensor) in own
    }
    if not given:
        return
    with torch.no_grad():
        clipped, norm = clip(given, max_norm)
    for name, gradient in clipped.items():
        after = value_of(gradient)
        recording.results.unclipped[name] = recording.results.gradients[name]
        recording.results.gradients[name] = after
        recording.results.owners[after] = name
        recording.tensors[name].grad = gradient
    recording.results.outputs[recording.free_name("grad_norm")] = value_of(norm)


def _accumulate(recording: Recording, parts: Iterator[tuple[Any, Any]]) -> None:
    provenance = recording.recorder.provenance
    losses: list[Tensor] = []
    sums: dict[str, Tensor] = {}
    for number in range(recording.accumulate):
        with provenance.at_micro_batch(number):
            inputs, targets = next(parts)
            with _lowered(recording) as settle:
                loss = _forward(recording, inputs, targets) / recording.accumulate
                settle()
                losses.append(loss.detach())
                _backward(recording, loss)
            for name, tensor in recording.trained().items():
                sums[name] = _added(recording, name, sums.get(name), tensor)
                tensor.grad = None
    for name, total in sums.items():
        recording.tensors[name].grad = total
    provenance.phase = Phase.FORWARD
    mean = losses[0]
    for loss in losses[1:]:
        mean = mean + loss
    recording.results.outputs[recording.free_name("loss")] = value_of(mean)


def _added(recording: Recording, name: str, total: Tensor | None, tensor: Tensor) -> Tensor:
    """A parameter's gradient, and what earlier micro-batches gave."""
    assert tensor.grad is not None
    term = value_of(tensor.grad)
    if total is None:
        return tensor.grad
    reader = None if term.producer is None else term.producer.partner
    with torch.no_grad(), recording.recorder.provenance.belonging_to(reader):
        total = total + tensor.grad
    value_of(total).role, value_of(total).of = Role.GRADIENT, recording.values[name]
    return total


def _lowered(recording: Recording) -> AbstractContextManager[Callable[[], None]]:
    return cast_parameters(recording.model, recording.mixed_precision, recording.recorder.tape)


def _forward(recording: Recording, inputs: Any, targets: Any) -> Tensor:
    """Return the loss."""
    with torch.enable_grad(), casting(recording.autocast):
        output = call(recording.model, cast_inputs(inputs, recording.mixed_precision))
        loss = own_loss(output) if recording.loss_fn is None else recording.loss_fn(output, targets)
    if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.is_floating_point():
        returned = (
            f"a {loss.dtype} tensor of shape {tuple(loss.shape)}"
            if isinstance(loss, Tensor)
            else f"a {type(loss).__name__}"
        )
        what = "loss_fn" if recording.loss_fn is not None else "the model (no loss_fn was given)"
        raise NoTrainingStep(
            f"the loss has to be one floating-point number, but {what} returned {returned}; "
            + _how_to_return_a_loss(loss, recording.loss_fn is not None)
        )
    if not loss.requires_grad:
        raise NoTrainingStep(
            "the loss depends on no parameter that requires a gradient; check requires_grad, "
            "detach() and "
            "torch.no_grad, or capture inference with inputs=..."
        )
    return loss


def _backward(recording: Recording, loss: Tensor) -> None:
    provenance = recording.recorder.provenance
    provenance.watch(loss)
    provenance.phase = Phase.BACKWARD
    torch.autograd.backward(loss)
    provenance.accumulating = False


def _how_to_return_a_loss(returned: object, has_loss_fn: bool) -> str:
    if isinstance(returned, Tensor):
        if returned.numel() == 1:
            return "numbers of this dtype have no gradient: compute it in floating point"
        return "reduce it with .mean() or .sum()"
    if returned is None and has_loss_fn:
        return "return the loss tensor (is a return missing?)"
    if returned is None:
        return (
            "it computes its loss only from what it is compared with: add that to the batch "
            "(`labels` in most libraries), or give a loss_fn"
        )
    if isinstance(returned, (int, float)):
        return "return the loss tensor itself, without .item() or float()"
    if has_loss_fn:
        picked = "out['loss']" if isinstance(returned, Mapping) else "out[0]"
        return f"return the loss tensor, e.g. {picked}"
    return (
        "return the loss, alone or as `loss` of an object or mapping, or give a loss_fn: "
        "loss_fn=lambda out, _: out[0] with batch=(inputs, ())"
    )
