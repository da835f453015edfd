"""Convolutions over a dense adjacency matrix, and graphs of points, as layers.

Row v of a matrix has the weights of the edges into v, column u of those out of u.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.nn.inputs import Feature, expand_as_pair, zeros_if
from graphwright.gnn.storage import DGLError
from graphwright.gnn.transforms import knn_graph, radius_graph, segmented_knn_graph

Activation = Callable[[Tensor], Tensor] | None


class DenseGraphConv(nn.Module):
    """GraphConv over a matrix; `norm` is "both", "right" or "none"."""

    def __init__(
        self, in_feats: int, out_feats: int, norm: str = "both", bias: bool = True,
        activation: Activation = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if norm not in ("both", "right", "none"):
            raise DGLError(f'norm has to be "both", "right" or "none". Got {norm!r}.')
        self._norm, self._activation = norm, activation
        self.weight = nn.Parameter(torch.empty(in_feats, out_feats))
        self.bias = zeros_if(bias, out_feats)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weight anew, and set the bias to zero."""
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, adj: Tensor, feat: Tensor) -> Tensor:
        adj = adj.to(feat)
        if self._norm == "both":
            feat = feat * adj.sum(0).clamp(min=1).pow(-0.5).unsqueeze(-1)
        out = adj @ (feat @ self.weight)
        if self._norm != "none":
            power = -0.5 if self._norm == "both" else -1.0
            out = out * adj.sum(1).clamp(min=1).pow(power).unsqueeze(-1)
        if self.bias is not None:
            out = out + self.bias
        return out if self._activation is None else self._activation(out)


class DenseSAGEConv(nn.Module):
    """SAGEConv over a matrix: the mean of each node and its neighbours, then a linear layer."""

    def __init__(
        self, in_feats: Any, out_feats: int, feat_drop: float = 0.0, bias: bool = True,
        norm: Activation = None, activation: Activation = None,
    ) -> None:  # fmt: skip
        super().__init__()
        src_feats, dst_feats = expand_as_pair(in_feats)
        if src_feats != dst_feats:
            raise DGLError(f"Sources and destinations need one size. Got {src_feats}, {dst_feats}.")
        self._norm, self.activation = norm, activation
        self.feat_drop = nn.Dropout(feat_drop)
        self.fc = nn.Linear(src_feats, out_feats, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weight anew."""
        nn.init.xavier_uniform_(self.fc.weight, gain=nn.init.calculate_gain("relu"))

    def forward(self, adj: Tensor, feat: Feature) -> Tensor:
        h_src, h_dst = expand_as_pair(feat)
        if h_src is h_dst:
            h_src = h_dst = self.feat_drop(h_src)
        else:
            h_src, h_dst = self.feat_drop(h_src), self.feat_drop(h_dst)
        adj = adj.to(h_src)
        out = self.fc((adj @ h_src + h_dst) / (adj.sum(1, keepdim=True) + 1))
        if self.activation is not None:
            out = self.activation(out)
        return out if self._norm is None else self._norm(out)


class DenseChebConv(nn.Module):
    """ChebConv over a matrix: a sum over k Chebyshev polynomials of the scaled Laplacian.

    `lambda_max`, its largest eigenvalue, is computed where it is not given.
    """

    def __init__(self, in_feats: int, out_feats: int, k: int, bias: bool = True) -> None:
        super().__init__()
        self._k = k
        self.W = nn.Parameter(torch.empty(k, in_feats, out_feats))
        self.bias = zeros_if(bias, out_feats)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew, and set the bias to zero."""
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        for matrix in self.W:
            nn.init.xavier_normal_(matrix, gain=nn.init.calculate_gain("relu"))

    def forward(self, adj: Tensor, feat: Tensor, lambda_max: float | None = None) -> Tensor:
        adj = adj.to(feat)
        root = adj.sum(1).clamp(min=1).pow(-0.5)
        unit = torch.eye(len(adj)).to(feat)
        laplacian = unit - root.unsqueeze(-1) * adj * root
        if lambda_max is None:
            lambda_max = float(torch.linalg.eigvals(laplacian).real.max())
        scaled = 2 * laplacian / lambda_max - unit
        terms = [feat]
        if self._k > 1:
            terms.append(scaled @ feat)
        for _ in range(2, self._k):
            terms.append(2 * scaled @ terms[-1] - terms[-2])
        out = torch.stack([x @ matrix for x, matrix in zip(terms, self.W, strict=True)]).sum(0)
        return out if self.bias is None else out + self.bias


class KNNGraph(nn.Module):
    """The graph of each point's k nearest points, itself included, of one or several point sets."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(
        self, x: Tensor, algorithm: str = "bruteforce-blas", dist: str = "euclidean",
        exclude_self: bool = False,
    ) -> DGLGraph:  # fmt: skip
        return knn_graph(x, self.k, algorithm=algorithm, dist=dist, exclude_self=exclude_self)


class SegmentedKNNGraph(nn.Module):
    """The same for point sets of any sizes, one after another."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(
        self, x: Tensor, segs: Any, algorithm: str = "bruteforce-blas", dist: str = "euclidean",
        exclude_self: bool = False,
    ) -> DGLGraph:  # fmt: skip
        return segmented_knn_graph(
            x, self.k, segs, algorithm=algorithm, dist=dist, exclude_self=exclude_self
        )


class RadiusGraph(nn.Module):
    """The graph of the points within a distance of each point."""

    def __init__(
        self, r: float, p: float = 2, self_loop: bool = False,
        compute_mode: str = "donot_use_mm_for_euclid_dist",
    ) -> None:  # fmt: skip
        super().__init__()
        self.r, self.p, self.self_loop, self.compute_mode = r, p, self_loop, compute_mode

    def forward(self, x: Tensor, get_distances: bool = False) -> Any:
        return radius_graph(
            x, self.r, p=self.p, self_loop=self.self_loop, compute_mode=self.compute_mode,
            get_distances=get_distances,
        )  # fmt: skip
