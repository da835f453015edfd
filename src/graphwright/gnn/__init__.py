"""Graph neural networks with DGL's interface, on any PyTorch.

    import graphwright.gnn as dgl
    import graphwright.gnn.function as fn

    g = dgl.graph(([0, 0, 1], [1, 2, 2]))
    g.ndata["h"] = torch.randn(3, 16)
    g.update_all(fn.copy_u("h", "m"), fn.mean("m", "h_new"))

How it is built, from the bottom:

- `storage`: a `Relation` is the edges of one type, immutable, in COO, CSR or CSC, whichever is
  asked for; a `Frame` is the features of one type, columns with one row per node or edge, whose
  selections are made when they are read; a `Metagraph` is the types. Errors are here as well.
- `kernels`: sums and extremes of messages over one relation, fused, with gradients: on a CPU, on a
  GPU, and for features of each framework (`kernels.backend`).
- `function`: the built-ins, as values. `ops`: the kernels by DGL's names.
- `graph`: a `DGLGraph` is a metagraph, a relation per edge type and a frame per node and edge type.
  One with one type of each is a homogeneous graph, one whose node types have sides is a block. Its
  class is a chain of bases with a subject each: `base` (storage), `queries`, `mutation`, `message`.
  Functions that make a graph of another one use `g.relation(etype)`, `g.node_frame(ntype, side)`,
  `g.edge_frame(etype)`, `frame.select(ids)` and `g.with_parts(relations=, node_frames=, ...)`.
- `transforms`, `sampling`, `dataloading`, `data` and `distributed` are functions over graphs:
  others of one, random parts, mini-batches, files, and parts for several machines.
- `nn`: layers. `alias`: how `sys.modules["dgl"] = graphwright.gnn` works.
- Ids are tensors of `g.idtype` on `g.device`; `g.node_ids(x)` and `g.edge_id_tensor(x)` make them
  of whatever a user gave, and check them.
"""

from graphwright.gnn import (
    data,
    dataloading,
    distributed,
    function,
    nn,
    ops,
    sampling,
    storage,
    transforms,
)
from graphwright.gnn.alias import install
from graphwright.gnn.data import load_graphs, rand_bipartite, rand_graph, save_graphs
from graphwright.gnn.distributed import distribute, metis_partition_assignment, predict
from graphwright.gnn.graph import (
    ALL,
    EID,
    ETYPE,
    NID,
    NTYPE,
    DGLBlock,
    DGLGraph,
    EdgeBatch,
    NodeBatch,
    batch,
    bipartite_from_networkx,
    bipartite_from_scipy,
    broadcast_edges,
    broadcast_nodes,
    create_block,
    edge_subgraph,
    edge_type_subgraph,
    from_networkx,
    from_scipy,
    graph,
    heterograph,
    in_subgraph,
    max_edges,
    max_nodes,
    mean_edges,
    mean_nodes,
    node_subgraph,
    node_type_subgraph,
    out_subgraph,
    padded,
    readout_edges,
    readout_nodes,
    slice_batch,
    softmax_edges,
    softmax_nodes,
    subgraph,
    sum_edges,
    sum_nodes,
    to_networkx,
    topk_edges,
    topk_nodes,
    unbatch,
)
from graphwright.gnn.ops import edge_softmax, gather_mm, segment_mm, segment_reduce
from graphwright.gnn.sampling import (
    bfs_edges_generator,
    bfs_nodes_generator,
    dfs_edges_generator,
    dfs_labeled_edges_generator,
    prop_edges,
    prop_edges_dfs,
    prop_nodes,
    prop_nodes_bfs,
    prop_nodes_topo,
    sample_neighbors,
    seed,
    select_topk,
    topological_nodes_generator,
    traversal,
)
from graphwright.gnn.storage import DGLError
from graphwright.gnn.transforms import (
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
    add_edges,
    add_nodes,
    add_reverse_edges,
    add_self_loop,
    adj_product_graph,
    adj_sum_graph,
    block_to_graph,
    compact_graphs,
    double_radius_node_labeling,
    khop_adj,
    khop_graph,
    khop_in_subgraph,
    khop_out_subgraph,
    knn_graph,
    lap_pe,
    laplacian_lambda_max,
    laplacian_pe,
    line_graph,
    merge,
    metapath_reachable_graph,
    norm_by_dst,
    radius_graph,
    random_walk_pe,
    remove_edges,
    remove_nodes,
    remove_self_loop,
    reorder_graph,
    reverse,
    segmented_knn_graph,
    shortest_dist,
    sort_csc_by_tag,
    sort_csr_by_tag,
    svd_pe,
    to_bidirected,
    to_block,
    to_heterogeneous,
    to_homogeneous,
    to_simple,
)

random = propagate = sampling  # DGL's modules of these names are parts of it
init = storage

install(__name__)
