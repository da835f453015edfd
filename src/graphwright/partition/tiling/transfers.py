"""The bytes that workers receive while an array goes from each of some shardings to each of others.

    parts to parts    sum over workers of  |what it needs|  -  |what it needs and has|

which is exact for halos and uneven parts, and the least that any exchange takes. Terms have to be
added up on the way: those are asked of `tasks.reshard`, which knows every kind of transfer, as a
share of an array that is cut evenly; to shifted parts they are added up in even ones first. Shares
are kept from one array to the next, since on workers without latency they depend on the two
shardings alone.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from graphwright.ir import DTYPE_BYTES, TensorType
from graphwright.machine import Cluster
from graphwright.plans import (
    Mesh,
    Placement,
    Replicated,
    Sharding,
    Split,
    boxes,
    shared_sharding,
)
from graphwright.simulate import CostModel
from graphwright.tasks import reshard

Floats = NDArray[np.float64]
COSTS = CostModel(measured=False)
_ENTRIES = 1 << 20
"""So many overlaps are worked out at a time."""
_FEW_AXES = 3
_EVEN = 64
"""The size, for each worker, of a dim that stands for all that have an element for every worker."""


def transfer_bytes(
    cluster: Cluster,
    type: TensorType,
    sources: tuple[Sharding, ...],
    targets: tuple[Sharding, ...],
) -> Floats:
    """Bytes received by all workers from every one of `sources` to every one of `targets`."""
    moved = np.zeros((len(sources), len(targets)))
    whole_sources = [i for i, s in enumerate(sources) if not s.is_partial]
    whole_targets = [j for j, t in enumerate(targets) if not t.is_partial]
    if whole_sources and whole_targets:
        moved[np.ix_(whole_sources, whole_targets)] = _between_parts(
            type,
            tuple(sources[i] for i in whole_sources),
            tuple(targets[j] for j in whole_targets),
        )
    if len(whole_sources) < len(sources) or len(whole_targets) < len(targets):
        for i, source in enumerate(sources):
            for j, target in enumerate(targets):
                if source != target and (source.is_partial or target.is_partial):
                    moved[i, j] = _with_terms(cluster, type, source, target)
    return moved


def received(cluster: Cluster, type: TensorType, source: Sharding, target: Sharding) -> int:
    """The bytes of the transfers that bring an array from one sharding to another."""
    if source == target:
        return 0
    return _resharded(cluster, type, source, target)


def _between_parts(
    type: TensorType, sources: tuple[Sharding, ...], targets: tuple[Sharding, ...]
) -> Floats:
    had = np.stack([boxes(s, type.shape) for s in sources])
    needed = np.stack([boxes(t, type.shape) for t in targets])
    sizes = (needed[..., 1] - needed[..., 0]).prod(axis=2)
    moved = np.empty((len(sources), len(targets)))
    rows = max(1, _ENTRIES // max(1, needed[..., 0].size))
    for first in range(0, len(sources), rows):
        own = had[first : first + rows, None]
        overlap = np.minimum(own[..., 1], needed[None, ..., 1])
        overlap -= np.maximum(own[..., 0], needed[None, ..., 0])
        shared = overlap.clip(0).prod(axis=3)
        moved[first : first + rows] = (sizes[None] - shared).sum(axis=2)
    return moved * DTYPE_BYTES[type.dtype]


def _with_terms(cluster: Cluster, type: TensorType, source: Sharding, target: Sharding) -> float:
    if source.pieces or target.pieces:
        if source.pieces or target.is_partial:
            return float(_resharded(cluster, type, source, target))
        homes = _even_shardings(source.mesh, type.shape, _alike(source, target))
        added = [_with_terms(cluster, type, source, home) for home in homes]
        return float((_between_parts(type, homes, (target,))[:, 0] + added).min())
    even = _EVEN * cluster.num_devices
    shape = tuple(even if size >= cluster.num_devices else size for size in type.shape)
    return _share(cluster, shape, source, target) * type.nbytes


def _alike(source: Sharding, target: Sharding) -> tuple[int, ...]:
    """The kind of each axis: a few have a kind each, of many those that do the same have one."""
    if len(source.placements) <= _FEW_AXES:
        return tuple(range(len(source.placements)))
    kinds: dict[tuple[Placement, Placement], int] = {}
    pairs = zip(source.placements, target.placements, strict=True)
    return tuple(kinds.setdefault(pair, len(kinds)) for pair in pairs)


@lru_cache(maxsize=4096)
def _even_shardings(
    mesh: Mesh, shape: tuple[int, ...], alike: tuple[int, ...]
) -> tuple[Sharding, ...]:
    """Every sharding in even parts, with one choice for axes that are alike: on the way to others,
    terms are added up there."""
    choices: list[Placement] = [Replicated(), *map(Split, range(len(shape)))]
    every = (
        shared_sharding(mesh, tuple(some[kind] for kind in alike))
        for some in product(choices, repeat=max(alike) + 1)
    )
    return tuple(s for s in every if all(s.ways(d) <= n for d, n in enumerate(shape)))


@lru_cache(maxsize=1 << 16)
def _share(cluster: Cluster, shape: tuple[int, ...], source: Sharding, target: Sharding) -> float:
    """The bytes received, as a share of those of the array."""
    type = TensorType(shape, "float32")
    return _resharded(cluster, type, source, target) / max(1, type.nbytes)


@lru_cache(maxsize=1 << 16)
def _resharded(cluster: Cluster, type: TensorType, source: Sharding, target: Sharding) -> int:
    return reshard(cluster, COSTS, type, source, target).nbytes
