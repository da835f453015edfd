"""Write the parts of all processes into the files of a checkpoint, with `torch.distributed.checkpoint`.

    000003-step-40/  graphwright.json       step, extra, and for every tensor its type and its chunks
                     __0_0.distcp           the chunks that rank 0 wrote, one after the other, each as `torch.save` writes it
                     __1_0.distcp           those of rank 1
                     .metadata              for PyTorch's own tools; we never read it, for it is a pickle

PyTorch gathers, balances and checks the writes. Here are its planner, for tensors in chunks of any cut, and its writer, which
adds the index in JSON. Import this file where it is used: it takes PyTorch's whole distributed package with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    SavePlan,
    SavePlanner,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from graphwright.errors import CheckpointNotSaved
from graphwright.files import writing
from graphwright.ir import TensorType
from graphwright.run.checkpoint.index import FORMAT, INDEX, VERSION
from graphwright.run.checkpoint.shards import Part, sizes
from graphwright.run.processes import alone_is_meant


def write_parts(
    folder: Path,
    step: int,
    parts: Mapping[str, Part],
    types: Mapping[str, TensorType],
    extra: dict[str, Any],
) -> None:
    """Write the parts of this process; called by all together, each with its own, and with the types of all tensors."""
    tensors: dict[str, Any] = {name: part.tensor for name, part in parts.items()}
    writer = Writer(folder, types, step, extra)
    try:
        with alone_is_meant(), _checksums():
            save(tensors, storage_writer=writer, planner=Saving(parts))
    except CheckpointException as error:
        rank, (cause, _) = min(error.failures.items())
        words = (cause.strerror if isinstance(cause, OSError) else None) or str(cause)
        raise CheckpointNotSaved(f"rank {rank}: {words}") from cause


@contextmanager
def _checksums() -> Iterator[None]:
    """Write checksums, which loading looks at, also where they are turned off."""
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(True)
    try:
        yield
    finally:
        torch.serialization.set_crc32_options(before)


class Saving(DefaultSavePlanner):
    """Writes one chunk of every tensor; where several processes offer the same, the one with the least to write does."""

    def __init__(self, parts: Mapping[str, Part]) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self.parts = parts

    def create_local_plan(self) -> SavePlan:
        """One write for every part."""
        self.plan = SavePlan([_write_item(name, part) for name, part in self.parts.items()])
        return self.plan

    def lookup_object(self, index: MetadataIndex) -> torch.Tensor:
        """What is written: contiguous, whatever view of something larger it is."""
        return self.parts[index.fqn].tensor.detach().contiguous()


class Writer(FileSystemWriter):
    """Writes chunks as PyTorch does, and the index beside them when all are there."""

    def __init__(
        self, path: Path, types: Mapping[str, TensorType], step: int, extra: object
    ) -> None:
        super().__init__(path, overwrite=False)
        self.types, self.step, self.extra = types, step, extra

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write this process's chunks; says what the disk said where PyTorch's own words hide it."""
        try:
            return super().write_data(plan, planner)
        except Exception as error:
            raise _first_cause(error) from error

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write the index, on one process, when every other has written."""
        super().finish(metadata, results)
        where = {written.index: written.storage_data for some in results for written in some}
        tensors: dict[str, Any] = {
            name: {"type": repr(type), "chunks": []} for name, type in self.types.items()
        }
        for name, stored in metadata.state_dict_metadata.items():
            assert isinstance(stored, TensorStorageMetadata)
            for chunk in stored.chunks:
                info = where[MetadataIndex(name, chunk.offsets)]
                tensors[name]["chunks"].append(
                    {
                        "start": list(chunk.offsets),
                        "sizes": list(chunk.sizes),
                        "file": info.relative_path,
                        "offset": info.offset,
                        "bytes": info.length,
                    }
                )
        document = {"format": FORMAT, "version": VERSION, "step": self.step, "extra": self.extra}
        with writing(Path(self.path) / INDEX, CheckpointNotSaved) as file:
            file.write(json.dumps({**document, "tensors": tensors}).encode())


def _write_item(name: str, part: Part) -> WriteItem:
    offsets = torch.Size(start for start, _ in part.box)
    chunk = ChunkStorageMetadata(offsets, torch.Size(sizes(part.box)))
    properties = TensorProperties(dtype=part.tensor.dtype)
    data = TensorWriteData(chunk=chunk, properties=properties, size=torch.Size(part.type.shape))
    return WriteItem(MetadataIndex(name, offsets), WriteItemType.SHARD, tensor_data=data)


def _first_cause(error: BaseException) -> BaseException:
    """The disk's own error under PyTorch's, where there is one."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, OSError):
        seen = seen.__cause__ or seen.__context__
    return seen or error
