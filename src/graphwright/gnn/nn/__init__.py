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
from graphwright.gnn.nn.attention import AGNNConv, DotGatConv, GATConv, GATv2Conv
from graphwright.gnn.nn.convolution import (
    APPNPConv,
    ChebConv,
    EdgeWeightNorm,
    GCN2Conv,
    GraphConv,
    LabelPropagation,
    SGConv,
    TAGConv,
)
from graphwright.gnn.nn.dense import (
    BiasedMHA,
    DegreeEncoder,
    DenseChebConv,
    DenseGraphConv,
    DenseSAGEConv,
    GraphormerLayer,
    KNNGraph,
    PathEncoder,
    RadiusGraph,
    SegmentedKNNGraph,
    SpatialEncoder,
)
from graphwright.gnn.nn.edge_features import (
    AtomicConv,
    CFConv,
    EdgeGATConv,
    EGATConv,
    EGNNConv,
    GatedGCNConv,
    GMMConv,
)
from graphwright.gnn.nn.functional import edge_softmax
from graphwright.gnn.nn.inputs import expand_as_pair
from graphwright.gnn.nn.links import EdgePredictor, TransE, TransR
from graphwright.gnn.nn.moments import PNAConv
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
    HGTConv,
    RelGraphConv,
    TypedLinear,
    WeightBasis,
)
