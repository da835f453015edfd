"""Options of `gw.optimize`, checked before anything runs, and prices of a user's own function."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from numbers import Integral, Real

from graphwright.describe import Types
from graphwright.errors import InvalidOption
from graphwright.ir import Attr
from graphwright.rewrite import ALGORITHMS, Price


def check_options(
    algorithm: object,
    alpha: object,
    budget: object,
    seconds: object,
    tolerance: object,
    seed: object,
) -> None:
    """Refuse the first option that is none, or not one that it can be."""
    if algorithm not in ALGORITHMS:
        raise InvalidOption(
            f"algorithm={algorithm!r}: it has to be {' or '.join(map(repr, ALGORITHMS))}"
        )
    if not _is_number(alpha) or not alpha >= 1:  # type: ignore[operator]
        raise InvalidOption(f"alpha={alpha!r}: it has to be a number of 1 or more; 1 is greedy")
    if not _is_whole(budget) or budget < 1:  # type: ignore[operator]
        raise InvalidOption(f"budget={budget!r}: it has to be a number of graphs, 1 or more")
    if not _is_number(seconds) or not seconds >= 0:  # type: ignore[operator]
        raise InvalidOption(f"seconds={seconds!r}: it has to be a number of seconds, 0 or more")
    if tolerance is not None and (not _is_number(tolerance) or not tolerance >= 0):  # type: ignore[operator]
        raise InvalidOption(
            f"tolerance={tolerance!r}: it has to be a share of the largest output, 0 or more, or "
            "None for that of the dtype"
        )
    if not _is_whole(seed) or not 0 <= seed < 2**64:  # type: ignore[operator]
        raise InvalidOption(f"seed={seed!r}: it has to be a whole number from 0 to 2**64 - 1")


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


class GivenPrice:
    """Prices by a function of the user's, each refused where it is no time."""

    def __init__(self, price: Price) -> None:
        self._price = price

    def __call__(self, op: str, attrs: Mapping[str, Attr], types: Types) -> float:
        """Seconds of one call."""
        made: object = self._price(op, attrs, types)
        if not _is_number(made) or not 0 <= made < inf:  # type: ignore[operator]
            inputs = ", ".join("none" if t is None else str(t) for t in types.inputs)
            raise InvalidOption(
                f"the function in prices= gave {made!r} for {op}({inputs}): a price has to be a "
                "finite number of seconds, 0 or more"
            )
        return float(made)  # type: ignore[arg-type]
