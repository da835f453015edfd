"""Message passing with built-in functions on a CPU: ours, DGL's, and PyTorch Geometric's gather and scatter.

1M edges between 20k nodes, 128 numbers or 8 heads of 16, in milliseconds: the least of all calls but the first, forward
alone, and forward with backward. Systems are called in turn. This is the table of docs/gnn.md.

    python benchmarks/dgl_kernels.py --dgl-python /path/to/python
"""

from __future__ import annotations

import sys
from dataclasses import asdict

from _gnn import KERNELS, Case, agree, measure, side_by_side_options, systems_of
from _report import finish, parse_options, print_table, save_result

NOISE = 1.05
"""Runs of one system differ by this; so much slower is not counted."""


def main() -> int:
    own = side_by_side_options()
    options = parse_options(__doc__, own)
    mine, _ = own.parse_known_args()
    pythons = {s: python for s, python in systems_of(mine.dgl_python).items() if s != "pyg-csr"}
    rows, results, misses = [], {}, []
    for kernel in KERNELS:
        row = [kernel]
        for backward in (False, True):
            case = Case(
                model=kernel, nodes=20_000, edges=200_000 if options.quick else 1_000_000,
                features=128, hidden=0, classes=0, epochs=6 if options.quick else 15,
                seed=options.seed, threads=mine.threads, backward=backward,
            )  # fmt: skip
            measured = measure(case, pythons, mine.processor_time)
            what = f"{kernel}, {'both ways' if backward else 'forward'}"
            results[what] = {system: asdict(m) for system, m in measured.items()}
            ours = measured["graphwright"]
            for system in ("graphwright", "dgl", "pyg"):
                m = measured.get(system)
                row.append("" if m is None else m.failed or m.seconds * 1e3)
                if m is not None and not m.failed and ours.seconds > m.seconds * NOISE:
                    misses.append(
                        f"{what}: {ours.seconds * 1e3:.1f} ms, {system} {m.seconds * 1e3:.1f} ms"
                    )
            if ours.failed:
                misses.append(f"{what}: {ours.failed}")
            elif not agree(measured.values()):
                misses.append(
                    f"{what}: results differ: {[m.first_loss for m in measured.values()]}"
                )
        rows.append(row)
    head = ["", *(f"{way} {s}" for way in ("forward", "both") for s in ("ours", "DGL", "PyG"))]
    print_table(head, rows)
    save_result("dgl_kernels", options, {
        "threads": mine.threads, "processor_time": mine.processor_time, "kernels": results,
    })  # fmt: skip
    return finish(options, misses, f"{len(rows)} kernels both ways, {len(misses)} missed")


if __name__ == "__main__":
    sys.exit(main())
