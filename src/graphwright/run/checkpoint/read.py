"""Read boxes of tensors from a checkpoint's files with `torch.distributed.checkpoint`, no pickle.

    wanted here   [3:6]         index   fc.bias: [0:4] in __0_0.distcp, [4:8] in __1_0.distcp
    reads         [3:4] from the first, [4:6] from the second

PyTorch finds the chunks that overlap a box and tells all processes when one fails. Here are its
planner, for boxes of any cut, and its reader, which trusts the checked index alone: only tensors
come out of the files, whatever they hold. Import this module where it is used: it takes PyTorch's
whole distributed package with it.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import torch
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.metadata import MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list
from torch.futures import Future

from graphwright.errors import GraphwrightError, InvalidCheckpoint
from graphwright.ir import TensorType
from graphwright.plans import Box
from graphwright.run.checkpoint.index import Chunk, Index
from graphwright.run.checkpoint.shards import BoxedTensor, is_empty, sizes
from graphwright.run.processes import without_group_warning
from graphwright.run.program import window


def read_tensors(
    path: Path, index: Index, targets: Mapping[str, BoxedTensor], *, alone: bool
) -> None:
    """Fill the boxes of this process; all call this, each with its own, or one `alone`."""
    tensors: dict[str, Any] = {name: target.tensor for name, target in targets.items()}
    reader = Reader(path, index)
    try:
        with without_group_warning():
            dcp.load(tensors, storage_reader=reader, planner=BoxLoadPlanner(targets), no_dist=alone)
    except dcp.CheckpointException as error:
        rank, (cause, _) = min(error.failures.items())
        if isinstance(cause, GraphwrightError):
            raise cause from None
        raise InvalidCheckpoint(f"{path} cannot be read: rank {rank}: {cause}") from cause


class BoxLoadPlanner(dcp.DefaultLoadPlanner):
    """Reads every box from the chunks that overlap it."""

    def __init__(self, targets: Mapping[str, BoxedTensor]) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self.targets = targets

    def create_local_plan(self) -> dcp.LoadPlan:
        """One read for every chunk that a box needs."""
        assert self.metadata is not None
        items: list[dcp.ReadItem] = []
        for name, target in self.targets.items():
            stored = self.metadata.state_dict_metadata[name]
            assert isinstance(stored, dcp.TensorStorageMetadata)
            if not is_empty(target.box):
                items += create_read_items_for_chunk_list(name, stored, [_chunk(target.box)])
        return dcp.LoadPlan(items)

    def lookup_tensor(self, index: MetadataIndex) -> torch.Tensor:
        """What is filled."""
        return self.targets[index.fqn].tensor.detach()


class Reader(dcp.StorageReader):
    """Reads chunks where the index says they are; only tensors come out of the files."""

    def __init__(self, path: Path, index: Index) -> None:
        self.path = path
        self.index = index

    def reset(self, checkpoint_id: object = None) -> None:
        """Nothing is kept between reads."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> dcp.Metadata:
        """The index, as PyTorch's planners read it."""
        return dcp.Metadata(
            {
                name: dcp.TensorStorageMetadata(
                    TensorProperties(dtype=_dtype(entry.type)),
                    torch.Size(entry.type.shape),
                    [_chunk(chunk.box) for chunk in entry.chunks],
                )
                for name, entry in self.index.tensors.items()
            }
        )

    def set_up_storage_reader(
        self, metadata: dcp.Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Nothing to set up."""

    def prepare_local_plan(self, plan: dcp.LoadPlan) -> dcp.LoadPlan:
        """As it is."""
        return plan

    def prepare_global_plan(self, plans: list[dcp.LoadPlan]) -> list[dcp.LoadPlan]:
        """As they are."""
        return plans

    def read_data(self, plan: dcp.LoadPlan, planner: dcp.LoadPlanner) -> Future[None]:
        """Fill what the plan names, every file from its beginning to its end."""
        reads = [(self.chunk(item), item) for item in plan.items]
        reads.sort(key=lambda read: (read[0].file, read[0].offset))
        for file, group in groupby(reads, key=lambda read: read[0].file):
            try:
                with (self.path / file).open("rb") as opened:
                    for chunk, item in group:
                        self.fill(opened, chunk, item, planner)
            except OSError as error:
                raise InvalidCheckpoint(
                    f"cannot read {self.path / file}: {error.strerror}"
                ) from error
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def chunk(self, item: dcp.ReadItem) -> Chunk:
        """The chunk that a read needs."""
        number = item.storage_index.index
        assert number is not None
        return self.index.tensors[item.storage_index.fqn].chunks[number]

    def fill(
        self, file: io.BufferedReader, chunk: Chunk, item: dcp.ReadItem, planner: dcp.LoadPlanner
    ) -> None:
        """Read one chunk and copy what is wanted of it."""
        name = item.storage_index.fqn
        file.seek(chunk.offset)
        data = io.BytesIO(file.read(chunk.bytes))
        try:
            with ZipFile(data) as records:  # torch.load does not look at the checksums
                damaged = records.testzip()
            if damaged is not None:
                raise BadZipFile(f"the checksum of {damaged} does not match")
            data.seek(0)
            read = torch.load(data, map_location="cpu", weights_only=True)
        except Exception as error:
            raise InvalidCheckpoint(
                f"{self.path / chunk.file} is damaged: {name} cannot be read from byte "
                f"{chunk.offset} on ({_first_line(error)}). Restore the file, or remove this "
                "checkpoint and go on from the one before"
            ) from error
        wanted = (sizes(chunk.box), _dtype(self.index.tensors[name].type))
        if not isinstance(read, torch.Tensor) or (tuple(read.shape), read.dtype) != wanted:
            raise InvalidCheckpoint(
                f"{self.path / chunk.file} holds something other than {name} at byte {chunk.offset}"
            )
        lengths = zip(item.storage_offsets, item.lengths, strict=True)
        target = planner.resolve_tensor(item)
        target.copy_(window(read, [(start, start + length) for start, length in lengths]))
        planner.commit_tensor(item, target)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: object) -> bool:
        """Any path may be one."""
        return True


def _chunk(box: Box) -> dcp.ChunkStorageMetadata:
    return dcp.ChunkStorageMetadata(torch.Size(start for start, _ in box), torch.Size(sizes(box)))


def _dtype(type: TensorType) -> torch.dtype:
    dtype = getattr(torch, type.dtype)
    assert isinstance(dtype, torch.dtype)
    return dtype


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
