"""Compile a function over arrays to machine code, and keep the code on disk where that is possible.

Numba keeps it beside the source, or in the user's cache folder where the package is read-only, and refuses to compile where
neither can be written; such an installation compiles anew in every process.

A kept function is compiled again when its own file changes, not when a file that it calls into does: functions that call
each other therefore live in one file, but for what hardly ever changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """Machine code for a function; it runs without the interpreter's lock, and checks no bounds."""
    try:
        return cast(Function, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # "no locator available": there is nowhere to keep it
        return cast(Function, numba.njit(nogil=True)(function))
