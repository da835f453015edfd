"""Who gets which region of a tensor from whom, where every device fetches what it needs from the
nearest that has it.

The distinct tiles of the source are cut with what each device needs:

    tiles   |--a--|--b--|--c--|     device 2 gets the end of b from whoever has b and is nearest,
    needed      |=device 2=|        the beginning of c likewise, and from itself what it has itself
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from graphwright.machine import Cluster
from graphwright.plans import Sharding, Split, boxes, device_array

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Fetches:
    """Who gets which region, [fetch, dim, 2] in the whole tensor, from whom; from itself, too."""

    senders: NDArray[np.int32]
    receivers: NDArray[np.int32]
    regions: Ints


def fetch(cluster: Cluster, shape: tuple[int, ...], source: Sharding, target: Sharding) -> Fetches:
    """For each tile that a device needs some of, the nearest device that has it.

    They come in an order in which each port serves one at a time.
    """
    tiles, holders = _tiles(source, shape)
    wanted = boxes(target, shape)
    to = device_array(target.mesh)
    meet = np.ones((len(tiles), len(wanted)), np.bool_)
    for dim in range(len(shape)):  # many tiles and devices, few dims
        a, b = tiles[:, None, dim], wanted[None, :, dim]
        meet &= np.minimum(a[..., 1], b[..., 1]) > np.maximum(a[..., 0], b[..., 0])
    tile, place = np.nonzero(meet)
    senders, receivers = _nearest(cluster, holders[tile], to[place]), to[place]
    rounds = (receivers.astype(np.int64) - senders) % cluster.num_devices
    order = np.argsort(rounds * cluster.num_devices + senders, kind="stable")
    tile, place = tile[order], place[order]
    regions = np.empty((len(order), len(shape), 2), np.int64)
    for dim in range(len(shape)):
        a, b = tiles[:, dim], wanted[:, dim]
        regions[:, dim, 0] = np.maximum(a[tile, 0], b[place, 0])
        regions[:, dim, 1] = np.minimum(a[tile, 1], b[place, 1])
    return Fetches(senders[order], receivers[order], regions)


def _nearest(
    cluster: Cluster, holders: NDArray[np.int32], receivers: NDArray[np.int32]
) -> NDArray[np.int32]:
    """For every receiver the closest of its holders, [message, holder].

    Where several are as close, receivers take turns among them.
    """
    near = np.zeros(holders.shape, dtype=np.int64)
    for stride in cluster.strides:
        near = near * 2 + (holders // stride == receivers[:, None] // stride)
    count = holders.shape[1]
    turn = (np.arange(count)[None, :] - receivers[:, None]) % count
    best: NDArray[np.intp] = np.argmax(near * count - turn, axis=1)
    nearest: NDArray[np.int32] = holders[np.arange(len(holders)), best]
    return nearest


def _tiles(source: Sharding, shape: tuple[int, ...]) -> tuple[Ints, NDArray[np.int32]]:
    """The distinct tiles of a tensor, [tile, dim, 2], and who has each, [tile, holder]."""
    held = boxes(source, shape)
    split = [a for a, p in enumerate(source.placements) if isinstance(p, Split)]
    rest = [a for a in range(len(source.mesh.shape)) if a not in split]
    places = np.arange(len(source.mesh)).reshape(source.mesh.shape)
    number = prod(source.mesh.shape[a] for a in split)
    by_tile = places.transpose(*split, *rest).reshape(number, -1)
    return held[by_tile[:, 0]], device_array(source.mesh)[by_tile]
