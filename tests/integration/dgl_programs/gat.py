"""Node classification by graph attention: layers of the library, and one of built-ins and functions."""

import dgl.function as fn
import dgl.nn.pytorch as dglnn
import torch
import torch.nn.functional as F
from dgl.nn.functional import edge_softmax

from data import accuracy, communities, fit


class Head(torch.nn.Module):
    def __init__(self, size_in, size_out):
        super().__init__()
        self.fc = torch.nn.Linear(size_in, size_out, bias=False)
        self.attn = torch.nn.Linear(2 * size_out, 1, bias=False)

    def forward(self, g, h):
        with g.local_scope():
            g.ndata["z"] = self.fc(h)
            g.apply_edges(lambda edges: {
                "e": F.leaky_relu(self.attn(torch.cat([edges.src["z"], edges.dst["z"]], 1)))
            })  # fmt: skip
            g.edata["a"] = edge_softmax(g, g.edata["e"])
            g.update_all(fn.u_mul_e("z", "a", "m"), fn.sum("m", "h"))
            return g.ndata["h"]


class GAT(torch.nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.first = dglnn.GATConv(features, 8, num_heads=4, feat_drop=0.1, attn_drop=0.1)
        self.second = Head(32, classes)

    def forward(self, g, h):
        return self.second(g, F.elu(self.first(g, h)).flatten(1))


def main():
    torch.manual_seed(0)
    g = communities()
    mask, label = g.ndata["train_mask"], g.ndata["label"]
    model = GAT(g.ndata["feat"].shape[1], 4)
    fit(model, lambda: F.cross_entropy(model(g, g.ndata["feat"])[mask], label[mask]))
    model.eval()
    return accuracy(model(g, g.ndata["feat"]), label, ~mask)
