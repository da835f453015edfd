"""ROC's Figure 4.7 and section 4.7.5: deeper and wider networks than fit on one worker train on several.

The residual GCN of section 4.7.5, H' = GCN(H) + H (or + W H where sizes differ), on a graph with planted blocks. Every worker
may allocate so many bytes and no more, by the system's own limit on its data: what one worker cannot hold, four hold in parts.
Vertices are numbered by blocks (order="metis"), so that halos are small. "does not fit" is the system's answer, not ours.

The paper: accuracy on Reddit rises with depth and width, to 96.9%; models of that size did not fit in other systems.
"""

from __future__ import annotations

import resource
import sys
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import graphwright.gnn as dgl
from _report import finish, parse_options, print_table, save_result
from graphwright.errors import WorkerFailed
from graphwright.gnn.nn import GraphConv
from graphwright.run import launch, world
from roc_fig46 import BLOCKS, SIZE, make_graph

CAP = 192 << 20


class Residual(nn.Module):
    """One layer of section 4.7.5."""

    def __init__(self, size, out):
        super().__init__()
        self.conv = GraphConv(size, out, norm="right", allow_zero_in_degree=True)
        self.skip = nn.Identity() if size == out else nn.Linear(size, out, bias=False)

    def forward(self, g, x):
        return self.conv(g, x) + self.skip(x)


class Deep(nn.Module):
    """A residual GCN of so many layers."""

    def __init__(self, depth, width):
        super().__init__()
        sizes = [SIZE, *[width] * (depth - 1), BLOCKS]
        self.layers = nn.ModuleList(map(Residual, sizes[:-1], sizes[1:]))

    def forward(self, g, x):
        for number, layer in enumerate(self.layers):
            x = layer(g, x if number == 0 else F.relu(x))
        return x


def allocated():
    """The bytes of data of this process, as the system counts them for its limit."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmData"))


def work(block_size, depth, width, epochs, seed):
    g = make_graph(block_size, seed)
    world()
    torch.manual_seed(seed)
    model = Deep(depth, width)
    dgl.distribute(Deep(2, 8), g, epochs=2, order="metis")  # what is loaded once does not count
    before = allocated()
    resource.setrlimit(resource.RLIMIT_DATA, (before + CAP, before + CAP))
    try:
        trained = dgl.distribute(
            model,
            g,
            epochs=epochs,
            order="metis",
            optimizer=partial(torch.optim.Adam, lr=0.003),
            evaluate_every=epochs,
        )
    except RuntimeError as error:
        if "alloc" in str(error).lower():
            raise MemoryError("does not fit") from error
        raise
    return trained.epochs[-1].accuracy["test"] if trained.epochs else None


def attempt(workers, *arguments):
    """The accuracy on test vertices, or None where the system refused memory."""
    try:
        return launch(workers, threads=1)(work, *arguments)[0]
    except WorkerFailed as failed:
        if "does not fit" not in str(failed) and "MemoryError" not in str(failed):
            raise
        return None


def main():
    options = parse_options(__doc__)
    block_size, epochs = (500, 10) if options.quick else (500, 40)
    models = (
        ((2, 64), (6, 256)) if options.quick else ((2, 64), (2, 256), (4, 256), (6, 256), (6, 384))
    )
    rows, misses = [], []
    for depth, width in models:
        found = {w: attempt(w, block_size, depth, width, epochs, options.seed) for w in (1, 4)}
        cells = [
            "does not fit" if accuracy is None else f"{accuracy:.1%}" for accuracy in found.values()
        ]
        rows.append((depth, width, *cells))
    print_table(("layers", "width", "1 worker", "4 workers"), rows)
    only = sum(one == "does not fit" != four for *_, one, four in rows)
    if not only:
        misses.append("no model fits on four workers alone")
    if rows[0][2] == "does not fit":
        misses.append("the smallest model does not fit on one worker")
    save_result("roc_fig47", options, {"cap": CAP, "rows": rows})
    figure = (
        f"{only} of {len(rows)} networks train on 4 workers of {CAP >> 20} MiB each and not on one"
    )
    sys.exit(finish(options, misses, figure))


if __name__ == "__main__":
    main()
