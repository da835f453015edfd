"""Parts of a graph, in order or at random: traversals, neighbours, walks, missing edges."""

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.sampling import traversal
from graphwright.gnn.sampling.generator import (
    advance,
    next_seed,
    seed,
    seeded,
    stream,
    torch_generator,
    uniform,
)
from graphwright.gnn.sampling.negative import global_uniform_negative_sampling
from graphwright.gnn.sampling.neighbours import sample_neighbors, select_topk
from graphwright.gnn.sampling.pinsage import PinSAGESampler, RandomWalkNeighborSampler
from graphwright.gnn.sampling.propagate import (
    prop_edges,
    prop_edges_dfs,
    prop_nodes,
    prop_nodes_bfs,
    prop_nodes_topo,
)
from graphwright.gnn.sampling.traversal import (
    bfs_edges_generator,
    bfs_nodes_generator,
    dfs_edges_generator,
    dfs_labeled_edges_generator,
    topological_nodes_generator,
)
from graphwright.gnn.sampling.walks import node2vec_random_walk, pack_traces, random_walk

for _function in (global_uniform_negative_sampling, sample_neighbors, select_topk):
    setattr(DGLGraph, _function.__name__, _function)  # as methods, as in DGL
del _function
