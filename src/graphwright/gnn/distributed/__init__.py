"""A graph in parts, for processes or machines that hold one each."""

from graphwright.gnn.distributed.assign import edge_cut, metis_partition_assignment
from graphwright.gnn.distributed.book import RangePartitionBook
from graphwright.gnn.distributed.partition import (
    load_partition,
    load_partition_book,
    partition_graph,
)
