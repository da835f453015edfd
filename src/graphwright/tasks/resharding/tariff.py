"""Prices of collectives over axes of a mesh, as lines or points over bytes: asked of the cost model
once, read by compiled code.

    seconds |        o     a line where the model is one, the model's own points where it is not:
            |     o        between them the bandwidth is interpolated
            |  o
            +----------- bytes of the tensor that one group gathers, reduces or exchanges

On the whole mesh of a cluster whose levels are switches or buses, axes of one level are alike, so a
group is how many members of each level it spans; with explicit links, and on other meshes, every
set of axes is priced by itself. A price is asked when a search has found it missing.
"""

from __future__ import annotations

from math import prod
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from graphwright.ir import TensorType
from graphwright.machine import Cluster
from graphwright.plans import Mesh, Replicated, Sharding, Split, transfers, whole_mesh
from graphwright.tasks.costs import Costs
from graphwright.tasks.resharding.hops import Hop
from graphwright.tasks.resharding.pricing import Pricer
from graphwright.tasks.resharding.states import Axes, Rates

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_SIZES = 41
"""Prices that are no straight line are asked for at 2^0 to 2^40 bytes."""
_PROBES = (2**8, 2**16, 2**24)
_STRAIGHT = 1e-6
_MOST_SETS = 256
"""With explicit links, every set of axes has its own price up to so many sets."""


class Tariff:
    """Prices of collectives on one mesh, by one cost model, which is not kept here: it may come to
    an end.

    `rates.points` by kind (its place in TRANSFERS) and group are seconds at 2^i bytes; or, after a
    -1, latency and seconds per byte; NaN as long as nobody has asked. `rates.group_of` is for every
    set of axes, as bits, the number of its group.
    """

    def __init__(self, cluster: Cluster, mesh: Mesh) -> None:
        self.cluster, self.mesh = cluster, mesh
        whole = mesh == whole_mesh(cluster)
        levels = [axis.level for axis in cluster.axes] if whole else [0] * len(mesh.shape)
        self.axes = Axes(
            sizes=np.array(mesh.shape, dtype=np.int64),
            levels=np.array(levels, dtype=np.int64),
            ports=_ports(cluster) if whole else np.zeros((0, 3)),
        )
        sets = np.arange(1 << len(mesh.shape))
        self.first, group_of = sets, sets.astype(np.int32)
        if whole and not (cluster.links and len(sets) <= _MOST_SETS):
            spans = np.ones((len(sets), len(cluster.levels)), dtype=np.int64)
            for axis, (size, level) in enumerate(zip(mesh.shape, levels, strict=True)):
                spans[:, level] *= np.where(sets >> axis & 1, size, 1)
            _, self.first, numbers = np.unique(
                spans, axis=0, return_index=True, return_inverse=True
            )
            group_of = numbers.reshape(-1).astype(np.int32)
        points = np.full((len(transfers.TRANSFERS), len(self.first), _SIZES), np.nan)
        self.rates = Rates(group_of=group_of, points=points)

    def ask(self, costs: Costs, number: int, span: int) -> None:
        """Fill in the price of a collective over a set of axes."""
        group = self.rates.group_of[span]
        axes = tuple(a for a in range(len(self.mesh.shape)) if self.first[group] >> a & 1)
        ways = prod(self.mesh.shape[a] for a in axes)
        points = self.rates.points[number, group]
        sizes = [ways * ways * probe for probe in _PROBES]
        low, middle, high = (self._seconds(costs, number, axes, size) for size in sizes)
        slope = (high - low) / (sizes[2] - sizes[0])
        if abs(low + slope * (sizes[1] - sizes[0]) - middle) <= _STRAIGHT * middle:
            points[:3] = -1.0, low - slope * sizes[0], slope
        else:
            points[:] = [self._seconds(costs, number, axes, 2**i) for i in range(_SIZES)]

    def _seconds(self, costs: Costs, number: int, axes: tuple[int, ...], size: int) -> float:
        """Seconds for a tensor of `size` bytes; between parts, that is what each device has."""
        kind = transfers.TRANSFERS[number]
        assert isinstance(kind, transfers.GroupKind)
        ways = prod(self.mesh.shape[a] for a in axes)
        both = isinstance(kind.before, Split) and isinstance(kind.after, Split)
        source, target = (
            Sharding(
                self.mesh,
                tuple(end if a in axes else Replicated() for a in range(len(self.mesh.shape))),
            )
            for end in (kind.before, kind.after)
        )
        type = TensorType((ways, size) if both else (size,), "uint8")
        return Pricer(self.cluster, costs, type).price(Hop(kind, source, target)).seconds


_TARIFFS: WeakKeyDictionary[Costs, dict[tuple[Cluster, Mesh], Tariff]] = WeakKeyDictionary()
_MOST_TARIFFS = 256


def tariff_of(cluster: Cluster, mesh: Mesh, costs: Costs) -> Tariff:
    """The tariff of a mesh, the same as long as there is the cost model."""
    try:
        known = _TARIFFS.setdefault(costs, {})
    except TypeError:  # it can't be referred to weakly, or has no hash
        return Tariff(cluster, mesh)
    if len(known) > _MOST_TARIFFS:
        known.clear()
    tariff = known.get((cluster, mesh))
    if tariff is None:
        tariff = known[cluster, mesh] = Tariff(cluster, mesh)
    return tariff


def _ports(cluster: Cluster) -> Floats:
    """Per level: the bytes/s that a member can receive, the least latency, its devices."""
    ports = []
    for level, stride in zip(cluster.levels, cluster.strides, strict=True):
        ways_in = np.zeros(cluster.num_devices // stride)
        latency = level.latency
        for link in cluster.links:
            first, second = (device // stride for device in link.devices)
            if first != second:
                ways_in[[first, second]] += link.bandwidth
                latency = min(latency, link.latency)
        own = level.rate / level.count if level.shared else level.rate
        ports.append((own + ways_in.max(), latency, float(stride)))
    return np.array(ports)
