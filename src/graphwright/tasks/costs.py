"""What the task graph asks of a cost model: how long a part computes, how long a transfer takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from graphwright.describe import Types
from graphwright.ir import Attr
from graphwright.machine import Cluster, Device


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Traffic:
    """Transfers that run at once and share links.

    `nbytes` is the size that a measurement would name: of the tensor that one group gathers, reduces or exchanges, or of the one message.
    `spans` says, for every level of the cluster, how many of its members one group spans; `contenders` how many groups
    are on the busiest link. `loads` are the bytes on each of the `resources`; `floor` is what they take at least, in seconds, on the
    slowest stretch of their routes, which may lie inside what a link connects.
    """

    cluster: Cluster
    kind: str
    nbytes: int
    spans: tuple[int, ...]
    contenders: int
    resources: NDArray[np.int32]
    loads: NDArray[np.int64]
    floor: float = 0.0


class Costs(Protocol):
    """Seconds for what the tasks do."""

    def compute(self, op: str, attrs: Mapping[str, Attr], types: Types, device: Device) -> float:
        """Seconds that one part of an operator takes on a device."""
        ...

    def communicate(self, traffic: Traffic) -> float:
        """Seconds from the start to the end of a step's transfers."""
        ...
