"""Read the few values that old datasets keep in pickles, without running any of them.

A pickle is a program for a small stack machine; loading one may call anything. Here its
instructions are taken apart by `pickletools`, which runs nothing, and carried out on plain values.
Only these calls are known, each answered by code of this file, and all else is refused:

    numpy arrays and dtypes        scipy.sparse CSR matrices        (default) dictionaries and lists
"""

from __future__ import annotations

import codecs
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from graphwright.gnn.data.errors import InvalidDataFile

_MARK = object()


class _Array:
    """A NumPy array that has been announced, and whose contents come later."""

    def __init__(self) -> None:
        self.made: Any = None

    def build(self, state: Any) -> None:
        _, shape, kind, fortran, data = state
        if kind.hasobject or isinstance(data, list):
            raise InvalidDataFile("an array of Python objects is not read")
        raw = data.encode("latin1") if isinstance(data, str) else bytes(data)
        values = np.frombuffer(raw, kind).copy()
        self.made = values.reshape(shape, order="F" if fortran else "C")


class _Kind:
    """A NumPy dtype; its state says the order of bytes."""

    def __init__(self, name: Any) -> None:
        self.made = np.dtype(str(name))

    def build(self, state: Any) -> None:
        if state[1] in ("<", ">"):
            self.made = self.made.newbyteorder(state[1])


class _Matrix:
    """A CSR matrix; its state is the attributes."""

    def __init__(self) -> None:
        self.made: Any = None

    def build(self, state: Any) -> None:
        from scipy.sparse import csr_matrix

        state = {str(name).lstrip("_"): value for name, value in state.items()}
        parts = (state["data"], state["indices"], state["indptr"])
        self.made = csr_matrix(parts, shape=tuple(state["shape"]))


def _scalar(kind: Any, data: Any) -> Any:
    raw = data.encode("latin1") if isinstance(data, str) else data
    return np.frombuffer(raw, _value(kind))[0].item()


def _from_buffer(data: Any, kind: Any, shape: Any, order: Any = "C") -> Any:
    return np.frombuffer(bytes(data), _value(kind)).reshape(shape, order=order)


_KNOWN: dict[tuple[str, str], Callable[..., Any]] = {
    ("numpy", "dtype"): lambda name, *_: _Kind(name),
    ("numpy", "ndarray"): lambda *_: _Array(),
    ("collections", "defaultdict"): lambda *_: {},
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
    ("copy_reg", "_reconstructor"): lambda kind, *_: kind(),
    ("copyreg", "_reconstructor"): lambda kind, *_: kind(),
    ("__builtin__", "bytes"): lambda *_: b"",
    ("builtins", "bytes"): lambda *_: b"",
    ("__builtin__", "object"): object,
    ("builtins", "object"): object,
    ("_codecs", "encode"): lambda text, coding="latin1": codecs.encode(text, "latin1"),
}
for _core in ("numpy.core", "numpy._core"):
    _KNOWN[f"{_core}.multiarray", "_reconstruct"] = lambda *_: _Array()
    _KNOWN[f"{_core}.multiarray", "scalar"] = _scalar
    _KNOWN[f"{_core}.numeric", "_frombuffer"] = _from_buffer
for _module in ("scipy.sparse.csr", "scipy.sparse._csr"):
    _KNOWN[_module, "csr_matrix"] = _Matrix


def _value(what: Any) -> Any:
    return what.made if isinstance(what, (_Array, _Kind, _Matrix)) else what


def read_pickled(path: str | Path) -> Any:
    """The arrays, matrices, dictionaries and lists in a pickle; anything else is an error."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InvalidDataFile(f"cannot read {path}: {error.strerror or error}") from error
    try:
        return _finished(_Machine().run(data))
    except InvalidDataFile as error:
        raise InvalidDataFile(f"{path}: {error}") from error
    except (ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
        raise InvalidDataFile(f"{path} is damaged or holds other values: {error!r}") from error


def _finished(value: Any) -> Any:
    """A value with all announced arrays in their places."""
    value = _value(value)
    if isinstance(value, dict):
        return {_finished(key): _finished(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_finished(entry) for entry in value)
    return value


class _Machine:
    """The stack machine of pickles, without its power."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def since_mark(self) -> list[Any]:
        at = max(at for at, entry in enumerate(self.stack) if entry is _MARK)
        found = self.stack[at + 1 :]
        del self.stack[at:]
        return found

    def run(self, data: bytes) -> Any:
        """Carry out a program, and return what it leaves."""
        for code, argument, _ in pickletools.genops(data):
            if code.name == "STOP":
                return self.stack.pop()
            self.step(code.name, argument)
        raise ValueError("it has no end")

    def step(self, name: str, argument: Any) -> None:
        """One instruction."""
        stack = self.stack
        match name:
            case "PROTO" | "FRAME" | "READONLY_BUFFER":
                pass
            case "MARK":
                stack.append(_MARK)
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                stack.append({"NONE": None, "NEWTRUE": True, "NEWFALSE": False}[name])
            case "EMPTY_DICT":
                stack.append({})
            case "EMPTY_LIST":
                stack.append([])
            case "EMPTY_TUPLE":
                stack.append(())
            case "LIST":
                stack.append(self.since_mark())
            case "TUPLE":
                stack.append(tuple(self.since_mark()))
            case "DICT":
                items = self.since_mark()
                stack.append(dict(zip(items[::2], items[1::2], strict=True)))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                count = int(name[-1])
                stack[-count:] = [tuple(stack[-count:])]
            case "POP":
                stack.pop()
            case "DUP":
                stack.append(stack[-1])
            case "APPEND":
                value = stack.pop()
                stack[-1].append(value)
            case "APPENDS":
                values = self.since_mark()
                stack[-1].extend(values)
            case "SETITEM":
                value, key = stack.pop(), stack.pop()
                stack[-1][_value(key)] = value
            case "SETITEMS":
                items = self.since_mark()
                keys = map(_value, items[::2])
                stack[-1].update(zip(keys, items[1::2], strict=True))
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                self.memo[argument] = stack[-1]
            case "MEMOIZE":
                self.memo[len(self.memo)] = stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(self.memo[argument])
            case "GLOBAL" | "STACK_GLOBAL":
                if name == "GLOBAL":
                    module, _, member = argument.partition(" ")
                else:
                    member, module = stack.pop(), stack.pop()
                if (module, member) not in _KNOWN:
                    raise InvalidDataFile(f"it calls {module}.{member}, which is not read")
                stack.append(_KNOWN[module, member])
            case "REDUCE" | "NEWOBJ":
                arguments, call = stack.pop(), stack.pop()
                if not any(call is known for known in _KNOWN.values()):
                    raise InvalidDataFile("it calls a value")
                stack.append(call(*arguments))
            case "BUILD":
                state = stack.pop()
                state = tuple(map(_value, state)) if isinstance(state, tuple) else _finished(state)
                stack[-1].build(state)
            case _ if argument is not None and type(argument) in (
                int,
                float,
                str,
                bytes,
                bytearray,
                bool,
            ):
                stack.append(argument)
            case _:
                raise InvalidDataFile(f"its instruction {name} is not read")
