"""`gw.capture`: from a model to the graph of its step."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from graphwright.aten import (
    BatchDim,
    ConstantLearningRate,
    OptimizerLike,
    check_autocast,
    eager_module,
    make_optimizer,
    named_arguments,
    split_batch,
    surrounding,
)
from graphwright.capture.blame import blaming
from graphwright.capture.options import write_options
from graphwright.capture.step import (
    LossFunction,
    Recording,
    check_accumulation,
    check_clip_norm,
    record_step,
)
from graphwright.describe import is_described
from graphwright.errors import (
    InvalidBatch,
    InvalidLossFunction,
    NoTrainingStep,
    UnsupportedModel,
)
from graphwright.ir import CONSTANT_OP, UNMERGED, Graph, PassRecord
from graphwright.rewrite import Pass, apply_passes

_ONE_AT_A_TIME = threading.Lock()
"""Capture replaces a few functions of PyTorch while it runs, so captures in several threads take
turns.
"""


def capture(
    model: nn.Module,
    loss_fn: LossFunction | None = None,
    batch: Any = None,
    *,
    inputs: Any = None,
    optimizer: OptimizerLike | None = None,
    optimizer_options: Mapping[str, Any] | None = None,
    clip_norm: float | None = None,
    accumulate: int = 1,
    batch_dim: BatchDim = 0,
    autocast: torch.dtype | None = None,
    mixed_precision: torch.dtype | None = None,
    passes: Iterable[Pass | PassRecord] = UNMERGED,
) -> Graph:
    """Return the graph of one step of a model; nothing is allocated and the model is left as it
    was.

    Training: `batch` is (inputs, targets) and the step is loss_fn(model(inputs), targets), its
    gradients, and the optimizer's update if one is given (a torch.optim class with its options, or
    an instance). Without `loss_fn` the model returns the loss itself, alone or as `loss` of what it
    returns, and `batch` is its inputs. Inference: give `inputs` only. Inputs are a tensor, a tuple
    (positional arguments) or any mapping (keyword arguments), as a tokenizer returns it; their
    values are not read, so tensors on the meta device will do.

    `clip_norm` bounds the norm of all gradients together before the update, as
    `torch.nn.utils.clip_grad_norm_` does; the norm is the output `grad_norm`. `accumulate=K` cuts
    the batch along `batch_dim` into K consecutive micro-batches: K times forward and backward of a
    loss that counts one part in K, then one update. `autocast=torch.bfloat16` computes model and
    loss in mixed precision, and so does a `torch.autocast` around this call; casts are part of the
    graph. `mixed_precision=torch.bfloat16` is that of FSDP: parameters and state in float32, model,
    gradients and what is gathered and summed in bfloat16.

    `passes` rewrite the graph, one after the other; `graph.passes` names them.

    `graph.outputs[0]` is the loss. It is called `loss`, or `loss.result` where a parameter of the
    model has that name.
    """
    model = _checked_model(model)
    training = inputs is None
    check_clip_norm(clip_norm)
    check_autocast(autocast)
    check_autocast(mixed_precision, "mixed_precision")
    autocast = autocast or surrounding()
    about_training = (loss_fn, batch, optimizer, clip_norm, None if accumulate == 1 else accumulate)
    if not training and any(given is not None for given in about_training):
        raise InvalidBatch(
            "inputs=... captures inference; for training give batch=(inputs, targets) with loss_fn "
            "and optimizer"
        )
    _check_loss_function(loss_fn)
    with _ONE_AT_A_TIME, blaming(model, _call(training, loss_fn)):
        if not training:
            recording = Recording(
                model,
                inputs,
                training=False,
                autocast=autocast,
                mixed_precision=mixed_precision,
            )
        else:
            given, targets = split_batch(batch, has_targets=loss_fn is not None)
            if not any(p.requires_grad for p in model.parameters()):
                raise NoTrainingStep(
                    "no parameter of the model requires a gradient; check requires_grad, or "
                    "capture inference "
                    "with inputs=..."
                )
            made = (
                None if optimizer is None else make_optimizer(optimizer, optimizer_options, model)
            )
            check_accumulation(accumulate, given, targets, batch_dim)
            recording = Recording(
                model,
                given,
                targets,
                loss_fn=loss_fn,
                optimizer=made,
                clip_norm=clip_norm,
                accumulate=accumulate,
                batch_dim=batch_dim,
                autocast=autocast,
                mixed_precision=mixed_precision,
            )
        graph = record_step(recording)
    options = write_options(clip_norm, accumulate, batch_dim, autocast, mixed_precision)
    arguments = named_arguments(recording.inputs, recording.targets)
    if arguments:
        options["arguments"] = tuple(arguments.items())
    graph = apply_passes(replace(graph, options=options), passes)
    if recording.optimizer is not None and recording.constant_rates:
        _report_constant_rates(recording.optimizer)
    _report_undescribed(graph)
    return graph


def _call(training: bool, loss_fn: object) -> str:
    """What the step calls, in words."""
    if not training:
        return "model(inputs)"
    return "model(batch)" if loss_fn is None else "loss_fn(model(inputs), targets)"


def _check_loss_function(loss_fn: object) -> None:
    if isinstance(loss_fn, type):
        raise InvalidLossFunction(
            f"loss_fn is the class {loss_fn.__name__}; give an instance of it: {loss_fn.__name__}()"
        )
    if loss_fn is not None and not callable(loss_fn):
        given = repr(loss_fn) if isinstance(loss_fn, str) else f"a {type(loss_fn).__name__}"
        raise InvalidLossFunction(
            f"loss_fn has to be a function of (output, targets), not {given}; for example "
            "torch.nn.functional.cross_entropy"
        )


def _checked_model(model: nn.Module) -> nn.Module:
    model = eager_module(model)
    if isinstance(model, torch.jit.ScriptModule):
        raise UnsupportedModel("a script module hides its Python code; give the eager module")
    if not isinstance(model, nn.Module):
        raise UnsupportedModel(f"model has to be an nn.Module, not {type(model).__name__}")
    return model


class UndescribedOperators(UserWarning):
    """Some operators of a captured graph have no description: they run whole on every device."""


def _report_undescribed(graph: Graph) -> None:
    """Say which operators of a graph the library does not know."""
    unknown = {node.op for node in graph.nodes} - {CONSTANT_OP}
    unknown = {op for op in unknown if not is_described(op)}
    if unknown:
        warnings.warn(
            f"no description for {', '.join(sorted(unknown))}: captured as opaque, to be run whole "
            "on every "
            "device; describe them to let them be split",
            UndescribedOperators,
            stacklevel=3,
        )


def _report_constant_rates(optimizer: torch.optim.Optimizer) -> None:
    """Say that a schedule will not reach the graph."""
    warnings.warn(
        f"{type(optimizer).__name__} cannot run with a tensor as its learning rate, so the rate is "
        "fixed in "
        "the graph; capture again after each change of it",
        ConstantLearningRate,
        stacklevel=3,
    )
