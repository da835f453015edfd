"""Random parts of a graph: neighbours, walks, pairs without an edge."""

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
from graphwright.gnn.sampling.walks import node2vec_random_walk, pack_traces, random_walk
