"""Types and dtypes of tensors, as PyTorch has them and as a graph spells them."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from graphwright.ir import Attr, TensorType

_TYPES: dict[tuple[torch.Size, torch.dtype], TensorType] = {}


def tensor_type(tensor: torch.Tensor) -> TensorType:
    """Return the type of a tensor; equal types are the same object."""
    key = (tensor.shape, tensor.dtype)
    type = _TYPES.get(key)
    if type is None:
        type = _TYPES[key] = TensorType(tuple(map(int, tensor.shape)), dtype_name(tensor.dtype))
    return type


def dtype_name(dtype: torch.dtype) -> str:
    """Return a dtype's name as the graph spells it: `float32`."""
    return str(dtype).removeprefix("torch.")


@cache
def numbered_dtype(number: int) -> torch.dtype:
    """Return the dtype that a schema gives by its number, as the default of an argument."""
    named = [dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype)]
    number_of: Any = torch.ops.prim.dtype
    return next(dtype for dtype in named if number_of(torch.empty(0, dtype=dtype)) == number)


def to_dtype(value: Attr) -> torch.dtype | None:
    """Return the dtype of a name."""
    if value is None:
        return None
    dtype = getattr(torch, str(value), None)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"{value!r} is not a dtype")
    return dtype
