"""Checks of single values, for clusters made in Python and clusters read from files."""

from __future__ import annotations

import math
from numbers import Integral, Real

from graphwright.errors import InvalidCluster

MAX_DEVICES = 1 << 20
SMALLEST, LARGEST = 1e-18, 1e24
"""Figures that are not zero lie between these: products of them stay within a float."""
"""A larger count is refused as a typing error, before it fills the memory."""


def check_name(value: object, place: str) -> str:
    """A name: printable, not empty, without surrounding blanks."""
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
    """A number of devices up to `MAX_DEVICES`."""
    if total > MAX_DEVICES:
        raise InvalidCluster(f"{place}: {total:,} devices exceed the limit of {MAX_DEVICES:,}")
    return total


def check_count(value: object, place: str, *, least: int = 1) -> int:
    """An integer of at least `least` that fits into an int64."""
    if not isinstance(value, bool) and isinstance(value, Integral):
        number = int(value)
        if least <= number < 1 << 63:
            return number
    raise InvalidCluster(f"{place}: {value!r} is not an integer of at least {least}")


def check_figure(value: object, place: str, *, zero: bool = False) -> float:
    """A finite positive number, or zero if allowed."""
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
        sign = "non-negative" if zero else "positive"
        raise InvalidCluster(f"{place}: {value!r} is not a finite {sign} number")
    if number and not SMALLEST <= number <= LARGEST:
        raise InvalidCluster(f"{place}: {number:g} is not between {SMALLEST:g} and {LARGEST:g}")
    return number + 0.0  # turns -0.0 into 0.0


def check_share(value: object, place: str) -> float:
    """A share of what a device or a link can do."""
    if isinstance(value, int | float) and 0 < value <= 1 and value is not True:
        return float(value)
    raise InvalidCluster(
        f"{place}: {value!r} is no efficiency: a share of what is possible, above 0 and at most 1"
    )
