"""One hop of a movement as one rank's instruction.

all_gather       parts along a dim, in the order of the group
reduce_scatter   terms to parts along a dim
all_reduce       terms to the whole
all_to_all       an exchange within a group
exchange         regions, message by message: halos, shifts, other devices
slice            a region of what is there, or zero for terms of which another rank has the only one
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from graphwright.ir import TensorType
from graphwright.machine import Cluster
from graphwright.plans import (
    Box,
    Collective,
    Cut,
    Exchange,
    Mesh,
    Partial,
    Sharding,
    Split,
    as_box,
    boxes,
    transfers,
)
from graphwright.tasks import Hop, Order, changed_axes, fetch


def group_of(mesh: Mesh, axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """The ranks that differ from one along some axes only, in the order of these."""
    places = np.arange(len(mesh)).reshape(mesh.shape)
    here = list(np.unravel_index(mesh.devices.index(rank), mesh.shape))
    index = tuple(slice(None) if a in axes else here[a] for a in range(len(mesh.shape)))
    return tuple(mesh.devices[p] for p in places[index].reshape(-1).tolist())


def lower_hop(
    hop: Hop,
    tensor: str,
    type: TensorType,
    cluster: Cluster,
    rank: int,
    value: int | None,
    output: int | None,
    tag: int,
) -> Collective | Exchange:
    """What a rank does in a hop that transfers something."""
    if isinstance(hop.kind, transfers.Exchange):
        return _exchange(hop, tensor, type, cluster, rank, value, output, tag)
    assert value is not None and output is not None
    group = group_of(hop.source.mesh, changed_axes(hop), rank)
    if isinstance(hop.kind, transfers.CollectiveKind) and _nests(hop):
        return _collective(hop.kind, hop, tensor, type, group, value, output)
    return _within(hop, tensor, type, rank, group, value, output, tag)


def _nests(hop: Hop) -> bool:
    """Whether the parts of a group lie side by side; parts with halos overlap."""
    return hop.kind.reduces or not hop.source.pieces


def _collective(
    kind: transfers.CollectiveKind,
    hop: Hop,
    tensor: str,
    type: TensorType,
    group: tuple[int, ...],
    value: int,
    output: int,
) -> Collective:
    """A collective along the changed axes: a reducer for terms, a dim and sizes for parts."""
    axis = changed_axes(hop)[0]
    before, after = hop.source.placements[axis], hop.target.placements[axis]
    reducer = before.reducer if isinstance(before, Partial) else "sum"
    dim, sizes = 0, tuple[int, ...]()
    for sharding, placement in ((hop.source, before), (hop.target, after)):
        if isinstance(placement, Split):
            dim = placement.dim
            sizes = _sizes(sharding, type, group, dim)
    return Collective(
        kind=kind, tensor=tensor, group=group, value=value, output=output, dim=dim,
        reducer=reducer, sizes=sizes,
    )  # fmt: skip


def laid_out(what: Collective | Exchange, order: Order) -> Collective | Exchange:
    """The same with dims as they lie in memory: nothing is turned to be sent."""
    if order is None:
        return what
    if isinstance(what, Collective):
        dim = order.index(what.dim) if what.sizes else what.dim
        return replace(what, dim=dim, order=order)

    def turned(region: Box) -> Box:
        return tuple(region[dim] for dim in order)

    shape = tuple(what.type.shape[dim] for dim in order)
    return replace(
        what,
        order=order,
        type=TensorType(shape, what.type.dtype),
        sends=tuple((rank, turned(region)) for rank, region in what.sends),
        receives=tuple((rank, turned(region)) for rank, region in what.receives),
        own=tuple((turned(source), turned(target)) for source, target in what.own),
    )


def lower_slice(hop: Hop, type: TensorType, rank: int, value: int, output: int) -> Cut:
    """The part that a rank needs of what it has: of a slice, or if nobody lacks anything."""
    have, need = _box(hop.source, type, rank), _box(hop.target, type, rank)
    mesh = hop.target.mesh
    here = np.unravel_index(mesh.devices.index(rank), mesh.shape)
    zero = isinstance(hop.kind, transfers.Slice) and any(
        here[axis] > 0 and hop.target.placements[axis] == Partial("sum")
        for axis in changed_axes(hop)
    )
    return Cut(value=value, output=output, region=_relative(need, have), zero=zero)


def _sizes(sharding: Sharding, type: TensorType, group: Sequence[int], dim: int) -> tuple[int, ...]:
    held = [_box(sharding, type, rank)[dim] for rank in group]
    return tuple(stop - start for start, stop in held)


def _box(sharding: Sharding, type: TensorType, rank: int) -> Box:
    return as_box(boxes(sharding, type.shape)[sharding.mesh.devices.index(rank)])


def _relative(region: Box, origin: Box) -> Box:
    return tuple((a - o, b - o) for (a, b), (o, _) in zip(region, origin, strict=True))


def _common(a: Box, b: Box) -> Box | None:
    common = tuple((max(p, r), min(q, s)) for (p, q), (r, s) in zip(a, b, strict=True))
    return common if all(start < stop for start, stop in common) else None


def _within(
    hop: Hop,
    tensor: str,
    type: TensorType,
    rank: int,
    group: tuple[int, ...],
    value: int,
    output: int,
    tag: int,
) -> Exchange:
    """Everybody in a group gets what it lacks, each region from the first who has it."""
    have, need = _box(hop.source, type, rank), _box(hop.target, type, rank)
    sends: list[tuple[int, Box]] = []
    receives: list[tuple[int, Box]] = []
    own: list[tuple[Box, Box]] = []
    overlapping = bool(hop.source.pieces)
    for other in group:
        theirs, wants = _box(hop.source, type, other), _box(hop.target, type, other)
        if other == rank:
            common = _common(have, need)
            if common is not None:
                own.append((_relative(common, have), _relative(common, need)))
            continue
        to, from_ = _common(have, wants), _common(theirs, need)
        if to is not None and not (overlapping and _common(to, theirs) == to):
            sends.append((other, _relative(to, have)))
        if from_ is not None and not (overlapping and _common(from_, have) == from_):
            receives.append((other, _relative(from_, need)))
    return Exchange(
        tensor=tensor, tag=tag, value=value, output=output, type=_local(need, type),
        sends=tuple(sends), receives=tuple(receives), own=tuple(own),
    )  # fmt: skip


def _exchange(
    hop: Hop,
    tensor: str,
    type: TensorType,
    cluster: Cluster,
    rank: int,
    value: int | None,
    output: int | None,
    tag: int,
) -> Exchange:
    """The regions that a rank sends, receives and has itself."""
    fetches = fetch(cluster, type.shape, hop.source, hop.target)
    have = None if value is None else _box(hop.source, type, rank)
    need = None if output is None else _box(hop.target, type, rank)
    sends: list[tuple[int, Box]] = []
    receives: list[tuple[int, Box]] = []
    own: list[tuple[Box, Box]] = []
    mine = (fetches.senders == rank) | (fetches.receivers == rank)
    for sender, receiver, bounds in zip(
        fetches.senders[mine].tolist(),
        fetches.receivers[mine].tolist(),
        fetches.regions[mine],
        strict=True,
    ):
        region = as_box(bounds)
        if sender == receiver:
            assert have is not None and need is not None
            own.append((_relative(region, have), _relative(region, need)))
        elif sender == rank:
            assert have is not None
            sends.append((receiver, _relative(region, have)))
        else:
            assert need is not None
            receives.append((sender, _relative(region, need)))
    return Exchange(
        tensor=tensor, tag=tag, value=value, output=output,
        type=type if need is None else _local(need, type),
        sends=tuple(sends), receives=tuple(receives), own=tuple(own),
    )  # fmt: skip


def _local(box: Box, type: TensorType) -> TensorType:
    return TensorType(tuple(stop - start for start, stop in box), type.dtype)
