"""The index of a checkpoint, `graphwright.json`: what it holds and where, checked when it is read.

{"format": "graphwright checkpoint", "version": 1, "step": 40, "extra": {...}, "tensors":
   {"fc.weight": {"type": "float32[8, 6]",
                  "chunks": [{"start": [0, 0], "sizes": [4, 6],
                              "file": "__0_0.distcp", "offset": 0, "bytes": 1465},
                             {"start": [4, 0], ...}]}}}
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from graphwright.errors import InvalidCheckpoint, InvalidGraph
from graphwright.ir import TensorType, parse_type
from graphwright.plans import Box
from graphwright.run.checkpoint.shards import sizes

INDEX = "graphwright.json"
FORMAT = "graphwright checkpoint"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One box of a tensor and the bytes of a file where it lies."""

    box: Box
    file: str
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One tensor: chunks that make the whole of it."""

    type: TensorType
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """All of a checkpoint but the values."""

    step: int
    extra: dict[str, Any]
    tensors: dict[str, Entry]


def read_index(path: Path) -> Index:
    """Read and check the index of the checkpoint at `path`, and that its files are complete."""
    try:
        document = json.loads((path / INDEX).read_bytes())
    except FileNotFoundError as error:
        raise InvalidCheckpoint(
            f"{path} is not a checkpoint: it has no {INDEX}; a checkpoint is a folder like "
            "000001-step-10, and one that was not saved to its end has no index"
        ) from error
    except (OSError, ValueError) as error:
        raise InvalidCheckpoint(f"cannot read {path / INDEX}: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidCheckpoint(f"{path / INDEX} is not the index of a checkpoint")
    if document.get("version") != VERSION:
        raise InvalidCheckpoint(
            f"{path} has version {document.get('version')!r} of the format, and this Graphwright "
            f"reads version {VERSION}; use the version that wrote it"
        )
    try:
        index = Index(
            step=int(document["step"]),
            extra=dict(document["extra"]),
            tensors={name: _entry(entry) for name, entry in document["tensors"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError, InvalidGraph) as error:
        raise InvalidCheckpoint(f"{path / INDEX} is damaged: {error!r}") from error
    _check_files(path, index)
    return index


def _entry(document: Any) -> Entry:
    type = parse_type(document["type"])
    chunks = tuple(_chunk(chunk, type) for chunk in document["chunks"])
    if sum(prod(sizes(chunk.box)) for chunk in chunks) != type.numel:
        raise ValueError(f"the chunks of a {type} do not make the whole of it")
    if len({tuple(start for start, _ in chunk.box) for chunk in chunks}) != len(chunks):
        raise ValueError(f"two chunks of a {type} begin at the same place")
    return Entry(type=type, chunks=chunks)


def _chunk(document: Any, type: TensorType) -> Chunk:
    box = tuple(
        (int(start), int(start) + int(size))
        for start, size in zip(document["start"], document["sizes"], strict=True)
    )
    inside = zip(box, type.shape, strict=True)
    if not all(0 <= start <= stop <= size for (start, stop), size in inside):
        raise ValueError(f"the chunk {box} lies outside of {type}")
    file, offset, bytes = str(document["file"]), int(document["offset"]), int(document["bytes"])
    if Path(file).name != file or offset < 0 or bytes < 0:
        raise ValueError(f"{file!r} at {offset} is not a place in this folder")
    return Chunk(box=box, file=file, offset=offset, bytes=bytes)


def _check_files(path: Path, index: Index) -> None:
    needed: Counter[str] = Counter()
    for entry in index.tensors.values():
        for chunk in entry.chunks:
            needed[chunk.file] = max(needed[chunk.file], chunk.offset + chunk.bytes)
    for file, bytes in sorted(needed.items()):
        try:
            size = (path / file).stat().st_size
        except OSError as error:
            raise InvalidCheckpoint(
                f"{path} is not complete: {file} cannot be read ({error.strerror}); copy the whole "
                "folder again"
            ) from error
        if size < bytes:
            raise InvalidCheckpoint(
                f"{path} is not complete: {file} has {size} bytes of {bytes}; copy the whole "
                "folder again"
            )
