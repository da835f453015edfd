"""Storages that are on the device or not: freed and filled again under the tensors that use them.

A storage that is resized to nothing takes no memory, while all tensors over it, and autograd's
references to them, stay as they are. Its bytes wait in a buffer of the host, which is pinned where
the device is a GPU. Copies go the way of all work on the device's current stream, so that nothing
is freed or overwritten before those that use it have ended.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, UntypedStorage
from torch.multiprocessing.reductions import StorageWeakRef


@dataclass(slots=True, eq=False)
class Slot:
    """One storage; the reference to it is weak, so that it ends when the last tensor does."""

    number: int
    nbytes: int
    ref: StorageWeakRef
    device: torch.device
    is_here: bool = True
    on_host: bool = False

    @property
    def is_gone(self) -> bool:
        """Whether no tensor uses the storage any more."""
        return bool(self.ref.expired())

    def copy_out(self, host: Tensor) -> None:
        """Copy the bytes to the host."""
        with torch.no_grad():
            host.copy_(self._bytes(), non_blocking=True)
        self.on_host = True

    def free(self) -> None:
        """Give the device's memory back."""
        self._storage().resize_(0)
        self.is_here = False

    def copy_in(self, host: Tensor) -> None:
        """Take memory of the device again and fill it."""
        self._storage().resize_(self.nbytes)
        with torch.no_grad():
            self._bytes().copy_(host, non_blocking=True)
        self.is_here = True

    def host_buffer(self) -> Tensor:
        """Memory of the host for its bytes."""
        pinned = self.device.type == "cuda"
        return torch.empty(self.nbytes, dtype=torch.uint8, pin_memory=pinned)

    def _storage(self) -> UntypedStorage:
        found = UntypedStorage._new_with_weak_ptr(self.ref.cdata)
        assert found is not None
        return found

    def _bytes(self) -> Tensor:
        made = torch.empty(0, dtype=torch.uint8, device=self.device)
        return made.set_(self._storage(), 0, (self.nbytes,), (1,))
