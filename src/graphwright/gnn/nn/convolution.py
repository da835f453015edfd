"""Convolutions by the normalised adjacency matrix: GCN, SGC, TAGCN, ChebNet, APPNP, GCNII."""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphwright.gnn.graph import DGLGraph
from graphwright.gnn.kernels import Operand, gspmm
from graphwright.gnn.nn.inputs import (
    Feature,
    degree_power,
    expand_as_pair,
    require_in_edges,
    zeros_if,
)
from graphwright.gnn.storage import DGLError, FeatureMismatch, Relation

Activation = Callable[[Tensor], Tensor] | None


def propagate(relation: Relation, x: Tensor, edge_weight: Tensor | None = None) -> Tensor:
    """The sum of the sources' features, times a weight of each edge if there is one."""
    if edge_weight is None:
        return gspmm(relation, "copy", "sum", (x, "u"))
    if edge_weight.dim() == 1:
        edge_weight = edge_weight.reshape(-1, *[1] * (x.dim() - 1))
    weight: Operand = (edge_weight, "e")
    return gspmm(relation, "mul", "sum", (x, "u"), weight)


class EdgeWeightNorm(nn.Module):
    """Edge weights over the square root of both ends' sums of weights, or over the sum of one."""

    def __init__(self, norm: str = "both", eps: float = 0.0) -> None:
        super().__init__()
        self._norm, self._eps = norm, eps

    def forward(self, graph: DGLGraph, edge_weight: Tensor) -> Tensor:
        relation = graph.relation()
        src, dst = relation.coo
        into = gspmm(relation, "copy", "sum", (edge_weight, "e")) + self._eps
        if self._norm == "right":
            return edge_weight / into[dst.long()]
        if self._norm != "both":
            return edge_weight
        out = gspmm(relation.reverse, "copy", "sum", (edge_weight, "e")) + self._eps
        return edge_weight * out.pow(-0.5)[src.long()] * into.pow(-0.5)[dst.long()]


class GraphConv(nn.Module):
    """Graph convolution (Kipf and Welling): D^-1/2 A D^-1/2 X W + b.

    `norm` is "both", "right" (the mean over in-edges), "left" (over out-edges) or "none".
    """

    def __init__(
        self, in_feats: int, out_feats: int, norm: str = "both", weight: bool = True,
        bias: bool = True, activation: Activation = None, allow_zero_in_degree: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if norm not in ("none", "both", "right", "left"):
            raise DGLError(f'norm has to be "none", "both", "right" or "left". Got {norm!r}.')
        self._in_feats, self._out_feats, self._norm = in_feats, out_feats, norm
        self._allow_zero_in_degree = allow_zero_in_degree
        self.weight = nn.Parameter(torch.empty(in_feats, out_feats)) if weight else None
        self.bias = zeros_if(bias, out_feats)
        self._activation = activation
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weight anew, and set the bias to zero."""
        if self.weight is not None:
            nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def set_allow_zero_in_degree(self, set_value: bool) -> None:
        """Whether nodes without in-edges are allowed."""
        self._allow_zero_in_degree = set_value

    def forward(
        self, graph: DGLGraph, feat: Feature, weight: Tensor | None = None,
        edge_weight: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        require_in_edges(graph, self._allow_zero_in_degree)
        relation = graph.relation()
        x, _ = expand_as_pair(feat, graph)
        if weight is not None and self.weight is not None:
            raise DGLError("an external weight was given, but the layer has its own: weight=False")
        matrix = self.weight if weight is None else weight
        early = matrix is not None and self._in_feats > self._out_feats
        if matrix is not None and early:
            x = x @ matrix  # before the scaling, which is then of fewer numbers
        if self._norm in ("left", "both"):
            exponent = -0.5 if self._norm == "both" else -1.0
            x = x * degree_power(relation.out_degrees(), exponent, x)
        out = propagate(relation, x, edge_weight)
        if matrix is not None and not early:
            out = out @ matrix
        if self._norm in ("right", "both"):
            exponent = -0.5 if self._norm == "both" else -1.0
            out = out * degree_power(relation.in_degrees(), exponent, out)
        if self.bias is not None:
            out = out + self.bias
        return out if self._activation is None else self._activation(out)


class SGConv(nn.Module):
    """Simplified convolution: (D^-1/2 A D^-1/2)^k X W + b; `cached` keeps all but the last step."""

    def __init__(
        self, in_feats: int, out_feats: int, k: int = 1, cached: bool = False, bias: bool = True,
        norm: Activation = None, allow_zero_in_degree: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.fc = nn.Linear(in_feats, out_feats, bias=bias)
        self._k, self._cached, self.norm = k, cached, norm
        self._cached_h: Tensor | None = None
        self._allow_zero_in_degree = allow_zero_in_degree
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weight anew, and set the bias to zero."""
        nn.init.xavier_uniform_(self.fc.weight)
        if self.fc.bias is not None:
            nn.init.zeros_(self.fc.bias)

    def set_allow_zero_in_degree(self, set_value: bool) -> None:
        """Whether nodes without in-edges are allowed."""
        self._allow_zero_in_degree = set_value

    def forward(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        require_in_edges(graph, self._allow_zero_in_degree)
        if self._cached_h is not None:
            return self.fc(self._cached_h)
        x = smooth(graph, feat, self._k, edge_weight)
        if self.norm is not None:
            x = self.norm(x)
        if self._cached:
            self._cached_h = x
        return self.fc(x)


def smooth(graph: DGLGraph, x: Tensor, k: int, edge_weight: Tensor | None = None) -> Tensor:
    """D^-1/2 A D^-1/2, applied k times."""
    relation = graph.relation()
    scale = 1 if edge_weight is not None else degree_power(relation.in_degrees(), -0.5, x)
    for _ in range(k):
        x = propagate(relation, x * scale, edge_weight) * scale
    return x


class APPNPConv(nn.Module):
    """Personalised propagation: k times, x = (1 - alpha) A x + alpha x0."""

    def __init__(self, k: int, alpha: float, edge_drop: float = 0.0) -> None:
        super().__init__()
        self._k, self._alpha = k, alpha
        self.edge_drop = nn.Dropout(edge_drop)

    def forward(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        relation, first = graph.relation(), feat
        from_src = degree_power(relation.out_degrees(), -0.5, feat)
        to_dst = degree_power(relation.in_degrees(), -0.5, feat)
        if edge_weight is None:
            edge_weight = feat.new_ones(relation.num_edges)
        for _ in range(self._k):
            weight = self.edge_drop(edge_weight)
            moved = propagate(relation, feat * from_src, weight) * to_dst
            feat = (1 - self._alpha) * moved + self._alpha * first
        return feat


class GCN2Conv(nn.Module):
    """Deep convolution (GCNII): ((1 - alpha) S x + alpha x0) ((1 - beta) I + beta W) + b.

    S smooths, and beta = log(lambda / layer + 1). Without `project_initial_features` x0 has a
    matrix of its own.
    """

    def __init__(
        self, in_feats: int, layer: int, alpha: float = 0.1, lambda_: float = 1,
        project_initial_features: bool = True, allow_zero_in_degree: bool = False,
        bias: bool = True, activation: Activation = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._alpha, self._beta = alpha, log(lambda_ / layer + 1)
        self._project_initial_features = project_initial_features
        self._allow_zero_in_degree = allow_zero_in_degree
        self.weight1 = nn.Parameter(torch.empty(in_feats, in_feats))
        self.weight2: nn.Parameter | None = None
        if not project_initial_features:
            self.weight2 = nn.Parameter(torch.empty(in_feats, in_feats))
        self.bias = zeros_if(bias, in_feats)
        self._activation = activation
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew, and set the bias to zero."""
        for weight in (self.weight1, self.weight2):
            if weight is not None:
                nn.init.normal_(weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def set_allow_zero_in_degree(self, set_value: bool) -> None:
        """Whether nodes without in-edges are allowed."""
        self._allow_zero_in_degree = set_value

    def forward(
        self, graph: DGLGraph, feat: Tensor, feat_0: Tensor, edge_weight: Tensor | None = None
    ) -> Tensor:
        require_in_edges(graph, self._allow_zero_in_degree)
        if edge_weight is not None:
            edge_weight = EdgeWeightNorm("both")(graph, edge_weight)
        near = (1 - self._alpha) * smooth(graph, feat, 1, edge_weight)
        first, beta = self._alpha * feat_0[: len(near)], self._beta
        if self.weight2 is None:
            out = torch.addmm(near + first, near + first, self.weight1, beta=1 - beta, alpha=beta)
        else:
            out = torch.addmm(near, near, self.weight1, beta=1 - beta, alpha=beta)
            out = out + torch.addmm(first, first, self.weight2, beta=1 - beta, alpha=beta)
        if self.bias is not None:
            out = out + self.bias
        return out if self._activation is None else self._activation(out)


class LabelPropagation(nn.Module):
    """Labels spread along edges: k times, y = alpha A y + (1 - alpha) y0; it has no weights.

    A is normalised by both ends ("sym") or by destinations ("row"). Labels are class numbers, or a
    row of zeros and ones for each node; those outside of `mask` are not looked at.
    """

    def __init__(
        self, k: int, alpha: float, norm_type: str = "sym", clamp: bool = True,
        normalize: bool = False, reset: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if norm_type not in ("sym", "row"):
            raise DGLError(f'Expect norm_type to be "sym" or "row". Got {norm_type!r}.')
        self.k, self.alpha, self.norm_type = k, alpha, norm_type
        self.clamp, self.normalize, self.reset = clamp, normalize, reset

    @torch.no_grad()
    def forward(self, g: DGLGraph, labels: Tensor, mask: Tensor | None = None) -> Tensor:
        if labels.dim() == 1 or labels.shape[1] == 1:
            labels = F.one_hot(labels.reshape(-1).long())
        known = labels.float()
        start = known if mask is None else torch.where(mask.reshape(-1, 1), known, 0)
        relation, y = g.relation(), start
        for _ in range(self.k):
            if self.norm_type == "sym":
                y = y * degree_power(relation.out_degrees(), -0.5, y)
            power = -0.5 if self.norm_type == "sym" else -1.0
            y = propagate(relation, y) * degree_power(relation.in_degrees(), power, y)
            y = self.alpha * y + (1 - self.alpha) * start
            if self.clamp:
                y = y.clamp(0, 1)
            if self.normalize:
                y = F.normalize(y, p=1)
            if self.reset:
                y = known if mask is None else torch.where(mask.reshape(-1, 1), known, y)
        return y


class TAGConv(nn.Module):
    """Topology-adaptive convolution: one linear layer over x, Ax, ..., A^k x."""

    def __init__(
        self, in_feats: int, out_feats: int, k: int = 2, bias: bool = True,
        activation: Activation = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._k, self._activation = k, activation
        self.lin = nn.Linear(in_feats * (k + 1), out_feats, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weight anew."""
        nn.init.xavier_normal_(self.lin.weight, gain=nn.init.calculate_gain("relu"))

    def forward(self, graph: DGLGraph, feat: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        powers = [feat]
        for _ in range(self._k):
            powers.append(smooth(graph, powers[-1], 1, edge_weight))
        out = self.lin(torch.cat(powers, -1))
        return out if self._activation is None else self._activation(out)


class ChebConv(nn.Module):
    """Spectral convolution by Chebyshev polynomials of the scaled Laplacian, of k terms."""

    def __init__(
        self, in_feats: int, out_feats: int, k: int, activation: Activation = F.relu,
        bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self._k, self._activation = k, activation
        self.linear = nn.Linear(k * in_feats, out_feats, bias)

    def forward(self, graph: DGLGraph, feat: Tensor, lambda_max: Any = None) -> Tensor:
        largest = self._largest(graph, feat, lambda_max)
        # The scaled Laplacian is 2 (I - S) / largest - I, where S smooths.
        scaled = lambda x: x * (2 / largest - 1) - smooth(graph, x, 1) * (2 / largest)
        terms = [feat]
        if self._k > 1:
            terms.append(scaled(feat))
        for _ in range(2, self._k):
            terms.append(2 * scaled(terms[-1]) - terms[-2])
        out = self.linear(torch.cat(terms, -1))
        return out if self._activation is None else self._activation(out)

    def _largest(self, graph: DGLGraph, feat: Tensor, given: Any) -> Tensor:
        if given is None:
            return feat.new_full((1, 1), 2.0)
        values = torch.as_tensor(given, dtype=feat.dtype, device=feat.device).reshape(-1, 1)
        if len(values) not in (1, graph.batch_size):
            raise FeatureMismatch(
                f"Expect one lambda_max for each of {graph.batch_size} graphs. Got {len(values)}."
            )
        sizes = graph.batch_num_nodes().long()
        return values if len(values) == 1 else values.repeat_interleave(sizes, 0)
