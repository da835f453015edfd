"""The steps that bring a tensor from one sharding to another, each with the transfers it consists of.

all_gather       split -> replicated        reduce_scatter   partial -> split
all_reduce       partial -> replicated      all_to_all       split one dim -> split another
send, exchange   any regions to any regions: halos, shifts, other devices
slice            replicated -> split, or to terms of which all but one are zero: no transfer at all
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from graphwright.ir import TensorType
from graphwright.machine import Cluster
from graphwright.plans import Sharding, boxes, device_array, local_bytes
from graphwright.tasks.costs import Costs, Traffic
from graphwright.tasks.staging import (
    Order,
    as_laid_out,
    common_regions,
    in_one_piece,
    region_bytes,
    staged_bytes,
)
from graphwright.tasks.traffic import Parties, Party, all_pairs, rings, spans_of

Ints = NDArray[np.int64]
_SENDS_PER_DEVICE = 4
"""With more messages than this for each device, they are one exchange rather than tasks of their own."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Transfer:
    """One task on links: reads what `reads` hold, and gives `gives` what they need; meanwhile there are copies of `staged` bytes on devices `stages`."""

    kind: str
    reads: NDArray[np.int32]
    gives: NDArray[np.int32]
    links: NDArray[np.int32]
    loads: Ints
    nbytes: int
    seconds: float
    stages: NDArray[np.int32]
    staged: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """One way from a sharding to the next; `keeps` are the devices that also go on using what they had.

    A search asks many steps for their `seconds` and takes few, so the transfers are made on demand.
    """

    kind: str
    source: Sharding
    target: Sharding
    keeps: NDArray[np.int32]
    seconds: float
    make: Callable[[], tuple[Transfer, ...]]

    def transfers(self) -> tuple[Transfer, ...]:
        """The transfers that the step consists of."""
        return self.make()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Collective:
    """What a collective puts on the edges of a party and what its members receive; `edge`: on each, where all are the same."""

    kind: str
    parties: Parties
    sizes: Ints
    on_edges: Callable[[Ints], Ints]
    received: Callable[[Ints], int]
    edge: int | None


@dataclass(frozen=True, slots=True, eq=False)
class _Messages:
    """Who sends how much to whom, over which links ([message, 2], -1 for none), and what of it is copied there and here ([message, 2])."""

    senders: NDArray[np.int32]
    receivers: NDArray[np.int32]
    nbytes: Ints
    links: NDArray[np.int32]
    bandwidth: NDArray[np.float64]
    latency: NDArray[np.float64]
    staged: Ints


_NOBODY: NDArray[np.int32] = np.zeros(0, np.int32)


@lru_cache(maxsize=64)
def _without_overlap(cluster: Cluster) -> NDArray[np.bool_] | None:
    """For every device whether it moves data instead of computing; None where none does."""
    alone = np.array([not device.overlaps for device in cluster.devices])
    return alone if alone.any() else None


@dataclass(frozen=True, slots=True, eq=False)
class Stepper:
    """Makes steps, with their costs, for tensors of one type on one cluster."""

    cluster: Cluster
    costs: Costs
    type: TensorType
    order: Order = None

    def slice(self, source: Sharding, target: Sharding) -> Step:
        """What every device needs is there already."""
        return Step(
            kind="slice", source=source, target=target, keeps=_NOBODY, seconds=0.0, make=tuple
        )

    def all_gather(self, source: Sharding, target: Sharding, axes: tuple[int, ...]) -> Step:
        """Each device gets the parts of all others in its group."""
        had, whole = local_bytes(source, self.type), local_bytes(target, self.type)
        even = _same(source, self.type) and _same(target, self.type)
        return self._collective(
            _Collective(
                kind="all_gather",
                parties=rings(self.cluster, source.mesh, axes),
                sizes=whole,
                on_edges=lambda p: (whole[p] - np.roll(had[p], -1, axis=1)).ravel(),
                received=lambda p: int((whole[p] - had[p]).sum()),
                edge=int(whole[0] - had[0]) if even else None,
            ),
            source,
            target,
        )

    def reduce_scatter(self, source: Sharding, target: Sharding, axes: tuple[int, ...]) -> Step:
        """Terms are added up, and each device of a group gets its part of the sum."""
        had, part = local_bytes(source, self.type), local_bytes(target, self.type)
        even = _same(source, self.type) and _same(target, self.type)
        parties = rings(self.cluster, source.mesh, axes)
        return self._collective(
            _Collective(
                kind="reduce_scatter",
                parties=parties,
                sizes=had,
                on_edges=lambda p: (had[p] - part[p]).ravel(),
                received=lambda p: int(part[p].sum()) * (parties.group_size - 1),
                edge=int(had[0] - part[0]) if even else None,
            ),
            source,
            target,
        )

    def all_reduce(self, source: Sharding, target: Sharding, axes: tuple[int, ...]) -> Step:
        """Terms are added up, and each device of a group gets the whole sum."""
        had = local_bytes(source, self.type)
        parties = rings(self.cluster, source.mesh, axes)
        size = parties.group_size
        return self._collective(
            _Collective(
                kind="all_reduce",
                parties=parties,
                sizes=had,
                on_edges=lambda p: (2 * (size - 1) * had[p] // size).ravel(),
                received=lambda p: 2 * (size - 1) * int(had[p[:, 0]].sum()),
                edge=2 * (size - 1) * int(had[0]) // size if _same(source, self.type) else None,
            ),
            source,
            target,
        )

    def all_to_all(self, source: Sharding, target: Sharding, axes: tuple[int, ...]) -> Step:
        """Each device of a group sends each other a part of its part."""
        had, part = local_bytes(source, self.type), local_bytes(target, self.type)
        missing = part - self._overlap(source, target)
        parties = all_pairs(self.cluster, source.mesh, axes)
        even = _same(source, self.type) and _even(missing)
        others = max(1, parties.group_size - 1)  # a group of one has no edges

        def on_edges(members: Ints) -> Ints:
            count = members.size * (parties.group_size - 1)
            each = -(-int(missing[members].sum()) // max(1, count))  # a group of one has no edges
            return np.full(count, each, dtype=np.int64)

        return self._collective(
            _Collective(
                kind="all_to_all",
                parties=parties,
                sizes=had,
                on_edges=on_edges,
                received=lambda p: int(missing[p].sum()),
                edge=-(-int(missing[0]) // others) if even else None,
            ),
            source,
            target,
        )

    def exchange(self, source: Sharding, target: Sharding) -> Step:
        """Each device fetches what it does not have, from the nearest device that has it."""
        messages = self._messages(source, target)
        to = device_array(target.mesh)
        together = len(messages.nbytes) > _SENDS_PER_DEVICE * len(to)
        if together:
            links, loads, traffic = self._joint_traffic(messages)
            seconds = self.costs.communicate(traffic)
        else:
            each = self._send_seconds(messages)
            busy = np.zeros(len(self.cluster.resources) + 1)
            for column in messages.links.T:
                np.add.at(busy, column, each)
            seconds = float(busy[:-1].max())

        def make() -> tuple[Transfer, ...]:
            if together:
                return self._occupying((self._joint(messages, links, loads, seconds),))
            return self._occupying(self._sends(messages, each))

        return Step(
            kind="exchange", source=source, target=target, keeps=to, seconds=seconds, make=make
        )

    def again(self, step: Step) -> Step:
        """The same step with these costs."""
        if step.kind in ("slice", "exchange"):
            make = self.slice if step.kind == "slice" else self.exchange
            return make(step.source, step.target)
        collective = getattr(self, step.kind)
        both = zip(step.source.placements, step.target.placements, strict=True)
        axes = tuple(axis for axis, (before, after) in enumerate(both) if before != after)
        found: Step = collective(step.source, step.target, axes)
        return found

    # -- transfers --------------------------------------------------------------------------------

    def _collective(self, c: _Collective, source: Sharding, target: Sharding) -> Step:
        parties = c.parties.parties
        slowest = self._slowest(c)
        devices = device_array(source.mesh)

        def make() -> tuple[Transfer, ...]:
            staged = staged_bytes(c.kind, source, target, self.type, self.order)
            if c.edge is not None:
                seconds = [slowest[kind] for kind in c.parties.alike]
            else:
                seconds = [self._seconds(c, party) for party in parties]
            return self._occupying(
                Transfer(
                    kind=c.kind,
                    reads=devices[party.members.ravel()],
                    gives=devices[party.members.ravel()],
                    links=party.links,
                    loads=party.loads(c.on_edges(party.members)),
                    nbytes=c.received(party.members),
                    seconds=taken,
                    stages=devices[party.members.ravel()],
                    staged=staged[party.members.ravel()],
                )
                for party, taken in zip(parties, seconds, strict=True)
            )

        return Step(
            kind=c.kind,
            source=source,
            target=target,
            keeps=_NOBODY,
            seconds=max(slowest),
            make=make,
        )

    def _occupying(self, transfers: Iterable[Transfer]) -> tuple[Transfer, ...]:
        """The same, each with those of its devices that do not compute meanwhile."""
        alone = _without_overlap(self.cluster)
        if alone is None:
            return tuple(transfers)
        found = []
        for transfer in transfers:
            devices = np.union1d(transfer.reads, transfer.gives)
            held = devices[alone[devices]].astype(np.int32)
            links = np.concatenate([held, transfer.links])
            loads = np.concatenate([np.zeros(len(held), dtype=np.int64), transfer.loads])
            found.append(replace(transfer, links=links, loads=loads))
        return tuple(found)

    def _slowest(self, c: _Collective) -> list[float]:
        """Seconds of each kind of party; where all parts are the same, one question serves all tensors of as many bytes."""
        parties = c.parties.parties
        if c.edge is None:
            return [self._seconds(c, parties[p]) for p in self._heaviest(c)]
        answers = _answers(self.costs)
        key = (c.kind, c.parties, c.edge, int(c.sizes[0]))
        found = answers.get(key)
        if found is None:
            found = answers[key] = [self._seconds(c, parties[p]) for p in c.parties.first_alike]
        return found

    def _heaviest(self, c: _Collective) -> list[int]:
        """Of each kind of party the one with the largest tensors."""
        found = []
        for kind in range(int(c.parties.alike.max()) + 1):
            own = c.parties.alike[c.parties.party_of] == kind
            found.append(int(c.parties.party_of[np.argmax(np.where(own, c.sizes, -1))]))
        return found

    def _seconds(self, c: _Collective, party: Party) -> float:
        if c.edge is not None:  # every edge carries what any one does
            loads = party.edges_on * c.edge
            floor = c.edge / party.least_bandwidth
            largest = int(c.sizes[0])
        else:
            on_edges = c.on_edges(party.members)
            loads = party.loads(on_edges)
            floor = float((on_edges / party.edge_bandwidth).max(initial=0.0))
            largest = int(c.sizes[party.members].max(initial=0))
        return self.costs.communicate(
            Traffic(
                cluster=self.cluster,
                kind=c.kind,
                nbytes=largest,
                spans=c.parties.spans,
                contenders=party.contenders,
                resources=party.links,
                loads=loads,
                floor=floor,
            )
        )

    def _send_seconds(self, m: _Messages) -> NDArray[np.float64]:
        """Seconds of each message; equal ones over equal routes are asked for once."""
        if not len(m.nbytes):
            return np.zeros(0)
        speeds = np.append(self.cluster.resource_bandwidths, 0.0)[m.links]
        keys = np.column_stack([m.nbytes, m.bandwidth, m.latency, speeds])
        _, first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        known = np.empty(len(first))
        for kind, i in enumerate(first):
            used = m.links[i][m.links[i] >= 0]
            pair = np.array([m.senders[i], m.receivers[i]], dtype=np.int32)
            known[kind] = self.costs.communicate(
                Traffic(
                    cluster=self.cluster,
                    kind="send",
                    nbytes=int(m.nbytes[i]),
                    spans=spans_of(self.cluster, pair),
                    contenders=1,
                    resources=used.astype(np.int32),
                    loads=np.full(len(used), m.nbytes[i], dtype=np.int64),
                    floor=float(m.nbytes[i] / m.bandwidth[i]),
                )
            )
        return known[which.reshape(-1)]

    def _sends(self, m: _Messages, each: NDArray[np.float64]) -> tuple[Transfer, ...]:
        made = []
        for i, nbytes in enumerate(m.nbytes.tolist()):
            links = m.links[i][m.links[i] >= 0].astype(np.int32)
            made.append(
                Transfer(
                    kind="send",
                    reads=m.senders[i : i + 1],
                    gives=m.receivers[i : i + 1],
                    links=links,
                    loads=np.full(len(links), nbytes, dtype=np.int64),
                    nbytes=nbytes,
                    seconds=float(each[i]),
                    stages=np.array([m.senders[i], m.receivers[i]], dtype=np.int32),
                    staged=m.staged[i],
                )
            )
        return tuple(made)

    def _joint_traffic(self, m: _Messages) -> tuple[NDArray[np.int32], Ints, Traffic]:
        """All messages at once: the links, the bytes on them, and what the cost model is asked."""
        count, devices = len(self.cluster.resources), self.cluster.num_devices
        on_links = np.zeros(count)
        for column in m.links.T:
            used = column >= 0
            on_links += np.bincount(column[used], m.nbytes[used], count)
        links = np.flatnonzero(on_links).astype(np.int32)
        loads = on_links[links].astype(np.int64)
        sent = np.bincount(m.senders, m.nbytes, devices)
        leaving = np.bincount(m.senders, m.nbytes / m.bandwidth, devices)
        arriving = np.bincount(m.receivers, m.nbytes / m.bandwidth, devices)
        members = np.union1d(np.unique(m.senders), np.unique(m.receivers)).astype(np.int32)
        traffic = Traffic(
            cluster=self.cluster,
            kind="exchange",
            nbytes=int(sent.max()),
            spans=spans_of(self.cluster, members),
            contenders=1,
            resources=links,
            loads=loads,
            floor=float(max(leaving.max(), arriving.max())),
        )
        return links, loads, traffic

    def _joint(
        self, m: _Messages, links: NDArray[np.int32], loads: Ints, seconds: float
    ) -> Transfer:
        copies = np.bincount(
            np.concatenate([m.senders, m.receivers]), m.staged.T.ravel(), self.cluster.num_devices
        )
        stages = np.flatnonzero(copies).astype(np.int32)
        return Transfer(
            kind="exchange",
            reads=np.unique(m.senders),
            gives=np.unique(m.receivers),
            links=links,
            loads=loads,
            nbytes=int(m.nbytes.sum()),
            seconds=seconds,
            stages=stages,
            staged=copies[stages].astype(np.int64),
        )

    # -- regions ----------------------------------------------------------------------------------

    def _overlap(self, source: Sharding, target: Sharding) -> Ints:
        """The bytes that each device has already of what it needs, on one mesh."""
        a, b = boxes(source, self.type.shape), boxes(target, self.type.shape)
        return region_bytes(common_regions(a, b), self.type)

    def _messages(self, source: Sharding, target: Sharding) -> _Messages:
        """For each tile that a device lacks a message from the nearest device that has it."""
        found = fetch(self.cluster, self.type.shape, source, target)
        away = found.senders != found.receivers
        senders, receivers = found.senders[away], found.receivers[away]
        regions = found.regions[away]
        sizes = region_bytes(regions, self.type)
        links, bandwidth, latency = self.cluster.routes(senders, receivers)
        held = (_held_by(source, self.type, senders), _held_by(target, self.type, receivers))
        laid_out = as_laid_out(regions, self.order)
        pieces = (in_one_piece(laid_out, as_laid_out(h, self.order)) for h in held)
        staged = np.stack([np.where(piece, 0, sizes) for piece in pieces], axis=1)
        return _Messages(senders, receivers, sizes, links, bandwidth, latency, staged)


@dataclass(frozen=True, slots=True, eq=False)
class Fetches:
    """Who gets which region, [fetch, dim, 2] in the whole tensor, from whom; from itself, too."""

    senders: NDArray[np.int32]
    receivers: NDArray[np.int32]
    regions: Ints


def fetch(cluster: Cluster, shape: tuple[int, ...], source: Sharding, target: Sharding) -> Fetches:
    """For each tile that a device needs some of, the nearest device that has it; in an order in which each port serves one at a time."""
    tiles, holders = _tiles(source, shape)
    wanted = boxes(target, shape)
    to = device_array(target.mesh)
    start = np.maximum(tiles[:, None, :, 0], wanted[None, :, :, 0])
    stop = np.minimum(tiles[:, None, :, 1], wanted[None, :, :, 1])
    tile, place = np.nonzero((stop > start).all(axis=-1))
    senders, receivers = _nearest(cluster, holders[tile], to[place]), to[place]
    rounds = (receivers.astype(np.int64) - senders) % cluster.num_devices
    order = np.lexsort((senders, rounds))
    regions = np.stack([start[tile, place], stop[tile, place]], axis=-1)
    return Fetches(senders[order], receivers[order], regions[order])


def _nearest(
    cluster: Cluster, holders: NDArray[np.int32], receivers: NDArray[np.int32]
) -> NDArray[np.int32]:
    """For every receiver the closest of its holders, [message, holder]; spread where several are as close."""
    near = np.zeros(holders.shape, dtype=np.int64)
    for stride in cluster.strides:
        near = near * 2 + (holders // stride == receivers[:, None] // stride)
    count = holders.shape[1]
    turn = (np.arange(count)[None, :] - receivers[:, None]) % count
    best: NDArray[np.intp] = np.argmax(near * count - turn, axis=1)
    found: NDArray[np.int32] = holders[np.arange(len(holders)), best]
    return found


_Question = tuple[str, Parties, int, int]
_ANSWERS: WeakKeyDictionary[Costs, dict[_Question, list[float]]] = WeakKeyDictionary()
_MOST_ANSWERS = 1 << 17


def _answers(costs: Costs) -> dict[_Question, list[float]]:
    """What a cost model has said about collectives of equal parts: kind, parties, bytes on each edge and of the tensor."""
    try:
        known = _ANSWERS.setdefault(costs, {})
    except TypeError:  # it can't be referred to weakly, or has no hash
        return {}
    if len(known) > _MOST_ANSWERS:
        known.clear()
    return known


@lru_cache(maxsize=65536)
def _same(sharding: Sharding, type: TensorType) -> bool:
    """Whether all devices hold equally many bytes."""
    return _even(local_bytes(sharding, type))


def _held_by(sharding: Sharding, type: TensorType, devices: NDArray[np.int32]) -> Ints:
    """What each of some devices holds, [device, dim, 2]."""
    order = np.argsort(device_array(sharding.mesh))
    at = order[np.searchsorted(device_array(sharding.mesh), devices, sorter=order)]
    found: Ints = boxes(sharding, type.shape)[at]
    return found


def _even(sizes: Ints) -> bool:
    return bool((sizes == sizes[0]).all())


def _tiles(source: Sharding, shape: tuple[int, ...]) -> tuple[Ints, NDArray[np.int32]]:
    """The distinct tiles of a tensor, [tile, dim, 2], and who has each, [tile, holder]."""
    held = boxes(source, shape)
    split = [a for a, p in enumerate(source.placements) if hasattr(p, "dim")]
    rest = [a for a in range(len(source.mesh.shape)) if a not in split]
    places = np.arange(len(source.mesh)).reshape(source.mesh.shape)
    number = prod(source.mesh.shape[a] for a in split)
    by_tile = places.transpose(*split, *rest).reshape(number, -1)
    return held[by_tile[:, 0]], device_array(source.mesh)[by_tile]
