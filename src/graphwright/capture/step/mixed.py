"""Mixed precision as FSDP means it: parameters are kept in float32, and cast for every pass.

    parameter (float32) --> cast --> forward, backward in bfloat16
    gradient (bfloat16) --> cast --> update in float32

What is gathered, computed and reduced is bfloat16; the casts are operators of the graph, so a plan
can gather what was cast, and sum gradients before they are cast back. Floating-point inputs of the
model are cast as well, buffers are not (`MixedPrecisionPolicy(param_dtype=torch.bfloat16)`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from graphwright.aten import map_named
from graphwright.capture.record import Tape


@contextmanager
def cast_parameters(
    model: nn.Module, dtype: torch.dtype | None, tape: Tape
) -> Iterator[Callable[[], None]]:
    """Let a model compute with its floating-point parameters cast to a dtype.

    That holds for the backward pass too, where checkpointed parts run again. What is yielded is to
    be called after the forward pass: each cast then stands where it is first needed.
    """
    if dtype is None:
        yield lambda: None
        return
    first = len(tape.entries)
    casts: dict[int, Tensor] = {}
    kept: list[tuple[dict[str, Any], str, Tensor]] = []
    try:
        for module in model.modules():
            table: dict[str, Any] = module._parameters
            for name, parameter in table.items():
                if parameter is not None and parameter.is_floating_point():
                    if id(parameter) not in casts:
                        casts[id(parameter)] = parameter.to(dtype)
                    kept.append((table, name, parameter))
                    table[name] = casts[id(parameter)]
        last = len(tape.entries)
        yield lambda: tape.postpone(first, last)
    finally:
        for table, name, parameter in kept:
            table[name] = parameter


def cast_inputs(inputs: Any, dtype: torch.dtype | None) -> Any:
    """The inputs of a model, those in floating point cast to a dtype."""
    if dtype is None:
        return inputs
    return map_named(
        lambda _, value: value.to(dtype) if value.is_floating_point() else value, "inputs", inputs
    )
