"""Train one graph neural network for some epochs with several systems in turn: time and extra memory.

    measure(Case(...), systems_of(options)) -> {"graphwright": Measured, "pyg": Measured, ...}

Each system has a process of its own, with the same number of threads. All are told in turn to go on by an epoch, so what
else the machine does falls on all of them alike:

    graphwright | epoch 1 |         |         | epoch 2 |
    pyg                   | epoch 1 |                   | epoch 2 |
    dgl                             | epoch 1 |                   ...

Graphs are undirected Erdos-Renyi with self-loops, made of the seed alone. Every system starts from the same
weights and computes the same model, which the first loss shows. The systems are

    graphwright      gnn.nn layers
    pyg              PyTorch Geometric on an edge list: messages are stored
    pyg-csr          PyTorch Geometric on a CSR matrix, which it has for GCN alone
    dgl              DGL, in an interpreter that has it (--dgl-python)

An epoch is forward, loss, backward and a step of Adam; its time is the least of all but the first. A model that is named
as one of KERNELS is that message passing alone, forward and, unless `backward` is False, backward.
PyG's GCN keeps its normalised adjacency matrix between epochs (`cached`). Extra memory is the peak of
the process over the first epoch less what it held before, when graph, features and model were there.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

SYSTEMS = ("graphwright", "pyg", "pyg-csr", "dgl")
KERNELS = {
    "copy_u sum": ("copy_u", "x", "sum"),
    "u_mul_e sum": ("u_mul_e", "x w", "sum"),
    "u_mul_e sum, heads": ("u_mul_e", "xh att", "sum"),
    "copy_e sum, heads": ("copy_e", "att", "sum"),
    "copy_u max": ("copy_u", "x", "max"),
    "u_mul_e max": ("u_mul_e", "x w", "max"),
    "u_dot_v": ("u_dot_v", "x x", None),
    "u_dot_v, heads": ("u_dot_v", "xh xh", None),
    "u_add_v, heads": ("u_add_v", "s s", None),
    "edge_softmax, heads": ("edge_softmax", "att", None),
}
"""A message function, its fields, and the reduction, or None for a value of each edge."""
LIMIT_S = 600
"""How long a process may take for one epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model on a graph."""

    system: str = ""
    model: str
    nodes: int
    edges: int
    features: int
    hidden: int
    classes: int
    heads: int = 8
    epochs: int = 5
    seed: int = 0
    threads: int = 0
    backward: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a case took; `failed` says why it has no figures. `cpu_seconds` are those of all threads."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    extra_bytes: int = 0
    first_loss: float = 0.0
    failed: str | None = None


def side_by_side_options() -> argparse.ArgumentParser:
    """The options of benchmarks that compare systems."""
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument(
        "--dgl-python", metavar="PATH", help="an interpreter that has DGL and a PyTorch for it"
    )
    own.add_argument(
        "--threads",
        type=int,
        default=os.cpu_count() or 1,
        help="threads of each system (all cores)",
    )
    own.add_argument(
        "--processor-time",
        action="store_true",
        help="compare seconds of all threads on processors, where other programs run as well",
    )
    return own


def systems_of(dgl_python: str | None) -> dict[str, str]:
    """The interpreter of each system that can be measured."""
    pythons = {"graphwright": sys.executable}
    if _has(sys.executable, "torch_geometric"):
        pythons |= {"pyg": sys.executable, "pyg-csr": sys.executable}
    if dgl_python is not None:
        if not _has(dgl_python, "dgl"):
            raise SystemExit(f"{dgl_python} cannot import dgl; give an interpreter that can")
        pythons["dgl"] = dgl_python
    return pythons


def _has(python: str, package: str) -> bool:
    done = subprocess.run(
        [python, "-W", "ignore", "-c", f"import {package}"], capture_output=True, timeout=LIMIT_S
    )
    return done.returncode == 0


def measure(
    case: Case, pythons: Mapping[str, str], processor_time: bool = False
) -> dict[str, Measured]:
    """Run a case with each of some systems, epoch by epoch in turn."""
    runs = {
        system: _Run(replace(case, system=system), python) for system, python in pythons.items()
    }
    try:
        for run in runs.values():
            run.answer()  # everything is loaded and in place
        for _ in range(case.epochs):
            for run in runs.values():
                run.epoch()
        results = {system: run.result() for system, run in runs.items()}
        if processor_time:
            results = {s: replace(m, seconds=m.cpu_seconds) for s, m in results.items()}
        return results
    finally:
        for run in runs.values():
            run.end()


class _Run:
    """A process that goes on by one epoch for each line that it reads."""

    def __init__(self, case: Case, python: str) -> None:
        variables = {"OMP_NUM_THREADS": str(case.threads)} if case.threads else {}
        self.process = subprocess.Popen(
            [python, "-W", "ignore", __file__, json.dumps(asdict(case))], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "DGLBACKEND": "pytorch", **variables},
        )  # fmt: skip
        self.failed: str | None = None
        self.answers: list[dict[str, float]] = []

    def answer(self) -> dict[str, float] | None:
        """What the process says next; None if it is over."""
        if self.failed:
            return None
        assert self.process.stdout is not None and self.process.stderr is not None
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.process.stdout, selectors.EVENT_READ)
            if not waiting.select(LIMIT_S):
                self.failed = f"over {LIMIT_S:g} s"
                self.end()
                return None
        line = self.process.stdout.readline()
        if not line:
            lines = self.process.stderr.read().strip().splitlines()
            self.failed = lines[-1][:100] if lines else f"status {self.process.wait()}"
            return None
        return json.loads(line)

    def epoch(self) -> None:
        if self.failed:
            return
        assert self.process.stdin is not None
        self.process.stdin.write("epoch\n")
        self.process.stdin.flush()
        answer = self.answer()
        if answer is not None:
            self.answers.append(answer)

    def result(self) -> Measured:
        if self.failed:
            return Measured(failed=self.failed)
        first, rest = self.answers[0], self.answers[1:] or self.answers
        return Measured(
            seconds=min(a["seconds"] for a in rest), cpu_seconds=min(a["cpu_seconds"] for a in rest),
            extra_bytes=int(first["extra_bytes"]), first_loss=first["loss"],
        )  # fmt: skip

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def agree(measured: Iterable[Measured]) -> bool:
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


def _by_dgls_interface(case, src, dst):
    """DGL's and our own layers have the same names and arguments."""
    import torch
    from torch.nn import functional as F

    if case.system == "dgl":
        import dgl
        from dgl.nn.pytorch import GATConv, GraphConv
    else:
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


class _Training:
    """A model, and all that an epoch of it needs."""

    def __init__(self, case: Case) -> None:
        import torch

        generator = torch.Generator().manual_seed(case.seed + 2)
        self.x = torch.randn(case.nodes, case.features, generator=generator)
        self.y = torch.randint(case.classes, (case.nodes,), generator=generator)
        build = _pyg if case.system.startswith("pyg") else _by_dgls_interface
        edges = _random_edges(case.nodes, case.edges, case.seed)
        layers, self.model = build(case, *edges)
        self.optimizer = torch.optim.Adam(layers.parameters(), lr=0.01)

    def epoch(self) -> dict[str, float]:
        from torch.nn import functional as F

        start, cpu = time.perf_counter(), time.process_time()
        loss = F.cross_entropy(self.model(self.x), self.y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        taken = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
        return {**taken, "loss": float(loss.detach())}


class _Kernel:
    """One message passing on features that want gradients, of DGL, ours, or PyG's parts."""

    def __init__(self, case: Case) -> None:
        import torch

        self.case = case
        src, dst = self.ends = _random_edges(case.nodes, case.edges, case.seed)
        draw = torch.Generator().manual_seed(case.seed + 2)
        heads, wide = case.heads, case.features
        made = {
            "x": (case.nodes, wide), "xh": (case.nodes, heads, wide // heads),
            "s": (case.nodes, heads, 1), "w": (len(src), 1), "att": (len(src), heads, 1),
        }  # fmt: skip
        self.message, fields, self.reduction = KERNELS[case.model]
        self.fields = {
            name: torch.randn(shape, generator=draw).requires_grad_(case.backward)
            for name, shape in made.items()
            if name in fields.split()
        }
        self.names = fields.split()
        if not case.system.startswith("pyg"):
            if case.system == "dgl":
                import dgl
            else:
                import graphwright.gnn as dgl
            self.dgl = dgl
            self.graph = dgl.graph((src, dst), num_nodes=case.nodes)
            self.graph.create_formats_()

    def epoch(self) -> dict[str, float]:
        for values in self.fields.values():
            values.grad = None
        start, cpu = time.perf_counter(), time.process_time()
        out = self._of_pyg() if self.case.system.startswith("pyg") else self._of_dgl()
        if self.case.backward:
            out.backward(out.detach())
        taken = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
        total = out.detach().abs().mean()
        for values in self.fields.values():
            total = total if values.grad is None else total + values.grad.abs().mean()
        return {**taken, "loss": float(total)}

    def _of_dgl(self):
        g, fn, names = self.graph, self.dgl.function, self.names
        with g.local_scope():
            for name, values in self.fields.items():
                (g.edata if name in ("w", "att") else g.ndata)[name] = values
            if self.message == "edge_softmax":
                return self.dgl.ops.edge_softmax(g, self.fields["att"])
            message = getattr(fn, self.message)(*names, "m")
            if self.reduction is None:
                g.apply_edges(message)
                return g.edata["m"]
            g.update_all(message, getattr(fn, self.reduction)("m", "out"))
            return g.ndata["out"]

    def _of_pyg(self):
        from torch_geometric.utils import scatter, softmax

        src, dst = self.ends
        if self.message == "edge_softmax":
            return softmax(self.fields["att"], dst, num_nodes=self.case.nodes)
        first, *rest = (self.fields[name] for name in self.names)
        operator = self.message.split("_")[1]
        messages = first if self.message == "copy_e" else first[src]
        if rest:
            other = rest[0] if self.message.endswith("e") else rest[0][dst]
            messages = messages + other if operator == "add" else messages * other
        if operator == "dot":
            messages = messages.sum(-1, keepdim=True)
        if self.reduction is None:
            return messages
        return scatter(messages, dst, 0, self.case.nodes, reduce=self.reduction)


def _serve(case: Case) -> None:
    import torch

    if case.threads:
        torch.set_num_threads(case.threads)
    kind = _Kernel if case.model in KERNELS else _Training
    kind(replace(case, nodes=64, edges=256)).epoch()  # loads code
    training = kind(case)
    print(json.dumps({}), flush=True)
    for _ in sys.stdin:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before = _memory("VmRSS")
        answer = training.epoch()
        print(json.dumps({**answer, "extra_bytes": _memory("VmHWM") - before}), flush=True)


if __name__ == "__main__":
    _serve(Case(**json.loads(sys.argv[1])))
