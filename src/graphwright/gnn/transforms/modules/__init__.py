"""Transforms as objects: a call takes a graph and returns a new one; `Compose` joins several."""

from graphwright.gnn.transforms.modules.diffusion import (
    GDC,
    PPR,
    GCNNorm,
    HeatKernel,
    SIGNDiffusion,
)
from graphwright.gnn.transforms.modules.features import (
    SVDPE,
    FeatMask,
    LaplacianPE,
    LapPE,
    RandomWalkPE,
    RowFeatNormalizer,
)
from graphwright.gnn.transforms.modules.randomness import AddEdge, DropEdge, DropNode, NodeShuffle
from graphwright.gnn.transforms.modules.structure import (
    AddMetaPaths,
    AddReverse,
    AddSelfLoop,
    BaseTransform,
    Compose,
    KHopGraph,
    LineGraph,
    RemoveSelfLoop,
    ToLevi,
    ToSimple,
)
