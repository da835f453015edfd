"""Sliding windows over an input, for convolution and pooling.

window     output y with tap d reads input  y*stride + d*dilation - padding
covering   input y is tap d of output  (y + padding - d*dilation) / stride, if that is an integer
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from graphwright.describe.language import Expr, Int, equal

Ints = Sequence[Int]


def window(
    y: Ints, d: Ints, stride: Ints, padding: Ints, dilation: Ints | None = None
) -> list[Int]:
    """The position in the input of tap d of the window of output y, per spatial dim."""
    gaps = dilation or [1] * len(y)
    return [
        t * s + k * gap - p for t, k, s, p, gap in zip(y, d, stride, padding, gaps, strict=True)
    ]


def covering(
    y: Ints, d: Ints, stride: Ints, padding: Ints, dilation: Ints | None = None
) -> tuple[list[Int], Expr | bool]:
    """The output whose tap d is input y, per spatial dim, and whether it exists."""
    gaps = dilation or [1] * len(y)
    at = [t + p - k * gap for t, k, p, gap in zip(y, d, padding, gaps, strict=True)]
    tests = [equal(t % s, 0) for t, s in zip(at, stride, strict=True) if s != 1]
    met = reduce(Expr.__and__, tests) if tests else True
    return [t if s == 1 else t // s for t, s in zip(at, stride, strict=True)], met
