"""One step of a model, run on fake tensors and recorded.

declare     its inputs                                      (declare.py)
gradients   forward, backward, clipping                     (gradients.py)
update      the optimizer's step                            (update.py)
collect     what the step changed                           (declare.py)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

import torch

from graphwright.aten import call, casting, named_constants, named_tensors, without_autocast
from graphwright.capture.decompose import MaskedAssignment
from graphwright.capture.record import Functionalisation, Recorder, assemble, swapped, value_of
from graphwright.capture.recurrent import unrolled
from graphwright.capture.step.declare import collect, declare
from graphwright.capture.step.gradients import clip_gradients, record_gradients
from graphwright.capture.step.mixed import cast_inputs, cast_parameters
from graphwright.capture.step.recording import Recording
from graphwright.capture.step.update import record_update
from graphwright.errors import UnsupportedModel
from graphwright.ir import Graph


def record_step(recording: Recording) -> Graph:
    """Run the step and return its graph."""
    constants = named_constants(recording.model, recording.loss_fn)
    recording.recorder = Recorder(
        {id(tensor): name for name, tensor in reversed(constants.items())}  # the model's own win
    )
    mode = Functionalisation(recording.recorder.constants.lift)
    with ExitStack() as stack:
        stack.enter_context(_untouched_settings())
        stack.enter_context(without_autocast())
        stack.enter_context(recording.recorder)
        declare(recording, mode)
        stack.enter_context(
            recording.recorder.provenance.following(list(recording.model.named_modules()))
        )
        stack.enter_context(unrolled(recording.recorder.provenance))
        for module in recording.modules():
            replacements = {id(recording.originals[n]): t for n, t in recording.tensors.items()}
            stack.enter_context(swapped(module, replacements, recording.recorder.constants.read))
        with mode:
            if recording.training:
                record_gradients(recording)
            else:
                _infer(recording)
            if recording.clip_norm is not None:
                clip_gradients(recording, recording.clip_norm)
        if recording.optimizer is not None:
            record_update(recording, mode)
        with mode:
            collect(recording)
    return assemble(recording.recorder.tape, recording.results, recording.recorder.provenance.calls)


def _infer(recording: Recording) -> None:
    """Run the model alone."""
    lower = recording.mixed_precision
    with (
        torch.no_grad(),
        casting(recording.autocast),
        cast_parameters(recording.model, lower, recording.recorder.tape) as settle,
    ):
        output = call(recording.model, cast_inputs(recording.inputs, lower))
        settle()
    leaves = dict(named_tensors("output", output))
    if not leaves:
        raise UnsupportedModel(
            f"the model returns {type(output).__name__} without a tensor; return tensors, or a "
            "tuple, "
            "list or dict of them"
        )
    recording.results.outputs.update(
        {recording.free_name(name): value_of(t) for name, t in leaves.items()}
    )


@contextmanager
def _untouched_settings() -> Iterator[None]:
    """Keep the generator's state; no compiled functions, no fused kernels that hide operators.

    Code that asks whether it is being compiled hears yes, and looks at no values.
    """
    state = torch.default_generator.get_state()
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with (
            torch.compiler.set_stance("force_eager"),
            mock.patch.object(torch.compiler, "_is_compiling_flag", True),
            MaskedAssignment(),
        ):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        torch.default_generator.set_state(state)
