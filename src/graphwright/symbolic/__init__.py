"""Exact integer expressions, intervals and boxes: the arithmetic beneath every analysis."""

from graphwright.symbolic.interval import Box, Interval, assumed, interval_of
from graphwright.symbolic.poly import Atom, Kind, Poly, Quotient, Remainder, Symbol

__all__ = [
    "Atom",
    "Box",
    "Interval",
    "Kind",
    "Poly",
    "Quotient",
    "Remainder",
    "Symbol",
    "assumed",
    "interval_of",
]
