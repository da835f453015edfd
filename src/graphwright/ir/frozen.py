"""Immutable, hashable mappings: the containers inside a graph.

`FrozenDict` is any mapping that no longer changes. `Attrs` is a node's attributes: plain data only,
sorted by name, and compared by their spelling rather than by `==`. Python says `nan != nan`, `0.0
== -0.0` and `1 == 1.0 == True`; for an operator's attributes each of those would be wrong.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any, Generic, NoReturn, TypeVar, cast, overload

from graphwright.errors import InvalidGraph
from graphwright.ir.spelling import Attr, spell_attr

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class FrozenDict(Mapping[K, V], Generic[K, V]):
    """A mapping made once: equal to any mapping with the same items, hashable when they are."""

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
        """The keys, in the order given."""
        return self._data.keys()

    def values(self) -> ValuesView[V]:
        """The values, in the order given."""
        return self._data.values()

    def items(self) -> ItemsView[K, V]:
        """The pairs, in the order given."""
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


class Attrs(FrozenDict[str, Attr]):
    """A node's attributes, sorted by name; `text` is their one spelling: `dim=(1,), eps=1e-05`."""

    __slots__ = ("text",)
    text: str

    def __init__(self, items: Mapping[str, Attr] | None = None) -> None:
        data = dict(sorted(items.items())) if items else {}
        object.__setattr__(self, "_data", data)
        object.__setattr__(self, "text", ", ".join([_pair(k, v) for k, v in data.items()]))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Attrs):
            return self.text == other.text
        if isinstance(other, Mapping):
            try:
                return self.text == Attrs(other).text  # pyright: ignore[reportUnknownArgumentType]
            except (InvalidGraph, TypeError):  # not attributes, so not these attributes
                return False
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Attrs({self.text})"


def _pair(name: str, value: Attr) -> str:
    if not (type(name) is str and name.isascii() and name.isidentifier()):
        raise InvalidGraph(
            f"attribute name {name!r} is not an identifier; use the name of the schema's argument",
            rule="attribute name",
        )
    try:
        return f"{name}={spell_attr(value)}"
    except InvalidGraph as error:
        raise InvalidGraph(f"attribute {name}: {error}", rule=error.rule) from None
