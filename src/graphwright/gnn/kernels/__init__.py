"""Fused kernels over one relation: messages are computed and reduced, and never stored."""

from graphwright.gnn.kernels import registered as registered
from graphwright.gnn.kernels.broadcast import result_shape
from graphwright.gnn.kernels.choice import as_one
from graphwright.gnn.kernels.messages import (
    OPERATORS,
    REDUCTIONS,
    Operand,
    edge_softmax,
    gather_mm,
    gsddmm,
    gspmm,
    segment_mm,
    segment_reduce,
)
from graphwright.gnn.kernels.recomputed import map_edges, sum_edges
