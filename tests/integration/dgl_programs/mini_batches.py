"""Node classification on sampled neighbourhoods: blocks from a data loader."""

import dgl
import torch
import torch.nn.functional as F
from dgl.nn import SAGEConv

from data import accuracy, communities


class SAGE(torch.nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            [SAGEConv(features, 16, "mean"), SAGEConv(16, classes, "mean")]
        )

    def forward(self, blocks, h):
        for at, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            h = layer(block, h)
            h = F.relu(h) if at == 0 else h
        return h


def main():
    torch.manual_seed(0)
    g = communities(nodes=400)
    train = g.ndata["train_mask"].nonzero().flatten()
    sampler = dgl.dataloading.NeighborSampler([5, 5])
    loader = dgl.dataloading.DataLoader(
        g, train, sampler, batch_size=32, shuffle=True, drop_last=False, num_workers=0
    )
    model = SAGE(16, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(15):
        for _input_nodes, _output_nodes, blocks in loader:
            loss = F.cross_entropy(
                model(blocks, blocks[0].srcdata["feat"]), blocks[-1].dstdata["label"]
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.eval()
    scores = model([g, g], g.ndata["feat"])
    return accuracy(scores, g.ndata["label"], ~g.ndata["train_mask"])
