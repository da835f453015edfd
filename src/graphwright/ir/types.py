"""What a tensor is: its element type and shape, the part it plays in a training step, and when.

float32[64, 3, 224, 224]      64 * 3 * 224 * 224 elements of 4 bytes each
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from graphwright.errors import InvalidGraph


class Role(StrEnum):
    """The part a tensor plays in a step."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    INPUT = "input"
    ACTIVATION = "activation"
    GRADIENT = "gradient"
    OPTIMIZER_STATE = "optimizer_state"
    CONSTANT = "constant"


class Phase(StrEnum):
    """The part of a training step that a node belongs to."""

    FORWARD = "forward"
    BACKWARD = "backward"
    UPDATE = "update"


PERSISTENT_ROLES = frozenset({Role.PARAMETER, Role.BUFFER, Role.OPTIMIZER_STATE})
"""What outlives a step: only these can be updated by it."""

INPUT_ROLES = PERSISTENT_ROLES | {Role.INPUT, Role.CONSTANT}
"""What a graph may be given from outside."""

DTYPE_BYTES: Mapping[str, int] = MappingProxyType(
    {
        "bool": 1,
        "uint8": 1,
        "uint16": 2,
        "uint32": 4,
        "uint64": 8,
        "int8": 1,
        "int16": 2,
        "int32": 4,
        "int64": 8,
        "float16": 2,
        "bfloat16": 2,
        "float32": 4,
        "float64": 8,
        "complex32": 4,
        "complex64": 8,
        "complex128": 16,
        "float8_e4m3fn": 1,
        "float8_e4m3fnuz": 1,
        "float8_e5m2": 1,
        "float8_e5m2fnuz": 1,
        "float8_e8m0fnu": 1,
        "float4_e2m1fn_x2": 1,
        "qint8": 1,
        "quint8": 1,
        "qint32": 4,
    }
)
"""Bytes per element of every element type, as PyTorch names it without `torch.`."""


MAX_BYTES = 1 << 56
"""Of one tensor: sums over the tensors of a step are within 64 bits."""


@dataclass(frozen=True, slots=True, repr=False)
class TensorType:
    """Shape and element type; `repr` is its spelling in the text form: `float32[64, 3]`."""

    shape: tuple[int, ...]
    dtype: str

    def __post_init__(self) -> None:
        if type(self.shape) is not tuple:
            object.__setattr__(self, "shape", tuple(self.shape))
        if self.dtype not in DTYPE_BYTES:
            raise InvalidGraph(
                f"unknown dtype {self.dtype!r}; use PyTorch's name without 'torch.', one of "
                f"{', '.join(DTYPE_BYTES)}",
                rule="dtype",
            )
        for size in self.shape:
            if type(size) is not int or not 0 <= size < 2**63:
                raise InvalidGraph(
                    f"shape {self.shape!r} holds {size!r}; sizes are whole numbers from 0 on",
                    rule="shape",
                )
        if self.nbytes > MAX_BYTES:
            raise InvalidGraph(
                f"{self!r} would take {self.nbytes:.2g} bytes, more than any machine has",
                rule="shape",
            )

    @property
    def rank(self) -> int:
        """How many dims."""
        return len(self.shape)

    @property
    def numel(self) -> int:
        """How many elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """How many bytes when stored densely."""
        return math.prod(self.shape) * DTYPE_BYTES[self.dtype]

    def __repr__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


_TYPE = re.compile(r"\s*(\w+)\s*\[\s*((?:\d+\s*(?:,\s*\d+\s*)*)?)\]\s*")


def parse_type(text: str) -> TensorType:
    """Read a type from its spelling, `float32[64, 3]`."""
    match = _TYPE.fullmatch(text)
    if match is None:
        raise InvalidGraph(
            f"{text!r} is not a tensor type; write one like float32[64, 3] or int64[]", rule="type"
        )
    return TensorType(tuple(int(n) for n in match[2].split(",") if n.strip()), match[1])
