"""Relational networks: numbered edge types with bases, and a layer for each type of a typed graph."""

import dgl
import dgl.nn as dglnn
import torch
import torch.nn.functional as F

from data import accuracy, fit


def main():
    torch.manual_seed(0)
    users, items = 80, 40
    likes = torch.stack(
        [torch.arange(users).repeat_interleave(5), torch.randint(items // 2, (users * 5,)) * 2]
    )
    likes[1] += likes[0] % 2  # users of one class like items of one parity
    hates = torch.stack([likes[0], items - 1 - likes[1]])  # and hate the others
    g = dgl.heterograph({
        ("user", "likes", "item"): (likes[0], likes[1]), ("item", "liked-by", "user"): (likes[1], likes[0]),
        ("user", "hates", "item"): (hates[0], hates[1]), ("item", "hated-by", "user"): (hates[1], hates[0]),
    })  # fmt: skip
    label = torch.arange(users) % 2
    embed = dglnn.HeteroEmbedding({"user": users, "item": items}, 8)
    first = dglnn.HeteroGraphConv(
        {etype: dglnn.GraphConv(8, 8) for etype in g.etypes}, aggregate="sum"
    )
    second = dglnn.HeteroGraphConv(
        {etype: dglnn.GraphConv(8, 2) for etype in g.etypes}, aggregate="mean"
    )

    def typed():
        h = first(g, {kind: embed.weight[kind] for kind in g.ntypes})
        return second(g, {kind: F.relu(x) for kind, x in h.items()})["user"]

    train = torch.arange(users) < 40
    fit(
        torch.nn.ModuleList([embed, first, second]),
        lambda: F.cross_entropy(typed()[train], label[train]),
        epochs=120,
    )
    one = dgl.to_homogeneous(g)
    kinds = one.edata[dgl.ETYPE]
    layers = torch.nn.ModuleList([
        dglnn.RelGraphConv(8, 8, len(g.etypes), "basis", 2, activation=F.relu),
        dglnn.RelGraphConv(8, 2, len(g.etypes), "basis", 2),
    ])  # fmt: skip
    x = torch.nn.Embedding(one.num_nodes(), 8)
    is_user = one.ndata[dgl.NTYPE] == g.get_ntype_id("user")
    scores = lambda: layers[1](one, layers[0](one, x.weight, kinds), kinds)[is_user]
    fit(
        torch.nn.ModuleList([x, layers]),
        lambda: F.cross_entropy(scores()[train], label[train]),
        epochs=120,
    )
    return min(accuracy(typed(), label, ~train), accuracy(scores(), label, ~train))
