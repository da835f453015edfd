"""Graphs from graphs: functions (`dgl.reverse(g)`) and objects (`dgl.transforms.AddReverse()`).

A transform leaves its graph alone and returns a new one. Features come along where the nodes or
edges do; `dgl.NID` and `dgl.EID` hold the old ids where the result numbers anew.
"""

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.transforms.blocks import block_to_graph, compact_graphs, to_block
from graphwright.gnn.transforms.combine import adj_product_graph, adj_sum_graph, merge
from graphwright.gnn.transforms.directions import add_reverse_edges, reverse, to_bidirected
from graphwright.gnn.transforms.encodings import (
    double_radius_node_labeling,
    lap_pe,
    laplacian_lambda_max,
    laplacian_pe,
    norm_by_dst,
    random_walk_pe,
    shortest_dist,
    svd_pe,
)
from graphwright.gnn.transforms.loops import (
    add_edges,
    add_nodes,
    add_self_loop,
    remove_edges,
    remove_nodes,
    remove_self_loop,
)
from graphwright.gnn.transforms.modules import (
    GDC,
    PPR,
    SVDPE,
    AddEdge,
    AddMetaPaths,
    AddReverse,
    AddSelfLoop,
    BaseTransform,
    Compose,
    DropEdge,
    DropNode,
    FeatMask,
    GCNNorm,
    HeatKernel,
    KHopGraph,
    LaplacianPE,
    LapPE,
    LineGraph,
    NodeShuffle,
    RandomWalkPE,
    RemoveSelfLoop,
    RowFeatNormalizer,
    SIGNDiffusion,
    ToLevi,
    ToSimple,
)
from graphwright.gnn.transforms.neighbourhoods import (
    adjacency,
    khop_adj,
    khop_graph,
    khop_in_subgraph,
    khop_out_subgraph,
    line_graph,
    metapath_reachable_graph,
)
from graphwright.gnn.transforms.order import reorder_graph, sort_csc_by_tag, sort_csr_by_tag
from graphwright.gnn.transforms.parts import (
    count_up,
    homogeneous,
    ids_where,
    nodes_by_type,
    require_homogeneous,
)
from graphwright.gnn.transforms.points import knn_graph, radius_graph, segmented_knn_graph
from graphwright.gnn.transforms.simple import to_simple
from graphwright.gnn.transforms.types import to_heterogeneous, to_homogeneous

for _function in (
    add_reverse_edges,
    add_self_loop,
    khop_in_subgraph,
    khop_out_subgraph,
    line_graph,
    remove_self_loop,
    reorder_graph,
    reverse,
    shortest_dist,
    to_bidirected,
    to_simple,
):
    setattr(DGLGraph, _function.__name__, _function)  # as methods, as in DGL
del _function
