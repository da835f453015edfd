"""Operators of ONNX by their names, each a function of PyTorch.

    @operator("Transpose")
    def transpose(call, x):
        return x.permute(call.ints("perm") or ...)

A function is given its call and its inputs, None where one is absent. Inputs that `static` names
are sizes, axes and the like: they have to be known before the model runs, and are given as numbers
or lists. Those that `optional` names are given so where they are known, else as tensors. What a
function does not do it says by `NotImplementedError`: the node is then kept as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphwright.capture.onnx.messages import Attribute

Kernel = Callable[..., Tensor | tuple[Tensor, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The attributes of a node, the version of its operator, how many outputs are read, and the
    dtype of the first input."""

    attrs: Mapping[str, Attribute | Tensor]
    opset: int
    num_outputs: int
    dtype: torch.dtype | None = None

    def whole(self, name: str, default: int = 0) -> int:
        """An attribute that is a whole number."""
        value = self.attrs.get(name, default)
        if not isinstance(value, int):
            raise TypeError(f"attribute {name} is {value!r}, not a whole number")
        return value

    def number(self, name: str, default: float) -> float:
        """An attribute that is a number."""
        value = self.attrs.get(name, default)
        if not isinstance(value, int | float):
            raise TypeError(f"attribute {name} is {value!r}, not a number")
        return float(value)

    def text(self, name: str, default: str) -> str:
        """An attribute that is a word."""
        value = self.attrs.get(name, default)
        if not isinstance(value, str):
            raise TypeError(f"attribute {name} is {value!r}, not a text")
        return value

    def ints(self, name: str) -> list[int]:
        """An attribute that is a list of whole numbers; empty where it is not there."""
        value = self.attrs.get(name, ())
        if not isinstance(value, tuple) or not all(isinstance(v, int) for v in value):
            raise TypeError(f"attribute {name} is {value!r}, not a list of whole numbers")
        return [int(v) for v in value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """How PyTorch computes an operator."""

    kernel: Kernel
    static: frozenset[int]
    optional: frozenset[int]


OPERATORS: dict[str, Operator] = {}
"""Every operator of the standard domain that is read."""


def operator(
    *names: str, static: tuple[int, ...] = (), optional: tuple[int, ...] = ()
) -> Callable[[Kernel], Kernel]:
    """File a function under the names of its operators."""

    def register(kernel: Kernel) -> Kernel:
        for name in names:
            OPERATORS[name] = Operator(
                kernel=kernel, static=frozenset(static), optional=frozenset(optional)
            )
        return kernel

    return register


def first(*given: Any) -> Any:
    """The first that is not None."""
    return next((each for each in given if each is not None), None)
