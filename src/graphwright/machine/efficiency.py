"""How much of its rates and of its memory bandwidth a device reaches, by kind of arithmetic.

    [device.efficiency]
    elementwise = 0.87                                  # of the memory bandwidth
    product = [[100, 0.35], [400, 0.56], [1500, 0.67]]  # of the rate, by operations per byte
    [device.efficiency.attention]                       # or by dtype; "other" is all the rest
    bfloat16 = [[200, 0.3], [2000, 0.5]]
    other = 0.4

The operations for each byte that a call reads or writes, its intensity, are few where a product is
small or thin and where attention is short, which is what keeps kernels from their rate. Between two
points the share is interpolated over the logarithm of the intensity; beyond them it stays.

Kinds are those of `describe.arithmetic`, and

    unaligned    of what products reach otherwise, where rows of narrow floats do not begin at
                 multiples of 16 bytes (a vocabulary of 50,257 words)

What a device says nothing about it reaches in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from graphwright.errors import InvalidCluster
from graphwright.frozen import FrozenDict
from graphwright.machine.checks import check_figure, check_share

KINDS = ("product", "convolution", "attention", "cast", "elementwise", "unaligned")
BOUND_BY_MEMORY = ("cast", "elementwise")
OTHER = "other"
Floats: TypeAlias = "NDArray[np.float64] | float"


@dataclass(frozen=True, slots=True)
class Curve:
    """Shares at growing intensities."""

    points: tuple[tuple[float, float], ...]

    def at(self, intensity: Floats) -> Floats:
        """The share at an intensity, or at each of several."""
        if len(self.points) == 1:
            return self.points[0][1]
        at, shares = zip(*self.points, strict=True)
        known = np.maximum(intensity, 1e-300)
        return np.interp(np.log(known), np.log(at), shares)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return repr(plain(self))


Efficiency: TypeAlias = FrozenDict[str, FrozenDict[str, Curve]]
"""Curves by kind and dtype."""


def plain(curve: Curve) -> float | list[list[float]]:
    """A curve as a file has it: one share, or points."""
    if len(curve.points) == 1:
        return curve.points[0][1]
    return [list(point) for point in curve.points]


def check_efficiency(given: object, rates: Mapping[str, float], place: str) -> Efficiency:
    """Shares by kind and dtype, each above 0 and at most 1, of dtypes that have a rate."""
    if not isinstance(given, Mapping):
        raise InvalidCluster(f"{place}: {given!r} is not a table of shares by kind")
    checked: dict[str, FrozenDict[str, Curve]] = {}
    for kind in sorted(given, key=str):
        if kind not in KINDS:
            near = get_close_matches(str(kind), KINDS, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise InvalidCluster(f"{place}: {kind!r} is no kind; {hint}use {', '.join(KINDS)}")
        by_dtype = given[kind]
        if not isinstance(by_dtype, Mapping):
            by_dtype = {OTHER: by_dtype}
        for dtype in by_dtype:
            if dtype != OTHER and dtype not in rates:
                raise InvalidCluster(
                    f"{place}: {kind}: {dtype} has no rate on this device; add it under rates "
                    f"({', '.join(sorted(rates))} are there), or leave its efficiency out"
                )
        checked[kind] = FrozenDict(
            {d: _curve(by_dtype[d], f"{place}: {kind}: {d}") for d in sorted(by_dtype)}
        )
    return FrozenDict(checked)


def _curve(given: object, place: str) -> Curve:
    if isinstance(given, Curve):
        given = plain(given)
    if not isinstance(given, list | tuple):
        return Curve(((1.0, check_share(given, place)),))
    points: list[tuple[float, float]] = []
    for point in given:
        if not isinstance(point, list | tuple) or len(point) != 2:
            raise InvalidCluster(
                f"{place}: {point!r} is not [operations for each byte, share of the rate]"
            )
        at = check_figure(point[0], f"{place}: intensity")
        if points and at <= points[-1][0]:
            raise InvalidCluster(f"{place}: intensities have to grow, and {at:g} does not")
        points.append((at, check_share(point[1], place)))
    if not points:
        raise InvalidCluster(f"{place}: no points; give a share such as 0.7, or leave it out")
    return Curve(tuple(points))
