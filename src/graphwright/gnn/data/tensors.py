"""Named tensors and a text in one file, in the layout of safetensors: nothing in it is executed.

    8 bytes     length of the header, little endian
    header      JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...,
                       "__metadata__": {"key": "text"}}
    data        the tensors one after another

Any reader of safetensors reads such a file. Every entry of the header is checked against the size
of the file before anything is read.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphwright.files import writing
from graphwright.gnn.data.errors import InvalidDataFile

_NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
    torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}
_MAX_HEADER = 100 << 20
_METADATA = "__metadata__"


def write_tensors(
    path: str | os.PathLike[str], tensors: Mapping[str, Tensor], texts: Mapping[str, str]
) -> None:
    """Write a file of tensors and texts, whole or not at all."""
    header: dict[str, Any] = {_METADATA: dict(texts)}
    flat, end = [], 0
    for name, tensor in tensors.items():
        if tensor.dtype not in _NAMES:
            raise InvalidDataFile(f"cannot save '{name}': tensors of {tensor.dtype} have no form")
        values = tensor.detach().cpu().contiguous()
        begin, end = end, end + values.numel() * values.element_size()
        header[name] = {
            "dtype": _NAMES[values.dtype],
            "shape": list(values.shape),
            "data_offsets": [begin, end],
        }
        flat.append(values)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with writing(path, InvalidDataFile) as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for values in flat:
            if values.numel():
                row = values.reshape(-1)
                row = row if row.stride(0) == 1 else row.clone()  # one element, broadcast
                file.write(row.view(torch.uint8).numpy().data)


class TensorFile:
    """A file of tensors: its header is checked at once, tensors are read when asked for."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            size = self.path.stat().st_size
            with self.path.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                if size < 8 or length > min(size - 8, _MAX_HEADER):
                    raise self._damaged("it is shorter than its header, or of another kind")
                text = file.read(length)
        except OSError as error:
            raise InvalidDataFile(
                f"cannot read {path}: {error.strerror or error}; check the path"
            ) from error
        self.start, self.size = 8 + length, size
        try:
            header = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._damaged(f"its header is no JSON ({error})") from error
        if not isinstance(header, dict):
            raise self._damaged("its header is no JSON object")
        texts = header.pop(_METADATA, {})
        if not isinstance(texts, dict) or not all(isinstance(t, str) for t in texts.values()):
            raise self._damaged("its metadata are no texts")
        self.texts: dict[str, str] = texts
        self.entries = {name: self._entry(name, entry) for name, entry in header.items()}
        spans = sorted((begin, end) for _, _, begin, end in self.entries.values())
        expected = 0
        for begin, end in spans:
            if begin != expected:
                raise self._damaged(f"its tensors overlap or leave a gap at byte {expected}")
            expected = end
        if self.start + expected != size:
            raise self._damaged(f"it has {size} bytes, but {self.start + expected} are named")

    def _entry(self, name: str, entry: Any) -> tuple[torch.dtype, tuple[int, ...], int, int]:
        match entry:
            case {"dtype": str(kind), "shape": list(shape), "data_offsets": [int(begin), int(end)]}:
                if kind in _DTYPES and all(type(n) is int and n >= 0 for n in shape):
                    bytes_needed = math.prod(shape) * _DTYPES[kind].itemsize
                    if 0 <= begin <= end <= self.size and end - begin == bytes_needed:
                        return _DTYPES[kind], tuple(shape), begin, end
        raise self._damaged(f"its entry for '{name}' is not valid: {entry!r:.80}")

    def _damaged(self, what: str) -> InvalidDataFile:
        return InvalidDataFile(f"{self.path} is damaged or no file of tensors: {what}.")

    def read(self, names: Collection[str] | None = None) -> dict[str, Tensor]:
        """The tensors of some names, by default all."""
        found = {}
        with self.path.open("rb") as file:
            for name in self.entries if names is None else names:
                dtype, shape, begin, end = self.entries[name]
                file.seek(self.start + begin)
                data = bytearray(file.read(end - begin))
                if len(data) < end - begin:
                    raise self._damaged(f"it ends within '{name}'")
                flat = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
                found[name] = flat.reshape(shape)
        return found
