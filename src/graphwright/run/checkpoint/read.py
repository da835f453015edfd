"""Read boxes of tensors from a checkpoint's files; no pickle.

    wanted here   [3:6]         index   fc.bias: [0:4] in __0_0.distcp, [4:8] in __1_0.distcp
    reads         [3:4] from the first, [4:6] from the second

The checked index says where the chunks lie, and only tensors come out of the files, whatever they
hold.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import torch

from graphwright.errors import InvalidCheckpoint
from graphwright.ir import TensorType
from graphwright.run.checkpoint.index import Chunk, Index
from graphwright.run.checkpoint.shards import BoxedTensor, is_empty, overlap, sizes, view_box


def read_tensors(path: Path, index: Index, targets: Mapping[str, BoxedTensor]) -> None:
    """Fill the boxes of this process, every file from its beginning to its end."""
    reads = [
        (chunk, name)
        for name, target in targets.items()
        for chunk in index.tensors[name].chunks
        if not is_empty(overlap(chunk.box, target.box))
    ]
    reads.sort(key=lambda read: (read[0].file, read[0].offset))
    for file, group in groupby(reads, key=lambda read: read[0].file):
        try:
            with (path / file).open("rb") as opened:
                for chunk, name in group:
                    opened.seek(chunk.offset)
                    data = opened.read(chunk.bytes)
                    tensor = _read_chunk(path, chunk, name, index.tensors[name].type, data)
                    _fill(targets[name], chunk, tensor)
        except OSError as error:
            raise InvalidCheckpoint(f"cannot read {path / file}: {error.strerror}") from error


def _fill(target: BoxedTensor, chunk: Chunk, tensor: torch.Tensor) -> None:
    common = overlap(chunk.box, target.box)
    with torch.no_grad():
        view_box(target.tensor, target.box, common).copy_(view_box(tensor, chunk.box, common))


def _read_chunk(path: Path, chunk: Chunk, name: str, type: TensorType, data: bytes) -> torch.Tensor:
    """The tensor in the bytes of a chunk, if their checksums match."""
    try:
        with ZipFile(io.BytesIO(data)) as records:  # torch.load does not look at the checksums
            _check_sizes(records, chunk.bytes)
            damaged = records.testzip()
        if damaged is not None:
            raise BadZipFile(f"the checksum of {damaged} does not match")
        read = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:
        raise InvalidCheckpoint(
            f"{path / chunk.file} is damaged: {name} cannot be read from byte {chunk.offset} on "
            f"({str(error).strip().partition(chr(10))[0] or error!r}). Restore the file, or remove "
            "this checkpoint and go on from the one before"
        ) from error
    wanted = sizes(chunk.box), getattr(torch, type.dtype)
    if not isinstance(read, torch.Tensor) or (tuple(read.shape), read.dtype) != wanted:
        raise InvalidCheckpoint(
            f"{path / chunk.file} holds something other than {name} at byte {chunk.offset}"
        )
    return read


def _check_sizes(records: ZipFile, limit: int) -> None:
    """`torch.save` does not compress, so what it wrote holds no more than its own bytes."""
    if sum(record.file_size for record in records.infolist()) > limit:
        raise BadZipFile("its records are larger than the file")
