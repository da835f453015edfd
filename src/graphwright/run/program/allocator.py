"""Memory that a step on the CPU frees stays with the process, as on a GPU, for the next step.

By default the C library gives every large piece back at once, and each first touch of a page that
it gets anew costs a fault: 5% of a step of a small transformer, more where large weights change.
"""

from __future__ import annotations

import ctypes
import sys

import torch

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # of glibc's mallopt
_NEVER = 2**31 - 1
_GROW = 16 << 20  # bytes that the heap grows by at least
PAGE = 4096


def keep_freed_memory() -> bool:
    """Let the C library keep what is freed, for the rest of the process; whether it does."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library than glibc
        return False
    options = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, _NEVER), (_TOP_PAD, _GROW))
    return all(mallopt(which, value) == 1 for which, value in options)


def touch_memory(nbytes: int) -> None:
    """Have memory at hand in one piece, for what is allocated from now on.

    Otherwise threads that compute side by side can need new pages at every call.
    """
    torch.empty(nbytes, dtype=torch.uint8)[::PAGE].fill_(0)
