"""Linear algebra: products, norms, factorisations, and large matrices in blocks."""

from graphwright.arrays.namespace.linalg.linear import FUNCTIONS, LINALG
from graphwright.arrays.namespace.linalg.products import dot, matmul, trace

__all__ = ["FUNCTIONS", "LINALG", "dot", "matmul", "trace"]
