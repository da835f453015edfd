"""Layers over all pairs of nodes: dense adjacency matrices, attention, and graphs of points.

Row v of an adjacency matrix has the weights of the edges into v, column u of those out of u.
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


class BiasedMHA(nn.Module):
    """Attention among all nodes of a graph, whose scores a bias is added to or multiplied by.

    Nodes are [graphs, nodes, features], a bias [graphs, nodes, nodes, heads]; pairs where the mask
    [graphs, nodes, nodes] is True are left out.
    """

    def __init__(
        self, feat_size: int, num_heads: int, bias: bool = True, attn_bias_type: str = "add",
        attn_drop: float = 0.1,
    ) -> None:  # fmt: skip
        super().__init__()
        if feat_size % num_heads:
            raise DGLError(f"feat_size {feat_size} must be divisible by num_heads {num_heads}.")
        if attn_bias_type not in ("add", "mul"):
            raise DGLError(f'attn_bias_type has to be "add" or "mul". Got {attn_bias_type!r}.')
        self.feat_size, self.num_heads = feat_size, num_heads
        self.attn_bias_type = attn_bias_type
        self.q_proj = nn.Linear(feat_size, feat_size, bias=bias)
        self.k_proj = nn.Linear(feat_size, feat_size, bias=bias)
        self.v_proj = nn.Linear(feat_size, feat_size, bias=bias)
        self.out_proj = nn.Linear(feat_size, feat_size, bias=bias)
        self.dropout = nn.Dropout(attn_drop)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        for layer in (self.q_proj, self.k_proj, self.v_proj):
            nn.init.xavier_uniform_(layer.weight, gain=2**-0.5)
        nn.init.xavier_uniform_(self.out_proj.weight)
        if self.out_proj.bias is not None:
            nn.init.zeros_(self.out_proj.bias)

    def forward(
        self, ndata: Tensor, attn_bias: Tensor | None = None, attn_mask: Tensor | None = None
    ) -> Tensor:
        layers = self.q_proj, self.k_proj, self.v_proj
        q, k, v = (layer(ndata).unflatten(-1, (self.num_heads, -1)) for layer in layers)
        scores = torch.einsum("bqhd,bkhd->bqkh", q * q.shape[-1] ** -0.5, k)
        if attn_bias is not None:
            scores = scores + attn_bias if self.attn_bias_type == "add" else scores * attn_bias
        if attn_mask is not None:
            scores = scores.masked_fill(attn_mask.bool().unsqueeze(-1), float("-inf"))
        weight = self.dropout(scores.softmax(2))
        out: Tensor = self.out_proj(torch.einsum("bqkh,bkhd->bqhd", weight, v).flatten(2))
        return out


class GraphormerLayer(nn.Module):
    """A transformer's layer over nodes: biased attention, then two linear layers (Graphormer)."""

    def __init__(
        self, feat_size: int, hidden_size: int, num_heads: int, attn_bias_type: str = "add",
        norm_first: bool = False, dropout: float = 0.1, attn_dropout: float = 0.1,
        activation: nn.Module | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.norm_first = norm_first
        self.attn = BiasedMHA(
            feat_size, num_heads, attn_bias_type=attn_bias_type, attn_drop=attn_dropout
        )
        self.ffn = nn.Sequential(
            nn.Linear(feat_size, hidden_size), activation or nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(hidden_size, feat_size), nn.Dropout(dropout),
        )  # fmt: skip
        self.dropout = nn.Dropout(dropout)
        self.attn_layer_norm = nn.LayerNorm(feat_size)
        self.ffn_layer_norm = nn.LayerNorm(feat_size)

    def forward(
        self, nfeat: Tensor, attn_bias: Tensor | None = None, attn_mask: Tensor | None = None
    ) -> Tensor:
        before = self.attn_layer_norm if self.norm_first else nn.Identity()
        after = nn.Identity() if self.norm_first else self.attn_layer_norm
        x = after(nfeat + self.dropout(self.attn(before(nfeat), attn_bias, attn_mask)))
        if self.norm_first:
            return x + self.ffn(self.ffn_layer_norm(x))
        out: Tensor = self.ffn_layer_norm(x + self.ffn(x))
        return out


class DegreeEncoder(nn.Module):
    """A vector for each degree up to a largest; "both" adds those of in-degrees and out-degrees.

    0 pads graphs of different sizes, and its vector is zero.
    """

    def __init__(self, max_degree: int, embedding_dim: int, direction: str = "both") -> None:
        super().__init__()
        if direction not in ("in", "out", "both"):
            raise DGLError(f'direction has to be "in", "out" or "both". Got {direction!r}.')
        self.max_degree, self.direction = max_degree, direction
        table = lambda: nn.Embedding(max_degree + 1, embedding_dim, padding_idx=0)
        if direction == "both":
            self.encoder1, self.encoder2 = table(), table()
        else:
            self.encoder = table()

    def forward(self, degrees: Tensor) -> Tensor:
        degrees = degrees.clamp(0, self.max_degree)
        if self.direction != "both":
            return self.encoder(degrees)
        if len(degrees) != 2:
            raise DGLError(f"Expect in-degrees and out-degrees, stacked. Got {len(degrees)} rows.")
        return self.encoder1(degrees[0]) + self.encoder2(degrees[1])


class PathEncoder(nn.Module):
    """A bias for each pair of nodes, made of the edges on a shortest path between them.

    It is the mean of their dot products with a vector of the edge's place on the path; edges beyond
    `max_len` are left out.
    """

    def __init__(self, max_len: int, feat_dim: int, num_heads: int = 1) -> None:
        super().__init__()
        self.max_len, self.num_heads = max_len, num_heads
        self.embedding_table = nn.Embedding(max_len * num_heads, feat_dim)

    def forward(self, dist: Tensor, path_data: Tensor) -> Tensor:
        length = min(self.max_len, path_data.shape[-2])
        places = self.embedding_table.weight.view(self.max_len, self.num_heads, -1)[:length]
        total = torch.einsum("bijld,lhd->bijh", path_data[..., :length, :], places)
        return total / dist.clamp(1, self.max_len).unsqueeze(-1)


class SpatialEncoder(nn.Module):
    """A bias for each pair of nodes: a number for each distance up to a largest, 0 for -1."""

    def __init__(self, max_dist: int, num_heads: int = 1) -> None:
        super().__init__()
        self.max_dist, self.num_heads = max_dist, num_heads
        self.embedding_table = nn.Embedding(max_dist + 2, num_heads, padding_idx=0)

    def forward(self, dist: Tensor) -> Tensor:
        made: Tensor = self.embedding_table(dist.clamp(-1, self.max_dist) + 1)
        return made
