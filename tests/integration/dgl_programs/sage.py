"""Node classification by GraphSAGE on 32-bit ids, with an LSTM that aggregates."""

import torch
import torch.nn.functional as F
from dgl.nn import SAGEConv

from data import accuracy, communities, fit


class SAGE(torch.nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            [SAGEConv(features, 16, "mean", activation=F.relu), SAGEConv(16, classes, "lstm")]
        )

    def forward(self, g, h):
        for layer in self.layers:
            h = layer(g, h)
        return h


def main():
    torch.manual_seed(0)
    g = communities(nodes=120).int()
    assert g.idtype == torch.int32
    mask, label = g.ndata["train_mask"], g.ndata["label"]
    model = SAGE(g.ndata["feat"].shape[1], 4)
    fit(model, lambda: F.cross_entropy(model(g, g.ndata["feat"])[mask], label[mask]), epochs=30)
    return accuracy(model(g, g.ndata["feat"]), label, ~mask)
