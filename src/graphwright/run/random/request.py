"""One call of a random operator, as the rule that draws a part of it sees it.

    @draws("mine.noise")
    def noise(r):                                        # a Request
        return r.x + distributions.normal(r.place, "number", r.dtype, r.device)

A rule refuses the attributes and values that the kernel refuses, and makes the dtypes that the
kernel makes. A name ("number") is the one that the operator's description gives to `random`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from graphwright.aten import to_dtype
from graphwright.errors import InvalidCall
from graphwright.ir import Attr
from graphwright.run.random.philox import RandomBox


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call of a random operator: draw its outputs for the box at `place`."""

    op: str
    attrs: Mapping[str, Attr]
    inputs: tuple[Tensor | None, ...]
    place: RandomBox
    device: torch.device

    @property
    def x(self) -> Tensor:
        """The first input."""
        return self.beside(0)

    def beside(self, number: int) -> Tensor:
        """An input that is a region of the same place as the box, or broadcasts to it."""
        tensor = self.given(number)
        pairs = zip(reversed(tensor.shape), reversed(self.place.size), strict=False)
        if tensor.dim() > len(self.place.size) or any(n not in (1, size) for n, size in pairs):
            raise self.misfit(f"tensor {number} does not broadcast to it")
        return tensor

    def given(self, number: int) -> Tensor:
        """An input of any shape."""
        tensor = self.inputs[number] if number < len(self.inputs) else None
        if tensor is None:
            raise InvalidCall(f"{self.op} needs tensor {number}, which is absent")
        return tensor

    def misfit(self, reason: str) -> InvalidCall:
        """The error for inputs that are not of the box."""
        shapes = ["absent" if t is None else str(list(t.shape)) for t in self.inputs]
        return InvalidCall(
            f"{self.op} (operator {self.place.operator}) cannot draw a box of size "
            f"{list(self.place.size)} from inputs of the shapes {', '.join(shapes) or 'none'}: "
            f"{reason}. Give it the box's own region of each input"
        )

    def number(self, name: str) -> float:
        """An attribute that is a number."""
        return float(self.attrs[name])  # type: ignore[arg-type]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype asked for; otherwise that of the first input, otherwise PyTorch's default."""
        asked = to_dtype(self.attrs.get("dtype"))
        if asked is not None:
            return asked
        return self.given(0).dtype if self.inputs else torch.get_default_dtype()

    def expect(self, holds: bool | Tensor, what: str) -> None:
        """Refuse what the kernel would refuse; values on a GPU are checked there, later."""
        if isinstance(holds, Tensor):
            if holds.device.type != "cpu":
                torch._assert_async(holds.all(), f"{self.op}: {what}")
                return
            holds = bool(holds.all())
        if not holds:
            raise InvalidCall(f"{self.op} (operator {self.place.operator}): {what}")


Rule = Callable[[Request], tuple[Tensor, ...]]

RULES: dict[str, Rule] = {}
"""By operator."""


def draws(*ops: str) -> Callable[[Callable[[Request], Tensor | tuple[Tensor, ...]]], Rule]:
    """Register the decorated function as the one that draws parts of `ops`."""

    def register(function: Callable[[Request], Tensor | tuple[Tensor, ...]]) -> Rule:
        def rule(request: Request) -> tuple[Tensor, ...]:
            outputs = function(request)
            return outputs if isinstance(outputs, tuple) else (outputs,)

        RULES.update(dict.fromkeys(ops, rule))
        return rule

    return register
