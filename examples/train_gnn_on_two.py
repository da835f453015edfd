"""Train a graph network on the whole graph with two workers, and compare with one process.

    python examples/train_gnn_on_two.py

Each worker holds a range of vertices with the edges into them, and asks the other for the rows that its edges need. The
same file serves the command line:

    graphwright gnn-train examples/train_gnn_on_two.py:make --workers 2 --epochs 40 --accuracy-plot accuracy.png
"""

import copy

import torch
from torch.nn import functional as F

import graphwright.gnn as dgl
from graphwright.gnn.nn import GraphConv


class GCN(torch.nn.Module):
    def __init__(self, size, hidden, kinds):
        super().__init__()
        self.first, self.second = GraphConv(size, hidden), GraphConv(hidden, kinds)

    def forward(self, g, x):
        return self.second(g, F.relu(self.first(g, x)))


def make():
    torch.manual_seed(0)
    g = dgl.add_self_loop(dgl.data.planted_partition(4, 100, p_in=0.1, p_out=0.01))
    label = g.ndata["label"]
    g.ndata["feat"] = (2.0 * F.one_hot(label, 16) + torch.randn(len(label), 16)).double()
    share = torch.rand(len(label))
    g.ndata["train_mask"], g.ndata["test_mask"] = share < 0.3, share >= 0.5
    return GCN(16, 16, 4).double(), g  # so that rounding does not hide a difference


if __name__ == "__main__":
    model, g = make()
    alone = copy.deepcopy(model)
    optimizer, train = torch.optim.Adam(alone.parameters(), lr=0.01), g.ndata["train_mask"]
    for _ in range(40):
        loss = F.cross_entropy(alone(g, g.ndata["feat"])[train], g.ndata["label"][train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    trained = dgl.distribute(model, g, workers=2, epochs=40, evaluate_every=10, threads=1)
    for epoch in trained.epochs[9::10]:
        print(
            f"epoch {epoch.number}: loss {epoch.loss:.4f}, {epoch.accuracy['test']:.0%} of test vertices right"
        )
    print(f"worker 0 has vertices 0 to {trained.bounds[1]}, worker 1 the others")
    apart = max(
        (a - b).abs().max() for a, b in zip(model.parameters(), alone.parameters(), strict=True)
    )
    print(f"no parameter is further than {apart:.0e} from that of one process")
    assert apart < 1e-10 and trained.epochs[-1].accuracy["test"] > 0.8

    # The model applied to a graph that it has not seen; what was learned of costs says where to cut it.
    other = make()[1]
    outputs = dgl.predict(model, other, workers=2, cost=trained.cost, threads=1)
    torch.testing.assert_close(outputs, model(other, other.ndata["feat"]))
