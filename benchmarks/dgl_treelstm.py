"""DGL's Figure 4.8: training throughput of TreeLSTM against batch size: automatic, by hand, and one node at a time.

Trees are random binary ones with about 20 leaves, the size of a sentence of the Stanford treebank; the cell is the N-ary
TreeLSTM with 300 inputs and 150 hidden units, as in the paper. The three versions have the same weights and compute the same
loss:

    auto      gnn.prop_nodes over topological frontiers of a batched graph; cells are written for one node
    by hand   PyTorch alone: nodes of all trees sorted by height, gathered and scattered by indices made beforehand
    one       PyTorch alone, a cell for each node

Versions train in turn, forward and backward, with as many threads; a figure is that of the least time, and "spread" the median
over the least: 1.0 on a quiet machine. Trees are batched beforehand (a data loader's work), in each version alike.

The paper: DGL trains 10.67x as fast as DyNet with a batch of 1024 on a V100, and as fast on a CPU, faster for large batches.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from functools import partial
from statistics import median

import torch
from torch.nn import functional as F

import graphwright.gnn as dgl
from _report import finish, parse_options, print_table, save_result

INPUT, HIDDEN, CLASSES = 300, 150, 5
ONE_ROUNDS, LARGEST_ONE = 3, 64
TARGET_ONE = 3
"""How much faster than one node at a time the largest batch has to be: the paper compares with DyNet instead."""


class Cell(torch.nn.Module):
    """The N-ary TreeLSTM cell, on batches of nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.w_iou = torch.nn.Linear(INPUT, 3 * HIDDEN)
        self.u_iou = torch.nn.Linear(2 * HIDDEN, 3 * HIDDEN, bias=False)
        self.u_f = torch.nn.Linear(2 * HIDDEN, 2 * HIDDEN)
        self.out = torch.nn.Linear(HIDDEN, CLASSES)

    def children(self, h, c):
        """[nodes, 2, hidden] states of children -> gates' part, memory"""
        joined = h.flatten(1)
        forget = torch.sigmoid(self.u_f(joined)).view(h.shape)
        return self.u_iou(joined), (forget * c).sum(1)

    def state(self, iou, c):
        i, o, u = iou.chunk(3, 1)
        c = torch.sigmoid(i) * torch.tanh(u) + c
        return torch.sigmoid(o) * torch.tanh(c), c


def random_tree(leaves, generator):
    """(children of each node or None, parents after children)"""
    nodes, open_nodes = [None] * leaves, list(range(leaves))
    while len(open_nodes) > 1:
        at = int(torch.randint(len(open_nodes) - 1, (1,), generator=generator))
        nodes.append((open_nodes[at], open_nodes[at + 1]))
        open_nodes[at : at + 2] = [len(nodes) - 1]
    return nodes


def heights(tree):
    found = []
    for children in tree:
        found.append(0 if children is None else 1 + max(found[c] for c in children))
    return found


def auto(cell, x, graph, frontiers):
    n = graph.num_nodes()
    with graph.local_scope():
        graph.ndata["iou"] = cell.w_iou(x)
        graph.ndata["h"], graph.ndata["c"] = x.new_zeros(n, HIDDEN), x.new_zeros(n, HIDDEN)

        def send(edges):
            return {"h": edges.src["h"], "c": edges.src["c"]}

        def reduce(nodes):
            iou, c = cell.children(nodes.mailbox["h"], nodes.mailbox["c"])
            return {"iou": nodes.data["iou"] + iou, "c": c}

        def update(nodes):
            h, c = cell.state(nodes.data["iou"], nodes.data["c"])
            return {"h": h, "c": c}

        graph.prop_nodes(frontiers, send, reduce, update)
        return cell.out(graph.ndata["h"])


def by_hand(cell, x, levels):
    iou = cell.w_iou(x)
    parts_h, parts_c = [], []
    done_h = done_c = None
    for own, left, right in levels:  # places count nodes in the order of levels
        if left is None:
            h, c = cell.state(iou[own], 0)
        else:
            states = (
                torch.stack([done_h[left], done_h[right]], 1),
                torch.stack([done_c[left], done_c[right]], 1),
            )
            gates, memory = cell.children(*states)
            h, c = cell.state(iou[own] + gates, memory)
        parts_h.append(h)
        parts_c.append(c)
        done_h, done_c = torch.cat(parts_h), torch.cat(parts_c)
    order = torch.cat([own for own, _, _ in levels])
    return cell.out(torch.empty_like(done_h).index_copy(0, order, done_h))


def one_at_a_time(cell, x, trees):
    iou, first, outs = cell.w_iou(x), 0, []
    for tree in trees:
        states = []
        for node, children in enumerate(tree):
            gates, memory = iou[first + node][None], 0
            if children is not None:
                h = torch.stack([states[c][0] for c in children], 1)
                c = torch.stack([states[c][1] for c in children], 1)
                extra, memory = cell.children(h, c)
                gates = gates + extra
            states.append(cell.state(gates, memory))
        outs.append(torch.cat([h for h, _ in states]))
        first += len(tree)
    return cell.out(torch.cat(outs))


def prepare(trees):
    """The batched graph with its frontiers, and the levels of the version by hand."""
    graphs, height = [], []
    for tree in trees:
        edges = [(child, node) for node, pair in enumerate(tree) if pair for child in pair]
        graphs.append(
            dgl.graph(([u for u, _ in edges], [v for _, v in edges]), num_nodes=len(tree))
        )
        height += heights(tree)
    height = torch.tensor(height)
    frontiers = [(height == level).nonzero().flatten() for level in range(int(height.max()) + 1)]
    place = torch.empty_like(height)
    place[torch.cat(frontiers)] = torch.arange(len(height))
    first, pairs = 0, {}
    for tree in trees:
        pairs.update({first + n: (first + p[0], first + p[1]) for n, p in enumerate(tree) if p})
        first += len(tree)
    levels = [(frontiers[0], None, None)]
    for own in frontiers[1:]:
        ends = torch.tensor([pairs[int(node)] for node in own])
        levels.append((own, place[ends[:, 0]], place[ends[:, 1]]))
    return dgl.batch(graphs), frontiers, levels


def timed(ways, y, optimizer, rounds):
    """Seconds of all passes by way, forward and backward, one after the other in each round."""
    taken = {name: [] for name in ways}
    for number in range(rounds):
        for name, way in ways.items():
            if name == "one" and number >= ONE_ROUNDS:
                continue
            start = time.perf_counter()
            loss = F.cross_entropy(way(), y)
            optimizer.zero_grad()
            loss.backward()
            taken[name].append(time.perf_counter() - start)
    return taken


def main() -> int:
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="threads (all cores)")
    options = parse_options(__doc__, own)
    mine, _ = own.parse_known_args()
    torch.set_num_threads(mine.threads)
    torch.manual_seed(options.seed)
    generator = torch.Generator().manual_seed(options.seed)
    cell = Cell()
    optimizer = torch.optim.Adagrad(cell.parameters(), lr=0.05)
    rows, results, misses = [], [], []
    for size in (4, 64) if options.quick else (1, 4, 16, 64, 256, 1024):
        lengths = torch.randint(10, 31, (size,), generator=generator).tolist()
        trees = [random_tree(length, generator) for length in lengths]
        graph, frontiers, levels = prepare(trees)
        x = torch.randn(graph.num_nodes(), INPUT, generator=generator)
        y = torch.randint(CLASSES, (graph.num_nodes(),), generator=generator)
        ways = {
            "auto": partial(auto, cell, x, graph, frontiers),
            "by hand": partial(by_hand, cell, x, levels),
        }
        if size <= LARGEST_ONE:
            ways["one"] = partial(one_at_a_time, cell, x, trees)
        losses = {name: float(F.cross_entropy(way(), y).detach()) for name, way in ways.items()}
        if max(losses.values()) - min(losses.values()) > 1e-4:
            misses.append(f"batch {size}: losses differ, {losses}")
        taken = timed(ways, y, optimizer, 9 if size > 256 else 15)
        rate = {name: size / min(times) for name, times in taken.items()}
        one = rate.get("one", results[-1]["trees/s"]["one"] if results else 0.0)
        rate.setdefault("one", one)  # a node at a time does not care for the batch
        spread = max(median(times) / min(times) for times in taken.values())
        rows.append((
            size, rate["auto"], rate["by hand"], rate["one"], rate["auto"] / one,
            rate["auto"] / rate["by hand"], spread,
        ))  # fmt: skip
        results.append({"batch": size, "trees/s": rate, "seconds": taken})
    head = ("batch", "auto trees/s", "by hand", "one", "x one", "x by hand", "spread")
    print_table(head, rows)
    last = rows[-1]
    if last[4] < TARGET_ONE:
        misses.append(f"batch {last[0]}: {last[4]:.1f}x one node at a time, target {TARGET_ONE}x")
    save_result("dgl_treelstm", options, {"threads": mine.threads, "points": results})
    return finish(
        options,
        misses,
        f"auto is {last[4]:.1f}x one node at a time, {last[5]:.2f}x by hand, batch {last[0]}",
    )


if __name__ == "__main__":
    sys.exit(main())
