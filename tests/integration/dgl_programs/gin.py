"""Graph classification by a graph isomorphism network: rings against stars, in batches."""

import dgl
import torch
import torch.nn.functional as F
from dgl.nn.pytorch import GINConv
from dgl.nn.pytorch.glob import SumPooling

from data import accuracy, fit


def ring(n):
    at = torch.arange(n)
    return dgl.graph((torch.cat([at, (at + 1) % n]), torch.cat([(at + 1) % n, at])))


def star(n):
    leaves, centre = torch.arange(1, n), torch.zeros(n - 1, dtype=torch.int64)
    return dgl.graph((torch.cat([leaves, centre]), torch.cat([centre, leaves])))


class GIN(torch.nn.Module):
    def __init__(self):
        super().__init__()
        mlp = lambda a, b: torch.nn.Sequential(
            torch.nn.Linear(a, b), torch.nn.ReLU(), torch.nn.Linear(b, b)
        )
        self.layers = torch.nn.ModuleList([GINConv(mlp(1, 8), learn_eps=True), GINConv(mlp(8, 8))])
        self.pool, self.out = SumPooling(), torch.nn.Linear(8, 2)

    def forward(self, g, h):
        for layer in self.layers:
            h = F.relu(layer(g, h))
        return self.out(self.pool(g, h) / g.batch_num_nodes().unsqueeze(1))


def main():
    torch.manual_seed(0)
    graphs = [make(n) for n in range(4, 24) for make in (ring, star)]
    labels = torch.tensor([0, 1] * 20)
    batch = dgl.batch(graphs)
    x = torch.ones(batch.num_nodes(), 1)
    model = GIN()
    fit(model, lambda: F.cross_entropy(model(batch, x), labels), epochs=80, lr=0.01)
    assert len(dgl.unbatch(batch)) == 40
    return accuracy(model(batch, x), labels)
