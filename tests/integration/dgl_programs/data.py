"""Synthetic tasks: communities to tell apart, graphs to classify, trees to evaluate."""

import dgl
import torch


def communities(nodes=200, kinds=4, features=16, seed=0, inside=10, outside=2, noise=1.5):
    """A planted partition: edges mostly within a class, features a noisy hint of the class."""
    generator = torch.Generator().manual_seed(seed)
    label = torch.arange(nodes) % kinds
    src = torch.arange(nodes).repeat_interleave(inside + outside)
    near = (
        torch.randint(nodes // kinds, (nodes, inside), generator=generator) * kinds + label[:, None]
    )
    far = torch.randint(nodes, (nodes, outside), generator=generator)
    dst = torch.cat([near, far], 1).reshape(-1)
    loops = torch.arange(nodes)
    g = dgl.graph((torch.cat([src, dst, loops]), torch.cat([dst, src, loops])), num_nodes=nodes)
    centre = torch.randn(kinds, features, generator=generator)
    g.ndata["feat"] = centre[label] + noise * torch.randn(nodes, features, generator=generator)
    g.ndata["label"] = label
    g.ndata["train_mask"] = torch.rand(nodes, generator=generator) < 0.3
    return g


def accuracy(scores, labels, mask=None):
    hit = scores.argmax(1) == labels
    return float((hit if mask is None else hit[mask]).float().mean())


def fit(model, loss_of, epochs=60, lr=0.02):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(epochs):
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
