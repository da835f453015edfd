"""What the task graph asks of a cost model: how long a part computes, how long a transfer takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from graphwright.describe import Types
from graphwright.ir import Attr
from graphwright.machine import Cluster, Device
from graphwright.plans import transfers
from graphwright.tasks.fusion import Fused, Fusion


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Traffic:
    """Transfers that run at once and share links.

    `nbytes` is the size that a measurement would name: of the tensor that one group gathers,
    reduces or exchanges, or of the one message. `spans` says, for every level of the cluster, how
    many of its members one group spans; `contenders` how many groups are on the busiest link.
    `loads` are the bytes on each of the `resources`; `floor` is what they take at least, in
    seconds, on the slowest stretch of their routes, which may lie inside what a link connects.
    """

    cluster: Cluster
    kind: transfers.TransferKind
    nbytes: int
    spans: tuple[int, ...]
    contenders: int
    resources: NDArray[np.int32]
    loads: NDArray[np.int64]
    floor: float = 0.0


class Costs(Protocol):
    """Seconds for what the tasks do.

    A model that knows measurements has `formulas`, another one that does not: by that the hops
    between two shardings are chosen, so that what is simulated on one machine is what runs on all.
    """

    def compute(self, op: str, attrs: Mapping[str, Attr], types: Types, device: Device) -> float:
        """Seconds that one part of an operator takes on a device."""
        ...

    def communicate(self, traffic: Traffic) -> float:
        """Seconds from the start to the end of a hop's transfers."""
        ...


class HandlingCosts(Costs, Protocol):
    """Costs that know what transfers take of the devices at their ends."""

    def handle(
        self, kind: transfers.TransferKind, nbytes: float, device: Device, cluster: Cluster
    ) -> float:
        """Seconds of its own time that a device takes for a transfer by which it gets `nbytes`."""
        ...


def handling_of(
    costs: Costs, kind: transfers.TransferKind, nbytes: float, device: Device, cluster: Cluster
) -> float:
    """What a cost model says of it, else the device's own figures."""
    handle = getattr(costs, "handle", None)
    if handle is None:
        return device.handles(nbytes)
    return float(handle(kind, nbytes, device, cluster))


def handles(costs: Costs, device: Device, cluster: Cluster) -> bool:
    """Whether transfers take some of a device's own time, though it computes meanwhile."""
    return device.overlaps and handling_of(costs, transfers.Send(), 1.0, device, cluster) > 0


class FusedCosts(Costs, Protocol):
    """Costs of kernels that may be several operators."""

    fusion: Fusion

    def compute_fused(
        self, op: str, attrs: Mapping[str, Attr], types: Types, device: Device, fused: Fused
    ) -> float:
        """Seconds that one part of an operator adds to its kernel."""
        ...


def fuses(costs: Costs) -> TypeGuard[FusedCosts]:
    """Whether a cost model prices kernels of several operators."""
    return fusion_of(costs) != "none"


def fusion_of(costs: Costs) -> Fusion:
    """Which operators a cost model takes for one kernel."""
    fusion: Fusion = getattr(costs, "fusion", "none")
    return fusion


BUCKET_BYTES = 4 << 20
"""The most bytes in one bucket of small sums; a sum beyond half of it goes by itself
(`lower.buckets`)."""


class Pooled:
    """Costs of gradients where devices have to see to transfers: a small sum takes its share of a
    bucket.

    Elsewhere computing hides what starting many sums takes.
    """

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        formulas = formulas_of(costs)
        self.formulas: Costs = self if formulas is costs else Pooled(formulas)

    def compute(self, op: str, attrs: Mapping[str, Attr], types: Types, device: Device) -> float:
        """Seconds that one part of an operator takes on a device."""
        return self.costs.compute(op, attrs, types, device)

    def communicate(self, traffic: Traffic) -> float:
        """Seconds from the start to the end of a hop's transfers."""
        if (
            not isinstance(traffic.kind, transfers.AllReduce)
            or not 0 < traffic.nbytes <= BUCKET_BYTES // 2
        ):
            return self.costs.communicate(traffic)
        times = BUCKET_BYTES // traffic.nbytes
        bucket = replace(
            traffic,
            nbytes=times * traffic.nbytes,
            loads=times * traffic.loads,
            floor=times * traffic.floor,
        )
        return self.costs.communicate(bucket) / times

    def handle(
        self, kind: transfers.TransferKind, nbytes: float, device: Device, cluster: Cluster
    ) -> float:
        """Seconds of its own time that a device takes for a transfer by which it gets `nbytes`."""
        times = 1
        if isinstance(kind, transfers.AllReduce) and 0 < nbytes <= BUCKET_BYTES // 2:
            times = int(BUCKET_BYTES // nbytes)
        return handling_of(self.costs, kind, times * nbytes, device, cluster) / times


def formulas_of(costs: Costs) -> Costs:
    """The cost model without measurements."""
    formulas: Costs = getattr(costs, "formulas", costs)
    return formulas
