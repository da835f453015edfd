"""A model that is, whatever happens in between, as it was before: to the attribute.

    Snapshot(model)      everything that the model holds, by identity
    snapshot.restore()   each object holds the same things again, in the same order

What a model holds is reached through attributes, slots, mappings, lists, sets and tuples, of
modules and of any other object: configurations, caches, dataclasses. Not reached are tensors,
classes, functions, and objects of the standard library that are no containers (locks, loggers,
files). Arrays of NumPy are copied. Only what has changed is written, by the methods of the built-in
type, since a subclass may forbid writing.
"""

from __future__ import annotations

import random
import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import nn

from graphwright.aten import is_number

_LEAVES = (str, bytes, int, float, complex, type(None), type, torch.Tensor, torch.dtype)
_LARGEST_COPY = 64 << 20
"""Bytes of an array that is copied, to be put back."""
_TABLES = ("_modules", "_parameters", "_buffers")
Contents = tuple[Any, ...]
"""What an object holds: keys and values in turn, or values alone."""


class Snapshot:
    """What a model holds now."""

    def __init__(self, model: nn.Module) -> None:
        self._held: list[_Held] = []
        seen: set[int] = set()
        pending: list[tuple[str, Any]] = [("", model)]
        while pending:
            path, thing = pending.pop()
            if isinstance(thing, _LEAVES) or id(thing) in seen:
                continue
            seen.add(id(thing))
            if isinstance(thing, (tuple, frozenset)):
                pending.extend((path, item) for item in thing)
            for held in _contents(path, thing):
                self._held.append(held)
                pending.extend(held.parts())

    def replaced(self, read: Collection[int]) -> list[str]:
        """The names of tensors that were read (by `id`), and in whose place there are others."""
        return [
            name
            for name, before, now in self._changes()
            if isinstance(before, torch.Tensor) and id(before) in read
        ]

    def counted(self) -> list[str]:
        """The plain numbers that have changed, in words."""
        return [
            f"{name} from {before} to {now}"
            for name, before, now in self._changes()
            if is_number(before) and is_number(now) and before != now
        ]

    def _changes(self) -> Iterator[tuple[str, Any, Any]]:
        for held in self._held:
            if held.has_changed():
                now = dict(held.parts(held.read()))
                for name, before in held.parts():
                    if now.get(name) is not before:
                        yield name, before, now.get(name)

    def restore(self) -> None:
        """Put everything back."""
        for held in self._held:
            if held.has_changed():
                held.write(held.before)


class Generators:
    """Where Python's and NumPy's own generators are now."""

    def __init__(self) -> None:
        self._python, self._numpy = random.getstate(), np.random.get_state()

    def drawn(self) -> list[str]:
        """Those that something was drawn from, in words."""
        now, before = np.random.get_state(), self._numpy
        same = all(np.array_equal(a, b) for a, b in zip(now, before, strict=True))
        return [
            *(["Python's random"] if random.getstate() != self._python else []),
            *(["numpy.random"] if not same else []),
        ]

    def restore(self) -> None:
        """Put them back."""
        random.setstate(self._python)
        np.random.set_state(self._numpy)


class _Held:
    """One object with what it held; `read` and `write` go past its own methods."""

    __slots__ = ("before", "has_keys", "path", "read", "write")

    def __init__(
        self,
        path: str,
        read: Callable[[], Contents],
        write: Callable[[Contents], None],
        has_keys: bool,
    ) -> None:
        self.path, self.read, self.write, self.has_keys = path, read, write, has_keys
        self.before = read()

    def has_changed(self) -> bool:
        now = self.read()
        return len(now) != len(self.before) or any(
            a is not b for a, b in zip(now, self.before, strict=True)
        )

    def parts(self, contents: Contents | None = None) -> Iterator[tuple[str, Any]]:
        """Values with their names."""
        contents = self.before if contents is None else contents
        keys = contents[::2] if self.has_keys else range(len(contents))
        values = contents[1::2] if self.has_keys else contents
        for key, value in zip(keys, values, strict=True):
            name = key if isinstance(key, (str, int)) else type(key).__name__
            yield self.path if name in _TABLES else f"{self.path}.{name}".lstrip("."), value


class _Copied(_Held):
    """An array of NumPy or of bytes, whose elements are no objects: a copy of them."""

    __slots__ = ()

    def __init__(self, path: str, array: bytearray | np.ndarray) -> None:
        def fill(contents: Contents) -> None:
            array[:] = contents[0]

        def fill_scalar(contents: Contents) -> None:
            array[()] = contents[0]  # type: ignore[call-overload]

        has_dims = isinstance(array, bytearray) or array.ndim > 0
        super().__init__(path, lambda: (array.copy(),), fill if has_dims else fill_scalar, False)

    def has_changed(self) -> bool:
        (now,), (before,) = self.read(), self.before
        return bool(
            now != before if isinstance(now, bytearray) else now.tobytes() != before.tobytes()
        )

    def parts(self, contents: Contents | None = None) -> Iterator[tuple[str, Any]]:
        return iter(())


def _contents(path: str, thing: Any) -> Iterator[_Held]:
    """What an object holds as a container, in its attributes and in its slots."""
    if isinstance(thing, dict):
        yield _mapping(path, thing)
    elif isinstance(thing, list):
        yield _Held(
            path,
            lambda: tuple(list.__iter__(thing)),
            lambda c: list.__setitem__(thing, slice(None), c),
            False,
        )
    elif isinstance(thing, set):

        def fill_set(contents: Contents) -> None:
            set.clear(thing)
            set.update(thing, contents)

        yield _Held(path, lambda: tuple(set.__iter__(thing)), fill_set, False)
    elif isinstance(thing, deque):

        def fill_deque(contents: Contents) -> None:
            deque.clear(thing)
            deque.extend(thing, contents)

        yield _Held(path, lambda: tuple(deque.__iter__(thing)), fill_deque, False)
    elif isinstance(thing, bytearray) or (
        isinstance(thing, np.ndarray) and thing.flags.writeable and thing.nbytes <= _LARGEST_COPY
    ):
        yield _Copied(path, thing)
        return
    kind = type(thing)
    if kind.__module__.partition(".")[0] in sys.stdlib_module_names and kind is not SimpleNamespace:
        return
    try:
        attributes = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        attributes = None
    if type(attributes) is dict:
        yield _mapping(path, attributes)
    slots = _slots(kind)
    if slots:
        yield _Held(
            path, lambda: _read_slots(thing, slots), lambda c: _fill_slots(thing, slots, c), True
        )


def _mapping(path: str, thing: dict[Any, Any]) -> _Held:
    base: type[dict[Any, Any]] = OrderedDict if isinstance(thing, OrderedDict) else dict

    def fill(contents: Contents) -> None:
        base.clear(thing)
        for key, value in zip(contents[::2], contents[1::2], strict=True):
            base.__setitem__(thing, key, value)

    return _Held(path, lambda: tuple(chain.from_iterable(base.items(thing))), fill, True)


def _slots(kind: type) -> dict[str, Any]:
    """The descriptors of a class's slots by name."""
    slots: dict[str, Any] = {}
    for base in kind.__mro__:
        names = base.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            hidden = f"_{base.__name__.lstrip('_')}{name}" if name.startswith("__") else name
            if type(base.__dict__.get(hidden)).__name__ == "member_descriptor":
                slots.setdefault(hidden, base.__dict__[hidden])
    return slots


def _read_slots(thing: Any, slots: dict[str, Any]) -> Contents:
    contents: list[Any] = []
    for name, slot in slots.items():
        try:
            contents += (name, slot.__get__(thing))
        except AttributeError:  # nothing is there
            continue
    return tuple(contents)


def _fill_slots(thing: Any, slots: dict[str, Any], contents: Contents) -> None:
    kept = dict(zip(contents[::2], contents[1::2], strict=True))
    for name, value in kept.items():
        slots[name].__set__(thing, value)
    for name in set(_read_slots(thing, slots)[::2]) - kept.keys():
        slots[name].__delete__(thing)
