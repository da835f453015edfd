"""Layers and readouts with DGL's names, arguments and names of parameters, as torch.nn modules."""

from graphwright.gnn.nn import functional
from graphwright.gnn.nn.aggregation import (
    EdgeConv,
    GatedGraphConv,
    GINConv,
    GINEConv,
    NNConv,
    SAGEConv,
)
from graphwright.gnn.nn.attention import DotGatConv, GATConv, GATv2Conv
from graphwright.gnn.nn.convolution import (
    APPNPConv,
    ChebConv,
    EdgeWeightNorm,
    GraphConv,
    SGConv,
    TAGConv,
)
from graphwright.gnn.nn.functional import edge_softmax
from graphwright.gnn.nn.inputs import expand_as_pair
from graphwright.gnn.nn.pooling import (
    AvgPooling,
    GlobalAttentionPooling,
    JumpingKnowledge,
    MaxPooling,
    Sequential,
    Set2Set,
    SortPooling,
    SumPooling,
    WeightAndSum,
)
from graphwright.gnn.nn.relational import (
    HeteroEmbedding,
    HeteroGraphConv,
    HeteroLinear,
    RelGraphConv,
    TypedLinear,
)
