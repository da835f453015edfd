"""An immutable mapping, for use inside immutable values."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any, Generic, NoReturn, TypeVar, cast, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class FrozenDict(Mapping[K, V], Generic[K, V]):
    """An immutable mapping: equal to any mapping with the same items, hashable if they are."""

    __slots__ = ("_data",)
    _data: dict[K, V]

    def __init__(self, items: Mapping[K, V] | None = None) -> None:
        object.__setattr__(self, "_data", dict(items.items()) if items else {})

    def __getitem__(self, key: K) -> V:
        return self._data[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __contains__(self, key: object) -> bool:
        return key in self._data

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...
    def get(self, key: K, /, default: V | D | None = None) -> V | D | None:
        """Return the value of `key`, or `default`."""
        return self._data.get(key, default)

    def keys(self) -> KeysView[K]:
        """The keys, in insertion order."""
        return self._data.keys()

    def values(self) -> ValuesView[V]:
        """The values, in insertion order."""
        return self._data.values()

    def items(self) -> ItemsView[K, V]:
        """The pairs, in insertion order."""
        return self._data.items()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Mapping):
            return self._data == dict(cast("Mapping[object, object]", other).items())
        return NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._data.items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._data!r})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable; make a new one")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable; make a new one")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._data,)
