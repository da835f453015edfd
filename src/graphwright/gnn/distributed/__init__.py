"""A graph in parts, for processes or machines that hold one each, and training on all of them."""

from graphwright.gnn.distributed.assign import edge_cut, metis_partition_assignment
from graphwright.gnn.distributed.balance import CostModel, InvalidRanges
from graphwright.gnn.distributed.book import RangePartitionBook
from graphwright.gnn.distributed.partition import (
    load_partition,
    load_partition_book,
    partition_graph,
)
from graphwright.gnn.distributed.training import (
    Epoch,
    InvalidTraining,
    Sampling,
    Trained,
    adam,
    distribute,
    distribute_made,
    predict,
)
