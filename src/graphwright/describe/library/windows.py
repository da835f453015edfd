"""Windows that slide over an input: what convolution and pooling share.

window     output y with tap d reads input  y*stride + d*dilation - padding
covering   input y was read by tap d of output  (y + padding - d*dilation) / stride, where that divides
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from graphwright.describe.expression import Expr
from graphwright.describe.language import Int, equal

Ints = Sequence[Int]


def window(
    y: Ints, d: Ints, stride: Ints, padding: Ints, dilation: Ints | None = None
) -> list[Int]:
    """Where tap d of the window of output y lies in the input, per spatial dim."""
    gaps = dilation or [1] * len(y)
    return [
        t * s + k * gap - p for t, k, s, p, gap in zip(y, d, stride, padding, gaps, strict=True)
    ]


def covering(
    y: Ints, d: Ints, stride: Ints, padding: Ints, dilation: Ints | None = None
) -> tuple[list[Int], Expr | bool]:
    """The output whose tap d is input y, per spatial dim, and whether there is one."""
    gaps = dilation or [1] * len(y)
    at = [t + p - k * gap for t, k, p, gap in zip(y, d, padding, gaps, strict=True)]
    tests = [equal(t % s, 0) for t, s in zip(at, stride, strict=True) if s != 1]
    met = reduce(Expr.__and__, tests) if tests else True
    return [t if s == 1 else t // s for t, s in zip(at, stride, strict=True)], met
