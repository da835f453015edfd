"""What a hop between two shardings takes, and the transfers that it consists of: the exact price,
asked of the cost model.

A collective runs in groups along the axes that it changes; its kind (`plans.transfers`) says how
many bytes go over each edge of a ring, or between the two of each pair.

An exchange is messages (`fetching`): up to a few for each device, each port carries them one after
another; more are one transfer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from graphwright.ir import TensorType
from graphwright.machine import Cluster
from graphwright.plans import Sharding, boxes, device_array, local_bytes, transfers
from graphwright.tasks.costs import Costs, Traffic, handles, handling_of
from graphwright.tasks.resharding.fetching import fetch
from graphwright.tasks.resharding.hops import Hop, PricedHop, Transfer, changed_axes
from graphwright.tasks.resharding.staging import (
    Order,
    as_laid_out,
    common_regions,
    in_one_piece,
    region_bytes,
    staged_bytes,
)
from graphwright.tasks.resharding.traffic import Parties, Party, groups_of, spans_of

Ints = NDArray[np.int64]
SENDS_PER_DEVICE = 4
"""With more messages than this for each device, they are one exchange rather than tasks of their
own.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Collective:
    """The bytes that each place of a mesh has before a collective and after it, and those that it
    lacks.

    `even`: all places have equally many.
    """

    kind: transfers.GroupKind
    parties: Parties
    had: Ints
    part: Ints
    missing: Ints
    even: bool

    @property
    def sizes(self) -> Ints:
        """The bytes by which a measurement would name it, at each place."""
        return self.kind.size(self.had, self.part)

    def on_edges(self, members: Ints) -> Ints:
        """The bytes on each edge of groups of places, [group, place]."""
        return self.kind.on_edges(self.had[members], self.part[members], self.missing[members])

    def received(self, members: Ints) -> int:
        """The bytes that all devices of groups receive together."""
        return self.kind.received(self.had[members], self.part[members], self.missing[members])


@dataclass(frozen=True, slots=True, eq=False)
class _Messages:
    """Who sends which region to whom: bytes, and links, [message, 2], -1 for none."""

    senders: NDArray[np.int32]
    receivers: NDArray[np.int32]
    regions: Ints
    nbytes: Ints
    links: NDArray[np.int32]
    bandwidth: NDArray[np.float64]
    latency: NDArray[np.float64]


_NOBODY: NDArray[np.int32] = np.zeros(0, np.int32)


Busy = tuple[NDArray[np.bool_], NDArray[np.bool_]]
_BUSY: WeakKeyDictionary[Costs, dict[Cluster, Busy | None]] = WeakKeyDictionary()


def _busy_devices(cluster: Cluster, costs: Costs) -> Busy | None:
    """For every device whether it moves data instead of computing, and whether it overlaps both but
    takes time for it; None where none does either."""
    try:
        known = _BUSY.setdefault(costs, {})
    except TypeError:  # it can't be referred to weakly, or has no hash
        known = {}
    if cluster not in known:
        handle = {kind: handles(costs, kind, cluster) for kind in cluster.kinds()}
        alone = np.array([not device.overlaps for device in cluster.devices])
        handling = np.array([handle[device] for device in cluster.devices])
        known[cluster] = (alone, handling) if (alone | handling).any() else None
    return known[cluster]


@dataclass(frozen=True, slots=True, eq=False)
class Pricer:
    """Prices hops of tensors of one type, laid out in one order, on one cluster."""

    cluster: Cluster
    costs: Costs
    type: TensorType
    order: Order = None
    _known: dict[tuple[Sharding, Sharding], _Messages] = field(default_factory=dict, repr=False)

    def at(self, costs: Costs) -> Pricer:
        """The same at other costs: who sends what to whom is worked out once for both."""
        return replace(self, costs=costs)

    def price(self, hop: Hop) -> PricedHop:
        """What a hop takes."""
        match hop.kind:
            case transfers.Slice():
                return PricedHop(hop, 0.0, _NOBODY, tuple)
            case transfers.Exchange():
                return self._exchange(hop)
            case kind:
                return self._in_groups(hop, self._collective(kind, hop))

    # -- collectives ------------------------------------------------------------------------------

    def _collective(self, kind: transfers.GroupKind, hop: Hop) -> _Collective:
        source, target = hop.source, hop.target
        had, part = local_bytes(source, self.type), local_bytes(target, self.type)
        even = _same(source, self.type) and _same(target, self.type)
        missing = part
        if kind.edges == "all pairs":
            missing = part - self._overlap(source, target)
            even = even and _even(missing)
        return _Collective(
            kind=kind,
            parties=groups_of(kind, self.cluster, source.mesh, changed_axes(hop)),
            had=had,
            part=part,
            missing=missing,
            even=even,
        )

    def _in_groups(self, hop: Hop, c: _Collective) -> PricedHop:
        parties = c.parties.parties
        slowest = self._slowest(c)
        devices = device_array(hop.source.mesh)

        def make() -> tuple[Transfer, ...]:
            staged = staged_bytes(c.kind, hop.source, hop.target, self.type, self.order)
            if c.even:
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

        return PricedHop(hop, max(slowest), _NOBODY, make)

    def _slowest(self, c: _Collective) -> list[float]:
        """Seconds of each kind of party; for equal parts asked once for a size."""
        parties = c.parties.parties
        if not c.even:
            return [self._seconds(c, parties[p]) for p in self._heaviest(c)]
        answers = _answers(self.costs)
        key = (c.kind, c.parties, int(c.had[0]), int(c.part[0]), int(c.missing[0]))
        seconds = answers.get(key)
        if seconds is None:
            seconds = answers[key] = [self._seconds(c, parties[p]) for p in c.parties.first_alike]
        return seconds

    def _heaviest(self, c: _Collective) -> list[int]:
        """Of each kind of party the one with the largest tensors."""
        heaviest = []
        for kind in range(int(c.parties.alike.max()) + 1):
            own = c.parties.alike[c.parties.party_of] == kind
            heaviest.append(int(c.parties.party_of[np.argmax(np.where(own, c.sizes, -1))]))
        return heaviest

    def _seconds(self, c: _Collective, party: Party) -> float:
        if c.even:  # every edge carries what any one does
            edge = int(c.on_edges(party.members[:1]).max(initial=0))
            loads, floor = party.edges_on * edge, edge / party.least_bandwidth
        else:
            on_edges = c.on_edges(party.members)
            loads = party.loads(on_edges)
            floor = float((on_edges / party.edge_bandwidth).max(initial=0.0))
        return self.costs.communicate(
            Traffic(
                cluster=self.cluster,
                kind=c.kind,
                nbytes=int(c.sizes[party.members].max(initial=0)),
                spans=c.parties.spans,
                contenders=party.contenders,
                resources=party.links,
                loads=loads,
                floor=floor,
            )
        )

    def _overlap(self, source: Sharding, target: Sharding) -> Ints:
        """The bytes that each device has already of what it needs, on one mesh."""
        a, b = boxes(source, self.type.shape), boxes(target, self.type.shape)
        return region_bytes(common_regions(a, b), self.type)

    def _occupying(self, made: Iterable[Transfer]) -> tuple[Transfer, ...]:
        """The same, each with those of its devices that do not compute meanwhile, or not all the
        time."""
        busy = _busy_devices(self.cluster, self.costs)
        if busy is None:
            return tuple(made)
        alone, handling = busy
        occupying = []
        for transfer in made:
            devices = np.union1d(transfer.reads, transfer.gives).astype(np.int32)
            held, handlers = devices[alone[devices]], devices[handling[devices]]
            links = np.concatenate([held, transfer.links])
            loads = np.concatenate([np.zeros(len(held), dtype=np.int64), transfer.loads])
            handled = self._handled(transfer, handlers)
            occupying.append(
                replace(transfer, links=links, loads=loads, handlers=handlers, handled=handled)
            )
        return tuple(occupying)

    def _handled(self, transfer: Transfer, handlers: NDArray[np.int32]) -> NDArray[np.float64]:
        """Seconds that each device takes for a transfer; who receives, receives as much as others.

        A transfer by which nothing moves takes none.
        """
        each = transfer.nbytes / max(1, len(transfer.gives))
        receives = np.isin(handlers, transfer.gives)
        if not transfer.nbytes:
            return np.zeros(len(handlers))
        return np.array(
            [
                handling_of(
                    self.costs,
                    transfer.kind,
                    each if gets else 0.0,
                    self.cluster.devices[device],
                    self.cluster,
                )
                for device, gets in zip(handlers.tolist(), receives.tolist(), strict=True)
            ]
        )

    # -- exchanges --------------------------------------------------------------------------------

    def _exchange(self, hop: Hop) -> PricedHop:
        """Each device fetches what it does not have, from the nearest device that has it."""
        messages = self._messages(hop.source, hop.target)
        to = device_array(hop.target.mesh)
        together = len(messages.nbytes) > SENDS_PER_DEVICE * len(to)
        if together:
            traffic = self._joint_traffic(messages)
            seconds = self.costs.communicate(traffic)
        else:
            each = self._send_seconds(messages)
            busy = np.zeros(len(self.cluster.resources) + 1)
            for column in messages.links.T:
                np.add.at(busy, column, each)
            seconds = float(busy[:-1].max())

        def make() -> tuple[Transfer, ...]:
            staged = self._staged(hop, messages)
            if together:
                return self._occupying((self._joint(messages, staged, traffic, seconds),))
            return self._occupying(self._sends(messages, staged, each))

        return PricedHop(hop, seconds, to, make)

    def _messages(self, source: Sharding, target: Sharding) -> _Messages:
        """For each tile that a device lacks a message from the nearest device that has it."""
        messages = self._known.get((source, target))
        if messages is None:
            messages = self._known[source, target] = self._find_messages(source, target)
        return messages

    def _find_messages(self, source: Sharding, target: Sharding) -> _Messages:
        fetches = fetch(self.cluster, self.type.shape, source, target)
        away = fetches.senders != fetches.receivers
        senders, receivers = fetches.senders[away], fetches.receivers[away]
        regions = fetches.regions[away]
        nbytes = region_bytes(regions, self.type)
        links, bandwidth, latency = self.cluster.routes(senders, receivers)
        return _Messages(senders, receivers, regions, nbytes, links, bandwidth, latency)

    def _staged(self, hop: Hop, m: _Messages) -> Ints:
        """The bytes of each message that are copied at its sender and receiver, [message, 2]."""
        regions = as_laid_out(m.regions, self.order)
        pieces = (
            in_one_piece(regions, as_laid_out(_sizes_at(held, self.type, devices), self.order))
            for held, devices in ((hop.source, m.senders), (hop.target, m.receivers))
        )
        return np.stack([np.where(piece, 0, m.nbytes) for piece in pieces], axis=1)

    def _send_seconds(self, m: _Messages) -> NDArray[np.float64]:
        """Seconds of each message; equal ones over equal routes are asked for once."""
        if not len(m.nbytes):
            return np.zeros(0)
        speeds = np.append(self.cluster.resource_bandwidths, 0.0)[m.links]
        keys = np.column_stack([m.nbytes, m.bandwidth, m.latency, speeds])
        _, first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        known = np.empty(len(first))
        for number, i in enumerate(first):
            used = m.links[i][m.links[i] >= 0]
            pair = np.array([m.senders[i], m.receivers[i]], dtype=np.int32)
            known[number] = self.costs.communicate(
                Traffic(
                    cluster=self.cluster,
                    kind=transfers.Send(),
                    nbytes=int(m.nbytes[i]),
                    spans=spans_of(self.cluster, pair),
                    contenders=1,
                    resources=used.astype(np.int32),
                    loads=np.full(len(used), m.nbytes[i], dtype=np.int64),
                    floor=float(m.nbytes[i] / m.bandwidth[i]),
                )
            )
        return known[which.reshape(-1)]

    def _sends(self, m: _Messages, staged: Ints, each: NDArray[np.float64]) -> tuple[Transfer, ...]:
        made = []
        for i, nbytes in enumerate(m.nbytes.tolist()):
            links = m.links[i][m.links[i] >= 0].astype(np.int32)
            made.append(
                Transfer(
                    kind=transfers.Send(),
                    reads=m.senders[i : i + 1],
                    gives=m.receivers[i : i + 1],
                    links=links,
                    loads=np.full(len(links), nbytes, dtype=np.int64),
                    nbytes=nbytes,
                    seconds=float(each[i]),
                    stages=np.array([m.senders[i], m.receivers[i]], dtype=np.int32),
                    staged=staged[i],
                )
            )
        return tuple(made)

    def _joint_traffic(self, m: _Messages) -> Traffic:
        """All messages at once: the links, the bytes on them, and what the cost model is asked."""
        count, devices = len(self.cluster.resources), self.cluster.num_devices
        on_links = np.zeros(count)
        for column in m.links.T:
            used = column >= 0
            on_links += np.bincount(column[used], m.nbytes[used], count)
        links = np.flatnonzero(on_links).astype(np.int32)
        sent = np.bincount(m.senders, m.nbytes, devices)
        leaving = np.bincount(m.senders, m.nbytes / m.bandwidth, devices)
        arriving = np.bincount(m.receivers, m.nbytes / m.bandwidth, devices)
        sends, receives = (
            np.bincount(ends, minlength=devices) for ends in (m.senders, m.receivers)
        )
        members = np.flatnonzero(sends + receives).astype(np.int32)
        return Traffic(
            cluster=self.cluster,
            kind=transfers.Exchange(),
            nbytes=int(sent.max()),
            spans=spans_of(self.cluster, members),
            contenders=1,
            resources=links,
            loads=on_links[links].astype(np.int64),
            floor=float(max(leaving.max(), arriving.max())),
        )

    def _joint(self, m: _Messages, staged: Ints, traffic: Traffic, seconds: float) -> Transfer:
        copies = np.bincount(
            np.concatenate([m.senders, m.receivers]), staged.T.ravel(), self.cluster.num_devices
        )
        stages = np.flatnonzero(copies).astype(np.int32)
        return Transfer(
            kind=transfers.Exchange(),
            reads=np.flatnonzero(np.bincount(m.senders)).astype(np.int32),
            gives=np.flatnonzero(np.bincount(m.receivers)).astype(np.int32),
            links=traffic.resources,
            loads=traffic.loads,
            nbytes=int(m.nbytes.sum()),
            seconds=seconds,
            stages=stages,
            staged=copies[stages].astype(np.int64),
        )


_Question = tuple[transfers.GroupKind, Parties, int, int, int]
_ANSWERS: WeakKeyDictionary[Costs, dict[_Question, list[float]]] = WeakKeyDictionary()
_MOST_ANSWERS = 1 << 17


def _answers(costs: Costs) -> dict[_Question, list[float]]:
    """What a cost model has said about collectives of equal parts."""
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


def _even(sizes: Ints) -> bool:
    return bool((sizes == sizes[0]).all())


def _sizes_at(sharding: Sharding, type: TensorType, devices: NDArray[np.int32]) -> Ints:
    """The size of each dim that each of some devices holds, [device, dim]."""
    there, held = device_array(sharding.mesh), boxes(sharding, type.shape)
    sizes = np.zeros((int(there.max()) + 1, len(type.shape)), np.int64)
    sizes[there] = held[:, :, 1] - held[:, :, 0]
    at: Ints = sizes[devices]
    return at
