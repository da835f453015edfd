"""Ranges of vertices that take workers the same time, by a cost model learned from their times."""

from graphwright.gnn.distributed.balance.cost import CostModel, Sample
from graphwright.gnn.distributed.balance.features import CPU_LINE, GPU_LINE, VertexFeatures
from graphwright.gnn.distributed.balance.online import OnlinePartitioner, imbalance
from graphwright.gnn.distributed.balance.ranges import (
    Bounds,
    InvalidRanges,
    balanced,
    check_bounds,
    equal_edges,
    equal_vertices,
    largest,
    refined,
)
