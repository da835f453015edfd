"""Small sums that many ranks add up one by one, added up together where no order is broken.

    all_reduce a   all_reduce b   ...   reader of a    b is still before the reader of a: both go
                                                       together where b is
    all_reduce a   reader of a   all_reduce b          only if the reader is an update, which may
                                                       wait for b as well

Starting a collective takes as long as moving some hundred kilobytes, and a model has many small
gradients. A bucket takes sums over the same groups, of one dtype and reducer, up to a size; it
begins with its last member. No member waits for another: all have the same number of sums between
them and the end of the step, and so no bucket waits for itself, whatever others there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from graphwright.ir import DTYPE_BYTES
from graphwright.lower.moves import changed_axes
from graphwright.lower.order import Action, Waits
from graphwright.plans import Split, transfers
from graphwright.tasks import BUCKET_BYTES, Expansion, Hop, Move


@dataclass(slots=True)
class _Bucket:
    deadline: int
    nbytes: int = 0
    members: list[int] = field(default_factory=list)


def fill_buckets(x: Expansion, waits: Waits, limit: int = BUCKET_BYTES) -> Waits:
    """The same with small sums in buckets, each of them one action."""
    order = waits.order()
    sizes = [_sum_bytes(x, action) for action in waits.actions]
    heights = _heights(waits, order, [size is not None for size in sizes])
    place = {action: at for at, action in enumerate(order)}
    open_buckets: dict[object, _Bucket] = {}
    buckets: list[_Bucket] = []
    for at, b in enumerate(order):
        size = sizes[b]
        if size is None or size > limit // 2:
            continue
        patient = _is_patient(x, waits.actions[b])
        key = (_key(x, waits.actions[b]), heights[b], patient)
        bucket = open_buckets.get(key)
        if bucket is None or at >= bucket.deadline or bucket.nbytes + size > limit:
            bucket = open_buckets[key] = _Bucket(deadline=len(order))
            buckets.append(bucket)
        bucket.members.append(b)
        bucket.nbytes += size
        if not patient:
            readers = (place[r] for r in waits.after(b).tolist())
            bucket.deadline = min((bucket.deadline, *readers))
    return _joined(waits, [bucket.members for bucket in buckets if len(bucket.members) > 1])


def _heights(waits: Waits, order: list[int], is_sum: list[bool]) -> list[int]:
    """For every action the most sums that wait for it one after the other."""
    heights = [0] * len(order)
    for b in reversed(order):
        heights[b] = max((heights[r] + is_sum[r] for r in waits.after(b).tolist()), default=0)
    return heights


def _joined(waits: Waits, buckets: list[list[int]]) -> Waits:
    """Each bucket as one action, in the place of its last member."""
    lead = np.arange(len(waits.actions))
    actions, begins = list(waits.actions), waits.begins.copy()
    ends = waits.ends.copy()
    for members in buckets:
        *others, last = members
        lead[others] = last
        begins[last] = waits.begins[members].max()
        ends[last] = begins[last] + (waits.ends[members] - waits.begins[members]).sum()
        readers = np.concatenate([waits.after(member) for member in members])
        begins[readers] = np.maximum(begins[readers], ends[last])
        actions[last] = replace(actions[last], before=tuple(waits.actions[m] for m in others))
    kept, number = np.unique(lead, return_inverse=True)
    edges = np.unique(number[waits.sources] * len(kept) + number[waits.targets])
    sources, targets = np.divmod(edges, len(kept))
    apart = sources != targets
    return Waits(
        [actions[a] for a in kept.tolist()],
        sources[apart],
        targets[apart],
        begins[kept],
        ends[kept],
        waits.key[kept],
    )


def _is_patient(x: Expansion, action: Action) -> bool:
    """Whether whoever reads what a sum makes may wait for more."""
    assert isinstance(action.block, Move)
    last = action.stage == len(action.block.stages) - 1
    return last and x.facts.is_gathered(action.block.tensor)


def _sum_bytes(x: Expansion, action: Action) -> int | None:
    """What one device adds up in an action; None for what is no sum."""
    hop = hop_of(action)
    if hop is None or not isinstance(hop.kind, transfers.AllReduce):
        return None
    assert isinstance(action.block, Move)
    type = x.facts.graph.tensors[action.block.tensor].type
    shape, ways = hop.source.mesh.shape, hop.source.placements
    parts = prod(n for n, way in zip(shape, ways, strict=True) if isinstance(way, Split))
    return type.nbytes // parts


def _key(x: Expansion, action: Action) -> object:
    hop = hop_of(action)
    assert hop is not None and isinstance(action.block, Move)
    axes, type = changed_axes(hop), x.facts.graph.tensors[action.block.tensor].type
    assert type.dtype in DTYPE_BYTES
    return hop.source.mesh, axes, hop.source.placements[axes[0]], type.dtype


def hop_of(action: Action) -> Hop | None:
    """The hop of a move that an action is, None for what is none."""
    block = action.block
    return block.movement.hops[action.stage] if isinstance(block, Move) else None
