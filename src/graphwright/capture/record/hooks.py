"""Hooks that a model's parameters carry, taken along to the tensors that stand for them.

`parameter.register_hook(f)` changes the gradient before it is gathered, so `f` is part of the step:
it is registered on the stand-in and recorded as it runs. What a hook computes belongs to the first
forward node that reads the parameter. A post-accumulate hook may do anything (step an optimizer of
its own), so it is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor

from graphwright.capture.record.tape import Value
from graphwright.errors import UnsupportedModel

if TYPE_CHECKING:
    from graphwright.capture.record.recorder import Recorder

Hook = Callable[[Tensor], Tensor | None]


def carry_hooks(
    name: str, parameter: Tensor, stand_in: Tensor, recorder: Recorder, value: Value
) -> None:
    """Register a parameter's gradient hooks on its stand-in."""
    if getattr(parameter, "_post_accumulate_grad_hooks", None):
        raise UnsupportedModel(
            f"{name} has a hook from register_post_accumulate_grad_hook, which runs code outside "
            "of the step's graph; remove it, or change the gradient with register_hook"
        )
    for hook in (parameter._backward_hooks or {}).values():
        stand_in.register_hook(_recorded(hook, recorder, value))  # type: ignore[no-untyped-call]


def _recorded(hook: Hook, recorder: Recorder, value: Value) -> Hook:
    def run(grad: Tensor) -> Tensor | None:
        micro = recorder.provenance.micro
        reader = next(
            (e for e in recorder.tape.entries if e.micro == micro and value in e.inputs), None
        )
        with recorder.provenance.belonging_to(reader):
            return hook(grad)

    return run
