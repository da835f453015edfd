"""Checks of single figures, shared by what is made in Python and what is read from a file."""

from __future__ import annotations

import math
from numbers import Integral, Real

from graphwright.errors import InvalidCluster

MAX_DEVICES = 1 << 20
"""More are refused: a count with a slip in it should not fill the memory."""


def check_name(value: object, place: str) -> str:
    """A name: printable, not empty, no blanks around it."""
    if not isinstance(value, str) or not value or not value.isprintable() or value != value.strip():
        raise InvalidCluster(f"{place}: {value!r} is not a name; use printable characters")
    return value


def check_text(value: object, place: str) -> str:
    """A text that can be written to a file."""
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            pass
        else:
            return value
    raise InvalidCluster(f"{place}: {value!r} is not text")


def check_total(total: int, place: str) -> int:
    """A number of devices that is not absurd."""
    if total > MAX_DEVICES:
        raise InvalidCluster(
            f"{place}: {total:,} devices are more than {MAX_DEVICES:,}, the most allowed"
        )
    return total


def check_count(value: object, place: str, *, least: int = 1) -> int:
    """A whole number from `least` upwards that an int64 holds."""
    if not isinstance(value, bool) and isinstance(value, Integral):
        number = int(value)
        if least <= number < 1 << 63:
            return number
    raise InvalidCluster(f"{place}: {value!r} is not a whole number from {least} upwards")


def check_figure(value: object, place: str, *, zero: bool = False) -> float:
    """A finite number above zero, or from zero where that is allowed."""
    try:
        number = float(value) if isinstance(value, Real) else math.nan
    except OverflowError:
        number = math.inf
    if (
        isinstance(value, bool)
        or not math.isfinite(number)
        or number < 0
        or (number == 0 and not zero)
    ):
        least = "zero or more" if zero else "more than zero"
        raise InvalidCluster(f"{place}: {value!r} is not a finite number, {least}")
    return number + 0.0  # so that -0.0 is 0.0
