"""A mapping made once: the rates of a device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Generic, NoReturn, TypeVar, cast

K = TypeVar("K")
V = TypeVar("V")


class FrozenMapping(Mapping[K, V], Generic[K, V]):
    """An immutable mapping: equal to any with the same items, hashable when they are."""

    __slots__ = ("_data",)
    _data: dict[K, V]

    def __init__(self, items: Mapping[K, V]) -> None:
        object.__setattr__(self, "_data", dict(items))

    def __getitem__(self, key: K) -> V:
        return self._data[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Mapping):
            return self._data == dict(cast("Mapping[object, object]", other))
        return NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._data.items()))

    def __repr__(self) -> str:
        return f"FrozenMapping({self._data!r})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("FrozenMapping is immutable; make a new one")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._data,)
