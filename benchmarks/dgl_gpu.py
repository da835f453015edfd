"""Fused kernels on a GPU beside PyTorch Geometric's best path and torch.sparse.mm: time, memory, bytes over time.

    random       as many edges anywhere (Erdos-Renyi): degrees are alike
    skewed       R-MAT with Graph500's shares: hubs have thousands of edges, half of the nodes none

"ours" computes and reduces messages in one kernel. "PyG" stores them and scatters (gather, multiply, scatter: what its
layers do with an edge list) or, for copy_u and u_mul_e with a sum, multiplies a CSR matrix, which is torch.sparse.mm. Calls
are made in turn; a time is the median of all but the first, by events on the card. "read" is what messages are made of, edge
by edge: the rows that edges need, their numbers, and the result written once. It is divided by the time and by what a large
copy moves in a second (read and written), so 1 is as fast as a copy; where features fit into the card's cache, more is
possible. "once" counts each operand once: what has to move.

    python benchmarks/dgl_gpu.py --quick      # without a GPU it says so, and ends with 0

The target: no slower than either, and extra memory that does not grow with edges times features.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from statistics import median

import torch

import graphwright.gnn as dgl
from _report import finish, parse_options, print_table, save_result
from graphwright.gnn.kernels import edge_softmax, gsddmm, gspmm

DEVICE = "cuda"
NOISE = 1.05
ROUNDS = 12


def graphs(quick: bool, seed: int):
    """(name, graph, features)"""
    sizes = [(15, 2_000_000, 128)] if quick else [(15, 2_000_000, 128), (20, 32_000_000, 64)]
    for scale, edges, wide in sizes:
        nodes = 1 << scale
        draw = torch.Generator().manual_seed(seed)
        ends = torch.randint(nodes, (2, edges), generator=draw)
        for name, src, dst in (
            ("random", *ends),
            ("skewed", *dgl.data.rmat(scale, edges, seed=seed).edges()),
        ):
            g = dgl.graph((src, dst), num_nodes=nodes).to(DEVICE)
            g.create_formats_()
            yield f"{name} {nodes / 1e3:.0f}k, {g.num_edges() / 1e6:.0f}M", g, wide


def workloads(g, wide, seed):
    """(name, {system: call}, bytes that edges read and results take, bytes of all operands once, extra allowed)"""
    draw = torch.Generator(DEVICE).manual_seed(seed)
    n, e, heads = g.num_nodes(), g.num_edges(), 8
    normal = partial(torch.randn, generator=draw, device=DEVICE)
    relation, (src, dst) = g.relation(), g.edges()
    csc = relation.csc
    x, w, att = normal(n, wide), normal(e), normal(e, heads, 1)
    xh, scores = x.view(n, heads, wide // heads), normal(e, heads)
    in_csc = w if csc.edge_ids is None else w[csc.edge_ids.long()]
    csr = lambda values: torch.sparse_csr_tensor(csc.indptr, csc.indices, values, (n, n))
    ones, weighted = csr(torch.ones_like(w)), csr(in_csc)
    rows, number = wide * 4, src.element_size()

    def scattered(messages, how="sum"):
        from torch_geometric.utils import scatter

        return scatter(messages, dst, 0, n, reduce=how)

    def normalised():
        from torch_geometric.utils import softmax

        return softmax(scores, dst, num_nodes=n)

    u = (x, "u")
    yield "copy_u sum", {
        "ours": lambda: gspmm(relation, "copy", "sum", u),
        "PyG": lambda: scattered(x[src]),
        "sparse.mm": lambda: torch.sparse.mm(ones, x),
    }, e * (rows + number) + n * rows, 2 * n * rows + e * number  # fmt: skip
    yield "u_mul_e sum", {
        "ours": lambda: gspmm(relation, "mul", "sum", u, (w, "e")),
        "PyG": lambda: scattered(x[src] * w[:, None]),
        "sparse.mm": lambda: torch.sparse.mm(weighted, x),
    }, e * (rows + 2 * number + 4) + n * rows, 2 * n * rows + e * (2 * number + 4)  # fmt: skip
    yield "u_mul_e sum, 8 heads", {
        "ours": lambda: gspmm(relation, "mul", "sum", (xh, "u"), (att, "e")),
        "PyG": lambda: scattered(xh[src] * att),
    }, e * (rows + 2 * number + 32) + n * rows, 2 * n * rows + e * (2 * number + 32)  # fmt: skip
    yield "copy_u max", {
        "ours": lambda: gspmm(relation, "copy", "max", u),
        "PyG": lambda: scattered(x[src], "max"),
    }, e * (rows + 2 * number) + n * wide * 12, n * wide * 16 + e * 2 * number  # fmt: skip
    yield "u_dot_v", {
        "ours": lambda: gsddmm(relation, "dot", u, (x, "v")),
        "PyG": lambda: (x[src] * x[dst]).sum(-1, keepdim=True),
    }, e * (2 * rows + 2 * number + 4), n * rows + e * (2 * number + 4)  # fmt: skip
    yield "u_dot_v, 8 heads", {
        "ours": lambda: gsddmm(relation, "dot", (xh, "u"), (xh, "v")),
        "PyG": lambda: (xh[src] * xh[dst]).sum(-1, keepdim=True),
    }, e * (2 * rows + 2 * number + 32), n * rows + e * (2 * number + 32)  # fmt: skip
    yield "edge_softmax, 8 heads", {
        "ours": lambda: edge_softmax(relation, scores),
        "PyG": normalised,
    }, e * 64, e * 64  # fmt: skip


def layers(g, wide, seed):
    """A layer forward and backward: (name, {system: call})"""
    draw = torch.Generator(DEVICE).manual_seed(seed)
    torch.manual_seed(seed)
    x = torch.randn(g.num_nodes(), wide, generator=draw, device=DEVICE)
    from torch_geometric.nn import GATConv, GCNConv

    edges = torch.stack(g.edges())
    csc = g.relation().csc
    into, out = g.in_degrees().clamp(min=1).float(), g.out_degrees().clamp(min=1).float()
    values = (out.pow(-0.5)[csc.indices] * into.pow(-0.5).repeat_interleave(g.in_degrees()))  # fmt: skip
    csr = torch.sparse_csr_tensor(csc.indptr, csc.indices, values, (g.num_nodes(),) * 2)
    norm = out.pow(-0.5)[edges[0]] * into.pow(-0.5)[edges[1]]

    def both(layer, *arguments):
        layer = layer.to(DEVICE)

        def call():
            layer.zero_grad(set_to_none=True)
            given = [a.detach().requires_grad_() if a is x else a for a in arguments]
            layer(*given).square().mean().backward()

        return call

    ours = dgl.nn.GraphConv(wide, wide, allow_zero_in_degree=True)
    yield "GCN layer", {
        "ours": both(ours, g, x),
        "PyG": both(GCNConv(wide, wide, normalize=False), x, edges, norm),
        "sparse.mm": both(GCNConv(wide, wide, normalize=False), x, csr),
    }  # fmt: skip
    yield "GAT layer, 8 heads", {
        "ours": both(dgl.nn.GATConv(wide, wide // 8, 8, allow_zero_in_degree=True), g, x),
        "PyG": both(GATConv(wide, wide // 8, 8, add_self_loops=False), x, edges),
    }  # fmt: skip


def timed(calls: dict[str, Callable[[], object]]) -> tuple[dict, dict, dict]:
    """Seconds, extra bytes and results by system; calls are made in turn. What fails says why."""
    results, extra, failed = {}, {}, {}
    for name, call in calls.items():
        try:
            call()
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            results[name] = call()
            torch.cuda.synchronize()
            extra[name] = torch.cuda.max_memory_allocated() - before
        except Exception as error:  # out of memory, or without this operator
            failed[name] = type(error).__name__
    spans = {name: [] for name in calls if name not in failed}
    for _ in range(ROUNDS):
        for name, kept in spans.items():
            ends = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            ends[0].record()
            calls[name]()
            ends[1].record()
            kept.append(ends)
    torch.cuda.synchronize()
    seconds = {
        name: median(a.elapsed_time(b) for a, b in kept[1:]) / 1e3 for name, kept in spans.items()
    }
    return seconds | failed, extra, results


def copy_bandwidth() -> float:
    """Bytes that a large copy reads and writes in a second."""
    x = torch.empty(1 << 28, device=DEVICE)
    y = torch.empty_like(x)
    seconds, _, _ = timed({"copy": lambda: y.copy_(x)})
    return 2 * x.numel() * 4 / seconds["copy"]


def main() -> int:
    options = parse_options(__doc__)
    if not torch.cuda.is_available():
        print("no GPU: nothing was measured")
        return 0
    bandwidth, rows, saved, misses = copy_bandwidth(), [], [], []
    for graph, g, wide in graphs(options.quick, options.seed):
        made = [
            *workloads(g, wide, options.seed),
            *((*layer, None, None) for layer in layers(g, wide, options.seed)),
        ]
        for name, calls, read, once in made:
            seconds, extra, results = timed(calls)
            ours, row = seconds["ours"], []
            if isinstance(ours, str):
                misses.append(f"{graph}, {name}: {ours}")
                continue
            for system in ("PyG", "sparse.mm"):
                other = seconds.get(system, "")
                row.append(other if isinstance(other, str) else other * 1e3)
                if isinstance(other, str):
                    continue
                if ours > other * NOISE:
                    misses.append(f"{graph}, {name}: {ours / other:.2f} times {system}'s time")
                if read is not None and not same(results["ours"], results[system]):
                    misses.append(f"{graph}, {name}: the results of {system} differ")
            shares = ["" if count is None else count / ours / bandwidth for count in (read, once)]
            memory = [round(extra[s] / 1e6) if s in extra else "" for s in ("ours", "PyG")]
            rows.append((graph, wide, name, ours * 1e3, *row, *memory, *shares))
            saved.append({
                "graph": graph, "features": wide, "workload": name, "seconds": seconds,
                "extra_bytes": extra, "read_share": shares[0], "once_share": shares[1],
            })  # fmt: skip
        del g, made
    head = ("graph", "features", "workload", "ours ms", "PyG ms", "sparse.mm ms", "ours MB", "PyG MB", "read/copy", "once/copy")  # fmt: skip
    print_table(head, rows)
    print(f"\n{torch.cuda.get_device_name()}; a copy moves {bandwidth / 1e9:,.0f} GB/s")
    save_result("dgl_gpu", options, {
        "device": torch.cuda.get_device_name(), "copy_bytes_per_second": bandwidth, "workloads": saved,
    })  # fmt: skip
    return finish(options, misses, f"{len(rows)} workloads, {len(misses)} missed")


def same(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Whether results agree but for the order of sums."""
    largest = theirs.abs().max().clamp(min=1)
    return bool(((ours.reshape(theirs.shape) - theirs).abs().max() / largest) < 1e-4)


if __name__ == "__main__":
    sys.exit(main())
