"""`GraphDataLoader`: mini-batches of many small graphs, each batched into one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import default_collate
from torch.utils.data.distributed import DistributedSampler

from graphwright.gnn.graph import DGLGraph, batch
from graphwright.gnn.storage import DGLError


class GraphCollator:
    """Samples to a mini-batch: graphs are batched, all else as PyTorch does it."""

    def collate(self, items: Any) -> Any:
        """One graph of many, one tensor of many, within tuples, lists and dictionaries."""
        first = items[0]
        match first:
            case DGLGraph():
                return batch(items)
            case tuple() if hasattr(first, "_fields"):
                return type(first)(*map(self.collate, zip(*items, strict=True)))
            case tuple() | list():
                if any(len(item) != len(first) for item in items):
                    raise DGLError("samples differ in the number of their parts")
                return [self.collate(parts) for parts in zip(*items, strict=True)]
            case dict():
                return {name: self.collate([item[name] for item in items]) for name in first}
            case Tensor():
                return torch.stack(list(items))
            case None:
                return None
            case _:
                return default_collate(list(items))


class GraphDataLoader(TorchLoader[Any]):
    """PyTorch's loader for samples that hold graphs; with `use_ddp` each rank has its part."""

    def __init__(
        self,
        dataset: Any,
        collate_fn: Any = None,
        use_ddp: bool = False,
        ddp_seed: int = 0,
        **kwargs: Any,
    ) -> None:
        self.use_ddp = use_ddp
        self.ranks: DistributedSampler[Any] | None = None
        if use_ddp:
            self.ranks = DistributedSampler(
                dataset,
                shuffle=kwargs.pop("shuffle", False),
                seed=ddp_seed,
                drop_last=kwargs.get("drop_last", False),
            )
            kwargs["sampler"] = self.ranks
        super().__init__(dataset, collate_fn=collate_fn or GraphCollator().collate, **kwargs)

    def set_epoch(self, epoch: int) -> None:
        """With `use_ddp`, the number that the order of the next epoch is made of."""
        if self.ranks is None:
            raise DGLError("set_epoch is only available when use_ddp is True.")
        self.ranks.set_epoch(epoch)
