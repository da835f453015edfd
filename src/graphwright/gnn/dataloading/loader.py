"""`DataLoader`: mini-batches of one large graph, made by a sampler, in workers if there are any.

    keys        places of the indices of each mini-batch, in the order of the epoch     `batches`
    workers     sampler.sample(graph, indices), each mini-batch under a seed of its own
    here        features that the worker has not read are found, and all moves to the device

What a mini-batch holds depends on the seed and on its number alone, not on the number of workers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, Full, Queue
from typing import Any

import torch
from torch.utils.data import DataLoader as TorchLoader
from torch.utils.data import get_worker_info

from graphwright.gnn.dataloading.batches import Batches, Indices, Key
from graphwright.gnn.dataloading.transfer import attach, detach, move
from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.sampling import seeded
from graphwright.gnn.storage import DGLError

_AHEAD = 2


class _Sampling:
    """What workers have: the graph, the indices and the sampler, from a key to a mini-batch."""

    def __init__(self, graph: DGLGraph, indices: Indices, sampler: Any) -> None:
        self.graph, self.indices, self.sampler = graph, indices, sampler

    def __getitem__(self, key: Key) -> Any:
        seed, number, places = key
        with seeded(seed, number):
            batch = self.sampler.sample(self.graph, self.indices.take(places))
        return batch if get_worker_info() is None else detach(batch, self.graph)


class DataLoader(TorchLoader[Any]):
    """Mini-batches of a graph: what `graph_sampler` makes of `batch_size` indices at a time.

    Indices are ids, or ids by type. With `use_ddp` each rank of the process group has its part;
    call `set_epoch` before each epoch. Mini-batches are moved to `device`, by a thread
    ahead of time with `use_prefetch_thread` (by default where that is a GPU). Graphs are sampled by
    the processor; `use_uva`, `use_alternate_streams`, `pin_prefetcher` and `gpu_cache` are taken
    and do nothing. Other arguments are those of PyTorch's loader: `num_workers`,
    `persistent_workers`, ...
    """

    def __init__(
        self,
        graph: DGLGraph,
        indices: Any,
        graph_sampler: Any,
        device: Any = None,
        use_ddp: bool = False,
        ddp_seed: int = 0,
        batch_size: int = 1,
        drop_last: bool = False,
        shuffle: bool = False,
        use_prefetch_thread: bool | None = None,
        use_alternate_streams: bool | None = None,
        pin_prefetcher: bool | None = None,
        use_uva: bool = False,
        gpu_cache: Any = None,
        **kwargs: Any,
    ) -> None:
        if not hasattr(graph_sampler, "sample"):
            given = type(graph_sampler).__name__
            raise DGLError(f"graph_sampler needs a method sample(g, indices). Got {given}.")
        self.graph, self.graph_sampler = graph, graph_sampler
        self.device = torch.device(graph.device if device is None else device)
        self.use_prefetch_thread = (
            self.device.type != "cpu" if use_prefetch_thread is None else use_prefetch_thread
        )
        self._whole = graph.cpu()
        if kwargs.get("num_workers", 0) > 0:
            self._whole.create_formats_()  # once here, not in each worker
        self.indices = Indices(indices, graph.idtype)
        batches = Batches(
            len(self.indices), batch_size, drop_last, shuffle, use_ddp, ddp_seed,
            kwargs.get("generator"),
        )  # fmt: skip
        self._batches = batches
        super().__init__(
            _Sampling(self._whole, self.indices, graph_sampler),  # type: ignore[arg-type]
            batch_size=None, sampler=batches, collate_fn=_as_it_is, **kwargs,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Any:
        batches = (self._received(batch) for batch in super().__iter__())
        return _ahead(batches) if self.use_prefetch_thread else batches

    def _received(self, batch: Any) -> Any:
        if self.num_workers:
            batch = attach(batch, self._whole)
        return move(batch, self.device)

    def set_epoch(self, epoch: int) -> None:
        """With `use_ddp`, the number that the order of the next epoch is made of."""
        if self._batches.ranks is None:
            raise DGLError("set_epoch is only available when use_ddp is True.")
        self._batches.ranks.set_epoch(epoch)


def _as_it_is(batch: Any) -> Any:
    return batch


def _ahead(batches: Iterator[Any]) -> Iterator[Any]:
    """The same mini-batches, made by a thread before they are asked for."""
    ready: Queue[tuple[str, Any]] = Queue(_AHEAD)
    stopped = threading.Event()

    def put(kind: str, value: Any) -> None:
        while not stopped.is_set():
            with suppress(Full):
                ready.put((kind, value), timeout=0.1)
                return

    def run() -> None:
        try:
            for batch in batches:
                put("batch", batch)
                if stopped.is_set():
                    return
            put("end", None)
        except Exception as error:
            put("error", error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        while True:
            kind, value = ready.get()
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value
    finally:
        stopped.set()
        with suppress(Empty):
            ready.get_nowait()
        thread.join()
