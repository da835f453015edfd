"""What one process holds of a tensor, and which of several holders writes which elements.

    int64[10] in the pieces [0, 4) [3, 7) [6, 10)     a halo of one: elements 3 and 6 are held twice
    distinct_boxes                                    [0, 4) [4, 7) [7, 10)

Devices are numbered as the processes are, so the device of a process is its rank. Replicas keep
equal boxes: the caller chooses which of them acts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray

from graphwright.aten import tensor_type
from graphwright.errors import InvalidShard
from graphwright.ir import TensorType
from graphwright.plans import Box, Sharding, as_box, boxes
from graphwright.run.program import window

MAX_INTERLOCKED = 4096
"""Boxes that no cut along a dim separates, at most; those of any sharding form a grid."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shard:
    """What this process holds of a tensor: `local` is its box of a `type` under `sharding`."""

    name: str
    type: TensorType
    sharding: Sharding
    local: torch.Tensor


@dataclass(frozen=True, slots=True, eq=False)
class BoxedTensor:
    """A box of a tensor of `type`, and the memory that it is written from or read into."""

    type: TensorType
    box: Box
    tensor: torch.Tensor


def held_box(shard: Shard, rank: int) -> Box | None:
    """Where `local` lies in the whole tensor; None outside of the mesh. Raises on a misfit."""
    if rank not in shard.sharding.mesh.devices:
        return None
    position = shard.sharding.mesh.devices.index(rank)
    box = as_box(boxes(shard.sharding, shard.type.shape)[position])
    local, expected = shard.local, TensorType(sizes(box), shard.type.dtype)
    if local.layout != torch.strided or local.is_meta:
        raise InvalidShard(
            f"{shard.name} on rank {rank} is a {'meta' if local.is_meta else 'sparse'} tensor; "
            "give a dense one with values"
        )
    if tensor_type(local) != expected:
        raise InvalidShard(
            f"{shard.name} is {shard.type} under {shard.sharding}, of which rank {rank} holds "
            f"{expected} at {show(box)}; its local tensor is {tensor_type(local)}"
        )
    return box


def distinct_boxes(sharding: Sharding, shape: tuple[int, ...], name: str) -> NDArray[np.int64]:
    """As `boxes`, less what an earlier piece holds: equal or disjoint, and together the whole."""
    distinct = boxes(sharding, shape).copy()
    for dim, pieces in sharding.pieces:
        reached, own = 0, {}
        for start, stop in sorted(set(pieces)):
            if start > reached:
                break
            own[start, stop] = (min(reached, stop), stop)
            reached = max(reached, stop)
        if reached != shape[dim]:
            raise InvalidShard(
                f"{name} has {shape[dim]} elements along dim {dim}, but its pieces {pieces} leave "
                f"a gap after {reached}: nobody holds the rest"
            )
        distinct[:, dim] = [own[start, stop] for start, stop in distinct[:, dim].tolist()]
    return distinct


def whole_box(shape: Sequence[int]) -> Box:
    """All of a tensor."""
    return tuple((0, size) for size in shape)


def sizes(box: Box) -> tuple[int, ...]:
    """How long a box is along every dim."""
    return tuple(stop - start for start, stop in box)


def is_empty(box: Box) -> bool:
    """Whether a box holds no element at all; that of a 0-dim tensor holds one."""
    return prod(sizes(box)) == 0


def overlap(one: Box, other: Box) -> Box:
    """What two boxes have in common; empty where they have nothing."""
    pairs = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, other, strict=True)]
    return tuple((start, max(start, stop)) for start, stop in pairs)


def cover_once(parts: Sequence[Box], shape: Sequence[int]) -> bool:
    """Whether every element of a tensor lies in just one of these boxes."""
    filled = [part for part in parts if not is_empty(part)]
    return sum(prod(sizes(part)) for part in filled) == prod(shape) and _are_disjoint(filled)


def _are_disjoint(parts: Sequence[Box], dim: int = 0, failed: int = 0) -> bool:
    """Sort into runs that follow each other along a dim; look at each run along the next dim.

    Where no dim separates a run further (`failed` counts them), all pairs are compared.
    """
    if len(parts) < 2:
        return True
    rank = len(parts[0])
    if failed == rank:
        pairs = combinations(parts, 2)
        return len(parts) <= MAX_INTERLOCKED and all(is_empty(overlap(a, b)) for a, b in pairs)
    runs: list[list[Box]] = []
    end = 0
    for part in sorted(parts, key=lambda part: part[dim]):
        start, stop = part[dim]
        if not runs or start >= end:
            runs.append([])
        runs[-1].append(part)
        end = max(end, stop)
    failed = failed + 1 if len(runs) == 1 else 0
    return all(_are_disjoint(run, (dim + 1) % rank, failed) for run in runs)


def view_box(local: torch.Tensor, box: Box, wanted: Box) -> torch.Tensor:
    """The view of `local`, which lies at `box`, that lies at `wanted`."""
    starts = (start for start, _ in box)
    return window(local, [(lo - s, hi - s) for s, (lo, hi) in zip(starts, wanted, strict=True)])


def show(box: Sequence[tuple[int, int]]) -> str:
    """A box as one writes a slice: [0:4, 2:6]."""
    return f"[{', '.join(f'{start}:{stop}' for start, stop in box)}]"
