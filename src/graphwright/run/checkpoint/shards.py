"""What one process holds of a tensor, and who of several holders answers for which elements.

    int64[10] in the pieces [0, 4) [3, 7) [6, 10)       a halo of one: elements 3 and 6 are held twice
    distinct_boxes                                      [0, 4) [4, 7) [7, 10)

Devices are numbered as the processes are, so the device of a process is its rank. Replicas keep equal boxes: who of them
acts is chosen by the one who asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray

from graphwright.errors import InvalidShard
from graphwright.ir import TensorType
from graphwright.plans import Box, Sharding, as_box, boxes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shard:
    """The part of one tensor that this process holds: `local` is its box of a tensor of `type` under `sharding`."""

    name: str
    type: TensorType
    sharding: Sharding
    local: torch.Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A box of a tensor of `type`, and what lies there or shall lie there."""

    type: TensorType
    box: Box
    tensor: torch.Tensor


def held_box(shard: Shard, rank: int) -> Box | None:
    """Where `local` lies in the whole tensor, or None for a process outside of the mesh; refuses one that does not fit."""
    if rank not in shard.sharding.mesh.devices:
        return None
    position = shard.sharding.mesh.devices.index(rank)
    box = as_box(boxes(shard.sharding, shard.type.shape)[position])
    local, found = shard.local, str(shard.local.dtype).removeprefix("torch.")
    if local.layout != torch.strided or local.is_meta:
        raise InvalidShard(
            f"{shard.name} on rank {rank} is a {'meta' if local.is_meta else 'sparse'} tensor; give a dense one with values"
        )
    if tuple(local.shape) != sizes(box) or found != shard.type.dtype:
        raise InvalidShard(
            f"{shard.name} is {shard.type} under {shard.sharding}, of which rank {rank} holds "
            f"{TensorType(sizes(box), shard.type.dtype)} at {show(box)}; its local tensor is {found}{list(local.shape)}"
        )
    return box


def distinct_boxes(sharding: Sharding, shape: tuple[int, ...], name: str) -> NDArray[np.int64]:
    """As `boxes`, less what an earlier piece holds already: equal, or without an element in common, and all together the whole."""
    made = boxes(sharding, shape).copy()
    for dim, pieces in sharding.pieces:
        reached, own = 0, {}
        for start, stop in sorted(set(pieces)):
            if start > reached:
                break
            own[start, stop] = (min(reached, stop), stop)
            reached = max(reached, stop)
        if reached != shape[dim]:
            raise InvalidShard(
                f"{name} has {shape[dim]} elements along dim {dim}, but its pieces {pieces} leave a gap after {reached}: "
                "no process holds the whole"
            )
        made[:, dim] = [own[start, stop] for start, stop in made[:, dim].tolist()]
    return made


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


def cut(local: torch.Tensor, box: Box, wanted: Box) -> torch.Tensor:
    """The view of `local`, which lies at `box`, that lies at `wanted`."""
    for dim, ((start, _), (lo, hi)) in enumerate(zip(box, wanted, strict=True)):
        local = local.narrow(dim, lo - start, hi - lo)
    return local


def show(box: Sequence[tuple[int, int]]) -> str:
    """A box as one writes a slice: [0:4, 2:6]."""
    return f"[{', '.join(f'{start}:{stop}' for start, stop in box)}]"
