"""Train GraphSAGE on sampled neighbourhoods of a graph that need not fit into one step.

    python examples/mini_batches.py

The loader samples in a worker process; each mini-batch depends on the seed and its number alone. The graph goes through
a file and parts of it first, as a larger one would.
"""

import tempfile
from pathlib import Path

import torch
from torch.nn import functional as F

import graphwright.gnn as dgl
from graphwright.gnn.dataloading import DataLoader, NeighborSampler
from graphwright.gnn.nn import SAGEConv

torch.manual_seed(0)
dgl.seed(0)
kinds = 5
g = dgl.add_self_loop(dgl.data.planted_partition(kinds, 200, 0.05, 0.004, seed=1))
g.ndata["x"] = F.one_hot(g.ndata["label"], kinds) + torch.randn(g.num_nodes(), kinds)

with tempfile.TemporaryDirectory() as folder:
    dgl.save_graphs(str(Path(folder) / "graph.bin"), g)
    (g,), _ = dgl.load_graphs(str(Path(folder) / "graph.bin"))
    dgl.distributed.partition_graph(g, "blocks", 4, folder)
    part, features, *_ = dgl.distributed.load_partition(str(Path(folder) / "blocks.json"), 0)
    own = int(part.ndata["inner_node"].sum())
    print(f"part 0 has {own} of {g.num_nodes()} nodes, and {part.num_nodes() - own} around them")

layers = torch.nn.ModuleList([SAGEConv(kinds, 32, "mean"), SAGEConv(32, kinds, "mean")])
optimizer = torch.optim.Adam(layers.parameters(), lr=0.03)
train = torch.rand(g.num_nodes()) < 0.3
sampler = NeighborSampler([8, 8], prefetch_node_feats=["x"], prefetch_labels=["label"])
loader = DataLoader(
    g,
    train.nonzero()[:, 0],
    sampler,
    batch_size=64,
    shuffle=True,
    num_workers=1,
    persistent_workers=True,
)


def scores(blocks, hidden):
    hidden = F.relu(layers[0](blocks[0], hidden))
    return layers[1](blocks[1], hidden)


for _ in range(8):
    for _, _, blocks in loader:
        loss = F.cross_entropy(scores(blocks, blocks[0].srcdata["x"]), blocks[-1].dstdata["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

with torch.no_grad():  # all nodes, with all their neighbours
    right = (scores([g, g], g.ndata["x"]).argmax(1) == g.ndata["label"])[~train].float().mean()
print(f"loss {loss:.3f}, {right:.0%} of the other nodes right")
assert right > 0.8
