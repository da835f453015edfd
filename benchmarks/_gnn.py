"""Train one graph neural network for some epochs, in a process of its own: time and extra memory.

    measure(Case(...)) -> Measured

Graphs are undirected Erdos-Renyi with self-loops, made of the seed alone. Every system starts from the same
weights and computes the same model, which the first loss shows. The systems are

    graphwright      gnn.nn layers
    pyg              PyTorch Geometric on an edge list: messages are stored
    pyg-csr          PyTorch Geometric on a CSR matrix, which it has for GCN alone

An epoch is forward, loss, backward and a step of Adam; its time is the least of all but the first.
PyG's GCN keeps its normalised adjacency matrix between epochs (`cached`). Extra memory is the peak of
the process over the first epoch less what it held before, when graph, features and model were there.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

SYSTEMS = ("graphwright", "pyg", "pyg-csr")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model on a graph."""

    system: str
    model: str
    nodes: int
    edges: int
    features: int
    hidden: int
    classes: int
    heads: int = 8
    epochs: int = 5
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a case took; `failed` says why it has no figures."""

    seconds: float = 0.0
    extra_bytes: int = 0
    first_loss: float = 0.0
    failed: str | None = None


def measure(case: Case, limit_s: float = 600) -> Measured:
    """Run a case in a process of its own."""
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", __file__, json.dumps(asdict(case))],
            capture_output=True, text=True, timeout=limit_s,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Measured(failed=f"over {limit_s:g} s")
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return Measured(failed=lines[-1][:100] if lines else f"status {done.returncode}")
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def agree(measured: list[Measured]) -> bool:
    """Whether all that ran computed the same loss from the same weights."""
    losses = [m.first_loss for m in measured if m.failed is None]
    return all(abs(loss - losses[0]) < 1e-3 * max(1.0, abs(losses[0])) for loss in losses)


def _random_edges(nodes, edges, seed):
    import torch

    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(nodes, (2, max(edges - nodes, 0) // 2), generator=generator)
    loops = torch.arange(nodes)
    return torch.cat([ends[0], ends[1], loops]), torch.cat([ends[1], ends[0], loops])


def _weights(case):
    """The same numbers for every system: a matrix for each layer and, for GAT, two vectors."""
    import torch

    generator = torch.Generator().manual_seed(case.seed + 1)
    draw = lambda *shape: torch.randn(shape, generator=generator) / shape[-1] ** 0.5
    if case.model == "gcn":
        return [draw(case.hidden, case.features), draw(case.classes, case.hidden)]
    width = case.heads * case.hidden
    return [
        draw(width, case.features), draw(1, case.heads, case.hidden), draw(1, case.heads, case.hidden),
        draw(case.classes, width), draw(1, 1, case.classes), draw(1, 1, case.classes),
    ]  # fmt: skip


def _graphwright(case, src, dst):
    import torch
    from torch.nn import functional as F

    import graphwright.gnn as dgl
    from graphwright.gnn.nn import GATConv, GraphConv

    g = dgl.graph((src, dst), num_nodes=case.nodes)
    g.create_formats_()
    w = _weights(case)
    if case.model == "gcn":
        layers = torch.nn.ModuleList(
            [GraphConv(case.features, case.hidden), GraphConv(case.hidden, case.classes)]
        )
        for layer, matrix in zip(layers, w, strict=True):
            layer.weight.data.copy_(matrix.T)
        return layers, lambda x: layers[1](g, F.relu(layers[0](g, x)))
    layers = torch.nn.ModuleList(
        [
            GATConv(case.features, case.hidden, case.heads),
            GATConv(case.heads * case.hidden, case.classes, 1),
        ]
    )
    for layer, (matrix, left, right) in zip(layers, (w[:3], w[3:]), strict=True):
        layer.fc.weight.data.copy_(matrix)
        layer.attn_l.data.copy_(left)
        layer.attn_r.data.copy_(right)
    return layers, lambda x: layers[1](g, F.elu(layers[0](g, x)).flatten(1)).flatten(1)


def _pyg(case, src, dst):
    import torch
    from torch.nn import functional as F
    from torch_geometric.nn import GATConv, GCNConv

    w, edges = _weights(case), torch.stack([src, dst])
    if case.model == "gcn":
        given = edges
        if case.system == "pyg-csr":
            # The normalised matrix is made once here, which is what PyG's cache would keep.
            degree = torch.bincount(dst, minlength=case.nodes).float()
            out_degree = torch.bincount(src, minlength=case.nodes).float()
            values = out_degree.pow(-0.5)[src] * degree.pow(-0.5)[dst]
            given = torch.sparse_coo_tensor(
                torch.stack([dst, src]), values, (case.nodes, case.nodes)
            ).to_sparse_csr()
            make = lambda a, b: GCNConv(a, b, normalize=False)
        else:
            make = lambda a, b: GCNConv(a, b, cached=True, add_self_loops=False)
        layers = torch.nn.ModuleList(
            [make(case.features, case.hidden), make(case.hidden, case.classes)]
        )
        for layer, matrix in zip(layers, w, strict=True):
            layer.lin.weight.data.copy_(matrix)
        return layers, lambda x: layers[1](F.relu(layers[0](x, given)), given)
    layers = torch.nn.ModuleList(
        [
            GATConv(case.features, case.hidden, case.heads, add_self_loops=False),
            GATConv(case.heads * case.hidden, case.classes, 1, add_self_loops=False),
        ]
    )
    for layer, (matrix, left, right) in zip(layers, (w[:3], w[3:]), strict=True):
        layer.lin.weight.data.copy_(matrix)
        layer.att_src.data.copy_(left)
        layer.att_dst.data.copy_(right)
    return layers, lambda x: layers[1](F.elu(layers[0](x, edges)), edges)


def _memory(field):
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {field} in /proc/self/status")


def _train(case):
    import torch
    from torch.nn import functional as F

    build = _graphwright if case.system == "graphwright" else _pyg
    tiny = Case(**{**asdict(case), "nodes": 64, "edges": 256})
    for prepared in (tiny, case):  # the tiny one loads code
        generator = torch.Generator().manual_seed(case.seed + 2)
        x = torch.randn(prepared.nodes, case.features, generator=generator)
        y = torch.randint(case.classes, (prepared.nodes,), generator=generator)
        layers, model = build(prepared, *_random_edges(prepared.nodes, prepared.edges, case.seed))
        optimizer = torch.optim.Adam(layers.parameters(), lr=0.01)
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before, times, losses = _memory("VmRSS"), [], []
        for epoch in range(case.epochs if prepared is case else 1):
            start = time.perf_counter()
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            times.append(time.perf_counter() - start)
            losses.append(float(loss.detach()))
            if epoch == 0:
                extra = _memory("VmHWM") - before
    return Measured(seconds=min(times[1:] or times), extra_bytes=extra, first_loss=losses[0])


if __name__ == "__main__":
    print(json.dumps(asdict(_train(Case(**json.loads(sys.argv[1]))))))
