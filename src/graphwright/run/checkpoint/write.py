"""Write the boxes of all processes into a checkpoint's files: `torch.distributed.checkpoint`'s.

    000003-step-40/  graphwright.json     step, extra, and for every tensor its type and its chunks
                     __0_0.distcp         the chunks that rank 0 wrote, each as by `torch.save`
                     __1_0.distcp         those of rank 1
                     .metadata            for PyTorch's own tools; a pickle, which we never read

PyTorch writes the files of one process. Which process writes what is agreed on here, since its own
planning sends pickles between processes. Import this module where it is used: it takes PyTorch's
whole distributed package with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import MetadataIndex, TensorProperties
from torch.distributed.checkpoint.planner import TensorWriteData, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult

from graphwright.errors import CheckpointNotSaved
from graphwright.files import writing
from graphwright.ir import TensorType
from graphwright.plans import Box
from graphwright.run.checkpoint.index import INDEX, Chunk, Entry, Index, encode_index
from graphwright.run.checkpoint.shards import BoxedTensor, sizes
from graphwright.run.processes import gather_results, rank_and_size, without_group_warning

Written = tuple[str, Box, str, int, int]
"""A tensor's name, a box of it, and file, offset and bytes of where it was written."""


def write_tensors(
    folder: Path,
    step: int,
    owned: Mapping[str, BoxedTensor],
    types: Mapping[str, TensorType],
    extra: dict[str, Any],
) -> None:
    """Write the boxes of this process; all call this, with their own boxes and all types."""
    rank, _ = rank_and_size()
    claims = gather_results(lambda: {name: own.box for name, own in owned.items()})
    writers = _choose_writers(claims, types)
    mine = {n: own for n, own in owned.items() if writers[n, _as_box(own.box)] == rank}
    written = gather_results(lambda: _write_chunks(folder, rank, mine))
    chunks: dict[str, list[Chunk]] = {name: [] for name in types}
    for name, box, file, offset, count in (one for of_rank in written for one in of_rank):
        chunks[name].append(Chunk(box=_as_box(box), file=file, offset=offset, bytes=count))
    entries = {n: Entry(type=type, chunks=tuple(chunks[n])) for n, type in types.items()}

    def finish() -> None:
        if rank == 0:
            _write_metadata(folder, entries)
            with writing(folder / INDEX, CheckpointNotSaved) as file:
                file.write(encode_index(Index(step=step, extra=extra, tensors=entries)))

    gather_results(finish)


def _choose_writers(
    claims: Sequence[Mapping[str, Box]], types: Mapping[str, TensorType]
) -> dict[tuple[str, Box], int]:
    """The rank that writes each box: of several that hold it, the one with the least to write."""
    holders: dict[tuple[str, Box], list[int]] = {}
    for rank, boxes in enumerate(claims):
        for name, box in boxes.items():
            holders.setdefault((name, _as_box(box)), []).append(rank)
    load: Counter[int] = Counter()
    writers = {}
    for (name, box), ranks in sorted(holders.items()):
        writer = writers[name, box] = min(ranks, key=lambda rank: (load[rank], rank))
        load[writer] += TensorType(sizes(box), types[name].dtype).nbytes
    return writers


def _write_chunks(folder: Path, rank: int, mine: Mapping[str, BoxedTensor]) -> list[Written]:
    """Write a file of this process's own; raises the disk's own error, which PyTorch's hides."""
    if not mine:
        return []
    writer, planner = dcp.FileSystemWriter(folder), BoxSavePlanner(mine)
    plan = dcp.SavePlan([_write_item(name, own) for name, own in mine.items()])
    numbered = writer.prepare_global_plan([dcp.SavePlan([])] * rank + [plan])[rank]
    try:
        with without_group_warning(), _checksums():
            results = writer.write_data(numbered, planner).wait()
    except Exception as error:
        cause = _first_cause(error)
        words = (cause.strerror if isinstance(cause, OSError) else None) or str(cause)
        raise CheckpointNotSaved(f"rank {rank}: {words}") from error
    places = [(result.index.fqn, result.storage_data) for result in results]
    return [(n, mine[n].box, at.relative_path, at.offset, at.length) for n, at in places]


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
    """Knows what is written: contiguous, whatever view of something larger it is."""

    def __init__(self, mine: Mapping[str, BoxedTensor]) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self.mine = mine

    def lookup_object(self, index: MetadataIndex) -> torch.Tensor:
        return self.mine[index.fqn].tensor.detach().contiguous()


def _write_item(name: str, part: BoxedTensor) -> dcp.WriteItem:
    data = TensorWriteData(
        chunk=_stored(part.box),
        properties=TensorProperties(dtype=part.tensor.dtype),
        size=torch.Size(part.type.shape),
    )
    return dcp.WriteItem(_key(name, part.box), WriteItemType.SHARD, tensor_data=data)


def _write_metadata(folder: Path, entries: Mapping[str, Entry]) -> None:
    """What PyTorch's own tools read."""
    tensors: dict[str, Any] = {
        name: dcp.TensorStorageMetadata(
            TensorProperties(dtype=getattr(torch, entry.type.dtype)),
            torch.Size(entry.type.shape),
            [_stored(chunk.box) for chunk in entry.chunks],
        )
        for name, entry in entries.items()
    }
    results = [
        WriteResult(_key(name, chunk.box), chunk.bytes, _place(chunk))
        for name, entry in entries.items()
        for chunk in entry.chunks
    ]
    dcp.FileSystemWriter(folder).finish(dcp.Metadata(tensors), [results])


def _place(chunk: Chunk) -> _StorageInfo:
    return _StorageInfo(chunk.file, chunk.offset, chunk.bytes)


def _key(name: str, box: Box) -> MetadataIndex:
    return MetadataIndex(name, torch.Size(start for start, _ in box))


def _stored(box: Box) -> dcp.ChunkStorageMetadata:
    return dcp.ChunkStorageMetadata(torch.Size(start for start, _ in box), torch.Size(sizes(box)))


def _as_box(box: Sequence[Sequence[int]]) -> Box:
    """A box that may have travelled as JSON."""
    return tuple((start, stop) for start, stop in box)


def _first_cause(error: BaseException) -> BaseException:
    """The disk's own error under PyTorch's, where there is one."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, OSError):
        seen = seen.__cause__ or seen.__context__
    return seen or error
