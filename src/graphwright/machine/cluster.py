"""A cluster: devices in nested levels, the links between them, and the link to host memory.

    levels   ("node", 2), ("gpu", 8)      outermost first: 16 devices; close devices, close numbers
    axes     2, 2, 2, 2                   prime factors of the counts: one choice of a strategy each
    strides  8, 1                         device d is in member d // strides[l] of level l

`graphwright.machine.topology` says which resources a transfer occupies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import groupby
from math import prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from graphwright.errors import InvalidCluster
from graphwright.machine.checks import (
    check_count,
    check_figure,
    check_name,
    check_text,
    check_total,
)
from graphwright.machine.device import Device
from graphwright.machine.topology import HostLink, Level, Link, Route, Topology

_RESIZED = re.compile(r":\d+$")
PICOSECONDS = 10**12
"""Per second; the unit of times in task graphs is the picosecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One prime factor of a level's count."""

    size: int
    level: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cluster:
    """Devices in nested levels. `price` is per device and hour, `source` the origin of the figures.

    `hash` covers what affects time and memory: levels, devices, links and host.
    """

    name: str
    levels: tuple[Level, ...]
    devices: tuple[Device, ...]
    links: tuple[Link, ...] = ()
    host: HostLink | None = None
    price: float | None = None
    source: str = ""
    axes: tuple[Axis, ...] = field(init=False, compare=False)
    hash: str = field(init=False, compare=False)
    _topology: Topology = field(init=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("levels", "devices", "links"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        _verify(self)
        axes = (
            Axis(size=prime, level=depth)
            for depth, level in enumerate(self.levels)
            for prime in _primes(level.count)
        )
        object.__setattr__(self, "axes", tuple(axes))
        object.__setattr__(self, "_topology", Topology(self.levels, self.links, self.host))
        object.__setattr__(self, "hash", _content_hash(self))

    def __hash__(self) -> int:
        return hash(self.hash)

    def __repr__(self) -> str:
        levels = " x ".join(f"{level.count} {level.name}" for level in self.levels)
        kinds = ", ".join(
            f"{n} x {d.name} ({d.memory / 1e9:g} GB)" for d, n in self.kinds().items()
        )
        links = f", {len(self.links)} explicit links" if self.links else ""
        return f"Cluster({self.name}: {levels}: {kinds}{links})"

    @property
    def num_devices(self) -> int:
        """The number of devices."""
        return len(self.devices)

    @property
    def strides(self) -> tuple[int, ...]:
        """For each level, the number of devices in one member."""
        return self._topology.strides

    @property
    def resources(self) -> tuple[str, ...]:
        """The names of what tasks occupy.

        Devices, then ports and buses, then explicit links, then the ways to and from the host.
        """
        return self._topology.names

    @property
    def num_resources(self) -> int:
        """The number of resources."""
        return self._topology.num_resources

    @property
    def first_link(self) -> int:
        """The number of the first explicit link's resource."""
        return self._topology.link_offset

    @property
    def first_host_link(self) -> int:
        """The number of the first way to the host; all resources before it join devices."""
        return self._topology.host_offset

    @property
    def resource_bandwidths(self) -> NDArray[np.float64]:
        """Bytes/s of each resource, 0 for devices."""
        return self._topology.resource_bandwidths

    def resource_classes(self, period: int) -> NDArray[np.int32]:
        """The class of each resource where devices at a distance of `period` are alike.

        Those of devices come first, numbered as the first `period` devices are.
        """
        return self._topology.classes(period)

    def pace(self, device: Device) -> float:
        """How much longer than one device by itself the slowest of its kind takes here."""
        return 1.0 + device.spread if self.num_devices > 1 else 1.0

    def kinds(self) -> dict[Device, int]:
        """The number of devices of each kind."""
        kinds: dict[Device, int] = {}
        for device, run in runs_of(self.devices):
            kinds[device] = kinds.get(device, 0) + run
        return kinds

    def route(self, source: int, target: int) -> Route:
        """The route between two devices: an explicit link, or the outermost level between them."""
        source, target = int(source), int(target)
        if not (0 <= source < self.num_devices and 0 <= target < self.num_devices):
            raise self._no_device(source, target)
        return self._topology.route(source, target)

    def to_host(self, device: int, *, both: bool = False) -> Route:
        """The way from a device to pinned memory of its host.

        With `both`, at what it carries while as much comes back at once.
        """
        return self._host_route(device, back=False, both=both)

    def from_host(self, device: int, *, both: bool = False) -> Route:
        """The way from pinned memory of the host to a device; `both` as in `to_host`."""
        return self._host_route(device, back=True, both=both)

    def _host_route(self, device: int, back: bool, both: bool) -> Route:
        if not 0 <= device < self.num_devices:
            raise self._no_device(device)
        route = self._topology.host_route(device, back, both)
        if route is None:
            raise InvalidCluster(
                f"cluster {self.name!r} says nothing about the link to its hosts; add a table "
                "[host] with bandwidth, duplex and latency"
            )
        return route

    def routes(
        self, sources: ArrayLike, targets: ArrayLike
    ) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
        """`route` for many pairs: resources (n by 2, -1 for none), bandwidths, latencies."""
        for given in (np.asarray(sources), np.asarray(targets)):
            if given.size and not (given.min() >= 0 and given.max() < self.num_devices):
                raise self._no_device(int(given.min()), int(given.max()))
        return self._topology.routes(sources, targets)

    def _no_device(self, *devices: int) -> IndexError:
        given = ", ".join(str(device) for device in devices)
        return IndexError(f"{self.name} has devices 0 to {self.num_devices - 1}, not {given}")

    def first_differing_level(self, devices: Iterable[int]) -> int:
        """The outermost level that separates the devices; the number of levels if none does."""
        return self._topology.first_differing_level(devices)

    def latency(self, level: int) -> float:
        """The latency of a message at a level, in seconds."""
        return self.levels[level].latency

    def resized(self, count: Mapping[str, int]) -> Cluster:
        """The same machine with other counts, by level name; all devices must be of one kind."""
        names = [level.name for level in self.levels]
        for name, value in count.items():
            if name not in names:
                known = ", ".join(names)
                raise InvalidCluster(
                    f"cluster {self.name!r} has no level {name!r}; its levels are {known}"
                )
            check_count(value, f"cluster {self.name!r}: level {name!r}: count")
        levels = tuple(replace(lv, count=count.get(lv.name, lv.count)) for lv in self.levels)
        if levels == self.levels:
            return self
        if len(self.kinds()) > 1:
            raise InvalidCluster(
                f"cluster {self.name!r} has devices of several kinds and cannot be resized; write "
                "the new one as a TOML file"
            )
        total = check_total(prod(level.count for level in levels), f"cluster {self.name!r}")
        base = _RESIZED.sub("", self.name)
        if levels[1:] == self.levels[1:]:
            name = f"{base}:{levels[0].count}"
        else:
            name = f"{base}[{', '.join(f'{lv.name}={lv.count}' for lv in levels)}]"
        return replace(
            self,
            name=name,
            levels=levels,
            devices=self.devices[:1] * total,
            links=_repeat_links(self, levels),
        )


def runs_of(devices: Iterable[Device]) -> list[tuple[Device, int]]:
    """Run-length encode the devices."""
    same = ((run[0], len(run)) for run in (list(g) for _, g in groupby(devices, key=id)))
    joined: list[tuple[Device, int]] = []
    for device, length in same:
        if joined and joined[-1][0] == device:
            joined[-1] = (device, joined[-1][1] + length)
        else:
            joined.append((device, length))
    return joined


def _verify(cluster: Cluster) -> None:
    check_name(cluster.name, "cluster name")
    place = f"cluster {cluster.name!r}"
    host = () if cluster.host is None else (cluster.host,)
    parts = (
        (Level, cluster.levels), (Device, cluster.devices), (Link, cluster.links), (HostLink, host)
    )  # fmt: skip
    for kind, values in parts:
        for value in values:
            if not isinstance(value, kind):
                raise InvalidCluster(f"{place}: {value!r} is not a {kind.__name__}")
    if not cluster.levels:
        raise InvalidCluster(f"{place}: it needs at least one level, with a count of 1 or more")
    names = [level.name for level in cluster.levels]
    if len(set(names)) < len(names):
        raise InvalidCluster(f"{place}: two levels have the same name: {', '.join(names)}")
    total = check_total(prod(level.count for level in cluster.levels), place)
    if total != len(cluster.devices):
        counts = " x ".join(str(level.count) for level in cluster.levels)
        raise InvalidCluster(
            f"{place}: its levels hold {counts} = {total} devices, but "
            f"{len(cluster.devices)} are given"
        )
    seen: set[frozenset[int]] = set()
    for link in cluster.links:
        pair = frozenset(link.devices)
        if max(pair) >= total:
            raise InvalidCluster(f"{place}: link {link.devices}: devices are 0 to {total - 1}")
        if pair in seen:
            raise InvalidCluster(
                f"{place}: link {link.devices} is given twice; give the total bandwidth once"
            )
        seen.add(pair)
    if cluster.price is not None:
        price = check_figure(cluster.price, f"{place}: price", zero=True)
        object.__setattr__(cluster, "price", price)
    check_text(cluster.source, f"{place}: source")


def _primes(number: int) -> list[int]:
    """Prime factors, smallest first."""
    primes, divisor = [], 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            primes.append(divisor)
            number //= divisor
        divisor += 1
    return [*primes, number] if number > 1 else primes


def _content_hash(cluster: Cluster) -> str:
    devices = [
        (d.name, d.memory, sorted(d.rates.items()), d.bandwidth, d.launch, n,
         *(() if d.overlaps else ("alone",)),
         *((str(d.efficiency),) if d.efficiency else ()),
         *((("spread", d.spread),) if d.spread else ()),
         *((("handling", d.handling),) if d.handling else ()),
         *((("handling_bandwidth", d.handling_bandwidth),) if d.handling_bandwidth else ()))
        for d, n in runs_of(cluster.devices)
    ]  # fmt: skip
    levels = [
        (v.name, v.count, v.bandwidth, v.latency, v.shared,
         *((("efficiency", v.efficiency),) if v.efficiency < 1 else ()))
        for v in cluster.levels
    ]  # fmt: skip
    links = [(link.devices, link.bandwidth, link.latency) for link in cluster.links]
    host = cluster.host
    figures = None if host is None else (host.bandwidth, host.duplex, host.latency)
    spelled = repr((levels, devices, links, figures))
    return blake2b(spelled.encode("utf-8"), digest_size=16).hexdigest()


def _repeat_links(cluster: Cluster, levels: tuple[Level, ...]) -> tuple[Link, ...]:
    """Repeat the explicit links of one member of the deepest changed level in every member."""
    if not cluster.links:
        return ()
    changed = max(d for d, level in enumerate(levels) if level != cluster.levels[d])
    stride = cluster.strides[changed]
    pattern: dict[int, set[Link]] = {}
    for link in cluster.links:
        first, second = link.devices
        member = first // stride
        inside = (first - member * stride, second - member * stride)
        if not 0 <= inside[1] < stride:
            raise InvalidCluster(
                f"cluster {cluster.name!r}: level {levels[changed].name!r} cannot be resized: the "
                f"explicit link {link.devices} connects two of its members; write the new cluster "
                "as a TOML file"
            )
        pattern.setdefault(member, set()).add(replace(link, devices=inside))
    members = cluster.num_devices // stride
    if len(pattern) < members or any(links != pattern[0] for links in pattern.values()):
        raise InvalidCluster(
            f"cluster {cluster.name!r}: level {levels[changed].name!r} cannot be resized: its "
            "members differ in their explicit links; write the new cluster as a TOML file"
        )
    first_member = sorted(pattern[0], key=lambda link: link.devices)
    return tuple(
        replace(link, devices=(link.devices[0] + base, link.devices[1] + base))
        for base in range(0, prod(level.count for level in levels), stride)
        for link in first_member
    )
