"""Link prediction: edges that exist score higher than random ones, by dot products of embeddings."""

import dgl
import dgl.function as fn
import torch
import torch.nn.functional as F
from dgl.nn import SAGEConv

from data import communities, fit


class DotPredictor(torch.nn.Module):
    def forward(self, g, h):
        with g.local_scope():
            g.ndata["h"] = h
            g.apply_edges(fn.u_dot_v("h", "h", "score"))
            return g.edata["score"][:, 0]


def negative(g, generator):
    src, _ = g.edges()
    return dgl.graph(
        (src, torch.randint(g.num_nodes(), (len(src),), generator=generator)),
        num_nodes=g.num_nodes(),
    )


def main():
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    g = communities(outside=1)
    held = torch.rand(g.num_edges(), generator=generator) < 0.2
    test, train = (
        dgl.edge_subgraph(g, held, relabel_nodes=False),
        dgl.edge_subgraph(g, ~held, relabel_nodes=False),
    )
    layers = torch.nn.ModuleList([SAGEConv(16, 32, "mean"), SAGEConv(32, 16, "mean")])
    predict = DotPredictor()

    def embeddings():
        return layers[1](train, F.relu(layers[0](train, train.ndata["feat"])))

    def loss():
        h = embeddings()
        scores = torch.cat([predict(train, h), predict(negative(train, generator), h)])
        truth = torch.cat([torch.ones(train.num_edges()), torch.zeros(train.num_edges())])
        return F.binary_cross_entropy_with_logits(scores, truth)

    fit(layers, loss, epochs=100, lr=0.01)
    h = embeddings()
    good, bad = predict(test, h), predict(negative(test, generator), h)
    return float((good[:, None] > bad[None, :]).float().mean())  # the area under the ROC curve
