"""Write the boxes of all processes into a checkpoint's files with `torch.distributed.checkpoint`.

    000003-step-40/  graphwright.json     step, extra, and for every tensor its type and its chunks
                     __0_0.distcp         the chunks that rank 0 wrote, each as by `torch.save`
                     __1_0.distcp         those of rank 1
                     .metadata            for PyTorch's own tools; a pickle, which we never read

PyTorch gathers, balances and checks the writes. Here are its planner, for chunks of any cut, and
its writer, which adds the index in JSON. Import this module where it is used: it takes PyTorch's
whole distributed package with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.metadata import MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from graphwright.errors import CheckpointNotSaved
from graphwright.files import writing
from graphwright.ir import TensorType
from graphwright.run.checkpoint.index import FORMAT, INDEX, VERSION
from graphwright.run.checkpoint.shards import BoxedTensor, sizes
from graphwright.run.processes import without_group_warning


def write_tensors(
    folder: Path,
    step: int,
    owned: Mapping[str, BoxedTensor],
    types: Mapping[str, TensorType],
    extra: dict[str, Any],
) -> None:
    """Write the boxes of this process; all call this, with their own boxes and all types."""
    tensors: dict[str, Any] = {name: own.tensor for name, own in owned.items()}
    writer = Writer(folder, types, step, extra)
    try:
        with without_group_warning(), _checksums():
            dcp.save(tensors, storage_writer=writer, planner=BoxSavePlanner(owned))
    except dcp.CheckpointException as error:
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


class BoxSavePlanner(dcp.DefaultSavePlanner):
    """Writes one chunk of every tensor; of replicas, the process with the least to write does."""

    def __init__(self, owned: Mapping[str, BoxedTensor]) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self.owned = owned

    def create_local_plan(self) -> dcp.SavePlan:
        """One write for every box."""
        self.plan = dcp.SavePlan([_write_item(name, own) for name, own in self.owned.items()])
        return self.plan

    def lookup_object(self, index: MetadataIndex) -> torch.Tensor:
        """What is written: contiguous, whatever view of something larger it is."""
        return self.owned[index.fqn].tensor.detach().contiguous()


class Writer(dcp.FileSystemWriter):
    """Writes chunks as PyTorch does, and the index beside them when all are there."""

    def __init__(
        self, path: Path, types: Mapping[str, TensorType], step: int, extra: object
    ) -> None:
        super().__init__(path, overwrite=False)
        self.types, self.step, self.extra = types, step, extra

    def write_data(self, plan: dcp.SavePlan, planner: dcp.SavePlanner) -> Future[list[WriteResult]]:
        """Write this process's chunks; raises the disk's own error, which PyTorch's would hide."""
        try:
            return super().write_data(plan, planner)
        except Exception as error:
            raise _first_cause(error) from error

    def finish(self, metadata: dcp.Metadata, results: list[list[WriteResult]]) -> None:
        """Write the index, on one process, when every other has written."""
        super().finish(metadata, results)
        where = {written.index: written.storage_data for some in results for written in some}
        tensors: dict[str, Any] = {
            name: {"type": repr(type), "chunks": []} for name, type in self.types.items()
        }
        for name, stored in metadata.state_dict_metadata.items():
            assert isinstance(stored, dcp.TensorStorageMetadata)
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


def _write_item(name: str, part: BoxedTensor) -> dcp.WriteItem:
    offsets = torch.Size(start for start, _ in part.box)
    chunk = dcp.ChunkStorageMetadata(offsets, torch.Size(sizes(part.box)))
    properties = TensorProperties(dtype=part.tensor.dtype)
    data = TensorWriteData(chunk=chunk, properties=properties, size=torch.Size(part.type.shape))
    return dcp.WriteItem(MetadataIndex(name, offsets), WriteItemType.SHARD, tensor_data=data)


def _first_cause(error: BaseException) -> BaseException:
    """The disk's own error under PyTorch's, where there is one."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, OSError):
        seen = seen.__cause__ or seen.__context__
    return seen or error
