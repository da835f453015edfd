"""The bytes that Tofu's recursion counts: tensors move along one axis after the other (sections 5.1
and 5.2).

With k devices along an axis, a tensor of T bytes that goes

    from a split to another split     moves (k - 1) / k T    each device has 1/k of what it needs
    from a split to all devices             (k - 1) T
    from terms to a split                   (k - 1) T        each device gets its part of all others
    from terms to all devices              2 (k - 1) T
    and otherwise nothing

over all devices, and that many times over where axes before this one leave every device with all of
it. So a choice along an axis moves no less the later it is made, and has no fewer alternatives the
earlier: what theorem 1 needs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from graphwright.ir import TensorType
from graphwright.machine import Cluster
from graphwright.partition.space import PARTIAL, REPLICATED, Codes

Floats = NDArray[np.float64]


class Stepwise:
    """Bytes moved along one axis after the other: stands in for `moving.Prices`."""

    def __init__(self, cluster: Cluster) -> None:
        self.sizes = [axis.size for axis in cluster.axes]

    def table(self, type: TensorType, sources: Codes, targets: Codes) -> tuple[Floats, Floats]:
        """Bytes from every one of `sources` to every one of `targets`, as the seconds too."""
        moved = np.zeros((len(sources), len(targets)))
        copies = np.full(len(targets), float(type.nbytes))
        for axis, size in enumerate(self.sizes):
            source, target = sources[:, axis, None], targets[None, :, axis]
            split = np.where(
                target >= 0, (size - 1) / size, np.where(target == REPLICATED, size - 1.0, 0.0)
            )
            terms = np.where(
                target >= 0, size - 1.0, np.where(target == REPLICATED, 2.0 * (size - 1), 0.0)
            )
            share = np.where(source == PARTIAL, terms, np.where(source >= 0, split, 0.0))
            moved += np.where(source == target, 0.0, share) * copies
            copies = np.where(targets[:, axis] >= 0, copies, copies * size)
        return moved, moved
