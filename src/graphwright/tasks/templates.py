"""The tasks of every call and of every movement, worked out once for a cluster and a cost model.

Equal calls under equal strategies have equal tasks, and so have tensors of one type that go from
one sharding to the same other: they share one template, which a block gives its place.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphwright.describe import PartCall
from graphwright.ir import CONSTANT_OP, TensorType
from graphwright.machine import Cluster, Device
from graphwright.plans import Mesh, Sharding, device_array, local_bytes
from graphwright.tasks.costs import Costs, Pooled, fuses, handles
from graphwright.tasks.fusion import ALONE, Fused
from graphwright.tasks.movement import (
    Ints,
    Movement,
    Tasks,
    common_places,
    movement,
    picoseconds,
)
from graphwright.tasks.placing import Placed
from graphwright.tasks.resharding import Order, reshard


class Templates:
    """The tasks of calls and movements on one cluster, by one cost model."""

    def __init__(self, cluster: Cluster, costs: Costs) -> None:
        self.cluster, self.costs = cluster, costs
        kinds = list(dict.fromkeys(cluster.devices))
        busy = any(not kind.overlaps or handles(costs, kind, cluster) for kind in kinds)
        self.pooled = Pooled(costs) if busy else costs
        self.kinds = kinds
        self.kind_of = np.array([kinds.index(d) for d in cluster.devices], dtype=np.int64)
        self.num_devices, self.resource_names = cluster.num_devices, cluster.resources
        self._calls: dict[tuple[str, Placed, Fused], Tasks] = {}
        self._movements: dict[tuple[TensorType, Sharding, Sharding, bool, Order], Movement] = {}

    def forget_beyond(self, most: int) -> None:
        """Begin anew once there are more of them than `most`."""
        if len(self._calls) + len(self._movements) > most:
            self._calls.clear()
            self._movements.clear()

    def devices(self, mesh: Mesh) -> Ints:
        """The device at each place of a mesh."""
        return device_array(mesh)

    def common_places(self, first: Mesh, second: Mesh) -> tuple[Ints, Ints]:
        """The places in two meshes of the devices that are in both."""
        return common_places(first, second, self.num_devices)

    def local_bytes(self, sharding: Sharding, type: TensorType) -> NDArray[np.int64]:
        """The bytes at each place of a sharding."""
        return local_bytes(sharding, type)

    def call(self, op: str, placed: Placed, is_view: bool, fused: Fused = ALONE) -> Tasks:
        """The parts of an operator, one for each device in the order of the mesh.

        What takes no time, a view or a constant, does not occupy its device either. `fused` says
        what of it stays inside its kernel.
        """
        tasks = self._calls.get((op, placed, fused))
        if tasks is None:
            computes = not is_view and op != CONSTANT_OP
            durations = self._durations(op, placed, computes, fused)
            tasks = self._parts(device_array(placed.mesh), durations)
            self._calls[op, placed, fused] = tasks
        return tasks

    def movement(
        self,
        type: TensorType,
        source: Sharding,
        target: Sharding,
        pooled: bool = False,
        order: Order = None,
    ) -> Movement:
        """The tasks that bring a tensor, laid out in an order, from one sharding to another.

        `pooled`: small sums go in buckets.
        """
        key = (type, source, target, pooled, order)
        tasks = self._movements.get(key)
        if tasks is None:
            costs = self.pooled if pooled else self.costs
            hops = reshard(self.cluster, costs, type, source, target, order).hops
            tasks = self._movements[key] = movement(hops, type, source, target)
        return tasks

    def _durations(
        self, op: str, placed: Placed, computes: bool, fused: Fused
    ) -> NDArray[np.int64]:
        """Picoseconds of each part."""
        table = np.zeros((len(placed.classes), len(self.kinds)), dtype=np.int64)
        if computes:
            for c, part in enumerate(placed.classes):
                for k, device in enumerate(self.kinds):
                    table[c, k] = picoseconds(self._seconds(op, part, device, fused))
        return table[placed.class_of, self.kind_of[device_array(placed.mesh)]]

    def _seconds(self, op: str, part: PartCall, device: Device, fused: Fused) -> float:
        costs, pace = self.costs, self.cluster.pace(device)
        if fused != ALONE and fuses(costs):
            return pace * costs.compute_fused(op, part.attrs, part.types, device, fused)
        return pace * costs.compute(op, part.attrs, part.types, device)

    def _parts(self, devices: Ints, duration: NDArray[np.int64]) -> Tasks:
        count, busy = len(duration), bool(duration.any())
        return Tasks(
            kind=np.zeros(count, np.uint8),
            duration=duration,
            device=devices,
            nbytes=np.zeros(count, np.int64),
            resource_ptr=np.arange(count + 1, dtype=np.int64) * int(busy),
            resource=devices if busy else devices[:0],
            load=np.zeros(count if busy else 0, np.int64),
        )
