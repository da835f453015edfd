"""The index of a checkpoint, `graphwright.json`: what it holds and where, checked when it is read.

{"checksum": "0e57...", "format": "graphwright checkpoint", "version": 1,
 "step": 40, "extra": {...}, "tensors":
   {"fc.weight": {"type": "float32[8, 6]",
                  "chunks": [{"start": [0, 0], "sizes": [4, 6],
                              "file": "__0_0.distcp", "offset": 0, "bytes": 1465},
                             {"start": [4, 0], ...}]}}}

The checksum is that of all that follows it; older checkpoints have none.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from graphwright.errors import GraphFileError, GraphFormatError, InvalidCheckpoint, InvalidGraph
from graphwright.files import read_whole
from graphwright.ir import TensorType, parse_type
from graphwright.plans import Box
from graphwright.run.checkpoint.shards import cover_once, sizes

INDEX = "graphwright.json"
FORMAT = "graphwright checkpoint"
VERSION = 1

_HEAD = b'{"checksum": "%s", '
_FIELDS = {"checksum", "format", "version", "step", "extra", "tensors"}
_MAX_STEPS = 1 << 53


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


def encode_index(index: Index) -> bytes:
    """What the file holds."""
    tensors = {
        name: {"type": repr(entry.type), "chunks": [_chunk_to_json(c) for c in entry.chunks]}
        for name, entry in index.tensors.items()
    }
    document = {"format": FORMAT, "version": VERSION, "step": index.step, "extra": index.extra}
    body = json.dumps({**document, "tensors": tensors}).encode()[1:]
    return _HEAD % _digest(body) + body


def _digest(body: bytes) -> bytes:
    return blake2b(body, digest_size=16).hexdigest().encode()


def read_index(path: Path) -> Index:
    """Read and check the index of the checkpoint at `path`, and that its files are complete."""
    file = path / INDEX
    if not file.is_file():
        raise InvalidCheckpoint(
            f"{path} is not a checkpoint: it has no {INDEX}; a checkpoint is a folder like "
            "000001-step-10, and one that was not saved to its end has no index"
        )
    try:
        data = read_whole(file)
        document = json.loads(data)
    except (GraphFileError, GraphFormatError, ValueError, RecursionError) as error:
        raise InvalidCheckpoint(f"cannot read {file}: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidCheckpoint(f"{file} is not the index of a checkpoint")
    if document.get("version") != VERSION:
        raise InvalidCheckpoint(
            f"{path} has version {document.get('version')!r} of the format, and this Graphwright "
            f"reads version {VERSION}; use the version that wrote it"
        )
    try:
        index = Index(
            step=_count(document, "step"),
            extra=dict(document["extra"]),
            tensors={name: _entry(entry) for name, entry in document["tensors"].items()},
        )
        if unknown := document.keys() - _FIELDS:
            raise ValueError(f"there is no field {min(unknown)}")
        start = len(_HEAD % _digest(b""))
        if "checksum" in document and data[:start] != _HEAD % _digest(data[start:]):
            raise ValueError("its checksum does not match")
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError, InvalidGraph) as e:
        raise InvalidCheckpoint(f"{file} is damaged: {e!r}") from e
    _check_files(path, index)
    return index


def read_position(path: Path, index: Index) -> tuple[int, int]:
    """The number of steps made and the seed, in the checkpoint of a training step."""
    try:
        return _count(index.extra, "num_steps"), _whole(index.extra["seed"])
    except (KeyError, ValueError) as error:
        raise InvalidCheckpoint(
            f"{path} is not the checkpoint of a training step, or damaged: {error!r}"
        ) from error


def _count(document: Mapping[str, Any], name: str) -> int:
    value = _whole(document[name])
    if not 0 <= value < _MAX_STEPS:
        raise ValueError(f"{name} is not a number of steps")
    return value


def _whole(value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _entry(document: Any) -> Entry:
    type = parse_type(document["type"])
    chunks = tuple(_chunk(chunk, type) for chunk in document["chunks"])
    if not cover_once([chunk.box for chunk in chunks], type.shape):
        raise ValueError(f"the chunks of a {type} do not make the whole of it, each part once")
    return Entry(type=type, chunks=chunks)


def _chunk(document: Any, type: TensorType) -> Chunk:
    box = tuple(
        (_whole(start), _whole(start) + _whole(size))
        for start, size in zip(document["start"], document["sizes"], strict=True)
    )
    inside = zip(box, type.shape, strict=True)
    if not all(0 <= start <= stop <= size for (start, stop), size in inside):
        raise ValueError(f"the chunk {box} lies outside of {type}")
    file, offset, bytes = document["file"], _whole(document["offset"]), _whole(document["bytes"])
    if Path(file).name != file or offset < 0 or bytes < 0:
        raise ValueError(f"{file!r} at {offset} is not a place in this folder")
    return Chunk(box=box, file=file, offset=offset, bytes=bytes)


def _chunk_to_json(chunk: Chunk) -> dict[str, Any]:
    start, lengths = [start for start, _ in chunk.box], list(sizes(chunk.box))
    place = {"file": chunk.file, "offset": chunk.offset, "bytes": chunk.bytes}
    return {"start": start, "sizes": lengths, **place}


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
