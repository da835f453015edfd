"""Which links a collective or a set of messages uses, and how many bytes cross each of them.

A collective over some axes of a mesh runs in groups of devices, all at once. A ring passes through
each group in the order of its devices; an all-to-all sends from each to each. Groups whose rings
cross one link contend for it, so they are one transfer: its duration is that of the busiest link,
and none of its links is free before.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from graphwright.machine import Cluster
from graphwright.plans import Mesh, device_array, transfers

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Party:
    """Groups that share links: `members` are places in the mesh, [group, place in the group].

    `link_of` and `edge_of` pair every link with the edges of the rings (or pairs of an all-to-all)
    that cross it; edges are numbered group by group, and `edges_on` counts them for each link.
    `edge_bandwidth` is the least along an edge's route.
    """

    members: Ints
    links: NDArray[np.int32]
    link_of: NDArray[np.int64]
    edge_of: NDArray[np.int64]
    contenders: int
    edges_on: NDArray[np.int64]
    edge_bandwidth: NDArray[np.float64]
    least_bandwidth: float

    def loads(self, edge_bytes: Ints) -> Ints:
        """The bytes on each link, where `edge_bytes` cross the edges."""
        return np.bincount(
            self.link_of, weights=edge_bytes[self.edge_of], minlength=len(self.links)
        ).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parties:
    """A collective over axes of a mesh: its parties, and how many members of each level one group
    spans.

    Parties of one number in `alike` have links of the same bandwidths with the same numbers of
    edges, and `first_alike` are the first of each such kind; `party_of` is for every place in the
    mesh the party that it belongs to.
    """

    parties: tuple[Party, ...]
    spans: tuple[int, ...]
    alike: NDArray[np.int64]
    first_alike: tuple[int, ...]
    party_of: NDArray[np.int64]


def groups_of(
    kind: transfers.GroupKind, cluster: Cluster, mesh: Mesh, axes: tuple[int, ...]
) -> Parties:
    """The groups along `axes`, with the edges that a kind of transfer puts its bytes on."""
    return (all_pairs if kind.edges == "all pairs" else rings)(cluster, mesh, axes)


@lru_cache(maxsize=4096)
def rings(cluster: Cluster, mesh: Mesh, axes: tuple[int, ...]) -> Parties:
    """The groups along `axes`, each with the ring through it."""
    groups = _groups(mesh, axes)
    number, size = groups.shape
    targets = np.roll(groups, -1, axis=1)
    edges = np.stack([groups.ravel(), targets.ravel()])
    return _parties(cluster, mesh, groups, edges, np.arange(number * size) // size)


@lru_cache(maxsize=1024)
def all_pairs(cluster: Cluster, mesh: Mesh, axes: tuple[int, ...]) -> Parties:
    """The groups along `axes`, with an edge from each device to each other."""
    groups = _groups(mesh, axes)
    number, size = groups.shape
    sources = np.repeat(groups, size, axis=1).ravel()
    targets = np.tile(groups, (1, size)).ravel()
    group = np.arange(number * size * size) // (size * size)
    keep = sources != targets
    edges = np.stack([sources[keep], targets[keep]])
    return _parties(cluster, mesh, groups, edges, group[keep])


def spans_of(cluster: Cluster, devices: NDArray[np.int32]) -> tuple[int, ...]:
    """How many members of each level `devices` span, beneath one member of the level above."""
    spans, before = [], 1
    for stride in cluster.strides:
        distinct = len(np.unique(devices // stride))
        spans.append(-(-distinct // before))
        before = distinct
    return tuple(spans)


def _groups(mesh: Mesh, axes: tuple[int, ...]) -> Ints:
    """[group, member]: places in the mesh."""
    places = np.arange(len(mesh), dtype=np.int64).reshape(mesh.shape)
    rest = [a for a in range(len(mesh.shape)) if a not in axes]
    size = int(np.prod([mesh.shape[a] for a in axes], dtype=np.int64))
    return places.transpose(*rest, *axes).reshape(-1, size)


def _parties(cluster: Cluster, mesh: Mesh, groups: Ints, edges: Ints, group_of: Ints) -> Parties:
    devices = device_array(mesh)
    used, bandwidth, latency = cluster.routes(devices[edges[0]], devices[edges[1]])
    edge, place = np.nonzero(used >= 0)
    link = used[edge, place].astype(np.int64)
    number = len(groups)
    joined = coo_array(
        (np.ones(len(link), dtype=np.int8), (group_of[edge], link + number)),
        shape=(number + len(cluster.resources),) * 2,
    )
    _, label = connected_components(joined, directed=False)
    party_of_group = label[:number]
    parties: list[Party] = []
    slowest: list[float] = []
    for label_of in dict.fromkeys(party_of_group.tolist()):
        own = np.flatnonzero(party_of_group == label_of)
        mine = party_of_group[group_of[edge]] == label_of
        links, link_of = np.unique(link[mine], return_inverse=True)
        own_edges = party_of_group[group_of] == label_of
        numbers = np.cumsum(own_edges) - 1
        crossing = np.unique(np.stack([link_of, group_of[edge[mine]]]), axis=1)[0]
        parties.append(
            Party(
                members=groups[own],
                links=links.astype(np.int32),
                link_of=link_of,
                edge_of=numbers[edge[mine]],
                contenders=int(np.bincount(crossing).max(initial=0)),
                edges_on=np.bincount(link_of, minlength=len(links)),
                edge_bandwidth=bandwidth[own_edges],
                least_bandwidth=float(bandwidth[own_edges].min(initial=np.inf)),
            )
        )
        slowest.append(float(latency[own_edges].max(initial=0.0)))
    party_of = np.empty(len(mesh), dtype=np.int64)
    for number_of, party in enumerate(parties):
        party_of[party.members.ravel()] = number_of
    spans = [spans_of(cluster, devices[g]) for g in groups[:: max(1, number // 8)]]
    alike = _classes(cluster, parties, slowest)
    kind_of = alike[party_of]
    first_places = np.unique(kind_of, return_index=True)[1]
    return Parties(
        parties=tuple(parties),
        spans=tuple(map(max, zip(*spans, strict=True))),
        alike=alike,
        first_alike=tuple(party_of[first_places].tolist()),
        party_of=party_of,
    )


def _classes(cluster: Cluster, parties: list[Party], latencies: list[float]) -> NDArray[np.int64]:
    numbers: dict[object, int] = {}
    classes = []
    for party, latency in zip(parties, latencies, strict=True):
        speeds = cluster.resource_bandwidths[party.links].tolist()
        shape = tuple(sorted(zip(speeds, party.edges_on.tolist(), strict=True)))
        key = (party.members.shape, party.contenders, shape, party.least_bandwidth, latency)
        classes.append(numbers.setdefault(key, len(numbers)))
    return np.array(classes, dtype=np.int64)
