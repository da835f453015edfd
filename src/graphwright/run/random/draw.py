"""The part of a random operator: the numbers that the whole would have there, whatever the split.

    whole output, shape (4, 6)          box ((1, 3), (2, 6)) of it, on one rank
    . . . . . .
    . . a b c d            draw  ->     a b c d
    . . e f g h                         e f g h
    . . . . . .

A number is a function of the seed, the operator's number, the name that its description gives it,
and its place in the whole output (docs/decisions/0008-random-operators-split.md). So every plan
draws alike, on one device or many, CPU or GPU, and so does a part that is computed again in the
backward pass. The numbers are not those of PyTorch's own generators.

What an operator makes of them is a rule, registered with `draws` (see `request`). Inputs are a
rank's own parts; attributes may be those of the whole or of the part, as a size is read from the
box. Numbers that depend on each other (a permutation, the samples of one row, a Dirichlet
distribution) are drawn for all of their dim: of a permutation or of samples the box may still be a
part, a row of parameters has to be there as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from graphwright.errors import UnknownOperator
from graphwright.ir import Attr
from graphwright.run.random.philox import RandomBox
from graphwright.run.random.request import RULES, Request, draws

__all__ = ["RandomBox", "Request", "draw", "draws"]


def draw(
    op: str,
    attrs: Mapping[str, Attr],
    inputs: Sequence[Tensor | None],
    drawn: RandomBox,
    device: torch.device | str | None = None,
) -> tuple[Tensor, ...]:
    """The outputs of a random operator for a box; `device` is for operators without inputs."""
    rule = RULES.get(op)
    if rule is None:
        raise UnknownOperator(
            f"{op} has no rule that draws a part of it, so its numbers would depend on the split; "
            f'register one with @graphwright.run.random.draw.draws("{op}"), or leave random() out '
            "of its description"
        )
    place = next((t.device for t in inputs if t is not None), torch.device(device or "cpu"))
    request = Request(op=op, attrs=attrs, inputs=tuple(inputs), place=drawn, device=place)
    outputs = rule(request)
    for output in outputs:
        if tuple(output.shape) != drawn.size:
            raise request.misfit(f"it made {list(output.shape)}")
    return outputs
