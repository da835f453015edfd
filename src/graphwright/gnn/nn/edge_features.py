"""Layers whose messages read features of edges: attention, gates, filters, mixtures and distances.

Where a feature of edges is only scored or summed, it is reduced before it is multiplied by a
matrix: sums over edges of a * (W x_e) are W times the sums of a * x_e, so nothing of the size
edges x heads x features is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.kernels import edge_softmax, gsddmm, gspmm, sum_edges
from graphwright.gnn.nn.inputs import (
    Feature,
    add_projections,
    draw_weights,
    expand_as_pair,
    require_in_edges,
    residual_if,
    zeros_if,
)
from graphwright.gnn.storage import DGLError

Activation = Callable[[Tensor], Tensor] | None


class EdgeGATConv(nn.Module):
    """Graph attention (SCENE): sum of a_e (W x_u + W_e x_e), with x_e in the scores a_e as well."""

    fc: nn.Linear
    fc_src: nn.Linear
    fc_dst: nn.Linear

    def __init__(
        self, in_feats: Any, edge_feats: int, out_feats: int, num_heads: int,
        feat_drop: float = 0.0, attn_drop: float = 0.0, negative_slope: float = 0.2,
        residual: bool = True, activation: Activation = None, allow_zero_in_degree: bool = False,
        bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self._num_heads, self._out_feats = num_heads, out_feats
        self._allow_zero_in_degree = allow_zero_in_degree
        dst_feats = expand_as_pair(in_feats)[1]
        width = num_heads * out_feats
        add_projections(self, in_feats, width)
        self.fc_edge = nn.Linear(edge_feats, width, bias=False)
        self.attn_l = nn.Parameter(torch.empty(1, num_heads, out_feats))
        self.attn_r = nn.Parameter(torch.empty(1, num_heads, out_feats))
        self.attn_edge = nn.Parameter(torch.empty(1, num_heads, out_feats))
        self.feat_drop, self.attn_drop = nn.Dropout(feat_drop), nn.Dropout(attn_drop)
        self.leaky_relu = nn.LeakyReLU(negative_slope)
        self.bias = zeros_if(bias, width)
        self.res_fc = nn.Linear(dst_feats, width, bias=False) if residual else None
        self.activation = activation
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew, and set the bias to zero."""
        draw_weights(self)

    def set_allow_zero_in_degree(self, set_value: bool) -> None:
        """Whether nodes without in-edges are allowed."""
        self._allow_zero_in_degree = set_value

    def forward(
        self, graph: DGLGraph, feat: Feature, edge_feat: Tensor, get_attention: bool = False
    ) -> Any:
        require_in_edges(graph, self._allow_zero_in_degree)
        relation, heads = graph.relation(), (-1, self._num_heads, self._out_feats)
        h_src, h_dst = expand_as_pair(feat, graph)
        if h_src is h_dst:
            h_src = h_dst = self.feat_drop(h_src)
        else:
            h_src, h_dst = self.feat_drop(h_src), self.feat_drop(h_dst)
        layers = (self.fc, self.fc) if hasattr(self, "fc") else (self.fc_src, self.fc_dst)
        x_src, x_dst = layers[0](h_src).view(heads), layers[1](h_dst).view(heads)
        matrix = self.fc_edge.weight.view(*heads[1:], -1)
        left = (x_src * self.attn_l).sum(-1, keepdim=True)
        right = (x_dst * self.attn_r).sum(-1, keepdim=True)
        of_edges = edge_feat @ torch.einsum("hof,ho->fh", matrix, self.attn_edge[0])
        scores = gsddmm(relation, "add", (left, "u"), (right, "v")) + of_edges.unsqueeze(-1)
        attention = self.attn_drop(edge_softmax(relation, self.leaky_relu(scores)))
        out = gspmm(relation, "mul", "sum", (x_src, "u"), (attention, "e"))
        sums = gspmm(relation, "mul", "sum", (edge_feat.unsqueeze(1), "e"), (attention, "e"))
        out = out + torch.einsum("nhf,hof->nho", sums, matrix)
        if self.res_fc is not None:
            out = out + self.res_fc(h_dst).view(heads)
        if self.bias is not None:
            out = out + self.bias.view(1, *heads[1:])
        if self.activation is not None:
            out = self.activation(out)
        return (out, attention) if get_attention else out


class EGATConv(nn.Module):
    """Graph attention that makes new edge features as well: LeakyReLU(A [x_u, x_e, x_v])."""

    def __init__(
        self, in_node_feats: Any, in_edge_feats: int, out_node_feats: int, out_edge_feats: int,
        num_heads: int, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        src_feats, dst_feats = expand_as_pair(in_node_feats)
        self._num_heads = num_heads
        self._out_node_feats, self._out_edge_feats = out_node_feats, out_edge_feats
        width = num_heads * out_edge_feats
        self.fc_node_src = nn.Linear(src_feats, num_heads * out_node_feats, bias=False)
        self.fc_ni = nn.Linear(src_feats, width, bias=False)
        self.fc_nj = nn.Linear(dst_feats, width, bias=False)
        self.fc_fij = nn.Linear(in_edge_feats, width, bias=False)
        self.attn = nn.Parameter(torch.empty(1, num_heads, out_edge_feats))
        self.bias = zeros_if(bias, width)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew, and set the bias to zero."""
        draw_weights(self)

    def forward(
        self, graph: DGLGraph, nfeats: Feature, efeats: Tensor, edge_weight: Tensor | None = None,
        get_attention: bool = False,
    ) -> Any:  # fmt: skip
        relation = graph.relation()
        h_src, h_dst = expand_as_pair(nfeats, graph)
        ends = gsddmm(relation, "add", (self.fc_ni(h_src), "u"), (self.fc_nj(h_dst), "v"))
        made = ends + F.linear(efeats, self.fc_fij.weight, self.bias)
        edges = F.leaky_relu(made).view(-1, self._num_heads, self._out_edge_feats)
        scores = (edges * self.attn).sum(-1, keepdim=True)
        attention = edge_softmax(relation, scores)
        if edge_weight is not None:
            attention = attention * edge_weight.reshape(-1, 1, 1)
        x_src = self.fc_node_src(h_src).view(-1, self._num_heads, self._out_node_feats)
        nodes = gspmm(relation, "mul", "sum", (x_src, "u"), (attention, "e"))
        return (nodes, edges, attention) if get_attention else (nodes, edges)


class GatedGCNConv(nn.Module):
    """Gated convolution (Benchmarking Graph Neural Networks): gates of nodes' sums, made of edges.

    x_e' = D x_u + E x_v + C x_e, and x_v' = A x_v + the mean of B x_u weighted by sigmoid(x_e').
    """

    def __init__(
        self, input_feats: int, edge_feats: int, output_feats: int, dropout: float = 0,
        batch_norm: bool = True, residual: bool = True, activation: Activation = F.relu,
    ) -> None:  # fmt: skip
        super().__init__()
        self.dropout, self.activation = nn.Dropout(dropout), activation
        self.batch_norm = batch_norm
        self.residual = residual and input_feats == output_feats == edge_feats
        self.A = nn.Linear(input_feats, output_feats)
        self.B = nn.Linear(input_feats, output_feats)
        self.C = nn.Linear(edge_feats, output_feats)
        self.D = nn.Linear(input_feats, output_feats)
        self.E = nn.Linear(input_feats, output_feats)
        self.bn_node, self.bn_edge = nn.BatchNorm1d(output_feats), nn.BatchNorm1d(output_feats)

    def forward(self, graph: DGLGraph, feat: Tensor, edge_feat: Tensor) -> tuple[Tensor, Tensor]:
        relation = graph.relation()
        edges = gsddmm(relation, "add", (self.D(feat), "u"), (self.E(feat), "v"))
        edges = edges + self.C(edge_feat)
        gates = edges.sigmoid()
        total = gspmm(relation, "copy", "sum", (gates, "e"))
        near = gspmm(relation, "mul", "sum", (self.B(feat), "u"), (gates, "e"))
        nodes = self.A(feat) + near / (total + 1e-6)
        if self.batch_norm:
            nodes, edges = self.bn_node(nodes), self.bn_edge(edges)
        if self.activation is not None:
            nodes, edges = self.activation(nodes), self.activation(edges)
        if self.residual:
            nodes, edges = nodes + feat, edges + edge_feat
        return self.dropout(nodes), self.dropout(edges)


class ShiftedSoftplus(nn.Module):
    """log(1 + exp(x)) - log(2), which is 0 at 0."""

    def forward(self, x: Tensor) -> Tensor:
        return F.softplus(x) - F.softplus(x.new_zeros(()))


class CFConv(nn.Module):
    """Continuous filters (SchNet): the sum of sources times a filter that is made of each edge."""

    def __init__(
        self, node_in_feats: int, edge_in_feats: int, hidden_feats: int, out_feats: int
    ) -> None:
        super().__init__()
        self.project_edge = nn.Sequential(
            nn.Linear(edge_in_feats, hidden_feats), ShiftedSoftplus(),
            nn.Linear(hidden_feats, hidden_feats), ShiftedSoftplus(),
        )  # fmt: skip
        self.project_node = nn.Linear(node_in_feats, hidden_feats)
        self.project_out = nn.Sequential(nn.Linear(hidden_feats, out_feats), ShiftedSoftplus())

    def forward(self, g: DGLGraph, node_feats: Feature, edge_feats: Tensor) -> Tensor:
        h_src, _ = expand_as_pair(node_feats, g)
        pair = (self.project_node(h_src), "u"), (self.project_edge(edge_feats), "e")
        out: Tensor = self.project_out(gspmm(g.relation(), "mul", "sum", *pair))
        return out


class GMMConv(nn.Module):
    """Mixtures (MoNet): the sum of W_k x_u over neighbours and Gaussian kernels of coordinates."""

    def __init__(
        self, in_feats: Any, out_feats: int, dim: int, n_kernels: int,
        aggregator_type: str = "sum", residual: bool = False, bias: bool = True,
        allow_zero_in_degree: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if aggregator_type not in ("sum", "mean", "max"):
            raise DGLError(f"Aggregator type {aggregator_type!r} not recognized: sum, mean or max.")
        self._in_src_feats, self._in_dst_feats = expand_as_pair(in_feats)
        self._out_feats, self._n_kernels, self._dim = out_feats, n_kernels, dim
        self._aggregator_type, self._allow_zero_in_degree = aggregator_type, allow_zero_in_degree
        self.mu = nn.Parameter(torch.empty(n_kernels, dim))
        self.inv_sigma = nn.Parameter(torch.empty(n_kernels, dim))
        self.fc = nn.Linear(self._in_src_feats, n_kernels * out_feats, bias=False)
        self.res_fc = residual_if(residual, self._in_dst_feats, out_feats)
        self.bias = zeros_if(bias, out_feats)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        gain = nn.init.calculate_gain("relu")
        nn.init.xavier_normal_(self.fc.weight, gain=gain)
        if isinstance(self.res_fc, nn.Linear):
            nn.init.xavier_normal_(self.res_fc.weight, gain=gain)
        nn.init.normal_(self.mu, 0, 0.1)
        nn.init.ones_(self.inv_sigma)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def set_allow_zero_in_degree(self, set_value: bool) -> None:
        """Whether nodes without in-edges are allowed."""
        self._allow_zero_in_degree = set_value

    def forward(self, graph: DGLGraph, feat: Feature, pseudo: Tensor) -> Tensor:
        require_in_edges(graph, self._allow_zero_in_degree)
        h_src, h_dst = expand_as_pair(feat, graph)
        if pseudo.shape != (graph.num_edges(), self._dim):
            raise DGLError(
                f"Expect pseudo coordinates of shape {[graph.num_edges(), self._dim]}, a row for "
                f"each edge. Got {list(pseudo.shape)}."
            )
        x = self.fc(h_src).view(-1, self._n_kernels, self._out_feats)
        offsets = (pseudo.unsqueeze(1) - self.mu) * self.inv_sigma
        kernels = (-0.5 * offsets.square().sum(-1, keepdim=True)).exp()
        out = gspmm(graph.relation(), "mul", self._aggregator_type, (x, "u"), (kernels, "e")).sum(1)
        if self.res_fc is not None:
            out = out + self.res_fc(h_dst)
        return out if self.bias is None else out + self.bias


class EGNNConv(nn.Module):
    """Equivariant convolution: features by distances, coordinates along the lines between nodes.

    Messages of neighbours are made of both features, the square of the distance and the edge. They
    are computed in parts, and again for gradients.
    """

    def __init__(
        self, in_size: int, hidden_size: int, out_size: int, edge_feat_size: int = 0
    ) -> None:
        super().__init__()
        self.in_size, self.hidden_size, self.out_size = in_size, hidden_size, out_size
        self.edge_feat_size = edge_feat_size
        self.edge_mlp = nn.Sequential(
            nn.Linear(2 * in_size + 1 + edge_feat_size, hidden_size), nn.SiLU(),
            nn.Linear(hidden_size, hidden_size), nn.SiLU(),
        )  # fmt: skip
        self.node_mlp = nn.Sequential(
            nn.Linear(in_size + hidden_size, hidden_size), nn.SiLU(),
            nn.Linear(hidden_size, out_size),
        )  # fmt: skip
        self.coord_mlp = nn.Sequential(
            nn.Linear(hidden_size, hidden_size), nn.SiLU(), nn.Linear(hidden_size, 1, bias=False)
        )

    def forward(
        self, graph: DGLGraph, node_feat: Feature, coord_feat: Feature,
        edge_feat: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        if self.edge_feat_size > 0 and edge_feat is None:
            raise DGLError(f"a layer of {self.edge_feat_size} edge features needs edge_feat")
        relation = graph.relation()
        h_src, h_dst = expand_as_pair(node_feat, graph)
        x_src, x_dst = expand_as_pair(coord_feat, graph)
        layers: Any = self.edge_mlp[0], self.edge_mlp[2], self.coord_mlp[0], self.coord_mlp[2]
        shared = [p for layer in layers for p in (layer.weight, layer.bias) if p is not None]
        sums = sum_edges(
            relation, self._messages,
            u=torch.cat([h_src, x_src], -1), v=torch.cat([h_dst, x_dst], -1),
            e=edge_feat if self.edge_feat_size else None, shared=shared,
        )  # fmt: skip
        near, moves = sums.split([self.hidden_size, x_dst.shape[-1]], -1)
        degrees = relation.in_degrees().clamp(min=1).to(moves.dtype).unsqueeze(-1)
        return self.node_mlp(torch.cat([h_dst, near], -1)), x_dst + moves / degrees

    def _messages(self, u: Tensor, v: Tensor, *rest: Tensor) -> Tensor:
        *edge, w1, b1, w2, b2, w3, b3, w4 = rest
        size = self.in_size
        line = u[:, size:] - v[:, size:]
        square = line.square().sum(-1, keepdim=True)
        line = line / (square.sqrt() + 1e-30)
        joined = torch.cat([u[:, :size], v[:, :size], square, *edge], -1)
        message = F.silu(F.linear(F.silu(F.linear(joined, w1, b1)), w2, b2))
        step = F.linear(F.silu(F.linear(message, w3, b3)), w4)
        return torch.cat([message, step * line], -1)


class AtomicConv(nn.Module):
    """Radial filters of the distances to neighbours (Gomes et al.), summed by the atoms' numbers.

    A filter is exp(-scaling (r - mean)^2) (cos(pi r / cutoff) + 1) / 2 within its cutoff, 0 beyond.
    """

    features_to_use: Tensor | None

    def __init__(
        self, interaction_cutoffs: Tensor, rbf_kernel_means: Tensor, rbf_kernel_scaling: Tensor,
        features_to_use: Tensor | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.radial_pooling = _RadialFilters(
            interaction_cutoffs, rbf_kernel_means, rbf_kernel_scaling
        )
        if features_to_use is None:
            self.features_to_use = None
        else:
            self.features_to_use = nn.Parameter(features_to_use, requires_grad=False)

    def forward(self, graph: DGLGraph, feat: Tensor, distances: Tensor) -> Tensor:
        filters = self.radial_pooling(distances.reshape(-1, 1)).unsqueeze(1)
        if self.features_to_use is not None:
            feat = (feat == self.features_to_use).to(filters.dtype)
        pair = (feat.unsqueeze(-1), "u"), (filters, "e")
        out: Tensor = gspmm(graph.relation(), "mul", "sum", *pair)  # nodes x features x filters
        return out.flatten(1)


class _RadialFilters(nn.Module):
    """The value of each filter at each distance."""

    def __init__(self, cutoffs: Tensor, means: Tensor, scaling: Tensor) -> None:
        super().__init__()
        self.interaction_cutoffs = nn.Parameter(cutoffs.reshape(-1, 1, 1))
        self.rbf_kernel_means = nn.Parameter(means.reshape(-1, 1, 1))
        self.rbf_kernel_scaling = nn.Parameter(scaling.reshape(-1, 1, 1))

    def forward(self, distances: Tensor) -> Tensor:
        cutoffs, means, scaling = (
            x.reshape(1, -1)
            for x in (self.interaction_cutoffs, self.rbf_kernel_means, self.rbf_kernel_scaling)
        )
        bell = (-scaling * (distances - means).square()).exp()
        fade = 0.5 * ((torch.pi * distances / cutoffs).cos() + 1)
        return torch.where(distances <= cutoffs, bell * fade, 0)
