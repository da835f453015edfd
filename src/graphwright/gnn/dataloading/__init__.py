"""Mini-batches: samplers, and loaders that run them ahead of training."""

from graphwright.gnn.dataloading import negative_sampler
from graphwright.gnn.dataloading.edges import (
    EdgePredictionSampler,
    as_edge_prediction_sampler,
    find_exclude_eids,
)
from graphwright.gnn.dataloading.graphs import GraphCollator, GraphDataLoader
from graphwright.gnn.dataloading.loader import DataLoader
from graphwright.gnn.dataloading.samplers import (
    BlockSampler,
    MultiLayerFullNeighborSampler,
    MultiLayerNeighborSampler,
    NeighborSampler,
    Sampler,
    set_dst_lazy_features,
    set_edge_lazy_features,
    set_node_lazy_features,
    set_src_lazy_features,
)
from graphwright.gnn.dataloading.subgraphs import ClusterGCNSampler, SAINTSampler, ShaDowKHopSampler
