"""Compile a function over arrays to machine code, and keep the code on disk where that is possible.

Numba compiles a kept function again when its own file has changed, and does not see changes in what
it calls from other files. So the folder that the code is kept in is named after the contents of all
files with compiled functions:

    <package>/__pycache__/kernels-<digest>     or, where the package is read-only,
    <user's cache>/graphwright/kernels-<digest>

A change of one of them begins a new folder. Where neither can be written, every process compiles
anew.

Numba counts the references to every array that is handed to a function or taken out of a record,
atomically, which takes longer than many a small function's work. So a kernel of many functions has
one that is `compiled`, which makes its records `unowned`, and others that are `inlined` into it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import cgutils, event, types
from numba.extending import intrinsic

Arrays = TypeVar("Arrays")
Function = TypeVar("Function", bound=Callable[..., object])
_CONFIG: Any = numba.config
_CODE: Any = cgutils
_TYPES: Any = types
_PACKAGE = Path(__file__).parents[1]
_REORDER = {"reassoc", "contract", "nsz"}


def compiled(function: Function) -> Function:
    """Machine code for a function; it runs without the interpreter's lock, and checks no bounds."""
    return _compile(function)


def reassociated(function: Function) -> Function:
    """The same, where floats may be summed in another order: vectorised, and still reproducible.

    A division by zero gives what IEEE 754 says.
    """
    return _compile(function, fastmath=_REORDER, error_model="numpy")


def reassociated_inline(function: Function) -> Function:
    """A function that becomes part of a reassociated one."""
    compile_inline = numba.njit(
        nogil=True, forceinline=True, fastmath=_REORDER, error_model="numpy"
    )
    return cast(Function, _for_any_number(compile_inline(function)))


def _compile(function: Function, **options: Any) -> Function:
    folder = kernel_folder()
    with _keeping_in(folder):
        try:
            made = numba.njit(cache=folder is not None, nogil=True, **options)(function)
        except RuntimeError:  # "no locator available": its source is in no file
            made = numba.njit(nogil=True, **options)(function)
    return cast(Function, _for_any_number(made))


def inlined(function: Function) -> Function:
    """A function that becomes part of the machine code of each that calls it."""
    return cast(Function, _for_any_number(numba.njit(nogil=True, forceinline=True)(function)))


def _for_any_number(dispatcher: Any) -> Any:
    """Compile a function once for all numbers of a type.

    Left alone, Numba compiles it anew for each constant that a compiled caller gives it, which
    takes as long again and makes nothing faster: LLVM puts constants in where it inlines.
    """
    find, widen = dispatcher.get_call_template, _TYPES.unliteral

    def find_for_type(args: Any, kws: Any) -> Any:
        return find(tuple(map(widen, args)), {name: widen(kind) for name, kind in kws.items()})

    dispatcher.get_call_template = find_for_type
    return dispatcher


@contextmanager
def compilations_told(tell: Callable[[str], None]) -> Iterator[None]:
    """Tell the name of every function when it is compiled, which the first run alone has to do."""

    class Teller(event.Listener):
        def on_start(self, event: Any) -> None:
            tell(event.data["dispatcher"].py_func.__name__)

        def on_end(self, event: Any) -> None:
            pass

    with event.install_listener("numba:compile", Teller()):
        yield


def _unowned(context: Any, arrays: Any) -> Any:
    def disown(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        if isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder, value)
            array.meminfo = _CODE.get_null_value(array.meminfo.type)
            return array._getvalue()
        if isinstance(kind, types.BaseTuple):
            kinds: Any = kind
            for at, inner in enumerate(kinds):
                part = disown(context, builder, inner, builder.extract_value(value, at))
                value = builder.insert_value(value, part, at)
        return value

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return disown(context, builder, signature.args[0], values[0])

    return arrays(arrays), codegen


unowned = cast(Callable[[Arrays], Arrays], intrinsic(_unowned))
"""In a compiled function: an array or a named tuple of arrays, without a count of references.

Whoever called the function has to hold them while it runs, and it must not return them.
"""


@cache
def kernel_folder() -> Path | None:
    """Where compiled functions are kept, None for nowhere."""
    user = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "graphwright"
    given = _CONFIG.CACHE_DIR
    for parent in (Path(given),) if given else (_PACKAGE / "__pycache__", user):
        folder = parent / f"kernels-{kernel_digest(_PACKAGE)}"
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
            for old in parent.glob("kernels-*"):
                if old != folder and parent != user:
                    shutil.rmtree(old, ignore_errors=True)
            return folder
    return None


def kernel_digest(package: Path) -> str:
    """A digest of all files of a package that hold compiled functions."""
    digest = blake2b(digest_size=8)
    for path in sorted(package.rglob("*.py")):
        source = path.read_bytes()
        if any(mark in source for mark in (b"@compiled", b"@reassociated", b"@inlined")):
            digest.update(source)
    return digest.hexdigest()


@contextmanager
def _keeping_in(folder: Path | None) -> Iterator[None]:
    before = _CONFIG.CACHE_DIR
    _CONFIG.CACHE_DIR = before if folder is None else str(folder)
    try:
        yield
    finally:
        _CONFIG.CACHE_DIR = before
