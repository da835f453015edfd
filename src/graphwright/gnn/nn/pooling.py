"""One vector for each graph of a batch, and one of several layers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from graphwright.gnn.graph import DGLGraph, broadcast_nodes, softmax_nodes, topk_nodes
from graphwright.gnn.kernels import segment_reduce
from graphwright.gnn.storage import DGLError


class SumPooling(nn.Module):
    """The sum over the nodes of each graph."""

    op = "sum"

    def forward(self, graph: DGLGraph, feat: Tensor) -> Tensor:
        return segment_reduce(graph.batch_num_nodes(), feat, self.op)


class AvgPooling(SumPooling):
    """The mean over the nodes of each graph."""

    op = "mean"


class MaxPooling(SumPooling):
    """The maximum over the nodes of each graph."""

    op = "max"


class SortPooling(nn.Module):
    """The k nodes of each graph whose sorted features end highest, one after another."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, graph: DGLGraph, feat: Tensor) -> Tensor:
        with graph.local_scope():
            graph.ndata["h"] = feat.sort(-1).values
            top, _ = topk_nodes(graph, "h", self.k, sortby=-1)
            return top.reshape(-1, self.k * feat.shape[-1])


class WeightAndSum(nn.Module):
    """The sum over the nodes of each graph, each times a learned weight between 0 and 1."""

    def __init__(self, in_feats: int) -> None:
        super().__init__()
        self.atom_weighting = nn.Sequential(nn.Linear(in_feats, 1), nn.Sigmoid())

    def forward(self, g: DGLGraph, feats: Tensor) -> Tensor:
        return segment_reduce(g.batch_num_nodes(), feats * self.atom_weighting(feats), "sum")


class GlobalAttentionPooling(nn.Module):
    """The sum over the nodes of each graph, weighted by a softmax of `gate_nn`."""

    def __init__(self, gate_nn: nn.Module, feat_nn: nn.Module | None = None) -> None:
        super().__init__()
        self.gate_nn, self.feat_nn = gate_nn, feat_nn

    def forward(self, graph: DGLGraph, feat: Tensor, get_attention: bool = False) -> Any:
        with graph.local_scope():
            gate = self.gate_nn(feat)
            if gate.shape[-1] != 1:
                size = gate.shape[-1]
                raise DGLError(f"The output of gate_nn should have size 1 at the end. Got {size}.")
            graph.ndata["gate"] = gate
            weight = softmax_nodes(graph, "gate")
            values = feat if self.feat_nn is None else self.feat_nn(feat)
            out = segment_reduce(graph.batch_num_nodes(), values * weight, "sum")
            return (out, weight) if get_attention else out


class Set2Set(nn.Module):
    """Set to set (Vinyals et al.): an LSTM attends to the nodes of each graph again and again."""

    def __init__(self, input_dim: int, n_iters: int, n_layers: int) -> None:
        super().__init__()
        self.input_dim, self.n_iters, self.n_layers = input_dim, n_iters, n_layers
        self.lstm = nn.LSTM(2 * input_dim, input_dim, n_layers)

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        self.lstm.reset_parameters()

    def forward(self, graph: DGLGraph, feat: Tensor) -> Tensor:
        with graph.local_scope():
            size = graph.batch_size
            state = (
                feat.new_zeros(self.n_layers, size, self.input_dim),
                feat.new_zeros(self.n_layers, size, self.input_dim),
            )
            out = feat.new_zeros(size, 2 * self.input_dim)
            for _ in range(self.n_iters):
                query, state = self.lstm(out.unsqueeze(0), state)
                query = query.view(size, self.input_dim)
                graph.ndata["e"] = (feat * broadcast_nodes(graph, query)).sum(-1, keepdim=True)
                weight = softmax_nodes(graph, "e")
                read = segment_reduce(graph.batch_num_nodes(), feat * weight, "sum")
                out = torch.cat([query, read], -1)
            return out


class JumpingKnowledge(nn.Module):
    """The outputs of all layers as one: side by side ("cat"), "max", or attended by an "lstm"."""

    def __init__(
        self, mode: str = "cat", in_feats: int | None = None, num_layers: int | None = None
    ) -> None:
        super().__init__()
        if mode not in ("cat", "max", "lstm"):
            raise DGLError(f'Expect mode to be "cat", "max" or "lstm". Got {mode!r}.')
        self.mode = mode
        if mode == "lstm":
            if in_feats is None or num_layers is None:
                raise DGLError("in_feats and num_layers are needed for mode 'lstm'")
            hidden = (num_layers * in_feats) // 2
            self.lstm = nn.LSTM(in_feats, hidden, bidirectional=True, batch_first=True)
            self.att = nn.Linear(2 * hidden, 1)

    def reset_parameters(self) -> None:
        """Draw the weights of mode "lstm" anew."""
        if self.mode == "lstm":
            self.lstm.reset_parameters()
            self.att.reset_parameters()

    def forward(self, feat_list: list[Tensor]) -> Tensor:
        if self.mode == "cat":
            return torch.cat(feat_list, -1)
        stacked = torch.stack(feat_list, -2)
        if self.mode == "max":
            return stacked.max(-2).values
        weight = self.att(self.lstm(stacked)[0]).squeeze(-1).softmax(-1)
        return (stacked * weight.unsqueeze(-1)).sum(-2)


class Sequential(nn.Sequential):
    """Layers one after another, each of which is given the graph."""

    def forward(self, graph: Any, *feats: Any) -> Any:
        for number, layer in enumerate(self):
            g = graph[number] if isinstance(graph, list) else graph
            result = layer(g, *feats)
            feats = result if isinstance(result, tuple) else (result,)
        return feats[0] if len(feats) == 1 else feats
