"""A node's attributes: plain data, sorted by name, compared by their spelling and not by `==`.

Python says `nan != nan`, `0.0 == -0.0` and `1 == 1.0 == True`; for an operator's attributes each
of these would be wrong.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphwright.errors import InvalidGraph
from graphwright.frozen import FrozenDict
from graphwright.ir.spelling import Attr, spell_attr


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
