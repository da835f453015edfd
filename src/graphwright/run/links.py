"""Collectives and exchanges of a program over the process groups of torch.distributed.

    all_gather       parts along a dim:   the dim is moved to the front, where PyTorch gathers, and back; uneven parts are filled up to the longest
    reduce_scatter   the same the other way round
    exchange         regions to each rank in one message: all to all within a group, otherwise sends and receives

Everything begins at once and is waited for where its result is needed. All ranks begin what they share in the same order (`lower.order`).

Over Gloo, PyTorch notes the name of each operation that has ended, in one string for all of a group's threads and without a lock: names that do not
fit into the string itself corrupt the heap (docs/decisions/0011). So only operations with short names are called here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from graphwright.plans import Box, Collective, Exchange, Together
from graphwright.run.local import window
from graphwright.run.module import Pending

_OPERATIONS = {
    "sum": "sum", "prod": "product", "max": "max", "min": "min", "any": "max", "all": "min",
}  # fmt: skip


@dataclass(slots=True)
class _Waiting:
    """A result under way, what is to be done with it once it is there, and what is read until then: its memory must not be free before."""

    get: Callable[[], torch.Tensor]
    reads: torch.Tensor | None = None

    def wait(self) -> torch.Tensor:
        found = self.get()
        self.reads = None
        return found


class GroupLinks:
    """The links of this process; `groups` are all groups of ranks that any rank takes part in, alike in every process.

    Groups are known by their names: whoever holds a group keeps its threads alive when the process ends.
    """

    def __init__(self, groups: Iterable[tuple[int, ...]]) -> None:
        world = tuple(range(dist.get_world_size()))
        self.names: dict[tuple[int, ...], str] = {}
        for ranks in groups:
            made: Any = dist.group.WORLD if ranks == world else dist.new_group(list(ranks))
            if dist.get_rank() in ranks:
                self.names[ranks] = made.group_name
        self.batched = dist.get_backend() == "nccl"

    def close(self) -> None:
        """Destroy the groups that were made for these links; nothing may be under way."""
        registry: Any = distributed_c10d
        for name in set(self.names.values()) - {registry.group.WORLD.group_name}:
            dist.destroy_process_group(registry._resolve_process_group(name))
        self.names.clear()

    def collect(self, what: Collective, value: torch.Tensor) -> Pending:
        """Begin a collective."""
        name = self.names[what.group]
        functional: Any = torch.ops._c10d_functional
        if what.kind == "all_reduce":
            within = what.free and value.is_contiguous()
            reduce = functional.all_reduce_ if within else functional.all_reduce
            begun = reduce(value.contiguous(), _OPERATIONS[what.reducer], name)
            return _Waiting(lambda: functional.wait_tensor(begun))
        if what.kind == "all_gather":
            given = front(value, what.dim, max(what.sizes))
            count = len(what.group)
            out = given.new_empty(count * given.shape[0], *given.shape[1:])
            begun = functional.all_gather_into_tensor_out(given, count, name, out=out)
            return _Waiting(
                lambda: joined(functional.wait_tensor(begun), what.sizes, what.dim), given
            )
        return self._reduce_scatter(what, parted(value, what.sizes, what.dim), name)

    def _reduce_scatter(self, what: Collective, given: torch.Tensor, name: str) -> Pending:
        """Terms to parts; with Gloo every rank gets the terms of its part and adds them up: PyTorch's own has a long name, and sums up everything everywhere."""
        functional: Any = torch.ops._c10d_functional
        count, size = len(what.group), what.sizes[what.group.index(dist.get_rank())]
        if self.batched:
            operation = _OPERATIONS[what.reducer]
            begun = functional.reduce_scatter_tensor(given, operation, count, name)
        else:
            parts = [given.shape[0] // count] * count
            begun = functional.all_to_all_single(given, parts, parts, name)

        def get() -> torch.Tensor:
            found: torch.Tensor = functional.wait_tensor(begun)
            if not self.batched:
                found = combined(what.reducer, found.view(count, -1, *found.shape[1:]))
            return found.narrow(0, 0, size).movedim(0, what.dim).contiguous()

        return _Waiting(get, given)

    def sum_all(self, what: Together, values: Sequence[torch.Tensor]) -> Sequence[Pending]:
        """Begin several sums at once."""
        first = what.sums[0]
        functional: Any = torch.ops._c10d_functional
        name, operation = self.names[first.group], _OPERATIONS[first.reducer]
        flat = torch.cat([value.reshape(-1) for value in values])
        begun = functional.all_reduce_(flat, operation, name)
        shapes = [value.shape for value in values]
        parts: dict[int, torch.Tensor] = {}

        def get(number: int) -> torch.Tensor:
            if not parts:
                sums = torch.split(functional.wait_tensor(begun), [s.numel() for s in shapes])
                parts.update(enumerate(sums))
            return parts.pop(number).view(shapes[number])

        return [_Waiting(partial(get, number)) for number in range(len(shapes))]

    def exchange(self, what: Exchange, value: torch.Tensor | None) -> Pending:
        """Begin an exchange; what a rank has itself is in its place at once."""
        out = begin_output(what, value if value is not None else self._empty(what), value)
        if what.group:
            return self._all_to_all(what, value, out)
        sends = {rank: packed(value, regions) for rank, regions in by_rank(what.sends)}
        receives = {
            rank: out.new_empty(sum(map(volume, regions)))
            for rank, regions in by_rank(what.receives)
        }
        works = self._messages(what.tag, sends, receives)

        def get() -> torch.Tensor:
            for work in works:
                work.wait()
            sends.clear()
            return complete(what, out, receives)

        return _Waiting(get)

    def _empty(self, what: Exchange) -> torch.Tensor:
        device = torch.device("cuda", torch.cuda.current_device()) if self.batched else None
        return torch.empty(0, dtype=getattr(torch, what.type.dtype), device=device)

    def _messages(
        self, tag: int, sends: dict[int, torch.Tensor], receives: dict[int, torch.Tensor]
    ) -> list[Any]:
        if not self.batched:
            begun = [dist.irecv(t, rank, tag=tag) for rank, t in receives.items()]
            return begun + [dist.isend(t, rank, tag=tag) for rank, t in sends.items()]
        ops = [dist.P2POp(dist.isend, t, rank) for rank, t in sends.items()]
        ops += [dist.P2POp(dist.irecv, t, rank) for rank, t in receives.items()]
        return dist.batch_isend_irecv(ops) if ops else []

    def _all_to_all(self, what: Exchange, value: torch.Tensor | None, out: torch.Tensor) -> Pending:
        functional: Any = torch.ops._c10d_functional
        sends, receives = dict(by_rank(what.sends)), dict(by_rank(what.receives))
        given = [packed(value, sends[rank]) for rank in what.group if rank in sends]
        sent = [sum(map(volume, sends.get(rank, ()))) for rank in what.group]
        received = [sum(map(volume, receives.get(rank, ()))) for rank in what.group]
        flat = torch.cat([t.reshape(-1) for t in given]) if given else out.new_empty(0)
        begun = functional.all_to_all_single(flat, received, sent, self.names[what.group])

        def get() -> torch.Tensor:
            pieces = torch.split(functional.wait_tensor(begun), received)
            return complete(what, out, dict(zip(what.group, pieces, strict=True)))

        return _Waiting(get, flat)


# -- from values to buffers and back ------------------------------------------------------------------


def combined(reducer: str, terms: torch.Tensor) -> torch.Tensor:
    """Terms along the first dim put together."""
    match reducer:
        case "sum":
            return terms.sum(0, dtype=terms.dtype)
        case "prod":
            return terms.prod(0, dtype=terms.dtype)
        case "max" | "any":
            return terms.amax(0)
        case _:
            return terms.amin(0)


def front(value: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    """A value with a dim moved to the front and filled up to a size."""
    moved = value.movedim(dim, 0)
    if moved.shape[0] < size:
        moved = torch.cat([moved, moved.new_zeros(size - moved.shape[0], *moved.shape[1:])])
    return moved.contiguous()


def joined(gathered: torch.Tensor, sizes: Sequence[int], dim: int) -> torch.Tensor:
    """Parts one after the other, without what they were filled up with, along their dim."""
    if len(set(sizes)) > 1:
        parts = gathered.chunk(len(sizes))
        gathered = torch.cat([p.narrow(0, 0, n) for p, n in zip(parts, sizes, strict=True)])
    return gathered.movedim(
        0, dim
    ).contiguous()  # some kernels take the order of memory for granted


def parted(value: torch.Tensor, sizes: Sequence[int], dim: int) -> torch.Tensor:
    """A value with a dim moved to the front and its parts filled up to the longest."""
    moved = value.movedim(dim, 0)
    if len(set(sizes)) > 1:
        moved = torch.cat([front(part, 0, max(sizes)) for part in torch.split(moved, list(sizes))])
    return moved.contiguous()


def by_rank(items: Iterable[tuple[int, Box]]) -> Iterable[tuple[int, list[Box]]]:
    """The regions of each rank, in their order."""
    found: dict[int, list[Box]] = {}
    for rank, region in items:
        found.setdefault(rank, []).append(region)
    return found.items()


def volume(region: Box) -> int:
    """The number of elements of a region."""
    count = 1
    for start, stop in region:
        count *= stop - start
    return count


def packed(value: torch.Tensor | None, regions: Sequence[Box]) -> torch.Tensor:
    """Regions of a value, one after the other, in memory of their own."""
    assert value is not None
    return torch.cat([window(value, region).reshape(-1) for region in regions])


def begin_output(what: Exchange, like: torch.Tensor, value: torch.Tensor | None) -> torch.Tensor:
    """Memory for the output of an exchange, with what this rank has itself."""
    if what.output is None:
        return like.new_empty(0)
    out = like.new_empty(what.type.shape)
    for source, target in what.own:
        assert value is not None
        window(out, target).copy_(window(value, source))
    return out


def complete(what: Exchange, out: torch.Tensor, received: dict[int, torch.Tensor]) -> torch.Tensor:
    """The output with everything that was received in its place."""
    for rank, regions in by_rank(what.receives):
        pieces = torch.split(received[rank].reshape(-1), [volume(region) for region in regions])
        for region, piece in zip(regions, pieces, strict=True):
            place = window(out, region)
            place.copy_(piece.view(place.shape))
    return out
