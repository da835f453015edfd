"""The memory of a swapped step: one piece on the device, one piece on the host, views in both.

    Arena      exactly the bytes of the plan; tensors are views at their offsets
    HostSlab   a place for everything that is ever on the host; pinned for a GPU, to the byte

A tensor keeps the strides that its kernel gave it, where these leave no gaps: the next kernel sees
what it would see without swapping, so that results are the same to the last bit.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Set
from dataclasses import dataclass

import torch
from torch import Tensor

from graphwright.aten import to_dtype
from graphwright.ir import TensorType, format_bytes
from graphwright.machine import free_host_memory
from graphwright.plans import MemoryTooSmall

POISON = 0xFF
"""Bytes of memory that nobody should read: NaN in floats."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tensor lies in its memory."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        size = self.dtype.itemsize
        for n in self.shape:
            size *= n
        return size

    def view(self, memory: Tensor, offset: int) -> Tensor:
        """The tensor at an offset of a piece of memory."""
        piece = memory[offset : offset + self.nbytes].view(self.dtype)
        return piece.as_strided(self.shape, self.stride) if self.shape else piece.reshape(())

    def bytes(self, memory: Tensor, offset: int) -> Tensor:
        """The same memory as a row of bytes."""
        return memory[offset : offset + self.nbytes]


def layout_of(tensor: Tensor) -> Layout:
    """The layout of a tensor, or the plain one where it has gaps or overlaps."""
    shape, dense = tuple(tensor.shape), torch.empty_like(tensor, device="meta")
    return Layout(tensor.dtype, shape, tuple(dense.stride()))


def plain_layout(type: TensorType) -> Layout:
    """The layout of a tensor that nobody has made yet."""
    plain = torch.empty(type.shape, dtype=to_dtype(type.dtype), device="meta")
    return layout_of(plain)


class Arena:
    """Device memory of exactly so many bytes."""

    def __init__(self, nbytes: int, device: torch.device) -> None:
        self.memory = torch.full((nbytes,), POISON, dtype=torch.uint8, device=device)

    def view(self, layout: Layout, offset: int) -> Tensor:
        return layout.view(self.memory, offset)

    def bytes(self, layout: Layout, offset: int) -> Tensor:
        return layout.bytes(self.memory, offset)

    def poison(self, offset: int, nbytes: int) -> None:
        """Overwrite what has left."""
        self.memory[offset : offset + nbytes].fill_(POISON)


class HostSlab:
    """Host memory with a place for each name; refused where the host has too little.

    What is `data` has a place for each of `turns`: the next one is filled while the device still
    works on the one before.
    """

    def __init__(
        self, nbytes: Mapping[str, int], data: Set[str], *, turns: int, pinned: bool
    ) -> None:
        self.offsets: dict[tuple[str, int], int] = {}
        total = 0
        for turn in range(turns):
            for name, size in nbytes.items():
                if turn and name not in data:
                    self.offsets[name, turn] = self.offsets[name, 0]
                    continue
                self.offsets[name, turn] = total
                total += size
        free = free_host_memory()
        if total > free:
            raise MemoryTooSmall(
                f"the host has to hold {format_bytes(total)} of what does not stay on the device, "
                f"but has only {format_bytes(free)} free; give the device more memory, or use a "
                "smaller model or batch"
            )
        self.memory = torch.empty(total, dtype=torch.uint8)
        if pinned:
            _pin(self.memory)

    def view(self, layout: Layout, name: str, turn: int = 0) -> Tensor:
        return layout.view(self.memory, self.offsets[name, turn])

    def bytes(self, layout: Layout, name: str, turn: int = 0) -> Tensor:
        return layout.bytes(self.memory, self.offsets[name, turn])


def _pin(memory: Tensor) -> None:
    """Lock exactly this memory, for copies that run beside kernels.

    PyTorch's own allocator of pinned memory rounds sizes up to powers of two.
    """
    runtime = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    address, size = memory.data_ptr(), memory.nbytes
    if not size:
        return
    status = runtime.cudaHostRegister(address, size, 0)
    if int(status) != 0:
        raise MemoryTooSmall(
            f"{format_bytes(size)} of host memory could not be pinned (CUDA says {status}); check "
            "the limit of locked memory (ulimit -l)"
        )
    weakref.finalize(memory, runtime.cudaHostUnregister, address)
