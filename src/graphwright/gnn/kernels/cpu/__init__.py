"""Kernels for a CPU on NumPy arrays: compiled loops on all cores."""

from graphwright.gnn.kernels.cpu.lanes import prefetch
from graphwright.gnn.kernels.cpu.threads import over_rows
from graphwright.gnn.kernels.cpu.walk import contract, edge_values, extreme, route
