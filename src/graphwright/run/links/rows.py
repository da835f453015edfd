"""Rows of tensors between ranks, and sums over ranks: what a graph in parts needs.

    trade    this rank's rows, some for each other rank   ->   those that the others have for it
    sum      tensors of all ranks, added up
    gather   a vector of each rank                        ->   a matrix with a row for each rank

All ranks call these in the same order. A rank alone has nobody to trade with.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from graphwright.ir import TensorType
from graphwright.plans import Box, Collective, Exchange, transfers
from graphwright.run.processes import World, naming_lost_ranks
from graphwright.run.program import Pending, Transport


@dataclass(frozen=True, slots=True)
class _Waiting:
    pending: Pending
    rank: int

    def wait(self) -> Tensor:
        with _told_if_lost(self.rank):
            return self.pending.wait()


@dataclass(frozen=True, slots=True)
class _There:
    value: Tensor

    def wait(self) -> Tensor:
        return self.value


class RowLinks:
    """The links of one rank among `size`; `transport` carries them (None: there are no others)."""

    def __init__(self, rank: int, size: int, transport: Transport | None) -> None:
        assert (transport is None) == (size == 1)
        self.rank, self.size, self._transport = rank, size, transport

    @staticmethod
    def join(here: World) -> RowLinks:
        """The links of a process that has joined others."""
        if here.size == 1:
            return RowLinks(0, 1, None)
        from graphwright.run.links.collectives import GroupLinks  # which needs torch.distributed

        return RowLinks(here.rank, here.size, GroupLinks([tuple(range(here.size))]))

    def trade(self, rows: Tensor, sent: Sequence[int], received: Sequence[int]) -> Pending:
        """Begin to send `rows`, so many to each rank in turn, and to receive so many from each."""
        assert len(rows) == sum(sent) and sent[self.rank] == received[self.rank] == 0
        shape = tuple(rows.shape[1:])
        if self._transport is None:
            return _There(rows.new_empty(0, *shape))
        whole = (sum(received), *shape)
        what = Exchange(
            tensor="rows", tag=0, value=0, output=1,
            type=TensorType(whole, str(rows.dtype).removeprefix("torch.")),
            sends=_by_rank(sent, shape), receives=_by_rank(received, shape), own=(),
        )  # fmt: skip
        with _told_if_lost(self.rank):
            return _Waiting(self._transport.exchange(what, rows), self.rank)

    def sum(self, values: Sequence[Tensor]) -> list[Tensor]:
        """The sums over all ranks of tensors of one type, the same bits on every rank."""
        if self._transport is None or not values:
            return list(values)
        flat = torch.cat([value.detach().reshape(-1) for value in values])
        total = self._collect(transfers.AllReduce(), flat)
        parts = torch.split(total, [value.numel() for value in values])
        return [part.view(value.shape) for part, value in zip(parts, values, strict=True)]

    def gather(self, vector: Tensor) -> Tensor:
        """The vectors of all ranks, of one length, as rows."""
        if self._transport is None:
            return vector.reshape(1, -1)
        return self._collect(transfers.AllGather(), vector.reshape(1, -1))

    def _collect(self, kind: transfers.CollectiveKind, value: Tensor) -> Tensor:
        assert self._transport is not None
        sizes = (1,) * self.size if isinstance(kind, transfers.AllGather) else ()
        what = Collective(
            kind=kind, tensor="rows", group=tuple(range(self.size)), value=0, output=1, sizes=sizes
        )
        with _told_if_lost(self.rank):
            return self._transport.collect(what, value).wait()

    def leave(self) -> None:
        """Let others that wait for this rank know that it does not go on."""
        leave = getattr(self._transport, "leave", None)
        if leave is not None:
            leave()


def _told_if_lost(rank: int) -> AbstractContextManager[None]:
    return naming_lost_ranks(rank, "while ranks traded rows of a graph")


def _by_rank(counts: Sequence[int], shape: tuple[int, ...]) -> tuple[tuple[int, Box], ...]:
    ends = list(accumulate(counts))
    return tuple(
        (rank, ((end - count, end), *((0, size) for size in shape)))
        for rank, (count, end) in enumerate(zip(counts, ends, strict=True))
        if count
    )
