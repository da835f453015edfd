"""Models of graph networks, and training on parts of a graph in threads beside eager PyTorch."""

from __future__ import annotations

import copy
from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from graphwright.gnn import function as fn
from graphwright.gnn import nn as gnn
from graphwright.gnn.distributed.training import GraphStore, Problem, Trainer, cut_part
from graphwright.run import RowLinks
from threads import run_all

SIZE, KINDS = 5, 3
"""Numbers in a feature, and classes."""
sgd = partial(torch.optim.SGD, lr=0.1, momentum=0.9)


class Stack(nn.Module):
    """Layers one after another, with an activation between them."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, g, x):
        for number, layer in enumerate(self.layers):
            x = layer(g, x if number == 0 else F.elu(x)).flatten(1)
        return x


class CommNet(nn.Module):
    """Each agent hears the mean of the others (Sukhbaatar et al.): tanh(H x + C mean)."""

    def __init__(self, size, out):
        super().__init__()
        self.own, self.heard = nn.Linear(size, out), nn.Linear(size, out, bias=False)

    def forward(self, g, x):
        with g.local_scope():
            g.ndata["x"] = x
            g.update_all(fn.copy_u("x", "m"), fn.mean("m", "heard"))
            return torch.tanh(self.own(x) + self.heard(g.ndata["heard"]))


class Residual(nn.Module):
    """A layer of the deep GCN of ROC's section 4.7.5: GCN(H) + H, or + W H between sizes."""

    def __init__(self, size, out):
        super().__init__()
        self.conv = gnn.GraphConv(size, out, allow_zero_in_degree=True)
        self.skip = nn.Identity() if size == out else nn.Linear(size, out, bias=False)

    def forward(self, g, x):
        return self.conv(g, x) + self.skip(x)


class Weighted(nn.Module):
    """Uses edge features: messages times a weight of the edge."""

    def __init__(self):
        super().__init__()
        self.conv = gnn.GraphConv(SIZE, KINDS, norm="right", allow_zero_in_degree=True)

    def forward(self, g, x):
        return self.conv(g, x, edge_weight=torch.sigmoid(g.edata["w"]))


class OwnFunctions(nn.Module):
    """Messages and reductions of the user's own."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(SIZE, KINDS)

    def forward(self, g, x):
        with g.local_scope():
            g.ndata["x"] = self.fc(x)
            g.update_all(
                lambda edges: {"m": torch.tanh(edges.src["x"] - edges.dst["x"])},
                lambda nodes: {"y": nodes.mailbox["m"].sum(1)},
            )
            return g.ndata["x"] + g.ndata.get("y", torch.zeros_like(g.ndata["x"]))


class Typed(nn.Module):
    """Edges of several types, of which a worker may have none of some."""

    def __init__(self):
        super().__init__()
        self.gated = gnn.GatedGraphConv(SIZE, 6, 2, n_etypes=3)
        self.conv = gnn.RelGraphConv(6, KINDS, 3)

    def forward(self, g, x):
        return self.conv(g, self.gated(g, x, g.edata["kind"]), g.edata["kind"])


def gin(reduce="sum"):
    middle = nn.Sequential(nn.Linear(SIZE, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 6))
    return Stack(gnn.GINConv(middle, learn_eps=True), gnn.GINConv(nn.Linear(6, KINDS), reduce))


def gcn():
    free = {"allow_zero_in_degree": True}
    return Stack(gnn.GraphConv(SIZE, 6, **free), gnn.GraphConv(6, KINDS, **free))


def gat(kind=gnn.GATConv):
    free = {"allow_zero_in_degree": True}
    return Stack(kind(SIZE, 4, 2, **free), kind(8, KINDS, 1, **free))


def sage(kind="mean"):
    return Stack(gnn.SAGEConv(SIZE, 6, kind), gnn.SAGEConv(6, KINDS, kind))


def deep():
    return Stack(Residual(SIZE, 6), *(Residual(6, 6) for _ in range(4)), Residual(6, KINDS))


MODELS = {
    "gcn": gcn,
    "gin": gin,
    "gin max": partial(gin, "max"),
    "gat": gat,
    "gat v2": partial(gat, gnn.GATv2Conv),
    "dot gat": partial(gat, gnn.DotGatConv),
    "sage mean": sage,
    "sage gcn": partial(sage, "gcn"),
    "sage pool": partial(sage, "pool"),
    "sage lstm": partial(sage, "lstm"),
    "commnet": lambda: Stack(CommNet(SIZE, 6), CommNet(6, KINDS)),
    "deep residual gcn": deep,
    "appnp": lambda: Stack(CommNet(SIZE, KINDS), gnn.APPNPConv(3, 0.1)),
    "tag": lambda: Stack(gnn.TAGConv(SIZE, KINDS, k=2)),
    "edge": lambda: Stack(gnn.EdgeConv(SIZE, KINDS, allow_zero_in_degree=True)),
    "weighted": Weighted,
    "own functions": OwnFunctions,
    "typed": Typed,
}


def add_features(g, seed, dtype):
    """What the models above read, drawn from a seed."""
    draw = torch.Generator().manual_seed(seed)
    count, edges = g.num_nodes(), g.num_edges()
    g.ndata["feat"] = torch.randn(count, SIZE, generator=draw, dtype=dtype)
    g.ndata["label"] = torch.randint(KINDS, (count,), generator=draw)
    g.ndata["train_mask"] = torch.rand(count, generator=draw) < 0.7
    g.ndata["train_mask"][0] = True
    g.edata["w"] = torch.randn(edges, generator=draw, dtype=dtype)
    g.edata["kind"] = torch.randint(3, (edges,), generator=draw)
    return g


def train_whole(model, g, steps, optimizer=sgd):
    """What a single process does: the losses of all steps."""
    made, losses, train = optimizer(model.parameters()), [], g.ndata["train_mask"].bool()
    for _ in range(steps):
        out = model(g, g.ndata["feat"])
        loss = F.cross_entropy(out[train], g.ndata["label"][train])
        made.zero_grad()
        loss.backward()
        made.step()
        losses.append(loss.item())
    return losses


def train_in_parts(model, g, bounds, steps, optimizer=sgd, cache=lambda: None):
    """The same on parts, a thread for each: for every rank its losses, and its model."""
    store, size = GraphStore.of(g), len(bounds) - 1
    problem = Problem(masks={"train": "train_mask"}, optimizer=optimizer)

    def work(rank, links):
        own, rows = copy.deepcopy(model), RowLinks(rank, size, links if size > 1 else None)
        trainer = Trainer(own, rows, problem, cache())
        trainer.take(cut_part(store, bounds, rows, torch.device("cpu")))
        return [trainer.step() for _ in range(steps)], own

    return run_all(size, work)


def largest_difference(model, other):
    """How far parameters and buffers are apart, relative to the largest element of each above 1."""
    pairs = zip(model.state_dict().values(), other.state_dict().values(), strict=True)
    apart = lambda a, b: float((a - b).abs().max() / b.abs().max().clamp(min=1))
    return max(apart(a.double(), b.double()) for a, b in pairs)
