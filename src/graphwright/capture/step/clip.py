"""Clipping gradients by their common norm, as `torch.nn.utils.clip_grad_norm_` does.

    norm  = sqrt(sum over gradients of sum(g * g))
    g'    = g * min(max_norm / (norm + 1e-6), 1)

The squares are summed for each gradient by itself, so that a gradient that lies in parts stays
there: only one number for each has to be added up over the devices. Gradients of 16 bits are
squared in 32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from graphwright.errors import InvalidClipping

_SMALLEST = 1e-6
"""What `clip_grad_norm_` adds to the norm, against a division by zero."""


def check_clip_norm(clip_norm: object) -> None:
    """Raise unless this can bound a norm."""
    if clip_norm is None:
        return
    is_number = isinstance(clip_norm, (int, float)) and not isinstance(clip_norm, bool)
    if not is_number or not math.isfinite(clip_norm) or clip_norm <= 0:  # type: ignore[arg-type,operator]
        raise InvalidClipping(
            "clip_norm has to be a number above zero, the largest norm of all gradients together, "
            f"not {clip_norm!r}"
        )


def clip(gradients: Mapping[str, Tensor], max_norm: float) -> tuple[dict[str, Tensor], Tensor]:
    """Return the clipped gradients, and the norm that they had."""
    squares = [_sum_of_squares(gradient) for gradient in gradients.values()]
    norm = torch.stack(squares).sum().sqrt() if len(squares) > 1 else squares[0].sqrt()
    factor = torch.clamp(max_norm / (norm + _SMALLEST), max=1.0)
    return {name: gradient * factor for name, gradient in gradients.items()}, norm


def _sum_of_squares(gradient: Tensor) -> Tensor:
    if gradient.dtype in (torch.float16, torch.bfloat16):
        gradient = gradient.float()
    return (gradient * gradient).sum()
