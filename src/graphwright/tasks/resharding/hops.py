"""The hops that bring a tensor from one sharding to another, and the transfers that each consists
of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphwright.plans import Sharding, transfers


class Hop(NamedTuple):
    """One way from a sharding to the next.

    In a `Movement` its tasks are those from `first` to before `end`, none for a slice.
    """

    kind: transfers.HopKind
    source: Sharding
    target: Sharding
    first: int = 0
    end: int = 0


def changed_axes(hop: Hop) -> tuple[int, ...]:
    """The axes along which a hop on one mesh changes something."""
    pairs = zip(hop.source.placements, hop.target.placements, strict=True)
    return tuple(a for a, (p, q) in enumerate(pairs) if p != q)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Transfer:
    """One task on links: it reads what `reads` hold, and gives `gives` what they need.

    `loads` are the bytes on each of the `links`. Meanwhile there are copies of `staged` bytes on
    devices `stages`, and each of the devices `handlers` is kept from computing for `handled`
    seconds.
    """

    kind: transfers.TransferKind
    reads: NDArray[np.int32]
    gives: NDArray[np.int32]
    links: NDArray[np.int32]
    loads: NDArray[np.int64]
    nbytes: int
    seconds: float
    stages: NDArray[np.int32]
    staged: NDArray[np.int64]
    handlers: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    handled: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, slots=True, eq=False)
class PricedHop:
    """A hop and what it takes; `keeps` are the devices that also go on using what they had.

    Many hops are asked for their `seconds` and few are taken, so the transfers are made on demand.
    """

    hop: Hop
    seconds: float
    keeps: NDArray[np.int32]
    make: Callable[[], tuple[Transfer, ...]]

    def transfers(self) -> tuple[Transfer, ...]:
        """The transfers that the hop consists of."""
        return self.make()
