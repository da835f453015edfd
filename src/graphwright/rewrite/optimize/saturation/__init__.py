"""Equality saturation: classes of equal terms, and the cheapest graph among them."""

from graphwright.rewrite.optimize.saturation.saturate import saturate, saturating
