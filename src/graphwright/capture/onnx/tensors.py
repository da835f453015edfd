"""Values of tensors in ONNX files, from the file itself or from one beside it."""

from __future__ import annotations

from math import prod
from pathlib import Path

import torch
from torch import Tensor

from graphwright.capture.onnx.messages import StoredTensor
from graphwright.capture.onnx.wire import DamagedMessage

DTYPES = {
    1: torch.float32, 2: torch.uint8, 3: torch.int8, 4: torch.uint16, 5: torch.int16,
    6: torch.int32, 7: torch.int64, 9: torch.bool, 10: torch.float16, 11: torch.float64,
    12: torch.uint32, 13: torch.uint64, 16: torch.bfloat16,
}  # fmt: skip
"""Element types by their numbers in onnx.proto."""

KINDS = {dtype: kind for kind, dtype in DTYPES.items()}


def dtype_of(kind: int, what: str) -> torch.dtype:
    """The element type of that number; `what` has it, for the message."""
    if kind not in DTYPES:
        raise DamagedMessage(f"{what} has elements of type {kind}, which are not supported")
    return DTYPES[kind]


def value_of(stored: StoredTensor, folder: Path) -> Tensor:
    """The tensor; one in another file is looked for in the folder."""
    what = f"tensor {stored.name!r}"
    dtype = dtype_of(stored.kind, what)
    if any(size < 0 for size in stored.dims):
        raise DamagedMessage(f"{what} has the shape {list(stored.dims)}")
    size = prod(stored.dims) * dtype.itemsize
    if stored.external:
        data: bytes | memoryview = _external(stored, folder, size)
    elif stored.raw is not None:
        data = stored.raw
    else:
        return _of_numbers(stored, dtype, what)
    if len(data) != size:
        raise DamagedMessage(
            f"{what} of shape {list(stored.dims)} and {dtype} takes {size:,} bytes, but "
            f"{len(data):,} are there"
        )
    if not size:
        return torch.empty(stored.dims, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(stored.dims)


def _of_numbers(stored: StoredTensor, dtype: torch.dtype, what: str) -> Tensor:
    """Numbers written one by one; those of 16 bits are the bits of whole numbers."""
    count = prod(stored.dims)
    if len(stored.values) != count:
        raise DamagedMessage(
            f"{what} of shape {list(stored.dims)} has {len(stored.values)} of {count} values"
        )
    if dtype in (torch.float16, torch.bfloat16):
        bits = torch.tensor([int(v) & 0xFFFF for v in stored.values], dtype=torch.int32)
        return bits.to(torch.uint16).view(dtype).reshape(stored.dims)
    return torch.tensor(stored.values, dtype=dtype).reshape(stored.dims)


def _external(stored: StoredTensor, folder: Path, size: int) -> bytes:
    """Bytes of a file in the folder of the model; nowhere else is looked."""
    location = stored.external.get("location", "")
    base, path = folder.resolve(), (folder / location).resolve()
    what = f"the values of {stored.name!r} are in {location!r}"
    if not location or not path.is_relative_to(base):
        raise DamagedMessage(f"{what}, which is outside of the model's folder")
    try:
        offset = int(stored.external.get("offset", "0"))
        length = int(stored.external.get("length", str(size)))
        if offset < 0 or length != size:
            raise DamagedMessage(f"{what}: {length:,} bytes from {offset:,}, but {size:,} are due")
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(length)
    except OSError as error:
        raise DamagedMessage(
            f"{what}, which cannot be read: {error.strerror}; put it beside the model"
        ) from error
    if len(data) != size:
        raise DamagedMessage(f"{what}, which ends after {len(data):,} of {size:,} bytes")
    return data
