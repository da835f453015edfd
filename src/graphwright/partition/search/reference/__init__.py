"""Exact searches for small problems. Tests and benchmarks hold the other searches against them; no plan is made by them."""

from graphwright.partition.search.reference.milp import solve
