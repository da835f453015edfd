"""The graph: structure, features, message passing, and the ways to make one."""

from graphwright.gnn.graph.base import ALL, EID, ETYPE, NID, NTYPE, row_entries
from graphwright.gnn.graph.batch import batch, slice_batch, unbatch
from graphwright.gnn.graph.convert import (
    bipartite_from_networkx,
    bipartite_from_scipy,
    from_networkx,
    from_scipy,
    to_networkx,
)
from graphwright.gnn.graph.create import create_block, graph, heterograph
from graphwright.gnn.graph.graph import DGLBlock, DGLGraph
from graphwright.gnn.graph.message import EdgeBatch, NodeBatch, padded
from graphwright.gnn.graph.readout import (
    broadcast_edges,
    broadcast_nodes,
    max_edges,
    max_nodes,
    mean_edges,
    mean_nodes,
    readout_edges,
    readout_nodes,
    softmax_edges,
    softmax_nodes,
    sum_edges,
    sum_nodes,
    topk_edges,
    topk_nodes,
)
from graphwright.gnn.graph.subgraph import (
    compact,
    edge_subgraph,
    edge_type_subgraph,
    in_subgraph,
    node_subgraph,
    node_type_subgraph,
    out_subgraph,
    subgraph,
)

for _method in (
    edge_subgraph, edge_type_subgraph, in_subgraph, node_type_subgraph, out_subgraph, subgraph,
    to_networkx,
):  # fmt: skip
    setattr(DGLGraph, _method.__name__, _method)
DGLGraph.subgraph = node_subgraph  # type: ignore[attr-defined]
del _method
