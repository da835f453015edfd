"""The part of a random operator: the numbers that the whole would have there, whatever the split.

    whole output, shape (4, 6)          box ((1, 3), (2, 6)) of it, on one rank
    . . . . . .
    . . a b c d            draw  ->     a b c d
    . . e f g h                         e f g h
    . . . . . .

A number is a function of the seed, the operator's number, the name that its description gives it, and its place in the whole
output (docs/decisions/0008-random-operators-split.md). So every plan draws alike, on one device or many, CPU or GPU, and a
part that is computed again in the backward pass is drawn again alike. The numbers are not those of PyTorch's own generators.

What an operator makes of them is a rule, registered with `draws` (see `draw_rules`). Inputs are a rank's own parts; attributes may be those
of the whole or of the part, as a size is read from the box. Numbers that depend on each other (a permutation, the samples of
one row, a Dirichlet distribution) are drawn for all of their dim: of a permutation or of samples the box may still be a
part, a row of parameters has to be there as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import CodeType, FunctionType

import torch
from torch import Tensor

from graphwright.describe import find, random
from graphwright.errors import UnknownOperator
from graphwright.ir import Attr
from graphwright.run.random.philox import Drawn
from graphwright.run.random.rules import RULES, Request, draws

__all__ = ["Drawn", "Request", "draw", "draws", "is_random"]


def draw(
    op: str,
    attrs: Mapping[str, Attr],
    inputs: Sequence[Tensor | None],
    drawn: Drawn,
    device: torch.device | str | None = None,
) -> tuple[Tensor, ...]:
    """The outputs of a random operator for the box in `drawn`; `device` is for operators without inputs."""
    rule = RULES.get(op)
    if rule is None:
        raise UnknownOperator(
            f"{op} has no rule that draws a part of it, so its numbers would depend on the split; register one with "
            f'@graphwright.run.random.draw.draws("{op}"), or leave random() out of its description'
        )
    place = next((t.device for t in inputs if t is not None), torch.device(device or "cpu"))
    request = Request(op=op, attrs=attrs, inputs=tuple(inputs), drawn=drawn, device=place)
    outputs = rule(request)
    for output in outputs:
        if tuple(output.shape) != drawn.size:
            raise request.misfit(f"it made {list(output.shape)}")
    return outputs


def is_random(op: str) -> bool:
    """Whether the description of `op` draws random numbers, for some attributes at least."""
    description = find(op)
    return description is not None and _draws_random(description.function)


@cache
def _draws_random(function: object) -> bool:
    return _mentions_random(function, set())


def _mentions_random(value: object, seen: set[int]) -> bool:
    """Whether a function, one it encloses, or one that it calls by a global name, names `random`."""
    if value is random:
        return True
    if not isinstance(value, FunctionType) or id(value) in seen:
        return False
    seen.add(id(value))
    used = [cell.cell_contents for cell in value.__closure__ or ()]
    codes = [value.__code__]
    while codes:
        code = codes.pop()
        used += [value.__globals__.get(name) for name in code.co_names]
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return any(_mentions_random(item, seen) for item in used)
