"""Node classification by a graph convolutional network, its layer written with message passing."""

import dgl.function as fn
import torch
import torch.nn.functional as F
from dgl.nn import GraphConv

from data import accuracy, communities, fit


class Layer(torch.nn.Module):
    def __init__(self, size_in, size_out):
        super().__init__()
        self.linear = torch.nn.Linear(size_in, size_out)

    def forward(self, g, h):
        with g.local_scope():
            norm = g.in_degrees().float().clamp(min=1).pow(-0.5).unsqueeze(1)
            g.ndata["h"] = h * norm
            g.update_all(message_func=fn.copy_u("h", "m"), reduce_func=fn.sum("m", "h"))
            return self.linear(g.ndata["h"] * norm)


class GCN(torch.nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.own, self.given = Layer(features, hidden), GraphConv(hidden, classes)

    def forward(self, g, h):
        return self.given(g, F.relu(self.own(g, h)))


def main():
    torch.manual_seed(0)
    g = communities()
    mask, label = g.ndata["train_mask"], g.ndata["label"]
    model = GCN(g.ndata["feat"].shape[1], 16, 4)
    fit(model, lambda: F.cross_entropy(model(g, g.ndata["feat"])[mask], label[mask]))
    return accuracy(model(g, g.ndata["feat"]), label, ~mask)
