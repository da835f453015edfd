"""Memory for copies around a transfer, as `run.links` makes them.

in one piece      a region that lies in one piece of a device's memory is sent from where it is, and
                  received where it belongs
otherwise         it is packed before it is sent, and put in its place once it has been received:
                  bytes that are there meanwhile
terms             what a device receives of a reduction is there beside its own part until it is
                  added to it
in place          a reduction of which every device gets the whole needs no copy
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from graphwright.ir import DTYPE_BYTES, TensorType
from graphwright.plans import Sharding, boxes, local_bytes, transfers

Ints = NDArray[np.int64]
Order: TypeAlias = tuple[int, ...] | None
"""The dims of a tensor as they lie in memory, the outermost first; None for their own order."""


def as_laid_out(regions: Ints, order: Order) -> Ints:
    """Regions, [region, dim, ...], with their dims as they lie in memory, the outermost first."""
    return regions if order is None else regions[:, list(order)]


def in_one_piece(regions: Ints, sizes: Ints) -> NDArray[np.bool_]:
    """Whether each region, [region, dim, 2], is one piece of memory of what is held around it, of
    some sizes, [region, dim].
    """
    whole, any_later = np.ones(len(regions), np.bool_), np.zeros(len(regions), np.bool_)
    for dim in reversed(range(regions.shape[1])):
        extent = regions[:, dim, 1] - regions[:, dim, 0]
        whole &= ~((extent > 1) & any_later)
        any_later |= extent != sizes[:, dim]
    return whole


def staged_bytes(
    kind: transfers.GroupKind,
    source: Sharding,
    target: Sharding,
    type: TensorType,
    order: Order = None,
) -> Ints:
    """Bytes of copies on each device during a collective: packed, received, terms."""
    had, part = local_bytes(source, type), local_bytes(target, type)
    if kind.in_place:
        return np.zeros(len(had), dtype=np.int64)
    have, need = (as_laid_out(boxes(s, type.shape), order) for s in (source, target))
    common = common_regions(have, need)
    own = region_bytes(common, type)
    packed = np.where(in_one_piece(common, have[..., 1] - have[..., 0]), 0, had - own)
    placed = np.where(in_one_piece(common, need[..., 1] - need[..., 0]), 0, part - own)
    return packed + placed + (had - own if kind.reduces else 0)


def common_regions(first: Ints, second: Ints) -> Ints:
    """Where boxes overlap, one by one."""
    start = np.maximum(first[..., 0], second[..., 0])
    return np.stack([start, np.minimum(first[..., 1], second[..., 1])], axis=-1)


def region_bytes(regions: Ints, type: TensorType) -> Ints:
    """Bytes of each region; 0 where it ends before it begins."""
    sizes = (regions[..., 1] - regions[..., 0]).clip(0)
    nbytes: Ints = sizes.prod(axis=-1) * DTYPE_BYTES[type.dtype]
    return nbytes
