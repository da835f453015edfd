"""Each rank's part of every batch, read by that rank alone.

    order of the samples (one seed, one epoch)    5 2 7 0 | 1 6 3 4            batches of 4
    rank 0: inputs cut in two                     5 2     | 1 6
    rank 1:                                           7 0 |     3 4
    a rank that needs all of the inputs           5 2 7 0 | 1 6 3 4

The plan says where the inputs live, and so what a rank reads: ranks that share a part read the same
samples. Only these samples are read; other dims than the batch's are cut from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler, default_collate

from graphwright.aten import BatchDim, map_named, split_batch
from graphwright.errors import InvalidLoader
from graphwright.ir import Role
from graphwright.run.processes import World
from graphwright.run.step import Step

Rows = tuple[int, int]


def shard_loader(
    dataset: Dataset[Any],
    where: Step | World,
    *,
    batch_size: int | None = None,
    shuffle: bool = False,
    seed: int = 0,
    drop_last: bool = True,
    batch_dim: BatchDim = 0,
    **options: Any,
) -> ShardLoader:
    """Return a loader of this rank's part of every batch.

    All ranks must give the same dataset, sizes and seed. `where` is a step, whose plan says which
    part of a batch this rank reads, or a world, whose ranks read equal parts. `batch_size` is that
    of the whole batch; a step knows its own. With drop_last=False the last batch is filled up from
    the beginning of the order, as a plan is for one batch size. `batch_dim` is that of
    `gw.capture`; `options` are for `torch.utils.data.DataLoader` (num_workers, collate_fn, ...).

    >>> loader = shard_loader(dataset, step, shuffle=True)
    >>> for epoch in range(10):
    ...     loader.set_epoch(epoch)
    ...     for batch in loader:
    ...         loss = step(batch)
    """
    size = _size_of(where, batch_size, batch_dim)
    rows = _rows_of(where, size, batch_dim)
    sampler = PartSampler(
        _length(dataset), size, rows, shuffle=shuffle, seed=seed, drop_last=drop_last
    )
    options.setdefault("collate_fn", collate)
    loader: DataLoader[Any] = DataLoader(dataset, batch_sampler=sampler, **options)
    return ShardLoader(loader, sampler, where if isinstance(where, Step) else None, batch_dim)


class PartSampler(Sampler[list[int]]):
    """The numbers of the samples of rows [start, stop) of every batch."""

    def __init__(
        self,
        num_samples: int,
        batch_size: int,
        rows: Rows,
        *,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = True,
    ) -> None:
        if num_samples == 0 or (drop_last and num_samples < batch_size):
            raise InvalidLoader(
                f"the dataset has {num_samples} samples, less than one batch of {batch_size}"
                + ("; drop_last=False fills it up" if num_samples else "")
            )
        self.num_samples, self.batch_size, self.rows = num_samples, batch_size, rows
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the samples for the epoch that begins next."""
        self.epoch = epoch

    def order(self) -> Tensor:
        """The numbers of all samples of this epoch, batch after batch; the same on every rank."""
        if self.shuffle:
            draw = torch.Generator()
            draw.manual_seed(self.seed * 1_000_003 + self.epoch)
            order = torch.randperm(self.num_samples, generator=draw)
        else:
            order = torch.arange(self.num_samples)
        wanted = len(self) * self.batch_size
        return order.repeat(-(-wanted // self.num_samples))[:wanted]

    def __len__(self) -> int:
        extra = 0 if self.drop_last else self.batch_size - 1
        return (self.num_samples + extra) // self.batch_size

    def __iter__(self) -> Iterator[list[int]]:
        start, stop = self.rows
        for batch in self.order().reshape(-1, self.batch_size)[:, start:stop]:
            yield batch.tolist()


class ShardLoader:
    """This rank's part of every batch, in order; `loader` is the DataLoader underneath."""

    def __init__(
        self, loader: DataLoader[Any], sampler: PartSampler, step: Step | None, batch_dim: BatchDim
    ) -> None:
        self.loader, self.sampler, self.batch_dim = loader, sampler, batch_dim
        self._step = step

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the samples for the epoch that begins next; on all ranks alike."""
        self.sampler.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[Any]:
        for batch in self.loader:
            yield batch if self._step is None else self._part(batch, self._step)

    def _part(self, batch: Any, step: Step) -> Any:
        """What was read, less what other tensors of the batch, or other ranks, need alone."""
        inputs, targets = split_batch(batch, has_targets=step.has_targets)

        def part(name: str, tensor: Tensor) -> Tensor:
            return self._cut(tensor, name, step)

        if not step.has_targets:
            return map_named(part, "inputs", inputs)
        return map_named(part, "inputs", inputs), map_named(part, "targets", targets)

    def _cut(self, tensor: Tensor, name: str, step: Step) -> Tensor:
        if name not in step.graph.tensors:
            return tensor
        box, dim = step.program.homes.get(name), _dim_of(name, self.batch_dim, tensor.dim())
        if box is None:  # on other ranks only
            return tensor.narrow(dim or 0, 0, 0) if tensor.dim() else tensor
        first, last = self.sampler.rows
        if dim is not None and tensor.shape[dim] != last - first:
            raise InvalidLoader(
                f"{name} has {tensor.shape[dim]} samples along dim {dim}, but {last - first} were "
                "read; let collate_fn keep one for each, or name its batch dim"
            )
        for d, (start, stop) in enumerate(box):
            begin = start - first if d == dim else start
            tensor = tensor.narrow(d, begin if stop > start else 0, stop - start)
        return tensor


def collate(samples: list[Any]) -> Any:
    """As PyTorch does it, but tuples stay tuples: they are the arguments of the model."""
    return _as_sampled(samples[0], default_collate(samples))


def _as_sampled(sample: Any, made: Any) -> Any:
    if isinstance(sample, dict):
        return {key: _as_sampled(sample[key], value) for key, value in made.items()}
    if isinstance(sample, (tuple, list)) and not hasattr(sample, "_fields"):
        return type(sample)(_as_sampled(s, m) for s, m in zip(sample, made, strict=True))
    return made


def _size_of(where: Step | World, batch_size: int | None, batch_dim: BatchDim) -> int:
    if isinstance(where, World):
        if batch_size is None or batch_size < 1:
            raise InvalidLoader(
                "batch_size has to be the size of the whole batch of all ranks, 1 or more, not "
                f"{batch_size}"
            )
        return batch_size
    sizes = {
        name: where.graph.tensors[name].type.shape[dim]
        for name, dim in _batch_dims(where, batch_dim).items()
    }
    if len(set(sizes.values())) != 1:
        shown = ", ".join(f"{name} {size}" for name, size in sizes.items()) or "none"
        raise InvalidLoader(
            f"the tensors of the batch do not agree on its size ({shown}); name the batch dim of "
            "each: batch_dim={'inputs.0': 1}, None for one that has none"
        )
    planned = next(iter(sizes.values()))
    if batch_size not in (None, planned):
        raise InvalidLoader(
            f"the plan is for batches of {planned}, not of {batch_size}; plan for that size, or "
            "leave batch_size out"
        )
    return planned


def _rows_of(where: Step | World, size: int, batch_dim: BatchDim) -> Rows:
    """The rows of a batch that this rank reads: all it needs of any tensor, at least one."""
    if isinstance(where, World):
        return size * where.rank // where.size, size * (where.rank + 1) // where.size
    homes = where.program.homes
    dims = _batch_dims(where, batch_dim).items()
    needed = [homes[name][dim] for name, dim in dims if name in homes]
    needed = [(start, stop) for start, stop in needed if stop > start] or [(0, 1)]
    return min(start for start, _ in needed), max(stop for _, stop in needed)


def _batch_dims(step: Step, batch_dim: BatchDim) -> dict[str, int]:
    """The batch dim of each tensor of a step's batch that has one."""
    dims: dict[str, int] = {}
    for name in step.graph.inputs:
        tensor = step.graph.tensors[name]
        dim = _dim_of(name, batch_dim, tensor.type.rank)
        if tensor.role is Role.INPUT and dim is not None:
            dims[name] = dim
    return dims


def _dim_of(name: str, batch_dim: BatchDim, rank: int) -> int | None:
    dim = batch_dim if isinstance(batch_dim, int) else batch_dim.get(name, 0)
    return dim % rank if dim is not None and -rank <= dim < rank else None


def _length(dataset: Dataset[Any]) -> int:
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        raise InvalidLoader(
            f"{type(dataset).__name__} is a stream: it has no length and no numbered samples, so "
            "ranks cannot agree on their parts; use a dataset with __len__ and __getitem__"
        )
    return len(dataset)
