"""What every device computes and every link carries, in which order (FlexFlow section 3.4.1).

    compute tasks      one per operator and device, on the device
    transfers          one per message or collective, on every link that it occupies
    handling           what a transfer takes of a device meanwhile, where it takes any
    edges              ordering alone: a task starts after all of its predecessors

Tasks are numbered in the order of their keys, which is topological. All is arrays, as graphs of ten
million tasks are ordinary.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphwright.plans.transfers import TRANSFERS

SWAPS = ("swap_out", "swap_in")
"""Copies to host memory and back."""

HANDLING = "handling"

KINDS = ("compute", *(kind.name for kind in TRANSFERS), *SWAPS, HANDLING)
"""What a task does; all but the first are transfers, or belong to one."""

CATEGORIES = ("parameter", "gradient", "optimizer_state", "activation", "communication")
"""What memory is held for."""

Ints = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Values:
    """The pieces of memory on the devices.

    A value exists from its earliest birth to the end of its last birth or use, a `persistent` one
    from the beginning to the end. A use by a task numbered one beyond the last is the end of the
    step, a birth by it the beginning. Task `over_task[i]` makes something that fits into the memory
    of value `over_value[i]`, which it reads element by element: if nobody uses that value later, it
    ends where the task starts.
    """

    nbytes: NDArray[np.int64]
    device: NDArray[np.int32]
    category: NDArray[np.uint8]
    persistent: NDArray[np.bool_]
    birth_value: NDArray[np.int32]
    birth_task: NDArray[np.int32]
    use_value: NDArray[np.int32]
    use_task: NDArray[np.int32]
    over_value: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    over_task: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))

    def __len__(self) -> int:
        return len(self.nbytes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskGraph:
    """Tasks, what they occupy, and their order.

    `duration` is in picoseconds, so that sums are exact. `node` is the position of a compute task's
    node in the graph, or the number of a transfer's label. `load` is the bytes on each occupied
    resource, `nbytes` those that leave a device.
    """

    duration: NDArray[np.int64]
    key: NDArray[np.int64]
    kind: NDArray[np.uint8]
    node: NDArray[np.int32]
    device: NDArray[np.int32]
    nbytes: NDArray[np.int64]
    succ_ptr: NDArray[np.int64]
    succ: NDArray[np.int32]
    indegree: NDArray[np.int32]
    resource_ptr: NDArray[np.int64]
    resource: NDArray[np.int32]
    load: NDArray[np.int64]
    values: Values
    labels: tuple[str, ...]
    resource_names: tuple[str, ...]
    num_devices: int

    def __len__(self) -> int:
        return len(self.duration)

    @property
    def num_edges(self) -> int:
        return len(self.succ)

    @property
    def num_resources(self) -> int:
        return len(self.resource_names)

    def __repr__(self) -> str:
        transfers = int(np.count_nonzero(self.kind))
        return (
            f"TaskGraph({len(self) - transfers:,} compute tasks on {self.num_devices} devices, "
            f"{transfers:,} transfers, {self.num_edges:,} edges)"
        )
