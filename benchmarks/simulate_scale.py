"""How long it takes to simulate one training step of wresnet-152-10, data parallel, on 64 and on 1,024 devices.

Targets: under 2 s on 64 devices and under a minute on 1,024, from a captured graph, with the task graph and the memory of every device. Each is
measured in a process of its own that has simulated nothing but a tiny model, so that compiled code is loaded but nothing about this graph is
known. `plan` is the time to give every operator its strategy, not part of the target but printed.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from _report import finish, parse_options, print_table, save_result
from graphwright import zoo
from graphwright.ir import save

CASES = ((64, "dgx-h100:8", 128, 2.0), (1024, "dgx-h100:128", 1024, 60.0))

PROGRAM = """
import json, resource, sys, time
import graphwright as gw
from graphwright import ir, zoo
from graphwright.partition import data_parallel
from graphwright.simulate import CostModel, simulate

on, costs = gw.cluster(sys.argv[2]), CostModel(measured=False)
small = zoo.load("mlp", small=True).capture()
simulate(small, data_parallel(small, gw.cluster("dgx-h100")), costs=CostModel(measured=False))
graph = ir.load(sys.argv[1])
start = time.perf_counter()
plan = data_parallel(graph, on)
planned = time.perf_counter()
timeline = simulate(graph, plan, costs=costs)
done = time.perf_counter()
print(json.dumps({
    "plan": planned - start, "simulate": done - planned, "tasks": len(timeline.tasks), "edges": timeline.tasks.num_edges,
    "makespan": timeline.makespan, "peak": int(timeline.memory.peak.max()),
    "resident": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
}))
"""


def run(graph: Path, cluster: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(graph), cluster],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def main() -> int:
    options = parse_options(__doc__)
    rows, misses, results = [], [], {}
    with tempfile.TemporaryDirectory() as folder:
        for devices, cluster, batch, limit in CASES:
            path = Path(folder) / f"{batch}.json.gz"
            save(zoo.load("wresnet-152-10", batch_size=batch).capture(), path)
            run(path, cluster)  # compiles, where that is still to be done
            found = [run(path, cluster) for _ in range(1 if options.quick else 3)]
            seconds = [f["simulate"] for f in found]
            median = statistics.median(seconds)
            one = found[0]
            rows.append(
                (
                    devices,
                    one["tasks"],
                    one["edges"],
                    statistics.median(f["plan"] for f in found),
                    median,
                    f"{min(seconds):.2f}-{max(seconds):.2f}",
                    limit,
                    f"{one['makespan'] * 1e3:.0f} ms",
                    f"{one['peak'] / 1e9:.1f} GB",
                    f"{max(f['resident'] for f in found) / 1e9:.1f} GB",
                )
            )
            results[str(devices)] = {"runs": found, "limit": limit}
            if median >= limit:
                misses.append(f"{devices} devices: {median:.2f} s, limit {limit} s")
    print_table(
        (
            "devices",
            "tasks",
            "edges",
            "plan s",
            "simulate s",
            "spread",
            "limit s",
            "step",
            "peak a device",
            "held",
        ),
        rows,
    )
    save_result("simulate_scale", options, results)
    figure = "; ".join(f"{row[0]} devices in {row[4]:.2f} s (limit {row[6]:g} s)" for row in rows)
    return finish(options, misses, figure)


if __name__ == "__main__":
    sys.exit(main())
