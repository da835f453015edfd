"""PyTorch's operators and ours, typed as functions that return a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

import torch
from torch import Tensor


class Overloads(Protocol):
    """One operator: `aten.sum`, with its overloads as attributes."""

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor: ...

    def __getattr__(self, name: str) -> Callable[..., Tensor]: ...


class Operators(Protocol):
    """A namespace of operators."""

    def __getattr__(self, name: str) -> Overloads: ...


aten = cast(Operators, torch.ops.aten)
ours = cast(Operators, torch.ops.graphwright)

_SMALL_FLOATS = frozenset({torch.float16, torch.bfloat16})


def as_pairs(x: Tensor) -> Tensor:
    """Return complex numbers as a graph holds them, as pairs of real ones; others as they are."""
    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else x


def as_float32(x: Tensor) -> Tensor:
    """Return x, widened if it is a small float: sums are in float32, as in PyTorch's kernels."""
    return aten._to_copy.default(x, dtype=torch.float32) if x.dtype in _SMALL_FLOATS else x
