"""Collectives and exchanges of a program over the process groups of torch.distributed.

    all_reduce        in place where nobody reads the terms afterwards, several small ones at once;
                      PyTorch's own, or on one machine `reductions`; of maxima the NaN apart, which
                      PyTorch's own may lose
    all_gather,       Gloo: messages between pairs of ranks (`messages`)
    reduce_scatter    NCCL: its own, along the first dim, where it gathers and scatters
    exchange          messages

If all ranks are on one machine and the system allows it, messages are read from the sender's
memory (`neighbours`); otherwise they go over Gloo or NCCL. Everything begins at once and is waited
for where its result is needed. All ranks begin what they share in the same order (`lower.order`),
and messages between two ranks arrive in the order in which they were sent.

Over Gloo, PyTorch keeps the name of the last operation in one string for all threads of a group,
without a lock: names too long to be stored inline corrupt the heap (docs/decisions/0011). So only
operations with short names are called here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, assert_never

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from graphwright.plans import Collective, Exchange, Together, transfers
from graphwright.run.links.connect import connect_neighbours
from graphwright.run.links.messages import (
    Parcels,
    Waiting,
    Work,
    combine_terms,
    exchange,
    gather,
    scatter,
)
from graphwright.run.links.reductions import reduce
from graphwright.run.processes import refuse_strangers, watching_connections, world
from graphwright.run.program import Pending

_OPERATIONS = {
    "sum": "sum", "prod": "product", "max": "max", "min": "min", "any": "max", "all": "min",
}  # fmt: skip


class GroupLinks:
    """The links of this process; `groups` are all groups of any rank, alike in every process.

    Groups are known by name: to hold one keeps its threads alive when the process ends.
    """

    def __init__(self, groups: Iterable[tuple[int, ...]]) -> None:
        self.groups = tuple(groups)
        self.everyone = tuple(range(dist.get_world_size()))
        self.batched = world().backend == "nccl"
        self.names: dict[tuple[int, ...], str] = {}
        self._open(self.groups, {self.everyone: dist.group.WORLD})

    def _open(self, groups: Iterable[tuple[int, ...]], there: dict[tuple[int, ...], Any]) -> None:
        with watching_connections():
            for ranks in groups:
                made = there.get(ranks) or dist.new_group(list(ranks))
                if dist.get_rank() in ranks:
                    self.names[ranks] = made.group_name
        if not self.batched:
            refuse_strangers()
        self.near = None if self.batched else connect_neighbours(self.groups)

    def leave(self) -> None:
        """Let neighbours that wait for this rank know that it does not go on."""
        if self.near is not None:
            self.near.close()

    def close(self) -> None:
        """Destroy the groups that were made for these links; nothing may be under way."""
        self.leave()
        registry: Any = distributed_c10d
        if dist.is_initialized():
            for name in set(self.names.values()) - {registry.group.WORLD.group_name}:
                dist.destroy_process_group(registry._resolve_process_group(name))
        self.names.clear()

    def renew(self) -> None:
        """Open all groups anew, on all ranks, after a failed step; what was under way is lost."""
        self.close()
        self._open(dict.fromkeys((*self.groups, self.everyone)), {})

    def collect(self, what: Collective, value: torch.Tensor) -> Pending:
        """Begin a collective."""
        match what.kind:
            case transfers.AllReduce():
                given = value.contiguous()
                own = given if what.free or given is not value else value.clone()
                return Waiting(self._reduce(what, own))
            case transfers.AllGather() if self.batched:
                return self._all_gather(what, value)
            case transfers.AllGather():
                return gather(what, value, dist.get_rank(), self._post)
            case transfers.ReduceScatter() if self.batched:
                return self._reduce_scatter(what, value)
            case transfers.ReduceScatter():
                return scatter(what, value, dist.get_rank(), self._post)
            case _:
                assert_never(what.kind)

    def _reduce(self, what: Collective, value: torch.Tensor) -> Callable[[], torch.Tensor]:
        """Begin to reduce a value in place; returns what waits for it."""
        near = self.near
        if near is not None:
            combine = partial(combine_terms, what.reducer)
            begun = reduce(near, what.group, value, combine)

            def get() -> torch.Tensor:
                begun.wait()
                return value

            return get
        functional: Any = torch.ops._c10d_functional
        name, operation = self.names[what.group], _OPERATIONS[what.reducer]

        def begin(term: torch.Tensor) -> Callable[[], torch.Tensor]:
            return partial(functional.wait_tensor, functional.all_reduce_(term, operation, name))

        return begin(value) if keeps_nan(what, value) else with_nan(what, value, begin)

    def _all_gather(self, what: Collective, value: torch.Tensor) -> Pending:
        functional: Any = torch.ops._c10d_functional
        given, count = front(value, what.dim, max(what.sizes)), len(what.group)
        begun = functional.all_gather_into_tensor(given, count, self.names[what.group])
        return Waiting(lambda: joined(functional.wait_tensor(begun), what.sizes, what.dim), given)

    def _reduce_scatter(self, what: Collective, value: torch.Tensor) -> Pending:
        functional: Any = torch.ops._c10d_functional
        given, operation = parted(value, what.sizes, what.dim), _OPERATIONS[what.reducer]
        count, size = len(what.group), what.sizes[what.group.index(dist.get_rank())]
        scatter = functional.reduce_scatter_tensor

        def begin(terms: torch.Tensor) -> Callable[[], torch.Tensor]:
            begun = scatter(terms, operation, count, self.names[what.group])
            return partial(functional.wait_tensor, begun)

        found = begin(given) if keeps_nan(what, value) else with_nan(what, given, begin)

        def get() -> torch.Tensor:
            return found().narrow(0, 0, size).movedim(0, what.dim).contiguous()

        return Waiting(get, given)

    def sum_all(self, what: Together, values: Sequence[torch.Tensor]) -> Sequence[Pending]:
        """Begin several sums at once."""
        reduced = self._reduce(what.sums[0], torch.cat([value.reshape(-1) for value in values]))
        shapes = [value.shape for value in values]
        parts: dict[int, torch.Tensor] = {}

        def get(number: int) -> torch.Tensor:
            if not parts:
                sums = torch.split(reduced(), [s.numel() for s in shapes])
                parts.update(enumerate(sums))
            return parts.pop(number).view(shapes[number])

        return [Waiting(partial(get, number)) for number in range(len(shapes))]

    def exchange(self, what: Exchange, value: torch.Tensor | None) -> Pending:
        """Begin an exchange."""
        return exchange(what, value, self._empty(what) if value is None else value, self._post)

    def _empty(self, what: Exchange) -> torch.Tensor:
        device = torch.device("cuda", torch.cuda.current_device()) if self.batched else None
        return torch.empty(0, dtype=getattr(torch, what.type.dtype), device=device)

    def _post(self, tag: int, sends: Parcels, receives: Parcels) -> Sequence[Work]:
        if not self.batched:
            if self.near is not None:
                return self.near.post(tag, sends, receives)
            group = self._everyone()
            begun: list[Any] = [dist.irecv(t, r, group, tag) for r, t in receives.items()]
            return begun + [dist.isend(t, r, group, tag) for r, t in sends.items()]
        group = self._everyone()
        ops = [dist.P2POp(dist.isend, t, rank, group) for rank, t in sends.items()]
        ops += [dist.P2POp(dist.irecv, t, rank, group) for rank, t in receives.items()]
        return dist.batch_isend_irecv(ops) if ops else []

    def _everyone(self) -> Any:
        """The group for messages: the world, or the one that has taken its place."""
        name = self.names.get(self.everyone)
        registry: Any = distributed_c10d
        return None if name is None else registry._resolve_process_group(name)


# -- the largest of some numbers and NaN is NaN ----------------------------------------------------


def keeps_nan(what: Collective, value: torch.Tensor) -> bool:
    """Whether a reduction by Gloo or NCCL makes NaN of any NaN; their maxima and minima do not."""
    return what.reducer not in ("max", "min") or not value.is_floating_point()


def with_nan(
    what: Collective,
    value: torch.Tensor,
    begin: Callable[[torch.Tensor], Callable[[], torch.Tensor]],
) -> Callable[[], torch.Tensor]:
    """Begin a maximum or minimum of the numbers, and one of where there is NaN; wait for both."""
    none, mark = (-torch.inf, 1) if what.reducer == "max" else (torch.inf, -1)
    nan = value.isnan()
    numbers, marks = begin(value.masked_fill(nan, none)), begin(nan.to(torch.int8) * mark)
    return lambda: numbers().masked_fill(marks() == mark, torch.nan)


# -- from values to what NCCL gathers and scatters, and back -------------------------------------


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
