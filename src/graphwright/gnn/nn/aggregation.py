"""Layers that aggregate neighbours and combine the result with the node: SAGE, GIN and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphwright.gnn import function as fn
from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.kernels import gsddmm, gspmm, sum_edges
from graphwright.gnn.nn.convolution import propagate
from graphwright.gnn.nn.inputs import (
    Feature,
    expand_as_pair,
    require_in_edges,
    residual_if,
    zeros_if,
)
from graphwright.gnn.storage import DGLError

Activation = Callable[[Tensor], Tensor] | None


class SAGEConv(nn.Module):
    """GraphSAGE: the node itself and the mean, gcn, pool or lstm of its neighbours."""

    def __init__(
        self, in_feats: Any, out_feats: int, aggregator_type: str, feat_drop: float = 0.0,
        bias: bool = True, norm: Activation = None, activation: Activation = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if aggregator_type not in ("mean", "gcn", "pool", "lstm"):
            raise DGLError(
                'aggregator_type has to be "mean", "gcn", "pool" or "lstm". Got '
                f"{aggregator_type!r}."
            )
        self._in_src_feats, self._in_dst_feats = expand_as_pair(in_feats)
        self._out_feats, self._aggre_type = out_feats, aggregator_type
        self.norm, self.activation = norm, activation
        self.feat_drop = nn.Dropout(feat_drop)
        size = self._in_src_feats
        if aggregator_type == "pool":
            self.fc_pool = nn.Linear(size, size)
        if aggregator_type == "lstm":
            self.lstm = nn.LSTM(size, size, batch_first=True)
        self.fc_neigh = nn.Linear(size, out_feats, bias=False)
        if aggregator_type != "gcn":
            self.fc_self = nn.Linear(self._in_dst_feats, out_feats, bias=bias)
        else:
            self.bias = zeros_if(bias, out_feats)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        gain = nn.init.calculate_gain("relu")
        for name in ("fc_pool", "fc_self", "fc_neigh"):
            if hasattr(self, name):
                nn.init.xavier_uniform_(getattr(self, name).weight, gain=gain)
        if hasattr(self, "lstm"):
            self.lstm.reset_parameters()

    def forward(self, graph: DGLGraph, feat: Feature, edge_weight: Tensor | None = None) -> Tensor:
        h_src, h_dst = expand_as_pair(feat, graph)
        same = h_src is h_dst
        h_src = self.feat_drop(h_src)
        h_dst = h_src if same else self.feat_drop(h_dst)
        if graph.is_block and not isinstance(feat, tuple):
            h_dst = h_src[: graph.num_dst_nodes()]
        relation = graph.relation()
        early = self._in_src_feats > self._out_feats
        match self._aggre_type:
            case "mean":
                x = self.fc_neigh(h_src) if early else h_src
                near = self._mean(relation, x, edge_weight)
                near = near if early else self.fc_neigh(near)
            case "gcn":
                x = self.fc_neigh(h_src) if early else h_src
                own = x if same else x[: len(h_dst)] if graph.is_block else (
                    self.fc_neigh(h_dst) if early else h_dst
                )  # fmt: skip
                degrees = relation.in_degrees().to(x.dtype).reshape(-1, 1)
                near = (propagate(relation, x, edge_weight) + own) / (degrees + 1)
                near = near if early else self.fc_neigh(near)
            case "pool":
                x = F.relu(self.fc_pool(h_src))
                near = self.fc_neigh(_extreme(relation, x, edge_weight))
            case _:
                near = self.fc_neigh(self._last_state(graph, h_src))
        if self._aggre_type == "gcn":
            out = near if self.bias is None else near + self.bias
        else:
            out = self.fc_self(h_dst) + near
        if self.activation is not None:
            out = self.activation(out)
        return out if self.norm is None else self.norm(out)

    def _mean(self, relation: Any, x: Tensor, edge_weight: Tensor | None) -> Tensor:
        degrees = relation.in_degrees().clamp(min=1).to(x.dtype).reshape(-1, 1)
        return propagate(relation, x, edge_weight) / degrees

    def _last_state(self, graph: DGLGraph, x: Tensor) -> Tensor:
        with graph.local_scope():
            graph.srcdata["h"] = x
            reducer = lambda nodes: {"out": self.lstm(nodes.mailbox["m"])[1][0][0]}
            graph.update_all(fn.copy_u("h", "m"), reducer)
            if "out" not in graph.dstdata:  # no edges at all
                return x.new_zeros(graph.num_dst_nodes(), x.shape[1])
            last: Tensor = graph.dstdata["out"]
            return last


def _extreme(relation: Any, x: Tensor, edge_weight: Tensor | None) -> Tensor:
    if edge_weight is None:
        return gspmm(relation, "copy", "max", (x, "u"))
    return gspmm(relation, "mul", "max", (x, "u"), (edge_weight.reshape(-1, 1), "e"))


class GINConv(nn.Module):
    """Graph isomorphism: f((1 + eps) x_v + the sum, mean or max of neighbours)."""

    eps: Tensor

    def __init__(
        self, apply_func: Any = None, aggregator_type: str = "sum", init_eps: float = 0,
        learn_eps: bool = False, activation: Activation = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if aggregator_type not in ("sum", "max", "mean"):
            raise DGLError(f"Aggregator type {aggregator_type!r} not recognized: sum, max or mean.")
        self.apply_func, self._aggregator_type = apply_func, aggregator_type
        self.activation = activation
        start = torch.tensor([float(init_eps)])
        if learn_eps:
            self.eps = nn.Parameter(start)
        else:
            self.register_buffer("eps", start)

    def forward(self, graph: DGLGraph, feat: Feature, edge_weight: Tensor | None = None) -> Tensor:
        h_src, h_dst = expand_as_pair(feat, graph)
        relation, reduce = graph.relation(), self._aggregator_type
        if edge_weight is None:
            near = gspmm(relation, "copy", reduce, (h_src, "u"))
        else:
            weight = edge_weight.reshape(-1, *[1] * (h_src.dim() - 1))
            near = gspmm(relation, "mul", reduce, (h_src, "u"), (weight, "e"))
        out = (1 + self.eps) * h_dst + near
        if self.apply_func is not None:
            out = self.apply_func(out)
        return out if self.activation is None else self.activation(out)


class GINEConv(nn.Module):
    """GIN with edge features: f((1 + eps) x_v + the sum of relu(x_u + x_e))."""

    eps: Tensor

    def __init__(
        self, apply_func: Any = None, init_eps: float = 0, learn_eps: bool = False
    ) -> None:
        super().__init__()
        self.apply_func = apply_func
        start = torch.tensor([float(init_eps)])
        if learn_eps:
            self.eps = nn.Parameter(start)
        else:
            self.register_buffer("eps", start)

    def forward(self, graph: DGLGraph, node_feat: Feature, edge_feat: Tensor) -> Tensor:
        h_src, h_dst = expand_as_pair(node_feat, graph)
        near = sum_edges(graph.relation(), lambda u, e: F.relu(u + e), u=h_src, e=edge_feat)
        out = (1 + self.eps) * h_dst + near
        return out if self.apply_func is None else self.apply_func(out)


class EdgeConv(nn.Module):
    """Dynamic graph convolution: the maximum over in-edges of theta(x_v - x_u) + phi(x_v).

    (DGL computes this difference, and documents the other one.) theta is linear, so without batch
    normalisation the maximum is of -theta(x_u) alone, and no message is stored.
    """

    def __init__(
        self, in_feat: int, out_feat: int, batch_norm: bool = False,
        allow_zero_in_degree: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.theta, self.phi = nn.Linear(in_feat, out_feat), nn.Linear(in_feat, out_feat)
        self.batch_norm, self._allow_zero_in_degree = batch_norm, allow_zero_in_degree
        if batch_norm:
            self.bn = nn.BatchNorm1d(out_feat)

    def set_allow_zero_in_degree(self, set_value: bool) -> None:
        """Whether nodes without in-edges are allowed."""
        self._allow_zero_in_degree = set_value

    def forward(self, g: DGLGraph, feat: Feature) -> Tensor:
        require_in_edges(g, self._allow_zero_in_degree)
        h_src, h_dst = expand_as_pair(feat, g)
        relation = g.relation()
        moved = F.linear(h_src, -self.theta.weight)
        own = self.phi(h_dst) + self.theta(h_dst)
        if self.batch_norm:
            messages = gsddmm(relation, "add", (moved, "u"), (own, "v"))
            return gspmm(relation, "copy", "max", (self.bn(messages), "e"))
        some = (relation.in_degrees() > 0).reshape(-1, 1)
        return torch.where(some, gspmm(relation, "copy", "max", (moved, "u")) + own, 0)


class NNConv(nn.Module):
    """A matrix for each edge, made of its feature by `edge_func`: the sum of x_u W_e."""

    def __init__(
        self, in_feats: Any, out_feats: int, edge_func: Any, aggregator_type: str = "mean",
        residual: bool = False, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if aggregator_type not in ("sum", "mean", "max"):
            raise DGLError(f"Aggregator type {aggregator_type!r} not recognized: sum, mean or max.")
        self._in_src_feats, self._in_dst_feats = expand_as_pair(in_feats)
        self._out_feats, self._aggregator_type = out_feats, aggregator_type
        self.edge_func = edge_func
        self.res_fc = residual_if(residual, self._in_dst_feats, out_feats)
        self.bias = zeros_if(bias, out_feats)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights that are the layer's own anew, and set the bias to zero."""
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        if isinstance(self.res_fc, nn.Linear):
            nn.init.xavier_normal_(self.res_fc.weight, gain=nn.init.calculate_gain("relu"))

    def forward(self, graph: DGLGraph, feat: Feature, efeat: Tensor) -> Tensor:
        h_src, h_dst = expand_as_pair(feat, graph)
        matrices = self.edge_func(efeat).view(-1, self._in_src_feats, self._out_feats)
        pair = (h_src.unsqueeze(-1), "u"), (matrices, "e")
        out = gspmm(graph.relation(), "mul", self._aggregator_type, *pair).sum(1)
        if self.res_fc is not None:
            out = out + self.res_fc(h_dst)
        return out if self.bias is None else out + self.bias


class GatedGraphConv(nn.Module):
    """Gated recurrent steps: messages by a matrix of each edge type, then a GRU cell."""

    def __init__(
        self, in_feats: int, out_feats: int, n_steps: int, n_etypes: int = 1, bias: bool = True
    ) -> None:
        super().__init__()
        self._in_feats, self._out_feats = in_feats, out_feats
        self._n_steps, self._n_etypes = n_steps, n_etypes
        self.linears = nn.ModuleList(nn.Linear(out_feats, out_feats) for _ in range(n_etypes))
        self.gru = nn.GRUCell(out_feats, out_feats, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        self.gru.reset_parameters()
        for layer in self.linears:
            assert isinstance(layer, nn.Linear)
            nn.init.xavier_normal_(layer.weight, gain=nn.init.calculate_gain("relu"))
            nn.init.zeros_(layer.bias)

    def forward(self, graph: DGLGraph, feat: Tensor, etypes: Tensor | None = None) -> Tensor:
        relation = graph.relation()
        if etypes is None and self._n_etypes > 1:
            raise DGLError(
                f"a layer of {self._n_etypes} edge types needs etypes, one for each edge"
            )
        parts = [relation]
        if self._n_etypes > 1:
            assert etypes is not None
            ids = [(etypes == at).nonzero().reshape(-1) for at in range(self._n_etypes)]
            parts = [relation.take_edges(edges.to(relation.idtype)) for edges in ids]
        x = F.pad(feat, (0, self._out_feats - self._in_feats))
        for _ in range(self._n_steps):
            moved = torch.zeros_like(x)
            for part, layer in zip(parts, self.linears, strict=True):
                y = layer(x) if part is relation else relation.sources(layer(x))
                moved = moved + propagate(part, y)
            x = self.gru(moved, x)
        return x
