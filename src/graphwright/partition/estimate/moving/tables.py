"""What bringing a tensor from each of many shardings to each of many others takes: tables for the
search.

    seconds[u, v]   about tasks.reshard(cluster, costs, type, sources[u], targets[v]).seconds
    nbytes[u, v]    about ... .nbytes: the bytes that all devices together receive

The paths are those that `tasks.reshard` finds, by the same search (`tasks.paths`) over the same
prices of collectives (`tasks.Tariff`). What differs: here nothing is asked on the way, so what
fetching takes goes by formulas over shares of the tensor (`messages`), kept from one table to the
next, as if parts were even; and what the search says a path takes is the entry. Where parts are
even, an entry is the exact price of its path (`tests/property/test_moving_laws.py`). On more than
256 devices fetches are counted for one device in place of many that do the same, and are averages
where very many tiles are needed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphwright.ir import DTYPE_BYTES, TensorType
from graphwright.machine import Cluster
from graphwright.partition.estimate.moving.messages import (
    MOST_AXES,
    Known,
    Machine,
    fetch,
    new_known,
    new_machine,
)
from graphwright.plans import whole_mesh
from graphwright.tasks import Costs, compiled, paths, states, tariff_of

Codes = NDArray[np.int8]
Floats = NDArray[np.float64]

_KNOWN = 1 << 17


class Prices:
    """Tables of what moving tensors on the whole mesh of a cluster takes; see the module."""

    def __init__(self, cluster: Cluster, costs: Costs) -> None:
        self.cluster, self.costs = cluster, costs
        assert len(cluster.axes) <= MOST_AXES, (
            f"{cluster.name} has more than {1 << MOST_AXES} devices"
        )
        self._tariff = tariff_of(cluster, whole_mesh(cluster), costs)
        self._machine = new_machine(cluster, self._tariff.axes.ports)
        self._known = new_known(_KNOWN)

    def table(self, type: TensorType, sources: Codes, targets: Codes) -> tuple[Floats, Floats]:
        """Seconds and bytes moved from every one of `sources` to every one of `targets`."""
        sources = np.ascontiguousarray(sources, dtype=np.int8)
        targets = np.ascontiguousarray(targets, dtype=np.int8)
        seconds = np.empty((len(sources), len(targets)))
        moved = np.empty_like(seconds)
        tariff = self._tariff
        search = states.new_search(type.shape, (), np.zeros(1))
        entry, status, width = 0, search[0], float(DTYPE_BYTES[type.dtype])
        while entry < seconds.size:
            entry = fill(
                self._machine, self._known, search, tariff.rates, tariff.axes, width, sources,
                targets, entry, seconds, moved,
            )  # fmt: skip
            if entry < seconds.size:
                tariff.ask(self.costs, int(status["kind"]), int(status["span"]))
        return seconds, moved


@compiled
def fill(
    machine: Machine,
    known: Known,
    search: states.Records,
    rates: states.Rates,
    axes: states.Axes,
    width: float,
    sources: Codes,
    targets: Codes,
    first: int,
    seconds: Floats,
    moved: Floats,
) -> int:
    """Fill in a table from entry `first` on; returns the entry at which a price is missing."""
    s = search[0]
    for entry in range(first, seconds.size):
        u, v = entry // len(targets), entry % len(targets)
        source, target = sources[u], targets[v]
        alike = True
        for a in range(source.size):
            alike = alike and source[a] == target[a]
        if alike:
            seconds[u, v], moved[u, v] = 0.0, 0.0
            continue
        paths.begin(search, rates, axes, source, target, width)
        outcome = paths.advance(search, rates)
        while outcome == paths.FETCH:
            took, carried = fetch(machine, known, s)
            paths.arrive(search, took, carried)
            outcome = paths.advance(search, rates)
        if outcome == paths.PRICE:
            return entry
        seconds[u, v], moved[u, v] = s.best, s.moved
    return seconds.size
