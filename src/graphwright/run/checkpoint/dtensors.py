"""Shards as PyTorch's DTensors, and back.

    10 elements, 4 ways       ours       0 2 5 7 10       balanced
                              DTensor    0 3 6 9 10       as torch.chunk: ceil(10 / 4), the rest
    (Split(0), Split(0))      ours       one cut in 2 * 2 parts
                              DTensor    cut in 2, and each of these again in 2

Where the cuts differ, processes send each other what is missing (`reshard`). DTensor's cuts are
`pieces` to us, so that the way back needs no communication.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch

from graphwright.aten import tensor_type
from graphwright.errors import InvalidShard
from graphwright.plans import (
    Box,
    Mesh,
    Partial,
    Placement,
    Replicated,
    Sharding,
    Split,
    as_box,
    boxes,
    part_numbers,
)
from graphwright.run.checkpoint.shards import (
    Shard,
    distinct_boxes,
    held_box,
    is_empty,
    overlap,
    sizes,
    view_box,
)
from graphwright.run.processes import rank_and_size

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor.placement_types import Placement as TorchPlacement

_REDUCERS = {"sum": "sum", "max": "max", "min": "min", "prod": "product"}


def to_dtensor(shard: Shard, device_mesh: DeviceMesh) -> DTensor:
    """The same tensor as a DTensor on a mesh of the same shape and ranks; all of them call this."""
    from torch.distributed.tensor import DTensor

    ours = shard.sharding.mesh
    theirs = mesh_of(device_mesh)
    if theirs != ours and theirs.devices == ours.devices and len(ours) == 1:  # it may have no axes
        alone = Sharding(theirs, (Replicated(),) * len(theirs.shape))
        shard = replace(shard, sharding=alone)
    elif theirs != ours:
        raise InvalidShard(
            f"{shard.name} lies on the devices {ours.devices} in the shape {ours.shape}, but the "
            f"device mesh has {theirs.devices} in {theirs.shape}; make it with "
            f"init_device_mesh(device, {ours.shape})"
        )
    shape = shard.type.shape
    placements = [_to_torch(placement, shard.name) for placement in shard.sharding.placements]
    local = reshard(shard, torch_cuts(shard.sharding, shape)).local
    strides = torch.empty(shape, device="meta").stride()
    return DTensor.from_local(
        local.contiguous(), device_mesh, placements, shape=torch.Size(shape), stride=strides
    )


def from_dtensor(name: str, tensor: DTensor, sharding: Sharding | None = None) -> Shard:
    """What this process holds of a DTensor, as it is cut or under another sharding of its mesh."""
    mesh = mesh_of(tensor.device_mesh)
    placements = tuple(_from_torch(placement, name) for placement in tensor.placements)
    type = tensor_type(tensor)
    cuts = torch_cuts(Sharding(mesh, placements), type.shape)
    shard = Shard(name=name, type=type, sharding=cuts, local=tensor.to_local().detach())
    return shard if sharding is None else reshard(shard, sharding)


def mesh_of(device_mesh: DeviceMesh) -> Mesh:
    """A device mesh as we write it."""
    ranks = device_mesh.mesh
    return Mesh(tuple(ranks.flatten().tolist()), tuple(ranks.shape))


def torch_cuts(sharding: Sharding, shape: tuple[int, ...]) -> Sharding:
    """The same placements with DTensor's cuts."""
    even = Sharding(sharding.mesh, sharding.placements)
    pieces = []
    for dim, size in enumerate(shape):
        axes = even.axes_of(dim)
        parts = [(0, size)]
        for axis in axes:
            parts = [part for whole in parts for part in _chunks(whole, sharding.mesh.shape[axis])]
        held = boxes(even, shape)[:, dim]
        if axes and not np.array_equal(np.array(parts)[part_numbers(sharding.mesh, axes)], held):
            pieces.append((dim, tuple(parts)))
    return Sharding(sharding.mesh, sharding.placements, tuple(pieces))


def reshard(shard: Shard, sharding: Sharding) -> Shard:
    """The same tensor under other cuts or splits of its mesh; all of the mesh call this."""
    rank, _ = rank_and_size()
    mesh, shape = shard.sharding.mesh, shard.type.shape
    partial, wanted_partial = (
        [isinstance(p, Partial) and p for p in s.placements] for s in (shard.sharding, sharding)
    )
    if sharding.mesh != mesh or partial != wanted_partial:
        raise InvalidShard(
            f"{shard.name} cannot go from {shard.sharding} to {sharding}: only cuts can change "
            "here, not the mesh or what is Partial"
        )
    box = held_box(shard, rank)
    wanted = [as_box(bounds) for bounds in boxes(sharding, shape)]
    if box is None or wanted == [as_box(bounds) for bounds in boxes(shard.sharding, shape)]:
        return replace(shard, sharding=sharding)
    terms = part_numbers(mesh, tuple(axis for axis, is_term in enumerate(partial) if is_term))
    moves = _moves(
        [as_box(bounds) for bounds in distinct_boxes(shard.sharding, shape, shard.name)],
        wanted,
        terms.tolist(),
    )
    position = mesh.devices.index(rank)
    local = shard.local.new_empty(sizes(wanted[position]))
    _exchange(shard.local.detach(), box, local, wanted[position], moves, position, mesh.devices)
    return replace(shard, sharding=sharding, local=local)


def _moves(own: list[Box], wanted: list[Box], terms: Sequence[int]) -> list[tuple[int, int, Box]]:
    """(from, to, box) of all that devices need; from itself if it can, else replicas in turn."""
    holders: dict[tuple[int, Box], list[int]] = {}
    for device, box in enumerate(own):
        holders.setdefault((terms[device], box), []).append(device)
    moves = []
    for (term, box), replicas in holders.items():
        for device, want in enumerate(wanted):
            common = overlap(box, want)
            if terms[device] == term and not is_empty(common):
                sender = device if device in replicas else replicas[device % len(replicas)]
                moves.append((sender, device, common))
    return moves


def _exchange(
    local: torch.Tensor,
    box: Box,
    target: torch.Tensor,
    wanted: Box,
    moves: list[tuple[int, int, Box]],
    position: int,
    ranks: tuple[int, ...],
) -> None:
    """Send and receive bytes, whatever the dtype: not every backend knows every one."""
    import torch.distributed as dist

    calls, received = [], []
    for sender, receiver, common in moves:
        if sender == receiver == position:
            view_box(target, wanted, common).copy_(view_box(local, box, common))
        elif sender == position:
            sent = view_box(local, box, common).contiguous().reshape(-1).view(torch.uint8)
            calls.append(dist.P2POp(dist.isend, sent, ranks[receiver]))
        elif receiver == position:
            buffer = local.new_empty(sizes(common))
            received.append((common, buffer))
            calls.append(dist.P2POp(dist.irecv, buffer.view(-1).view(torch.uint8), ranks[sender]))
    for work in dist.batch_isend_irecv(calls) if calls else []:
        work.wait()
    for common, buffer in received:
        view_box(target, wanted, common).copy_(buffer)


def _chunks(whole: tuple[int, int], ways: int) -> list[tuple[int, int]]:
    """As torch.chunk cuts: the same for each, and the last ones take what is left, or nothing."""
    start, stop = whole
    each = -(-(stop - start) // ways)
    return list(pairwise(min(start + each * part, stop) for part in range(ways + 1)))


def _to_torch(placement: Placement, name: str) -> TorchPlacement:
    from torch.distributed import tensor

    match placement:
        case Split(dim):
            return tensor.Shard(dim)
        case Replicated():
            return tensor.Replicate()
        case Partial(reducer):
            if reducer in _REDUCERS:
                return tensor.Partial(_REDUCERS[reducer])
            raise InvalidShard(f"{name} is {placement}, which no DTensor can be; reduce it first")


def _from_torch(placement: TorchPlacement, name: str) -> Placement:
    from torch.distributed import tensor

    ours = {theirs: name for name, theirs in _REDUCERS.items()}
    if type(placement) is tensor.Shard:
        return Split(placement.dim)
    if isinstance(placement, tensor.Replicate):
        return Replicated()
    if isinstance(placement, tensor.Partial) and placement.reduce_op in ours:
        return Partial(ours[placement.reduce_op])
    raise InvalidShard(
        f"{name} is placed by {placement!r}, for which there is no sharding; redistribute it to "
        "Shard or Replicate first"
    )
