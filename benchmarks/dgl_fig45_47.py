"""DGL's Figures 4.5 to 4.7: epoch time and extra memory of GCN and GAT against nodes, density and hidden size, beside PyG.

Erdos-Renyi graphs, as in the paper: Figure 4.5 has a density of 0.08% and grows the nodes, 4.6 fixes the nodes and grows the
density, 4.7 fixes both and grows the hidden size. The paper goes to 512k nodes and 209M edges on a V100; here sizes end where
PyG's messages fill a few GB. The paper's figures are pictures; what its text states is printed below the table.
"""

from __future__ import annotations

import sys

from _gnn import Case, agree, measure
from _report import finish, parse_options, print_table, save_result

DENSITY = 0.0008
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
    options = parse_options(__doc__)
    rows, results, misses = [], [], []
    for figure, value, nodes, edges, hidden in sweeps(options.quick):
        for model in ("gcn", "gat"):
            heads = 8 if figure != "4.7" else 2
            ours, pyg = (
                measure(Case(
                    system=system, model=model, nodes=nodes, edges=edges, features=64, hidden=hidden, classes=16,
                    heads=heads, epochs=6, seed=options.seed,
                ))
                for system in ("graphwright", "pyg")
            )  # fmt: skip
            if ours.failed or pyg.failed:
                rows.append(
                    (
                        figure,
                        model,
                        value,
                        edges,
                        ours.failed or ours.seconds,
                        pyg.failed or pyg.seconds,
                        "",
                        "",
                    )
                )
                if ours.failed:
                    misses.append(f"{figure} {model} {value}: {ours.failed}")
                continue
            if not agree([ours, pyg]):
                misses.append(
                    f"{figure} {model} {value}: losses differ, {ours.first_loss} and {pyg.first_loss}"
                )
            faster, smaller = pyg.seconds / ours.seconds, pyg.extra_bytes / max(ours.extra_bytes, 1)
            rows.append((figure, model, value, edges, round(ours.seconds, 4), round(pyg.seconds, 4), f"{faster:.1f}", f"{smaller:.1f}"))  # fmt: skip
            results.append({
                "figure": figure, "model": model, "value": value, "edges": edges, "seconds": ours.seconds,
                "pyg_seconds": pyg.seconds, "extra_bytes": ours.extra_bytes, "pyg_extra_bytes": pyg.extra_bytes,
            })  # fmt: skip
            if faster < 1:
                misses.append(f"{figure} {model} {value}: {faster:.2f}x as fast as PyG")
    print_table(
        ("figure", "model", "varied", "edges", "ours s", "PyG s", "x faster", "x smaller"), rows
    )
    print("\nThe paper's text, on a V100:", *STATED, sep="\n    ")
    save_result("dgl_fig45_47", options, {"points": results})
    return finish(options, misses, f"{len(rows)} points, {len(misses)} missed")


if __name__ == "__main__":
    sys.exit(main())
