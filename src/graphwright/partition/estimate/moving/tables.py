"""What bringing a tensor from each of many shardings to each of many others takes: tables for the search.

    seconds[u, v]   about tasks.reshard(cluster, costs, type, sources[u], targets[v]).seconds
    nbytes[u, v]    about ... .nbytes: the bytes that all devices together receive

`tasks.reshard` asks the cost model about each step on its way: milliseconds for one entry. Here the model is asked once
for every collective over every group of axes, at a few sizes; the shortest path is then found over whole numbers in compiled
code (`moving_kernels`, `moving_messages`), with the same states and the same moves:

    seconds |        o     a line where the model is one, the model's own points where it is not:
            |     o        between them the bandwidth is interpolated
            |  o
            +----------- bytes of the tensor that one group gathers, reduces or exchanges

Where levels are switches or buses, axes of one level are alike, so a group is how many members of each level it spans; with
explicit links every set of axes is priced by itself. What differs from `reshard`: the sizes of uneven parts, and what fetching
regions takes, which goes by formulas over shares of the tensor, kept from one table to the next. On more than 256 devices those
are found for one device in place of many that do the same, and are averages where very many tiles are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from graphwright.ir import DTYPE_BYTES, TensorType
from graphwright.machine import Cluster
from graphwright.partition.estimate.moving.messages import Known, Machine
from graphwright.partition.estimate.moving.paths import (
    GATHER,
    REDUCE,
    SCATTER,
    SWAP,
    Tariff,
    fill,
)
from graphwright.plans import Partial, Placement, Replicated, Sharding, Split, whole_mesh
from graphwright.tasks import Costs, Stepper

Codes = NDArray[np.int8]
Floats = NDArray[np.float64]
Axes = tuple[int, ...]

_KNOWN = 1 << 17
_SIZES = 41
"""Prices that are no straight line are asked for at 2^0 to 2^40 bytes."""
_PROBES = (2**8, 2**16, 2**24)
_STRAIGHT = 1e-6
_MOST_MASKS = 256
"""With explicit links, every set of axes has its own price up to so many sets."""


class Prices:
    """Tables of what moving tensors on the whole mesh of a cluster takes; see the module."""

    def __init__(self, cluster: Cluster, costs: Costs) -> None:
        self.cluster, self.costs = cluster, costs
        self._machine = _machine(cluster)
        self._known = Known(
            np.zeros(_KNOWN, np.uint64), np.zeros((_KNOWN, 5)), np.zeros(1, np.int64)
        )
        self._tariff = self._ask()

    def table(self, type: TensorType, sources: Codes, targets: Codes) -> tuple[Floats, Floats]:
        """Seconds and bytes moved from every one of `sources` to every one of `targets`."""
        sources = np.ascontiguousarray(sources, dtype=np.int8)
        targets = np.ascontiguousarray(targets, dtype=np.int8)
        seconds = np.empty((len(sources), len(targets)))
        moved = np.empty_like(seconds)
        fill(
            self._machine,
            self._tariff,
            self._known,
            np.array(type.shape, dtype=np.int64),
            float(DTYPE_BYTES[type.dtype]),
            sources,
            targets,
            seconds,
            moved,
        )
        return seconds, moved

    # -- prices of collectives --------------------------------------------------------------------

    def _ask(self) -> Tariff:
        num_axes = len(self.cluster.axes)
        group_of = np.zeros(1 << num_axes, dtype=np.int32)
        groups: dict[object, int] = {}
        canonical: list[Axes] = []
        by_itself = bool(self.cluster.links) and len(group_of) <= _MOST_MASKS
        for bits in range(1, len(group_of)):
            axes = tuple(a for a in range(num_axes) if bits >> a & 1)
            key = axes if by_itself else self._spans(axes)
            if key not in groups:
                groups[key] = len(canonical)
                canonical.append(axes)
            group_of[bits] = groups[key]
        points = np.zeros((4, max(1, len(canonical)), _SIZES))
        for (kind, make), (group, axes) in product(_QUESTIONS.items(), enumerate(canonical)):
            levels = {self.cluster.axes[a].level for a in axes}
            if kind != SWAP or len(levels) == 1:
                self._price(make, axes, points[kind, group])
        return Tariff(group_of, points)

    def _spans(self, axes: Axes) -> tuple[int, ...]:
        levels = range(len(self.cluster.levels))
        chosen = [self.cluster.axes[a] for a in axes]
        return tuple(prod(a.size for a in chosen if a.level == level) for level in levels)

    def _price(self, make: _Question, axes: Axes, points: Floats) -> None:
        """Fill in the price of one collective."""
        ways = prod(self.cluster.axes[a].size for a in axes)
        sizes = [ways * ways * probe for probe in _PROBES]
        low, middle, high = (make(self, axes, size) for size in sizes)
        slope = (high - low) / (sizes[2] - sizes[0])
        if abs(low + slope * (sizes[1] - sizes[0]) - middle) <= _STRAIGHT * middle:
            points[:3] = -1.0, low - slope * sizes[0], slope
        else:
            points[:] = [make(self, axes, 2**i) for i in range(_SIZES)]

    def _placed(self, axes: Axes, placement: Placement) -> Sharding:
        mesh = whole_mesh(self.cluster)
        return Sharding(
            mesh, tuple(placement if a in axes else Replicated() for a in range(len(mesh.shape)))
        )

    def _gather(self, axes: Axes, size: int) -> float:
        step = self._stepper(size).all_gather
        return step(self._placed(axes, Split(0)), self._placed(axes, Replicated()), axes).seconds

    def _scatter(self, axes: Axes, size: int) -> float:
        step = self._stepper(size).reduce_scatter
        return step(self._placed(axes, Partial()), self._placed(axes, Split(0)), axes).seconds

    def _reduce(self, axes: Axes, size: int) -> float:
        step = self._stepper(size).all_reduce
        return step(self._placed(axes, Partial()), self._placed(axes, Replicated()), axes).seconds

    def _swap(self, axes: Axes, size: int) -> float:
        ways = prod(self.cluster.axes[a].size for a in axes)
        type = TensorType((ways, size), "uint8")
        step = Stepper(self.cluster, self.costs, type).all_to_all
        return step(self._placed(axes, Split(0)), self._placed(axes, Split(1)), axes).seconds

    def _stepper(self, size: int) -> Stepper:
        return Stepper(self.cluster, self.costs, TensorType((size,), "uint8"))


_Question = Callable[[Prices, Axes, int], float]
_QUESTIONS: dict[int, _Question] = {
    GATHER: Prices._gather,
    SCATTER: Prices._scatter,
    REDUCE: Prices._reduce,
    SWAP: Prices._swap,
}


def _machine(cluster: Cluster) -> Machine:
    sizes = [axis.size for axis in cluster.axes]
    levels, devices = cluster.levels, cluster.num_devices
    links = 2 * len(cluster.links)
    link_of = np.zeros((0, 0), dtype=np.int32)
    if links:
        link_of = np.full((devices, devices), -1, dtype=np.int32)
        for number, link in enumerate(cluster.links):
            first, second = link.devices
            link_of[first, second] = cluster.num_resources - links + 2 * number
            link_of[second, first] = link_of[first, second] + 1
    offsets, offset = [], devices
    for level, stride in zip(levels, cluster.strides, strict=True):
        offsets.append(offset)
        members = devices // stride
        offset += members // level.count if level.shared else 2 * members
    return Machine(
        axis_size=np.array(sizes, dtype=np.int64),
        axis_level=np.array([axis.level for axis in cluster.axes], dtype=np.int64),
        axis_stride=np.array([prod(sizes[a + 1 :]) for a in range(len(sizes))], dtype=np.int64),
        stride=np.array(cluster.strides, dtype=np.int64),
        members=np.array([level.count for level in levels], dtype=np.int64),
        offset=np.array(offsets, dtype=np.int64),
        shared=np.array([level.shared for level in levels], dtype=np.bool_),
        route_bandwidth=np.array(
            [min(level.bandwidth for level in levels[depth:]) for depth in range(len(levels))]
        ),
        level_latency=np.array([level.latency for level in levels]),
        resource_bandwidth=np.asarray(cluster.resource_bandwidths, dtype=np.float64),
        link_of=link_of,
        link_latency=np.array([link.latency for link in cluster.links] or [0.0]),
        first_link=cluster.num_resources - links,
        ports=_ports(cluster),
    )


def _ports(cluster: Cluster) -> Floats:
    """Per level: the bytes/s that one member can receive, all ways in together, the least latency, its devices."""
    found = []
    for level, stride in zip(cluster.levels, cluster.strides, strict=True):
        ways_in = np.zeros(cluster.num_devices // stride)
        latency = level.latency
        for link in cluster.links:
            first, second = (device // stride for device in link.devices)
            if first != second:
                ways_in[[first, second]] += link.bandwidth
                latency = min(latency, link.latency)
        own = level.bandwidth / level.count if level.shared else level.bandwidth
        found.append((own + ways_in.max(), latency, float(stride)))
    return np.array(found)
