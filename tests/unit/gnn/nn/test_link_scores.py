"""Scores of pairs against their formulas, row by row."""

import pytest
import torch

from graphwright.gnn import nn
from graphwright.gnn.storage import DGLError


def test_edge_predictor(features, agree):
    a, b = features(6, 4), features(6, 4)
    pairs = list(zip(a, b, strict=True))
    plain = {
        "dot": torch.stack([(u @ v).view(1) for u, v in pairs]),
        "cos": torch.stack([(u @ v / (u.norm() * v.norm())).view(1) for u, v in pairs]),
        "ele": torch.stack([u * v for u, v in pairs]),
        "cat": torch.stack([torch.cat([u, v]) for u, v in pairs]),
    }
    for op, expected in plain.items():
        agree(nn.EdgePredictor(op)(a, b), expected, a, b)
        layer = nn.EdgePredictor(op, 4, 2, bias=True)
        agree(layer(a, b), expected @ layer.linear.weight.T + layer.linear.bias, a, b)
    with pytest.raises(DGLError, match=r"op has to be .* Got 'max'"):
        nn.EdgePredictor("max")


@pytest.mark.parametrize("p", [1, 2])
def test_relations_move_heads_to_tails(features, agree, p):
    head, tail, rels = features(6, 4), features(6, 4), torch.tensor([0, 2, 1, 1, 0, 2])
    length = lambda x: x.abs().sum() if p == 1 else x.square().sum().sqrt()
    moved = nn.TransE(3, 4, p)
    rows = list(zip(head, rels, tail, strict=True))
    expected = torch.stack([-length(h + moved.rel_emb.weight[r] - t) for h, r, t in rows])
    agree(moved(head, tail, rels), expected, head, tail, moved.rel_emb.weight)
    turned = nn.TransR(3, 5, 4, p)
    matrix = turned.rel_project.weight.view(3, 4, 5)
    relation = turned.rel_emb.weight
    rows = [h @ matrix[r] + relation[r] - t @ matrix[r] for h, r, t in rows]
    agree(turned(head, tail, rels), torch.stack([-length(x) for x in rows]), head, tail, relation)
