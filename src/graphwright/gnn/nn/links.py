"""Scores of pairs of nodes: for link prediction and knowledge graphs."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphwright.gnn.storage import DGLError


class EdgePredictor(nn.Module):
    """A score of each pair of rows: "dot", "cos", "ele" (their product) or "cat".

    With `in_feats` and `out_feats`, a linear layer follows.
    """

    def __init__(
        self, op: str, in_feats: int | None = None, out_feats: int | None = None, bias: bool = False
    ) -> None:
        super().__init__()
        if op not in ("dot", "cos", "ele", "cat"):
            raise DGLError(f'op has to be "dot", "cos", "ele" or "cat". Got {op!r}.')
        self.op = op
        self.linear: nn.Linear | None = None
        if in_feats is not None and out_feats is not None:
            size = {"ele": in_feats, "cat": 2 * in_feats}.get(op, 1)
            self.linear = nn.Linear(size, out_feats, bias=bias)

    def reset_parameters(self) -> None:
        """Draw the linear layer's weights anew."""
        if self.linear is not None:
            self.linear.reset_parameters()

    def forward(self, h_src: Tensor, h_dst: Tensor) -> Tensor:
        match self.op:
            case "dot":
                made = (h_src * h_dst).sum(-1, keepdim=True)
            case "cos":
                made = F.cosine_similarity(h_src, h_dst).unsqueeze(-1)
            case "ele":
                made = h_src * h_dst
            case _:
                made = torch.cat([h_src, h_dst], -1)
        return made if self.linear is None else self.linear(made)


class TransE(nn.Module):
    """-|h + r - t|: a relation moves heads to tails."""

    def __init__(self, num_rels: int, feats: int, p: int = 1) -> None:
        super().__init__()
        self.rel_emb = nn.Embedding(num_rels, feats)
        self.p = p

    def reset_parameters(self) -> None:
        """Draw the relations anew."""
        self.rel_emb.reset_parameters()

    def forward(self, h_head: Tensor, h_tail: Tensor, rels: Tensor) -> Tensor:
        return -torch.norm(h_head + self.rel_emb(rels) - h_tail, p=self.p, dim=-1)


class TransR(nn.Module):
    """-|h M + r - t M|, with a matrix M for each relation."""

    def __init__(self, num_rels: int, rfeats: int, nfeats: int, p: int = 1) -> None:
        super().__init__()
        self.rel_emb = nn.Embedding(num_rels, rfeats)
        self.rel_project = nn.Embedding(num_rels, nfeats * rfeats)
        self.rfeats, self.nfeats, self.p = rfeats, nfeats, p

    def reset_parameters(self) -> None:
        """Draw the relations and their matrices anew."""
        self.rel_emb.reset_parameters()
        self.rel_project.reset_parameters()

    def forward(self, h_head: Tensor, h_tail: Tensor, rels: Tensor) -> Tensor:
        matrices = self.rel_project(rels).view(-1, self.nfeats, self.rfeats)
        moved = torch.einsum("en,enr->er", h_head - h_tail, matrices)
        return -torch.norm(moved + self.rel_emb(rels), p=self.p, dim=-1)
