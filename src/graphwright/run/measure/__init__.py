"""Measure operators, links and machines, and keep what was measured where the cost model finds it."""
