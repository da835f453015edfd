"""Real tensors for a call of which only the types are known, such that its kernel takes them.

Floats lie between 0.1 and 0.9, which suits logarithms, probabilities and divisors. The description
says what an integer may be: any row where it looks rows up (a split has a mask); 1 in an
element-wise operator, which may divide by it; else 0, which every index may be. Booleans come in
runs, as in masks: on a CPU a choice takes six times as long where every next one is a surprise.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from graphwright.aten import to_dtype
from graphwright.describe import Types, is_described, properties, splits
from graphwright.ir import DTYPE_BYTES, Attr, TensorType

_LOW, _HIGH = 0.1, 0.9
_RUN = 64

_BOUNDS = {"graphwright.grouped_mm": 2, "graphwright.grouped_mm_grad_weight": 2}
"""These have an input of bounds, by which the rows of the first input are shared evenly."""

_PIVOTS = frozenset({"aten.linalg_lu_solve", "aten.lu_unpack", "aten.linalg_ldl_solve"})
"""These count rows from 1."""


def sample_inputs(
    op: str, attrs: Mapping[str, Attr], types: Types, device: torch.device | str = "cpu"
) -> list[torch.Tensor | None]:
    """Inputs of a call, the same every time."""
    generator = torch.Generator(device).manual_seed(0)
    ranges = index_ranges(op, attrs, types)
    ones = op in _PIVOTS or (is_described(op) and properties(op, attrs, types).elementwise)
    inputs: list[torch.Tensor | None] = []
    for position, type in enumerate(types.inputs):
        if type is None:
            inputs.append(None)
            continue
        tensor = _sample(type, ranges.get(position, 1), generator)
        if ones and _is_integer(type.dtype):
            tensor = torch.ones_like(tensor)
        if position == _BOUNDS.get(op):
            rows = inputs[0].shape[0]  # type: ignore[union-attr]
            shares = torch.arange(tensor.numel(), device=device) * rows // (tensor.numel() - 1)
            tensor = shares.to(tensor.dtype)
        inputs.append(_positive_definite(tensor) if "cholesky" in op else tensor)
    return inputs


def index_ranges(op: str, attrs: Mapping[str, Attr], types: Types) -> dict[int, int]:
    """For inputs that look rows up: how many rows there are."""
    integers = any(t is not None and _is_integer(t.dtype) for t in types.inputs)
    if not integers or not is_described(op):
        return {}
    num_rows: dict[int, int] = {}
    for split in splits(op, attrs, types):
        mask = split.part(0, split.extent).mask
        if mask is not None:
            num_rows[mask.index] = min(split.extent, num_rows.get(mask.index, split.extent))
    return num_rows


def _is_integer(dtype: str) -> bool:
    return dtype.startswith(("int", "uint"))


def _sample(type: TensorType, num_rows: int, generator: torch.Generator) -> torch.Tensor:
    dtype, device, shape = to_dtype(type.dtype), generator.device, type.shape
    if _is_integer(type.dtype):
        if num_rows == 1:
            return torch.zeros(shape, dtype=dtype, device=device)
        return torch.randint(num_rows, shape, dtype=dtype, device=device, generator=generator)
    if dtype == torch.bool:
        return (torch.arange(type.numel, device=device) // _RUN % 2 == 0).view(shape)
    if DTYPE_BYTES[type.dtype] == 1:  # 8-bit floats are made from others
        return torch.rand(shape, device=device, generator=generator).to(dtype)
    made = torch.rand(shape, dtype=dtype, device=device, generator=generator)
    return made.mul_(_HIGH - _LOW).add_(_LOW)


def _positive_definite(tensor: torch.Tensor) -> torch.Tensor:
    """A factor with a diagonal that outweighs the rest; symmetric, where the matrix is square."""
    if tensor.dim() < 2 or tensor.shape[-1] != tensor.shape[-2] or not tensor.is_floating_point():
        return tensor
    size = tensor.shape[-1]
    diagonal = size * torch.eye(size, dtype=tensor.dtype, device=tensor.device)
    return (tensor + tensor.mT) / 2 + diagonal
