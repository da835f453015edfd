"""Read the memory of another process of this machine with one copy, made by the reader (Linux).

    sender      has the data at an address, and leaves it there
    receiver    process_vm_readv(pid of the sender, address) -> its own memory

The kernel allows it to processes of the same user. Where Yama restricts it to ancestors, a process
may name another that is allowed as well, with its descendants: the launcher, whose children the
ranks are.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path

import torch

_PR_SET_PTRACER = 0x59616D61


class _Piece(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


@cache
def _library() -> ctypes.CDLL | None:
    """The C library, if it can read the memory of other processes."""
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "process_vm_readv"):
        return None
    library.process_vm_readv.restype = ctypes.c_ssize_t
    library.process_vm_readv.argtypes = (
        ctypes.c_int, ctypes.POINTER(_Piece), ctypes.c_ulong,
        ctypes.POINTER(_Piece), ctypes.c_ulong, ctypes.c_ulong,
    )  # fmt: skip
    return library


def name_machine() -> str | None:
    """What processes that can read each other's memory share: system, namespaces, user.

    The namespace of the network counts, as the sockets by which they meet belong to one. None where
    no process can.
    """
    if _library() is None:
        return None
    try:
        running = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        spaces = "/".join(os.readlink(f"/proc/self/ns/{kind}") for kind in ("pid", "net"))
        return f"{running}/{spaces}/{os.getuid()}"
    except OSError:
        return None


def let_siblings_read() -> None:
    """Allow the launcher's descendants to read this process's memory, where Yama asks for it."""
    library = _library()
    assert library is not None
    library.prctl(_PR_SET_PTRACER, ctypes.c_ulong(os.getppid()), 0, 0, 0)  # unknown without Yama


def read_memory(pid: int, address: int, into: torch.Tensor) -> None:
    """Fill a tensor, one piece of memory, with what lies at an address of another process."""
    library = _library()
    assert library is not None and into.is_contiguous()
    done, place, nbytes = 0, into.data_ptr(), into.nbytes
    while done < nbytes:
        here = _Piece(place + done, nbytes - done)
        there = _Piece(address + done, nbytes - done)
        count = library.process_vm_readv(pid, here, 1, there, 1, 0)
        if count <= 0:
            number = ctypes.get_errno()
            raise OSError(number, f"cannot read memory of process {pid}: {os.strerror(number)}")
        done += count
