"""The paths of repeated modules: `layers.3.attention.query` is `attention.query` in the fourth of `layers`."""

from __future__ import annotations

import re


def split_path(module: str) -> tuple[str, str]:
    """A module's path up to its first number, and what follows."""
    match = re.fullmatch(r"((?:.*?\.)?\d+)(?:\.(.*))?", module)
    return (match[1], match[2] or "") if match else (module, "")


def follows(before: str, path: str) -> bool:
    """Whether a path is another but for the number at its end, which is one more."""
    a, b = (re.fullmatch(r"(.*?)(\d+)", text) for text in (before, path))
    return a is not None and b is not None and a[1] == b[1] and int(b[2]) == int(a[2]) + 1
