"""One hop of a movement as one rank's instruction.

all_gather       parts along a dim, in the order of the group
reduce_scatter   terms to parts along a dim
all_reduce       terms to the whole
all_to_all       an exchange within a group
exchange         regions, message by message: halos, shifts, other devices
slice            a region of what is there, or zero for terms of which another rank has the only one
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

Message = tuple[int, int, Box]
"""Who sends to whom which region of the whole tensor."""


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
    if isinstance(hop.kind, transfers.CollectiveKind) and _nests(hop):
        assert value is not None and output is not None
        return _collective(hop.kind, hop, tensor, type, rank, value, output, tag)
    messages = _within(hop, type, rank)
    if isinstance(hop.kind, transfers.Exchange):
        messages = _fetched(hop, type, cluster, rank)
    have = () if value is None else _box(hop.source, type, rank)
    need = () if output is None else _box(hop.target, type, rank)
    sends: list[tuple[int, Box]] = []
    receives: list[tuple[int, Box]] = []
    own: list[tuple[Box, Box]] = []
    for sender, receiver, region in messages:
        if sender == receiver:
            own.append((_relative(region, have), _relative(region, need)))
        elif sender == rank:
            sends.append((receiver, _relative(region, have)))
        else:
            receives.append((sender, _relative(region, need)))
    shape = type.shape if output is None else tuple(stop - start for start, stop in need)
    return Exchange(
        tensor=tensor, tag=tag, value=value, output=output, type=TensorType(shape, type.dtype),
        sends=tuple(sends), receives=tuple(receives), own=tuple(own),
    )  # fmt: skip


def _nests(hop: Hop) -> bool:
    """Whether the parts of a group lie side by side; parts with halos overlap."""
    return hop.kind.reduces or not hop.source.pieces


def _collective(
    kind: transfers.CollectiveKind,
    hop: Hop,
    tensor: str,
    type: TensorType,
    rank: int,
    value: int,
    output: int,
    tag: int,
) -> Collective:
    """A collective along the changed axes: a reducer for terms, a dim and sizes for parts."""
    axes = changed_axes(hop)
    axis, group = axes[0], group_of(hop.source.mesh, axes, rank)
    before, after = hop.source.placements[axis], hop.target.placements[axis]
    reducer = before.reducer if isinstance(before, Partial) else "sum"
    dim, sizes = 0, tuple[int, ...]()
    for sharding, placement in ((hop.source, before), (hop.target, after)):
        if isinstance(placement, Split):
            dim = placement.dim
            sizes = _sizes(sharding, type, group, dim)
    return Collective(
        kind=kind, tensor=tensor, group=group, value=value, output=output, dim=dim,
        reducer=reducer, sizes=sizes, tag=tag,
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


def _within(hop: Hop, type: TensorType, rank: int) -> Iterator[Message]:
    """Everybody in a group gets what it lacks, each region from the first who has it."""
    have, need = _box(hop.source, type, rank), _box(hop.target, type, rank)
    overlapping = bool(hop.source.pieces)
    for other in group_of(hop.source.mesh, changed_axes(hop), rank):
        theirs, wants = _box(hop.source, type, other), _box(hop.target, type, other)
        to, from_ = _common(have, wants), _common(theirs, need)
        if to is not None and not (overlapping and other != rank and _common(to, theirs) == to):
            yield rank, other, to
        if other == rank or from_ is None:
            continue
        if not (overlapping and _common(from_, have) == from_):
            yield other, rank, from_


def _fetched(hop: Hop, type: TensorType, cluster: Cluster, rank: int) -> Iterator[Message]:
    """What a rank sends, receives or has itself where everybody fetches from the nearest."""
    fetches = fetch(cluster, type.shape, hop.source, hop.target)
    mine = (fetches.senders == rank) | (fetches.receivers == rank)
    ends = fetches.senders[mine].tolist(), fetches.receivers[mine].tolist()
    yield from zip(*ends, map(as_box, fetches.regions[mine]), strict=True)
