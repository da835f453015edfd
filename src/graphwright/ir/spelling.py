"""How names and attribute values are spelled: shared by `repr`, the text form and the content hash.

A value has exactly one spelling and a spelling exactly one value, so two attributes are the same
when their spellings are. Names print bare where that is unambiguous (`%layer1.0/conv:1`) and as a
JSON string otherwise (`%"a name with spaces"`).
"""

from __future__ import annotations

import json
import re
from typing import TypeAlias

from graphwright.errors import InvalidGraph

Attr: TypeAlias = "bool | int | float | str | tuple[Attr, ...] | None"

# A colon may only stand inside a name: the one that follows a name belongs to its type.
BARE_NAME = re.compile(r"[A-Za-z0-9_$./-]+(?::+[A-Za-z0-9_$./-]+)*")
OP_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*")

MAX_ATTR_DEPTH = 32
"""Deeper nesting than any operator's argument; keeps a hostile file from exhausting the stack."""

_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1


def spell_path(path: str) -> str:
    """Spell a name without its sign: bare where that can be read back, else as a JSON string."""
    return path if BARE_NAME.fullmatch(path) else json.dumps(path)


def spell_name(name: str) -> str:
    """Spell a tensor's name: `%conv1.weight`."""
    return "%" + spell_path(name)


def spell_attr(value: Attr, depth: int = 0) -> str:
    """Spell one attribute value as a Python literal, with `inf` and `nan` besides.

    Exact types only: a NumPy float or an enum is refused rather than silently changed.
    """
    kind = type(value)
    if value is None or kind is bool:
        return str(value)
    if kind is int:
        if not _MIN_INT <= value <= _MAX_INT:  # type: ignore[operator]
            raise InvalidGraph("the integer does not fit 64 bits", rule="attribute kind")
        return str(value)
    if kind is float:
        return repr(value)
    if kind is str:
        return json.dumps(value)
    if kind is tuple:
        if depth >= MAX_ATTR_DEPTH:
            raise InvalidGraph(f"nested deeper than {MAX_ATTR_DEPTH} tuples", rule="attribute kind")
        parts = [spell_attr(item, depth + 1) for item in value]  # type: ignore[union-attr]
        return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"
    raise InvalidGraph(
        f"a value of type {kind.__module__}.{kind.__qualname__} is not plain data; give None, "
        "bool, int, float, str or a tuple of these (a list as a tuple, a dtype by its name)",
        rule="attribute kind",
    )
