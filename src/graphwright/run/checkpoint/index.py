"""The index of a checkpoint, `graphwright.json`: what it holds and where, checked before anything is believed.

{"format": "graphwright checkpoint", "version": 1, "step": 40, "extra": {...},
 "tensors": {"fc.weight": {"type": "float32[8, 6]",
                           "chunks": [{"start": [0, 0], "sizes": [4, 6], "file": "__0_0.distcp", "offset": 0, "bytes": 1465},
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
    """Read and check the index of the checkpoint at `path`, and that its files are there with all their bytes."""
    try:
        document = json.loads((path / INDEX).read_bytes())
    except FileNotFoundError as error:
        raise InvalidCheckpoint(
            f"{path} is no checkpoint: {INDEX} is not there; a checkpoint is a folder like 000001-step-10, "
            "made by saving, and one that was not saved to its end has none"
        ) from error
    except (OSError, ValueError) as error:
        raise InvalidCheckpoint(f"cannot read {path / INDEX}: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidCheckpoint(f"{path / INDEX} is not the index of a checkpoint")
    if document.get("version") != VERSION:
        raise InvalidCheckpoint(
            f"{path} has version {document.get('version')!r} of the format and this Graphwright reads version {VERSION}; "
            "use the version that wrote it"
        )
    try:
        index = Index(
            step=int(document["step"]),
            extra=dict(document["extra"]),
            tensors={name: _entry(found) for name, found in document["tensors"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError, InvalidGraph) as error:
        raise InvalidCheckpoint(f"{path / INDEX} is damaged: {error!r}") from error
    _check_files(path, index)
    return index


def _entry(found: Any) -> Entry:
    type = parse_type(found["type"])
    chunks = tuple(_chunk(chunk, type) for chunk in found["chunks"])
    if sum(prod(sizes(chunk.box)) for chunk in chunks) != type.numel:
        raise ValueError(f"the chunks of a {type} do not make the whole of it")
    if len({tuple(start for start, _ in chunk.box) for chunk in chunks}) != len(chunks):
        raise ValueError(f"two chunks of a {type} begin at the same place")
    return Entry(type=type, chunks=chunks)


def _chunk(found: Any, type: TensorType) -> Chunk:
    box = tuple(
        (int(start), int(start) + int(size))
        for start, size in zip(found["start"], found["sizes"], strict=True)
    )
    inside = zip(box, type.shape, strict=True)
    if not all(0 <= start <= stop <= size for (start, stop), size in inside):
        raise ValueError(f"the chunk {box} lies outside of {type}")
    chunk = Chunk(
        box=box, file=str(found["file"]), offset=int(found["offset"]), bytes=int(found["bytes"])
    )
    if Path(chunk.file).name != chunk.file or chunk.offset < 0 or chunk.bytes < 0:
        raise ValueError(f"{chunk.file!r} at {chunk.offset} is no place in this folder")
    return chunk


def _check_files(path: Path, index: Index) -> None:
    needed: Counter[str] = Counter()
    for entry in index.tensors.values():
        for chunk in entry.chunks:
            needed[chunk.file] = max(needed[chunk.file], chunk.offset + chunk.bytes)
    for file, bytes in sorted(needed.items()):
        try:
            found = (path / file).stat().st_size
        except OSError as error:
            raise InvalidCheckpoint(
                f"{path} is not complete: {file} cannot be read ({error.strerror}); copy the whole folder"
            ) from error
        if found < bytes:
            raise InvalidCheckpoint(
                f"{path} is not complete: {file} has {found} bytes of {bytes}; copy the whole folder again"
            )
