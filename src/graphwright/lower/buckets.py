"""Small sums that many ranks add up one by one, added up together where no order is broken.

    all_reduce a    all_reduce b    ...    reader of a        b is still before the reader of a: both go together where b is
    all_reduce a    reader of a     all_reduce b              they cannot

Starting a collective takes as long as moving some hundred kilobytes, and a model has many small gradients. A bucket takes sums over the same groups, of one
dtype and reducer, up to a size; it begins with its last member, before anybody reads the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

from graphwright.ir import DTYPE_BYTES
from graphwright.lower.moves import changed_axes
from graphwright.lower.order import Block
from graphwright.plans import Split
from graphwright.tasks import Expansion

BUCKET_BYTES = 4 << 20
"""So much of a device's memory goes into one bucket; what is larger goes by itself."""


@dataclass(slots=True)
class _Bucket:
    deadline: int
    nbytes: int = 0
    members: list[int] = field(default_factory=list)


def fill_buckets(
    x: Expansion, blocks: Sequence[Block], first_reader: Sequence[int], limit: int = BUCKET_BYTES
) -> list[Block]:
    """The blocks with small sums in buckets; `first_reader` is the place of the first block that reads what a block makes."""
    open_buckets: dict[object, _Bucket] = {}
    bucket_of: dict[int, _Bucket] = {}
    for place, block in enumerate(blocks):
        nbytes = _sum_bytes(x, block)
        if nbytes is None or nbytes > limit:
            continue
        key = _key(x, block)
        bucket = open_buckets.get(key)
        if bucket is None or place >= bucket.deadline or bucket.nbytes + nbytes > limit:
            bucket = open_buckets[key] = _Bucket(deadline=len(blocks))
        bucket.members.append(place)
        bucket.nbytes += nbytes
        bucket.deadline = min(bucket.deadline, first_reader[place])
        bucket_of[place] = bucket
    found: list[Block] = []
    for place, block in enumerate(blocks):
        bucket = bucket_of.get(place)
        if bucket is None or bucket.members == [place]:
            found.append(block)
        elif place == bucket.members[-1]:
            found.append(replace(block, before=tuple(blocks[m] for m in bucket.members[:-1])))
    return found


def _sum_bytes(x: Expansion, block: Block) -> int | None:
    """What one device adds up in a block; None for what is no sum."""
    if block.move is None:
        return None
    hop = block.move.movement.hops[block.hop]
    if hop.kind != "all_reduce":
        return None
    type = x.site.graph.tensors[block.move.tensor].type
    shape, ways = hop.source.mesh.shape, hop.source.placements
    parts = prod(n for n, way in zip(shape, ways, strict=True) if isinstance(way, Split))
    return type.nbytes // parts


def _key(x: Expansion, block: Block) -> object:
    assert block.move is not None
    hop = block.move.movement.hops[block.hop]
    axes, type = changed_axes(hop), x.site.graph.tensors[block.move.tensor].type
    assert type.dtype in DTYPE_BYTES
    return hop.source.mesh, axes, hop.source.placements[axes[0]], type.dtype
