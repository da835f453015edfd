"""Attention over in-edges: GAT, GATv2 and dot products with several heads, and AGNN.

Scores are of size edges x heads; messages, edges x heads x features, are never stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.kernels import edge_softmax, gsddmm, gspmm, map_edges
from graphwright.gnn.nn.inputs import (
    Feature,
    add_projections,
    expand_as_pair,
    require_in_edges,
    residual_if,
    zeros_if,
)

Activation = Callable[[Tensor], Tensor] | None


class GATConv(nn.Module):
    """Graph attention (Velickovic et al.): softmax of LeakyReLU(a . [W x_u, W x_v])."""

    fc: nn.Linear
    fc_src: nn.Linear
    fc_dst: nn.Linear

    def __init__(
        self, in_feats: Any, out_feats: int, num_heads: int, feat_drop: float = 0.0,
        attn_drop: float = 0.0, negative_slope: float = 0.2, residual: bool = False,
        activation: Activation = None, allow_zero_in_degree: bool = False, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self._num_heads, self._out_feats = num_heads, out_feats
        self._allow_zero_in_degree = allow_zero_in_degree
        dst_feats = expand_as_pair(in_feats)[1]
        width = num_heads * out_feats
        add_projections(self, in_feats, width)
        self.attn_l = nn.Parameter(torch.empty(1, num_heads, out_feats))
        self.attn_r = nn.Parameter(torch.empty(1, num_heads, out_feats))
        self.feat_drop, self.attn_drop = nn.Dropout(feat_drop), nn.Dropout(attn_drop)
        self.leaky_relu = nn.LeakyReLU(negative_slope)
        self.res_fc = residual_if(residual, dst_feats, width, bias)
        # A linear residual has the bias, as in DGL.
        self.bias = zeros_if(bias and not isinstance(self.res_fc, nn.Linear), width)
        self.activation = activation
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        gain = nn.init.calculate_gain("relu")
        for name in ("fc", "fc_src", "fc_dst"):
            if hasattr(self, name):
                nn.init.xavier_normal_(getattr(self, name).weight, gain=gain)
        nn.init.xavier_normal_(self.attn_l, gain=gain)
        nn.init.xavier_normal_(self.attn_r, gain=gain)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        if isinstance(self.res_fc, nn.Linear):
            nn.init.xavier_normal_(self.res_fc.weight, gain=gain)
            if self.res_fc.bias is not None:
                nn.init.zeros_(self.res_fc.bias)

    def set_allow_zero_in_degree(self, set_value: bool) -> None:
        """Whether nodes without in-edges are allowed."""
        self._allow_zero_in_degree = set_value

    def forward(
        self, graph: DGLGraph, feat: Feature, edge_weight: Tensor | None = None,
        get_attention: bool = False,
    ) -> Any:  # fmt: skip
        require_in_edges(graph, self._allow_zero_in_degree)
        relation, heads = graph.relation(), (-1, self._num_heads, self._out_feats)
        if isinstance(feat, tuple):
            h_src, h_dst = (self.feat_drop(x) for x in feat)
            layers = (self.fc, self.fc) if hasattr(self, "fc") else (self.fc_src, self.fc_dst)
            x_src = layers[0](h_src).view(heads)
            x_dst = layers[1](h_dst).view(heads)
        else:
            h_src = self.feat_drop(feat)
            x_src = x_dst = self.fc(h_src).view(heads)
            h_dst = h_src
            if graph.is_block:
                x_dst, h_dst = x_src[: graph.num_dst_nodes()], h_src[: graph.num_dst_nodes()]
        left = (x_src * self.attn_l).sum(-1, keepdim=True)
        right = (x_dst * self.attn_r).sum(-1, keepdim=True)
        scores = self.leaky_relu(gsddmm(relation, "add", (left, "u"), (right, "v")))
        attention = self.attn_drop(edge_softmax(relation, scores))
        if edge_weight is not None:
            attention = attention * edge_weight.reshape(-1, 1, 1)
        out = gspmm(relation, "mul", "sum", (x_src, "u"), (attention, "e"))
        if self.res_fc is not None:
            out = out + self.res_fc(h_dst).view(len(h_dst), -1, self._out_feats)
        if self.bias is not None:
            out = out + self.bias.view(1, self._num_heads, self._out_feats)
        if self.activation is not None:
            out = self.activation(out)
        return (out, attention) if get_attention else out


class GATv2Conv(nn.Module):
    """Attention with a . LeakyReLU(W_u x_u + W_v x_v), whose ranking depends on both ends."""

    def __init__(
        self, in_feats: Any, out_feats: int, num_heads: int, feat_drop: float = 0.0,
        attn_drop: float = 0.0, negative_slope: float = 0.2, residual: bool = False,
        activation: Activation = None, allow_zero_in_degree: bool = False, bias: bool = True,
        share_weights: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self._num_heads, self._out_feats = num_heads, out_feats
        self._allow_zero_in_degree, self._share = allow_zero_in_degree, share_weights
        src_feats, dst_feats = expand_as_pair(in_feats)
        width = num_heads * out_feats
        self.fc_src = nn.Linear(src_feats, width, bias=bias)
        self.fc_dst = self.fc_src if share_weights else nn.Linear(dst_feats, width, bias=bias)
        self.attn = nn.Parameter(torch.empty(1, num_heads, out_feats))
        self.feat_drop, self.attn_drop = nn.Dropout(feat_drop), nn.Dropout(attn_drop)
        self.leaky_relu = nn.LeakyReLU(negative_slope)
        self.res_fc = residual_if(residual, dst_feats, width, bias)
        self.activation = activation
        self.bias = bias
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        gain = nn.init.calculate_gain("relu")
        for parameter in (self.fc_src.weight, self.fc_dst.weight, self.attn):
            nn.init.xavier_normal_(parameter, gain=gain)
        if self.bias:
            nn.init.zeros_(self.fc_src.bias)
            nn.init.zeros_(self.fc_dst.bias)
        if isinstance(self.res_fc, nn.Linear):
            nn.init.xavier_normal_(self.res_fc.weight, gain=gain)
            if self.res_fc.bias is not None:
                nn.init.zeros_(self.res_fc.bias)

    def set_allow_zero_in_degree(self, set_value: bool) -> None:
        """Whether nodes without in-edges are allowed."""
        self._allow_zero_in_degree = set_value

    def forward(self, graph: DGLGraph, feat: Feature, get_attention: bool = False) -> Any:
        require_in_edges(graph, self._allow_zero_in_degree)
        relation = graph.relation()
        h_src, h_dst = (self.feat_drop(x) for x in expand_as_pair(feat, graph))
        shape = (-1, self._num_heads, self._out_feats)
        x_src, x_dst = self.fc_src(h_src).view(shape), self.fc_dst(h_dst).view(shape)
        slope = self.leaky_relu.negative_slope
        scores = map_edges(
            relation,
            lambda u, v, attn: (F.leaky_relu(u + v, slope) * attn).sum(-1, keepdim=True),
            u=x_src, v=x_dst, shared=(self.attn,),
        )  # fmt: skip
        attention = self.attn_drop(edge_softmax(relation, scores))
        out = gspmm(relation, "mul", "sum", (x_src, "u"), (attention, "e"))
        if self.res_fc is not None:
            out = out + self.res_fc(h_dst).view(len(h_dst), -1, self._out_feats)
        if self.activation is not None:
            out = self.activation(out)
        return (out, attention) if get_attention else out


class DotGatConv(nn.Module):
    """Attention by dot products of the transformed ends, over the root of their size."""

    fc: nn.Linear
    fc_src: nn.Linear
    fc_dst: nn.Linear

    def __init__(
        self, in_feats: Any, out_feats: int, num_heads: int, allow_zero_in_degree: bool = False
    ) -> None:
        super().__init__()
        self._num_heads, self._out_feats = num_heads, out_feats
        self._allow_zero_in_degree = allow_zero_in_degree
        add_projections(self, in_feats, num_heads * out_feats)

    def forward(self, graph: DGLGraph, feat: Feature, get_attention: bool = False) -> Any:
        require_in_edges(graph, self._allow_zero_in_degree)
        relation, shape = graph.relation(), (-1, self._num_heads, self._out_feats)
        h_src, h_dst = expand_as_pair(feat, graph)
        layers = (self.fc, self.fc) if hasattr(self, "fc") else (self.fc_src, self.fc_dst)
        x_src, x_dst = layers[0](h_src).view(shape), layers[1](h_dst).view(shape)
        scores = gsddmm(relation, "dot", (x_src, "u"), (x_dst, "v")) / self._out_feats**0.5
        attention = edge_softmax(relation, scores)
        out = gspmm(relation, "mul", "sum", (x_src, "u"), (attention, "e"))
        return (out, attention) if get_attention else out


class AGNNConv(nn.Module):
    """Attention without weights: the softmax of beta times the cosine of both ends."""

    beta: Tensor

    def __init__(
        self, init_beta: float = 1.0, learn_beta: bool = True, allow_zero_in_degree: bool = False
    ) -> None:
        super().__init__()
        self._allow_zero_in_degree = allow_zero_in_degree
        start = torch.tensor([float(init_beta)])
        if learn_beta:
            self.beta = nn.Parameter(start)
        else:
            self.register_buffer("beta", start)

    def set_allow_zero_in_degree(self, set_value: bool) -> None:
        """Whether nodes without in-edges are allowed."""
        self._allow_zero_in_degree = set_value

    def forward(self, graph: DGLGraph, feat: Feature) -> Tensor:
        require_in_edges(graph, self._allow_zero_in_degree)
        relation = graph.relation()
        h_src, h_dst = expand_as_pair(feat, graph)
        directions = (F.normalize(h_src, dim=-1), "u"), (F.normalize(h_dst, dim=-1), "v")
        attention = edge_softmax(relation, self.beta * gsddmm(relation, "dot", *directions))
        return gspmm(relation, "mul", "sum", (h_src, "u"), (attention, "e"))
