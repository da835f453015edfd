"""Exact integer expressions, intervals and boxes: the arithmetic beneath every analysis."""

from graphwright.symbolic.interval import Box, Interval, assumed, interval_of
from graphwright.symbolic.poly import Atom, Kind, Poly, Quotient, Remainder, Symbol
