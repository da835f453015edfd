"""TreeLSTM on batches of binary trees: the parity of the leaves of each subtree."""

import dgl
import torch
import torch.nn.functional as F

from data import accuracy, fit


class Cell(torch.nn.Module):
    def __init__(self, size_in, size):
        super().__init__()
        self.w_iou = torch.nn.Linear(size_in, 3 * size, bias=False)
        self.u_iou = torch.nn.Linear(2 * size, 3 * size)
        self.u_f = torch.nn.Linear(2 * size, 2 * size)

    def message_func(self, edges):
        return {"h": edges.src["h"], "c": edges.src["c"]}

    def reduce_func(self, nodes):
        h = nodes.mailbox["h"].flatten(1)
        f = torch.sigmoid(self.u_f(h)).view(nodes.mailbox["c"].shape)
        return {"iou": self.u_iou(h), "c": (f * nodes.mailbox["c"]).sum(1)}

    def apply_node_func(self, nodes):
        i, o, u = nodes.data["iou"].chunk(3, 1)
        c = torch.sigmoid(i) * torch.tanh(u) + nodes.data["c"]
        return {"h": torch.sigmoid(o) * torch.tanh(c), "c": c}


def tree(leaves, generator):
    values = torch.randint(2, (leaves,), generator=generator).tolist()
    edges, open_nodes, level = [], list(range(leaves)), [0] * leaves
    word = list(values)
    while len(open_nodes) > 1:
        at = int(torch.randint(len(open_nodes) - 1, (1,), generator=generator))
        a, b = open_nodes[at : at + 2]
        new = len(values)
        values.append((values[a] + values[b]) % 2)
        level.append(1 + max(level[a], level[b]))
        word.append(2)
        edges += [(a, new), (b, new)]
        open_nodes[at : at + 2] = [new]
    g = dgl.graph(([u for u, _ in edges], [v for _, v in edges]), num_nodes=len(values))
    g.ndata["x"], g.ndata["y"], g.ndata["level"] = map(torch.tensor, (word, values, level))
    return g


def main():
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    g = dgl.batch(
        [tree(int(n), generator) for n in torch.randint(2, 6, (40,), generator=generator)]
    )
    model = torch.nn.ModuleDict(
        {"e": torch.nn.Embedding(3, 16), "cell": Cell(16, 24), "out": torch.nn.Linear(24, 2)}
    )
    levels = g.ndata["level"]
    frontiers = [(levels == at).nonzero().flatten() for at in range(int(levels.max()) + 1)]

    def scores():
        with g.local_scope():
            cell, n = model["cell"], g.num_nodes()
            g.ndata["iou"] = cell.w_iou(model["e"](g.ndata["x"]))
            g.ndata["h"] = torch.zeros(n, 24)
            g.ndata["c"] = torch.zeros(n, 24)
            g.prop_nodes(
                frontiers, cell.message_func, cell.reduce_func, apply_node_func=cell.apply_node_func
            )
            return model["out"](g.ndata["h"])

    fit(model, lambda: F.cross_entropy(scores(), g.ndata["y"]), epochs=100, lr=0.03)
    return accuracy(scores(), g.ndata["y"])
