"""DGL's Figures 4.5 to 4.7: epoch time and extra memory of GCN and GAT against nodes, density and hidden size, beside PyG and DGL.

Erdos-Renyi graphs, as in the paper: Figure 4.5 has a density of 0.08% and grows the nodes, 4.6 fixes the nodes and grows the
density, 4.7 fixes both and grows the hidden size. The paper goes to 512k nodes and 209M edges on a V100; here sizes end where
PyG's messages fill a few GB. Systems run epoch by epoch
in turn. The paper's figures are pictures; what its text states is printed below the table.
"""

from __future__ import annotations

import sys
from dataclasses import asdict

from _gnn import Case, agree, measure, side_by_side_options, systems_of
from _report import finish, parse_options, print_table, save_result

DENSITY = 0.0008
NOISE = 1.05
"""Runs of one system differ by this; so much slower is not counted."""
STATED = (
    "4.5: at 256k nodes GCN is 3.4x faster than PyG; PyG runs out of memory before 512k (GCN) and 128k (GAT)",
    "4.6: up to 7.5x faster where both fit",
    "4.7: GCN 4.3x faster at hidden size 1024, and always faster above 32",
)


def sweeps(quick: bool):
    """(figure, varied value, nodes, edges, hidden)"""
    for nodes in (4000, 16000) if quick else (4000, 8000, 16000, 32000):
        yield "4.5", nodes, nodes, int(DENSITY * nodes**2) + nodes, 16
    nodes = 8000 if quick else 16000
    for density in (0.0016, 0.0064) if quick else (0.0008, 0.0016, 0.0032, 0.0064):
        yield "4.6", density, nodes, int(density * nodes**2) + nodes, 16
    for hidden in (16, 64) if quick else (8, 16, 32, 64, 128):
        yield "4.7", hidden, 16000, int(DENSITY * 16000**2) + 16000, hidden


def main() -> int:
    own = side_by_side_options()
    options = parse_options(__doc__, own)
    mine, _ = own.parse_known_args()
    pythons = {s: python for s, python in systems_of(mine.dgl_python).items() if s != "pyg-csr"}
    rows, results, misses = [], [], []
    for figure, value, nodes, edges, hidden in sweeps(options.quick):
        for model in ("gcn", "gat"):
            measured = measure(Case(
                model=model, nodes=nodes, edges=edges, features=64, hidden=hidden, classes=16,
                heads=8 if figure != "4.7" else 2, epochs=8, seed=options.seed, threads=mine.threads,
            ), pythons, mine.processor_time)  # fmt: skip
            ours, point = measured["graphwright"], f"{figure} {model} {value}"
            results.append({
                "figure": figure, "model": model, "value": value, "edges": edges,
                **{system: asdict(m) for system, m in measured.items()},
            })  # fmt: skip
            if ours.failed:
                misses.append(f"{point}: {ours.failed}")
                continue
            if not agree(measured.values()):
                misses.append(
                    f"{point}: losses differ: {[m.first_loss for m in measured.values()]}"
                )
            cells = [ours.seconds * 1e3]
            for system in ("pyg", "dgl"):
                m = measured.get(system)
                if m is None or m.failed:
                    cells += ["" if m is None else m.failed, "", ""]
                    continue
                faster = m.seconds / ours.seconds
                smaller = m.extra_bytes / max(ours.extra_bytes, 1)
                cells += [m.seconds * 1e3, f"{faster:.2f}", f"{smaller:.1f}"]
                if faster * NOISE < 1:
                    misses.append(f"{point}: {faster:.2f}x as fast as {system}")
            rows.append((figure, model, value, edges, *cells))
    head = ("figure", "model", "varied", "edges", "ours ms", "PyG ms", "x faster", "x smaller", "DGL ms", "x faster", "x smaller")  # fmt: skip
    print_table(head, rows)
    print("\nThe paper's text, on a V100:", *STATED, sep="\n    ")
    save_result(
        "dgl_fig45_47",
        options,
        {"threads": mine.threads, "processor_time": mine.processor_time, "points": results},
    )
    return finish(options, misses, f"{len(rows)} points, {len(misses)} missed")


if __name__ == "__main__":
    sys.exit(main())
