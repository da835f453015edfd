"""Levels and links, the resources that they are, and the route between two devices.

    node 0              node 1          levels (2 nodes, 2 GPUs); strides (2, 1)
    gpu 0  gpu 1        gpu 2  gpu 3

    0..3      compute of gpu 0..3
    4..7      node 0 out, node 0 in, node 1 out, node 1 in
    8..15     gpu 0 out, gpu 0 in, ..., gpu 3 in
    16..      two for every explicit link, one each way
    behind    gpu 0 to-host, gpu 0 from-host, ..., gpu 3 from-host: where there is a host link

A level with a shared medium has one resource per group instead of two per member. A route occupies
the out port of the source's member and the in port of the target's member at the outermost level
that separates them; deeper levels only limit its bandwidth. An explicit link is a whole route.
Every device has its own way to and from the memory of the host; while both are busy, they share
what the link carries in both directions together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphwright.errors import InvalidCluster
from graphwright.machine.checks import check_count, check_figure, check_name, check_share

_CACHED_ROUTES = 1 << 16

Ints = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """Members connected by a switch; `bandwidth` is that of one port, each way, in bytes/s.

    If `shared`, all members of a group share one medium of that bandwidth: a bus. `efficiency` is
    the share of it that transfers reach.
    """

    name: str
    count: int
    bandwidth: float
    latency: float
    shared: bool = False
    efficiency: float = 1.0

    def __post_init__(self) -> None:
        check_name(self.name, "level name")
        place = f"level {self.name!r}"
        object.__setattr__(self, "count", check_count(self.count, f"{place}: count"))
        object.__setattr__(self, "bandwidth", check_figure(self.bandwidth, f"{place}: bandwidth"))
        latency = check_figure(self.latency, f"{place}: latency", zero=True)
        object.__setattr__(self, "latency", latency)
        if not isinstance(self.shared, bool):
            raise InvalidCluster(f"{place}: shared: {self.shared!r} is not true or false")
        share = check_share(self.efficiency, f"{place}: efficiency")
        object.__setattr__(self, "efficiency", share)

    @property
    def rate(self) -> float:
        """The bytes/s that transfers reach."""
        return self.bandwidth * self.efficiency


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A direct connection of two devices, preferred to the levels; `bandwidth` is each way."""

    devices: tuple[int, int]
    bandwidth: float
    latency: float

    def __post_init__(self) -> None:
        devices: object = self.devices
        if not isinstance(devices, tuple | list) or len(devices) != 2 or devices[0] == devices[1]:
            raise InvalidCluster(f"link: devices: {devices!r} is not a pair of different devices")
        first, second = (check_count(d, "link: devices", least=0) for d in devices)
        place = f"link {first}-{second}"
        object.__setattr__(self, "devices", (first, second))
        object.__setattr__(self, "bandwidth", check_figure(self.bandwidth, f"{place}: bandwidth"))
        latency = check_figure(self.latency, f"{place}: latency", zero=True)
        object.__setattr__(self, "latency", latency)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLink:
    """Each device's link to pinned host memory: bytes/s one way alone, and both ways together."""

    bandwidth: float
    duplex: float
    latency: float

    def __post_init__(self) -> None:
        bandwidth = check_figure(self.bandwidth, "host: bandwidth")
        duplex = check_figure(self.duplex, "host: duplex")
        if not bandwidth <= duplex <= 2 * bandwidth:
            raise InvalidCluster(
                f"host: duplex: {self.duplex!r} counts both ways, so it must be between once and "
                f"twice the bandwidth {self.bandwidth!r}"
            )
        object.__setattr__(self, "bandwidth", bandwidth)
        object.__setattr__(self, "duplex", duplex)
        latency = check_figure(self.latency, "host: latency", zero=True)
        object.__setattr__(self, "latency", latency)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The way from one device to another, or between a device and its host.

    What it occupies, its bandwidth in bytes/s, its latency in seconds. From a device to itself:
    nothing, infinite, zero.
    """

    resources: tuple[int, ...]
    bandwidth: float
    latency: float


_NOWHERE = Route(resources=(), bandwidth=inf, latency=0.0)


class Topology:
    """The numbering of one cluster's resources; made by `Cluster`, then immutable."""

    def __init__(
        self, levels: Sequence[Level], links: Sequence[Link], host: HostLink | None = None
    ) -> None:
        self.levels = tuple(levels)
        self.links = tuple(links)
        self.host = host
        counts = [level.count for level in levels]
        self.num_devices = prod(counts)
        self.strides = tuple(prod(counts[depth + 1 :]) for depth in range(len(counts)))
        self.bandwidths = tuple(
            min(level.rate for level in levels[depth:]) for depth in range(len(levels))
        )
        offset = self.num_devices
        offsets = []
        for level, stride in zip(levels, self.strides, strict=True):
            offsets.append(offset)
            members = self.num_devices // stride
            offset += members // level.count if level.shared else 2 * members
        self.offsets = tuple(offsets)
        self.link_offset = offset
        self.host_offset = offset + 2 * len(links)
        self.num_resources = self.host_offset + (0 if host is None else 2 * self.num_devices)
        self._link_of = {}
        for number, link in enumerate(links):
            source, target = link.devices
            self._link_of[source, target] = offset + 2 * number
            self._link_of[target, source] = offset + 2 * number + 1
        self._routes: dict[tuple[int, int], Route] = {}

    def first_differing_level(self, devices: Iterable[int]) -> int:
        """The outermost level that separates the devices; the number of levels if none does."""
        devices = list(devices)
        low, high = min(devices), max(devices)
        for depth, stride in enumerate(self.strides):
            if low // stride != high // stride:
                return depth
        return len(self.strides)

    def route(self, source: int, target: int) -> Route:
        """The route from one device to another, cached."""
        route = self._routes.get((source, target))
        if route is None:
            if len(self._routes) >= _CACHED_ROUTES:
                self._routes.clear()
            route = self._routes[source, target] = self._find(source, target)
        return route

    def _find(self, source: int, target: int) -> Route:
        if source == target:
            return _NOWHERE
        number = self._link_of.get((source, target))
        if number is not None:
            link = self.links[(number - self.link_offset) // 2]
            return Route(resources=(number,), bandwidth=link.bandwidth, latency=link.latency)
        depth = self.first_differing_level((source, target))
        level, stride, offset = self.levels[depth], self.strides[depth], self.offsets[depth]
        if level.shared:
            resources: tuple[int, ...] = (offset + source // (stride * level.count),)
        else:
            resources = (offset + 2 * (source // stride), offset + 2 * (target // stride) + 1)
        return Route(resources=resources, bandwidth=self.bandwidths[depth], latency=level.latency)

    def host_route(self, device: int, back: bool, both: bool) -> Route | None:
        """The way from a device to its host, or `back`; None without a host link.

        With `both`, what one way carries while the other one is busy as well.
        """
        if self.host is None:
            return None
        return Route(
            resources=(self.host_offset + 2 * device + back,),
            bandwidth=self.host.duplex / 2 if both else self.host.bandwidth,
            latency=self.host.latency,
        )

    def routes(
        self, sources: ArrayLike, targets: ArrayLike
    ) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
        """The routes of many pairs: resources (n by 2, -1 for none), bandwidths, latencies."""
        source, target = np.broadcast_arrays(
            np.asarray(sources, dtype=np.int64), np.asarray(targets, dtype=np.int64)
        )
        resources = np.full((len(source), 2), -1, dtype=np.int32)
        bandwidth = np.full(len(source), inf)
        latency = np.zeros(len(source))
        todo = source != target
        for depth, (level, stride) in enumerate(zip(self.levels, self.strides, strict=True)):
            here = np.flatnonzero(todo & (source // stride != target // stride))
            todo[here] = False
            if level.shared:
                group = source[here] // (stride * level.count)
                resources[here, 0] = self.offsets[depth] + group
            else:
                resources[here, 0] = self.offsets[depth] + 2 * (source[here] // stride)
                resources[here, 1] = self.offsets[depth] + 2 * (target[here] // stride) + 1
            bandwidth[here] = self.bandwidths[depth]
            latency[here] = level.latency
        if self.links:
            codes, numbers, bandwidths, latencies = self._link_arrays
            wanted = source * self.num_devices + target
            at = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
            here = np.flatnonzero(codes[at] == wanted)
            at = at[here]
            resources[here, 0] = numbers[at]
            resources[here, 1] = -1
            bandwidth[here] = bandwidths[at]
            latency[here] = latencies[at]
        return resources, bandwidth, latency

    @cached_property
    def _link_arrays(
        self,
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
        """The explicit links both ways, sorted by source * num_devices + target."""
        ordered = sorted(self._link_of.items())
        links = [self.links[(number - self.link_offset) // 2] for _, number in ordered]
        return (
            np.array([s * self.num_devices + t for (s, t), _ in ordered], dtype=np.int64),
            np.array([number for _, number in ordered], dtype=np.int32),
            np.array([link.bandwidth for link in links]),
            np.array([link.latency for link in links]),
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the resources, in order."""
        names = [f"{self.levels[-1].name} {d}" for d in range(self.num_devices)]
        for depth, (level, stride) in enumerate(zip(self.levels, self.strides, strict=True)):
            members = self.num_devices // stride
            if not level.shared:
                for member in range(members):
                    names += (f"{level.name} {member} out", f"{level.name} {member} in")
            elif depth == 0:
                names.append(f"{level.name} bus")
            else:
                outer = self.levels[depth - 1].name
                names += [f"{outer} {group} bus" for group in range(members // level.count)]
        for link in self.links:
            source, target = link.devices
            names += (f"link {source}-{target}", f"link {target}-{source}")
        if self.host is not None:
            for name in names[: self.num_devices]:
                names += (f"{name} to-host", f"{name} from-host")
        return tuple(names)

    def classes(self, period: int) -> NDArray[np.int32]:
        """Numbers for the resources, equal for those that devices at a distance of multiples of
        `period` have alike; devices first, by their number modulo the period."""
        names: list[tuple[object, ...]] = [(d % period,) for d in range(self.num_devices)]
        for depth, (level, stride) in enumerate(zip(self.levels, self.strides, strict=True)):
            width = stride * level.count if level.shared else stride
            for first in range(0, self.num_devices, width):
                ports = ("bus",) if level.shared else ("out", "in")
                names += [(depth, first % period, port) for port in ports]
        names += [("link", end) for end in range(2 * len(self.links))]
        if self.host is not None:
            ways = ("to-host", "from-host")
            names += [(way, d % period) for d in range(self.num_devices) for way in ways]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        return np.array([numbers[name] for name in names], dtype=np.int32)

    @cached_property
    def resource_bandwidths(self) -> NDArray[np.float64]:
        """Bytes/s that transfers reach on every resource; 0 for devices."""
        bandwidths = np.zeros(self.num_resources)
        ends = (*self.offsets[1:], self.link_offset)
        for level, start, end in zip(self.levels, self.offsets, ends, strict=True):
            bandwidths[start:end] = level.rate
        for number, link in enumerate(self.links):
            start = self.link_offset + 2 * number
            bandwidths[start : start + 2] = link.bandwidth
        if self.host is not None:
            bandwidths[self.host_offset :] = self.host.bandwidth
        bandwidths.flags.writeable = False
        return bandwidths
