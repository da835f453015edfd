"""Transforms of features: rows to a sum of one, masked columns, encodings of positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.storage import Frame
from graphwright.gnn.transforms.encodings import lap_pe, random_walk_pe, svd_pe
from graphwright.gnn.transforms.modules.structure import BaseTransform


def _change(g: DGLGraph, nodes: Any, edges: Any, change: Callable[[Tensor], Tensor]) -> DGLGraph:
    """A copy of a graph with some features changed; names that a type lacks are left out."""
    made = g.clone()
    groups: list[tuple[Sequence[Frame], Any]] = [
        (made._node_frames, nodes),
        (made._edge_frames, edges),
    ]
    for frames, names in groups:
        for name in names or ():
            holders = [frame for frame in frames if name in frame]
            for frame in holders or frames[:1]:  # the first one says what is missing
                frame[name] = change(frame[name])
    return made


@dataclass(frozen=True, repr=False)
class RowFeatNormalizer(BaseTransform):
    """Each row of some features divided by its sum, where that is at least one."""

    subtract_min: bool = False
    node_feat_names: Sequence[str] | None = None
    edge_feat_names: Sequence[str] | None = None

    def __call__(self, g: DGLGraph) -> DGLGraph:
        def normalised(values: Tensor) -> Tensor:
            if self.subtract_min and values.numel():
                values = values - values.min()
            return values / values.sum(-1, keepdim=True).clamp(min=1.0)

        return _change(g, self.node_feat_names, self.edge_feat_names, normalised)


@dataclass(frozen=True, repr=False)
class FeatMask(BaseTransform):
    """Columns of some features set to zero, each with probability p."""

    p: float = 0.5
    node_feat_names: Sequence[str] | None = None
    edge_feat_names: Sequence[str] | None = None

    def __call__(self, g: DGLGraph) -> DGLGraph:
        def masked(values: Tensor) -> Tensor:
            kept = torch.rand(values.shape[-1]).to(values.device) >= self.p
            return values * kept.to(values.dtype)

        if self.p == 0:
            return g
        return _change(g, self.node_feat_names, self.edge_feat_names, masked)


@dataclass(frozen=True, repr=False)
class RandomWalkPE(BaseTransform):
    """`random_walk_pe` as a node feature."""

    k: int
    feat_name: str = "PE"
    eweight_name: str | None = None

    def __call__(self, g: DGLGraph) -> DGLGraph:
        made = g.clone()
        made.ndata[self.feat_name] = random_walk_pe(g, self.k, self.eweight_name)
        return made


@dataclass(frozen=True, repr=False)
class LapPE(BaseTransform):
    """`lap_pe` as a node feature, and its eigenvalues, the same for all nodes, as another."""

    k: int
    feat_name: str = "PE"
    eigval_name: str | None = None
    padding: bool = False

    def __call__(self, g: DGLGraph) -> DGLGraph:
        made = g.clone()
        vectors, values = lap_pe(g, self.k, self.padding, return_eigval=True)
        made.ndata[self.feat_name] = vectors
        if self.eigval_name is not None:
            made.ndata[self.eigval_name] = values.expand(g.num_nodes(), -1).clone()
        return made


class LaplacianPE(LapPE):
    """The former name of `LapPE`."""


@dataclass(frozen=True, repr=False)
class SVDPE(BaseTransform):
    """`svd_pe` as a node feature."""

    k: int
    feat_name: str = "svd_pe"
    padding: bool = False
    random_flip: bool = True

    def __call__(self, g: DGLGraph) -> DGLGraph:
        made = g.clone()
        made.ndata[self.feat_name] = svd_pe(g, self.k, self.padding, self.random_flip)
        return made
