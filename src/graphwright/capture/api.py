"""`gw.capture`: from a model to the graph of its step."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from graphwright.capture.batch import split_batch
from graphwright.capture.blame import blaming
from graphwright.capture.optimizer import OptimizerLike, make_optimizer
from graphwright.capture.step import LossFunction, Step
from graphwright.describe import is_described
from graphwright.errors import InvalidBatch, NoTrainingStep, UnsupportedModel
from graphwright.ir import Graph

_ONE_AT_A_TIME = threading.Lock()
"""Capture replaces a few functions of PyTorch while it runs, so captures in several threads take turns."""


def capture(
    model: nn.Module,
    loss_fn: LossFunction | None = None,
    batch: Any = None,
    *,
    inputs: Any = None,
    optimizer: OptimizerLike | None = None,
    optimizer_options: Mapping[str, Any] | None = None,
) -> Graph:
    """Return the graph of one step of a model; nothing is allocated and the model is left as it was.

    Training: `batch` is (inputs, targets) and the step is loss_fn(model(inputs), targets), its gradients, and
    the optimizer's update if one is given (a torch.optim class with its options, or an instance). Without
    `loss_fn` the model returns the loss itself and `batch` is its inputs. Inference: give `inputs` only.
    Inputs are a tensor, a tuple (positional arguments) or a dict (keyword arguments); their values are not
    read, so tensors on the meta device will do.
    """
    model = _checked_model(model)
    training = inputs is None
    if not training and (loss_fn is not None or batch is not None or optimizer is not None):
        raise InvalidBatch(
            "inputs=... captures inference; for training give batch=(inputs, targets) with loss_fn and optimizer"
        )
    with _ONE_AT_A_TIME, blaming():
        if not training:
            graph = Step(model, inputs, training=False).record()
        else:
            given, targets = split_batch(batch, has_targets=loss_fn is not None)
            if not any(p.requires_grad for p in model.parameters()):
                raise NoTrainingStep(
                    "no parameter of the model requires a gradient; check requires_grad, or capture inference "
                    "with inputs=..."
                )
            made = (
                None if optimizer is None else make_optimizer(optimizer, optimizer_options, model)
            )
            graph = Step(model, given, targets, loss_fn=loss_fn, optimizer=made).record()
    _report_undescribed(graph)
    return graph


def _checked_model(model: nn.Module) -> nn.Module:
    model = getattr(model, "_orig_mod", model)  # torch.compile's wrapper
    if isinstance(model, torch.jit.ScriptModule):
        raise UnsupportedModel("a script module hides its Python code; give the eager module")
    if not isinstance(model, nn.Module):
        raise UnsupportedModel(f"model has to be an nn.Module, not {type(model).__name__}")
    return model


class UndescribedOperators(UserWarning):
    """Some operators of a captured graph have no description: they run whole on every device."""


_reported: set[str] = set()


def _report_undescribed(graph: Graph) -> None:
    """Say once which operators the library does not know."""
    unknown = {node.op for node in graph.nodes} - _reported
    unknown = {op for op in unknown if not is_described(op)}
    if unknown:
        _reported.update(unknown)
        warnings.warn(
            f"no description for {', '.join(sorted(unknown))}: captured as opaque, to be run whole on every "
            "device; describe them to let them be split",
            UndescribedOperators,
            stacklevel=3,
        )
