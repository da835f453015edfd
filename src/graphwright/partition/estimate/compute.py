"""How long the parts of an operator compute, for all of its configurations at once.

    seconds = launch + max(operations / parts / rate, bytes of the part / bandwidth) * imbalance

with the shares of rate and bandwidth that the device reaches (`CostModel.seconds`).

`parts` are all ways that the operator's indices are split; what a part reads and writes follows
from the layouts. The description counts operations and bytes of the whole call. Where the cost
model has measurements for the devices, parts are cut out one by one and looked up.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphwright.describe import Arithmetic, PartCall, tile
from graphwright.errors import InvalidStrategy, MisalignedSplit
from graphwright.ir import CONSTANT_OP
from graphwright.machine import Cluster, Device
from graphwright.partition.space import Options, num_parts, ways_of
from graphwright.simulate import CostModel
from graphwright.tasks import ALONE, Costs, GraphFacts, fuses, fusion_of

Floats = NDArray[np.float64]


class ComputeTimes:
    """Seconds of operators on the slowest devices of a cluster."""

    def __init__(self, facts: GraphFacts, cluster: Cluster, costs: Costs) -> None:
        self.facts, self.costs = facts, costs
        self.formulas = costs if isinstance(costs, CostModel) else CostModel(measured=False)
        self.fused = facts.fused(fusion_of(costs))
        self.sizes = np.array([axis.size for axis in cluster.axes], dtype=np.float64)
        self.devices = tuple(dict.fromkeys(cluster.devices))
        self.cluster = cluster
        self.exact = not isinstance(costs, CostModel) or any(
            costs.has_measured(device) for device in self.devices
        )

    def seconds(self, i: int, options: Options, chosen: NDArray[np.int16]) -> Floats:
        """Seconds of node `i` for rows of option numbers, one for each axis."""
        if self.facts.is_view[i] or self.facts.graph.nodes[i].op == CONSTANT_OP:
            return np.zeros(len(chosen))
        rows, inverse = np.unique(chosen, axis=0, return_inverse=True)
        formula = self._looked_up if self.exact else self._by_formula
        return formula(i, options, rows)[inverse.reshape(-1)]

    def _by_formula(self, i: int, options: Options, chosen: NDArray[np.int16]) -> Floats:
        node, types = self.facts.graph.nodes[i], self.facts.types[i]
        whole_call = self.formulas.work(node.op, self.facts.attrs[i], types)
        if whole_call.operations == 0 and whole_call.bytes == 0:
            return np.zeros(len(chosen))
        whole, part = 0.0, np.zeros(len(chosen))
        fused = self.fused[i]
        for arg, type in enumerate(types.inputs):
            if type is not None:
                own = type.nbytes * (1 - fused.inputs[arg] if fused != ALONE else 1.0)
                whole += own
                part += own / ways_of(options.need[chosen, arg], self.sizes)
        for output, type in enumerate(types.outputs):
            if fused != ALONE and fused.outputs[output]:
                continue
            whole += type.nbytes
            part += type.nbytes / ways_of(options.made[chosen, output], self.sizes)
        parts, imbalance = np.ones(len(chosen)), np.ones(len(chosen))
        for option, units in enumerate(options.units):
            if units:
                ways = np.where(chosen == option, self.sizes, 1.0).prod(axis=1)
                parts *= ways
                imbalance *= np.ceil(units / ways) * ways / units
        moved, what = float(whole_call.bytes), whole_call.what
        if fused != ALONE:
            moved = whole
            if what.kind == "cast" and self.formulas.fusion == "all":
                what = Arithmetic("elementwise", what.dtype)
        read = moved * np.minimum(1.0, part / max(whole, 1))
        operations, slowest = whole_call.operations * imbalance / parts, np.zeros(len(chosen))
        for device in self.devices:
            seconds = self.formulas.seconds(device, what, operations, read)
            seconds = seconds + (device.launch if fused.launches else 0.0)
            slowest = np.maximum(slowest, self.cluster.pace(device) * seconds)
        return slowest

    def _looked_up(self, i: int, options: Options, chosen: NDArray[np.int16]) -> Floats:
        node, attrs, types = self.facts.graph.nodes[i], self.facts.attrs[i], self.facts.types[i]
        seconds = np.empty(len(chosen))
        for row, numbers in enumerate(chosen):
            ways = num_parts([options.choices[n] for n in numbers], self.sizes.astype(int).tolist())
            try:
                classes = tile(node.op, attrs, types, ways).classes
            except (MisalignedSplit, InvalidStrategy):
                seconds[row] = np.inf
                continue
            seconds[row] = max(
                self._part_seconds(i, part, device) for part in classes for device in self.devices
            )
        return seconds

    def _part_seconds(self, i: int, part: PartCall, device: Device) -> float:
        op, costs = self.facts.graph.nodes[i].op, self.costs
        pace = self.cluster.pace(device)
        if fuses(costs):
            return pace * costs.compute_fused(op, part.attrs, part.types, device, self.fused[i])
        return pace * costs.compute(op, part.attrs, part.types, device)
