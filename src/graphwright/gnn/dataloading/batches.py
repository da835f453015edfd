"""The order of indices in an epoch, cut into mini-batches.

Indices are ids, or ids by type; those of all types are shuffled together. In a process group each
rank has its part, as PyTorch's DistributedSampler divides it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data.distributed import DistributedSampler

from graphwright.gnn.sampling import next_seed
from graphwright.gnn.storage import DGLError, as_ids

Key = tuple[int, int, Any]
"""The seed of the epoch, the number of the mini-batch in it, and places of its indices."""


class Indices:
    """All indices of a loader, by place."""

    def __init__(self, given: Any, idtype: torch.dtype) -> None:
        self.names = list(given) if isinstance(given, Mapping) else None
        parts = list(given.values()) if isinstance(given, Mapping) else [given]
        self.parts = [_tensor(part, idtype) for part in parts]
        self.ends = np.cumsum([len(part) for part in self.parts])

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def take(self, places: Any) -> Any:
        """The indices at some places: a tensor, or a dictionary of tensors by type."""
        if self.names is None:
            return self.parts[0][torch.from_numpy(places)]
        kinds = np.searchsorted(self.ends, places, "right")
        found = {}
        for kind in np.unique(kinds):
            within = places[kinds == kind] - (self.ends[kind - 1] if kind else 0)
            found[self.names[kind]] = self.parts[kind][torch.from_numpy(within)]
        return found


def _tensor(given: Any, idtype: torch.dtype) -> Tensor:
    if isinstance(given, Tensor):
        if given.dtype == torch.bool:
            raise DGLError("indices are ids; turn a mask into ids with mask.nonzero().squeeze()")
        return given.cpu()
    if hasattr(given, "__getitem__") and hasattr(given, "__len__") and not isinstance(given, range):
        given = np.asarray([given[at] for at in range(len(given))])
    return as_ids(given, idtype, torch.device("cpu"), "indices")


class Batches:
    """Keys of the mini-batches of an epoch, another order each time if they are shuffled."""

    def __init__(
        self, count: int, batch_size: int, drop_last: bool, shuffle: bool, use_ddp: bool,
        ddp_seed: int, generator: torch.Generator | None,
    ) -> None:  # fmt: skip
        if batch_size < 1:
            raise DGLError(f"batch_size has to be at least 1. Got {batch_size}.")
        self.count, self.batch_size, self.drop_last = count, batch_size, drop_last
        self.shuffle, self.generator = shuffle, generator
        self.ranks: DistributedSampler[int] | None = None
        if use_ddp:
            self.ranks = DistributedSampler(
                range(count),  # type: ignore[arg-type]
                shuffle=shuffle, seed=ddp_seed, drop_last=drop_last,
            )  # fmt: skip

    def __len__(self) -> int:
        mine = self.count if self.ranks is None else len(self.ranks)
        return mine // self.batch_size if self.drop_last else -(-mine // self.batch_size)

    def __iter__(self) -> Iterator[Key]:
        seed = int(next_seed())
        if self.ranks is not None:
            order = np.fromiter(self.ranks, np.int64, len(self.ranks))
        elif self.shuffle:
            order = torch.randperm(self.count, generator=self.generator).numpy()
        else:
            order = np.arange(self.count)
        for number in range(len(self)):
            yield seed, number, order[number * self.batch_size : (number + 1) * self.batch_size]
