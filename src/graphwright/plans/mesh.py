"""Devices in rows: which ones take part, and along which axes they are counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from operator import index

import numpy as np
from numpy.typing import NDArray

from graphwright.errors import InvalidStrategy
from graphwright.machine import Cluster


@dataclass(frozen=True, slots=True)
class Mesh:
    """Devices by their numbers, row by row, in an array of `shape`."""

    devices: tuple[int, ...]
    shape: tuple[int, ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            devices = tuple(map(index, self.devices))
            shape = tuple(map(index, self.shape))
        except TypeError:
            raise InvalidStrategy(
                f"Mesh({self.devices!r}, {self.shape!r}): give device numbers, and the size of "
                "every axis"
            ) from None
        object.__setattr__(self, "devices", devices)
        object.__setattr__(self, "shape", shape)
        if any(size < 1 for size in self.shape):
            raise InvalidStrategy(f"a mesh of shape {self.shape} has an axis without devices")
        if prod(self.shape) != len(self.devices):
            raise InvalidStrategy(
                f"a mesh of shape {self.shape} holds {prod(self.shape)} devices, not "
                f"{len(self.devices)}"
            )
        if len(set(self.devices)) != len(self.devices):
            raise InvalidStrategy(f"a device stands twice in {self.devices}")
        object.__setattr__(self, "_hash", hash((self.devices, self.shape)))

    def __hash__(self) -> int:
        return self._hash

    def __len__(self) -> int:
        return len(self.devices)


@lru_cache(maxsize=4096)
def whole_mesh(cluster: Cluster) -> Mesh:
    """All devices of a cluster along its axes."""
    return Mesh(tuple(range(cluster.num_devices)), tuple(axis.size for axis in cluster.axes))


@lru_cache(maxsize=4096)
def device_array(mesh: Mesh) -> NDArray[np.int32]:
    """The devices of a mesh as an array, row by row."""
    made = np.array(mesh.devices, dtype=np.int32)
    made.setflags(write=False)
    return made


@lru_cache(maxsize=65536)
def part_numbers(mesh: Mesh, axes: tuple[int, ...]) -> NDArray[np.int64]:
    """The part of each device where something is cut along `axes`, the first outermost."""
    coordinates = np.indices(mesh.shape).reshape(len(mesh.shape), len(mesh))
    number = np.zeros(len(mesh), dtype=np.int64)
    for axis in axes:
        number = number * mesh.shape[axis] + coordinates[axis]
    number.setflags(write=False)
    return number
