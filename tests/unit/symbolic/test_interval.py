"""Figure 4 of the Tofu paper, line by line, and its two halves of a split."""

import pytest

from graphwright.errors import NonAffineIndex
from graphwright.symbolic import Interval, Kind, Poly, Symbol, interval_of

X, Y = Symbol("x"), Symbol("y")
x, y = Poly.of(X), Poly.of(Y)
top_x, top_y = (Poly.of(Symbol(name, Kind.BOUND)) for name in ("X", "Y"))
stride = Poly.of(Symbol("stride", Kind.ATTR))
RANGES = {X: Interval(Poly.const(0), top_x), Y: Interval(Poly.const(0), top_y)}


@pytest.mark.parametrize(
    ("expression", "low", "high"),
    [
        (x, Poly.const(0), top_x),
        (x + 5, Poly.const(5), top_x + 5),
        (x * 3, Poly.const(0), top_x * 3),
        (-x, -top_x, Poly.const(0)),
        (x + y, Poly.const(0), top_x + top_y),
        (x - y, -top_y, top_x),
        (x * stride + y - 1, Poly.const(-1), top_x * stride + top_y - 1),
        (x // 4, Poly.const(0), top_x // 4),
        (x % 4, Poly.const(0), Poly.const(3)),
        (Poly.const(7), Poly.const(7), Poly.const(7)),
    ],
)
def test_interval_arithmetic(expression, low, high):
    assert interval_of(expression, RANGES) == Interval(low, high)


def test_the_halves_of_shift_two():
    """Section 4.2: B[i] = A[i + 2] over [0, 9] reads [2, 6] and [7, 11]."""
    for (low, high), expected in (((0, 4), (2, 6)), ((5, 9), (7, 11))):
        half = {X: Interval(Poly.const(low), Poly.const(high))}
        found = interval_of(x + 2, half)
        assert (found.low.constant, found.high.constant) == expected


def test_a_product_of_indices_is_refused():
    with pytest.raises(NonAffineIndex, match="Opaque"):
        interval_of(x * y, RANGES)


def test_length_counts_both_ends():
    assert Interval(Poly.const(2), Poly.const(6)).length == 5
