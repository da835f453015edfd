"""The workers that arrays are tiled over: a cluster on which a transfer takes as long as it has
bytes, and the sides of the grid that its axes make.

    12 workers    axes 2, 2, 3    sides (2, 2) and (3,): a grid of 4 x 3

All workers share one medium without latency and compute infinitely fast, so the least time between
two shardings is the least number of bytes received. An array is cut along at most one dim for each
side: by rows 12 ways, by columns 12 ways, or in blocks, 4 x 3 or 3 x 4.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from math import inf, prod
from operator import index

from graphwright.errors import InvalidOption
from graphwright.frozen import FrozenDict
from graphwright.machine import Cluster, Device, Level

Sides = tuple[tuple[int, ...], ...]
"""Axes of a mesh, side by side."""
MOST_WORKERS = 1 << 16


@lru_cache(maxsize=64)
def worker_cluster(workers: int) -> Cluster:
    """The workers as a cluster."""
    try:
        count = index(workers)
    except TypeError:
        count = 0
    if isinstance(workers, bool) or not 1 <= count <= MOST_WORKERS:
        raise InvalidOption(
            f"workers has to be a whole number from 1 to {MOST_WORKERS:,}, not {workers!r}"
        )
    device = Device(
        name="worker",
        memory=1 << 60,
        rates=FrozenDict({"float32": 1e24}),
        bandwidth=1e24,
        launch=0.0,
    )
    level = Level(name="worker", count=count, bandwidth=1e9, latency=0.0, shared=True)
    return Cluster(name=f"workers:{count}", levels=(level,), devices=(device,) * count)


@lru_cache(maxsize=64)
def sides_of(cluster: Cluster, count: int = 2) -> Sides:
    """The axes in at most `count` sides, as nearly equal as they can be, the larger first."""
    sizes = [axis.size for axis in cluster.axes]
    best: tuple[float, Sides] = (inf, ())
    for cuts in _cuts(len(sizes), min(count, len(sizes))):
        sides = tuple(tuple(range(a, b)) for a, b in pairwise(cuts))
        lengths = [prod(sizes[axis] for axis in side) for side in sides]
        uneven = max(lengths, default=1) / min(lengths, default=1)
        if lengths == sorted(lengths, reverse=True):
            uneven -= 0.5  # rows are cut the most ways
        if uneven < best[0]:
            best = uneven, sides
    return best[1]


def _cuts(length: int, parts: int) -> list[tuple[int, ...]]:
    """Where a row of `length` may be cut into `parts`."""
    if parts <= 1:
        return [(0, length)] if length else [(0,)]
    return [
        (*before, length)
        for middle in range(parts - 1, length)
        for before in _cuts(middle, parts - 1)
    ]
