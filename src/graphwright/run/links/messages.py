"""Gathers, scattered reductions and exchanges as messages between pairs of ranks (Tofu section 6).

    sent        from where it lies, if the region is one piece of memory; otherwise packed first
    received    where it belongs, if that is one piece of memory; otherwise unpacked afterwards
    added up    what arrives of a reduction goes onto this rank's own term, one after the other

`tasks.staging` says how many bytes the copies take: what is simulated is what runs. A `Post` says
how messages travel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

import torch

from graphwright.plans import Box, Collective, Exchange
from graphwright.run.program import window


class Work(Protocol):
    """A message under way."""

    def wait(self) -> object:
        """Return once it has been sent, or is there."""


Parcels = Mapping[int, torch.Tensor]
Post = Callable[[int, Parcels, Parcels], Sequence[Work]]
"""Begin to send the second argument by rank and to receive the third, under a tag."""


@dataclass(slots=True)
class Waiting:
    """A result under way: what waits for it, and what is read until then and must not be freed."""

    get: Callable[[], torch.Tensor]
    reads: torch.Tensor | None = None

    def wait(self) -> torch.Tensor:
        result = self.get()
        self.reads = None
        return result


def gather(what: Collective, value: torch.Tensor, rank: int, post: Post) -> Waiting:
    """Every rank of a group gets the parts of all, each from its owner."""
    shape = list(value.shape)
    shape[what.dim] = sum(what.sizes)
    out = value.new_empty(shape)
    regions = dict(zip(what.group, parts_along(shape, what.dim, what.sizes), strict=True))
    window(out, regions.pop(rank)).copy_(value)
    whole = tuple((0, size) for size in value.shape)
    sends = {other: [whole] for other in regions}
    receives = {other: [region] for other, region in regions.items()}
    return _transfer(post, 0, value, sends, out, receives)


def scatter(what: Collective, value: torch.Tensor, rank: int, post: Post) -> Waiting:
    """Every rank of a group gets the terms of its part from all others, and puts them together."""
    regions = dict(zip(what.group, parts_along(value.shape, what.dim, what.sizes), strict=True))
    own = window(value, regions.pop(rank))
    sends = {other: _outgoing(value, [region]) for other, region in regions.items()}
    terms = {other: value.new_empty(own.shape) for other in regions}
    works = post(0, _filled(sends), _filled(terms))
    total = own.clone(memory_format=torch.contiguous_format)

    def get() -> torch.Tensor:
        for work in works:
            work.wait()
        sends.clear()
        for other in list(terms):
            combine_terms(what.reducer, total, terms.pop(other))
        return total

    return Waiting(get, value)


def exchange(what: Exchange, value: torch.Tensor | None, like: torch.Tensor, post: Post) -> Waiting:
    """Regions to and from other ranks, and of this one; the result lies in memory as of `like`."""
    out = like.new_empty(0 if what.output is None else what.type.shape)
    for source, target in what.own:
        assert value is not None
        window(out, target).copy_(window(value, source))
    return _transfer(post, what.tag, value, by_rank(what.sends), out, by_rank(what.receives))


def parts_along(shape: Sequence[int], dim: int, sizes: Sequence[int]) -> list[Box]:
    """The regions of parts that follow each other along a dim."""
    regions, start = [], 0
    for size in sizes:
        region = [(0, n) for n in shape]
        region[dim] = (start, start + size)
        regions.append(tuple(region))
        start += size
    return regions


def by_rank(items: Iterable[tuple[int, Box]]) -> dict[int, list[Box]]:
    """The regions of each rank, in their order."""
    regions: dict[int, list[Box]] = {}
    for rank, region in items:
        regions.setdefault(rank, []).append(region)
    return regions


def _transfer(
    post: Post,
    tag: int,
    value: torch.Tensor | None,
    sends: Mapping[int, Sequence[Box]],
    out: torch.Tensor,
    receives: Mapping[int, Sequence[Box]],
) -> Waiting:
    outgoing = {}
    for rank, regions in sends.items():
        assert value is not None
        outgoing[rank] = _outgoing(value, regions)
    incoming = {rank: _incoming(out, regions) for rank, regions in receives.items()}
    works = post(tag, _filled(outgoing), _filled(incoming))

    def get() -> torch.Tensor:
        for work in works:
            work.wait()
        outgoing.clear()
        for rank, regions in receives.items():
            _put(out, regions, incoming.pop(rank))
        return out

    return Waiting(get, value)


def _filled(parcels: Parcels) -> Parcels:
    """Those in which there is anything."""
    return {rank: parcel for rank, parcel in parcels.items() if parcel.numel()}


def _outgoing(value: torch.Tensor, regions: Sequence[Box]) -> torch.Tensor:
    """Regions of a value one after the other, in its own memory where they are one piece of it."""
    if len(regions) == 1:
        return window(value, regions[0]).contiguous()
    return torch.cat([window(value, region).reshape(-1) for region in regions])


def _incoming(out: torch.Tensor, regions: Sequence[Box]) -> torch.Tensor:
    """Memory for regions of a result: its own where they are one piece of it."""
    if len(regions) == 1:
        place = window(out, regions[0])
        if place.is_contiguous():
            return place
    return out.new_empty(sum(prod(b - a for a, b in region) for region in regions))


def _put(out: torch.Tensor, regions: Sequence[Box], arrived: torch.Tensor) -> None:
    """Bring regions that have arrived to their places, unless they are there."""
    if arrived.untyped_storage().data_ptr() == out.untyped_storage().data_ptr():
        return
    places = [window(out, region) for region in regions]
    pieces = torch.split(arrived, [place.numel() for place in places])
    for place, piece in zip(places, pieces, strict=True):
        place.copy_(piece.view(place.shape))


def combine_terms(reducer: str, total: torch.Tensor, term: torch.Tensor) -> None:
    """Put a term onto others."""
    match reducer:
        case "sum":
            total.add_(term)
        case "prod":
            total.mul_(term)
        case "max" | "any":
            torch.maximum(total, term, out=total)
        case _:
            torch.minimum(total, term, out=total)
