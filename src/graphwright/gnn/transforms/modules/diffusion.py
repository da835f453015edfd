"""Weights along paths: `GCNNorm`, and graphs whose edges are sums over paths of any length.

With T[v, u] the weight of the edge from u to v,

    PPR          a (I - (1 - a) T)^-1          HeatKernel   exp(-t (I - T))
    GDC          sum over k of coefs[k] T^k    SIGNDiffusion   T x, T^2 x, ...  as node features

The sum is dense; the smallest weights are dropped, and the rest are the edges of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.storage import DGLError
from graphwright.gnn.transforms.modules.structure import BaseTransform
from graphwright.gnn.transforms.neighbourhoods import adjacency
from graphwright.gnn.transforms.parts import homogeneous, reduce_rows, require_homogeneous


def _weights(g: DGLGraph, name: str | None, etype: Any = None) -> Tensor:
    frame = g.edge_frame(etype)
    if name is not None and name in frame:
        weights: Tensor = frame[name]
        return weights
    return torch.ones(g.num_edges(etype), device=g.device)


@dataclass(frozen=True, repr=False)
class GCNNorm(BaseTransform):
    """Each edge's weight over the roots of the weights into its ends (out of the source's, where
    the ends are of different types)."""

    eweight_name: str = "w"

    def __call__(self, g: DGLGraph) -> DGLGraph:
        made = g.clone()
        for etype in g.canonical_etypes:
            relation = g.relation(etype)
            src, dst = relation.coo
            weights = _weights(g, self.eweight_name, etype)
            into = reduce_rows(weights, dst, relation.num_dst, "sum")
            same = etype[0] == etype[2]
            other = into if same else reduce_rows(weights, src, relation.num_src, "sum")
            ends = other[src.long()] * into[dst.long()]
            made.edge_frame(etype)[self.eweight_name] = torch.where(
                ends > 0, weights * ends.clamp(min=1e-38) ** -0.5, 0.0
            )
        return made


class _Diffusion(BaseTransform):
    eweight_name: str
    eps: float | None
    avg_degree: int

    def __call__(self, g: DGLGraph) -> DGLGraph:
        require_homogeneous(g, type(self).__name__)
        weights = _weights(g, self.eweight_name)
        transition = adjacency(g, weights=weights.reshape(-1)).toarray().astype(np.float64).T
        return self._sparsified(g, self._sum(transition))

    def _sum(self, transition: Any) -> Any:
        raise NotImplementedError

    def _sparsified(self, g: DGLGraph, sums: Any) -> DGLGraph:
        eps = self.eps
        if eps is None:
            kept = self.avg_degree * g.num_nodes()
            eps = np.sort(sums, axis=None)[-kept] if 0 < kept <= sums.size else -np.inf
        dst, src = ((sums >= eps) & (sums != 0)).nonzero()
        ends = [torch.from_numpy(at).to(g.device, g.idtype) for at in (src, dst)]
        made = homogeneous(ends[0], ends[1], g.num_nodes(), g.node_frame().copy())
        made.edata[self.eweight_name] = torch.from_numpy(sums[dst, src]).float().to(g.device)
        return made


@dataclass(frozen=True, repr=False)
class PPR(_Diffusion):
    """Personalised PageRank with restart probability `alpha`.

    Weights below `eps` are dropped, or all but `avg_degree` for each node on average.
    """

    alpha: float = 0.15
    eweight_name: str = "w"
    eps: float | None = None
    avg_degree: int = 5

    def _sum(self, transition: Any) -> Any:
        identity = np.eye(len(transition))
        return self.alpha * np.linalg.inv(identity - (1 - self.alpha) * transition)


@dataclass(frozen=True, repr=False)
class HeatKernel(_Diffusion):
    """The heat kernel with diffusion time `t`; sparse as with `PPR`."""

    t: float = 2.0
    eweight_name: str = "w"
    eps: float | None = None
    avg_degree: int = 5

    def _sum(self, transition: Any) -> Any:
        from scipy.linalg import expm

        return expm(-self.t * (np.eye(len(transition)) - transition))


@dataclass(frozen=True, repr=False)
class GDC(_Diffusion):
    """Graph diffusion convolution with a coefficient for each path length; sparse as with `PPR`."""

    coefs: Sequence[float]
    eweight_name: str = "w"
    eps: float | None = None
    avg_degree: int = 5

    def _sum(self, transition: Any) -> Any:
        power, total = np.eye(len(transition)), np.zeros_like(transition)
        for coefficient in self.coefs:
            total += coefficient * power
            power = power @ transition
        return total


@dataclass(frozen=True, repr=False)
class SIGNDiffusion(BaseTransform):
    """A node feature diffused 1, 2, ... k times, as features `{out_feat_name}_1`, ..._k.

    `diffuse_op` is "raw" (A), "rw" (rows of A sum to 1), "gcn" (`GCNNorm`) or "ppr" (gcn, and a
    share `alpha` of the first feature in each step).
    """

    k: int
    in_feat_name: str = "feat"
    out_feat_name: str = "out_feat"
    eweight_name: str | None = None
    diffuse_op: str = "raw"
    alpha: float = 0.2

    def __call__(self, g: DGLGraph) -> DGLGraph:
        require_homogeneous(g, "SIGNDiffusion")
        made = g.clone()
        src, dst = (ends.long() for ends in g.relation().coo)
        weights = _weights(g, self.eweight_name)
        first = g.ndata[self.in_feat_name]
        match self.diffuse_op:
            case "raw":
                pass
            case "rw":
                weights = weights / reduce_rows(weights, dst, g.num_nodes(), "sum")[dst]
            case "gcn" | "ppr":
                into = reduce_rows(weights, dst, g.num_nodes(), "sum").clamp(min=1e-38) ** -0.5
                weights = weights * into[src] * into[dst]
            case _:
                raise DGLError(
                    f'diffuse_op has to be "raw", "rw", "gcn" or "ppr". Got {self.diffuse_op!r}.'
                )
        feature = first
        for step in range(1, self.k + 1):
            messages = feature[src] * weights.reshape(-1, *[1] * (feature.dim() - 1))
            feature = torch.zeros_like(first).index_add(0, dst, messages.to(first.dtype))
            if self.diffuse_op == "ppr":
                feature = (1 - self.alpha) * feature + self.alpha * first
            made.ndata[f"{self.out_feat_name}_{step}"] = feature
        return made
