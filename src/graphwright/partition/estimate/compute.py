"""How long the parts of an operator compute, for all of its configurations at once.

    seconds = launch + max(operations / parts / rate, bytes of the part / bandwidth) * imbalance

`parts` are all ways that the operator's indices are split; what a part reads and writes follows
from the layouts. The description counts operations and bytes of the whole call. Where the cost
model has measurements for the devices, parts are cut out one by one and looked up.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphwright.describe import cost, tile
from graphwright.errors import InvalidStrategy, MisalignedSplit
from graphwright.ir import CONSTANT_OP
from graphwright.machine import Cluster
from graphwright.partition.space import Options, num_parts, ways_of
from graphwright.simulate import CostModel, rate_dtype
from graphwright.tasks import Costs, GraphFacts

Floats = NDArray[np.float64]


class ComputeTimes:
    """Seconds of operators on the slowest devices of a cluster."""

    def __init__(self, facts: GraphFacts, cluster: Cluster, costs: Costs) -> None:
        self.facts, self.costs = facts, costs
        self.sizes = np.array([axis.size for axis in cluster.axes], dtype=np.float64)
        self.devices = tuple(dict.fromkeys(cluster.devices))
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
        whole_call = cost(node.op, self.facts.attrs[i], types)
        if whole_call.operations == 0 and whole_call.bytes == 0:
            return np.zeros(len(chosen))
        whole, part = 0.0, np.zeros(len(chosen))
        for arg, type in enumerate(types.inputs):
            if type is not None:
                whole += type.nbytes
                part += type.nbytes / ways_of(options.need[chosen, arg], self.sizes)
        for output, type in enumerate(types.outputs):
            whole += type.nbytes
            part += type.nbytes / ways_of(options.made[chosen, output], self.sizes)
        parts, imbalance = np.ones(len(chosen)), np.ones(len(chosen))
        for option, units in enumerate(options.units):
            if units:
                ways = np.where(chosen == option, self.sizes, 1.0).prod(axis=1)
                parts *= ways
                imbalance *= np.ceil(units / ways) * ways / units
        read = whole_call.bytes * np.minimum(1.0, part / max(whole, 1))
        slowest = np.zeros(len(chosen))
        for device in self.devices:
            arithmetic = whole_call.operations * imbalance / parts / device.rate(rate_dtype(types))
            seconds = device.launch + np.maximum(arithmetic, read / device.bandwidth)
            slowest = np.maximum(slowest, seconds)
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
                self.costs.compute(node.op, part.attrs, part.types, device)
                for part in classes
                for device in self.devices
            )
        return seconds
