"""Speed of the analysis: every described operator from cold, and all splits of two large training graphs.

Targets: under 2 s for all operators from cold; under 5 s for all nodes of wresnet-152-10 and rnn-10-8k together. Each is
measured in a process of its own, so that nothing is known yet; capture is not counted.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

from _report import finish, parse_options, print_table, save_result

COLD_LIMIT, GRAPHS_LIMIT = 2.0, 5.0
MODELS = ("wresnet-152-10", "rnn-10-8k")

COLD = """
import json, time
from graphwright.report.tables.operator import _examples, example
import graphwright.describe as d
calls = {op: example(op) for op in _examples()}
start = time.perf_counter()
found = [d.splits(op, attrs, types) for op, (attrs, types) in calls.items()]
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "operators": len(found), "splits": sum(map(len, found))}))
"""

GRAPH = """
import json, sys, time
import graphwright.describe as d
from graphwright.describe.language.trace import num_traces
from graphwright.ir import load
graph = load(sys.argv[1])
start = time.perf_counter()
found = [d.node_splits(graph, node) for node in graph.nodes]
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "nodes": len(found), "splits": sum(map(len, found)), "analyses": num_traces()}))
"""


def fresh(program: str, *arguments: str) -> dict[str, float]:
    """Run a program in a process of its own and read what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def capture(name: str, folder: str) -> tuple[str, float]:
    from graphwright import zoo
    from graphwright.ir import save

    workload = zoo.load(name, batch_size=8)
    start = time.perf_counter()
    graph = workload.capture()
    seconds = time.perf_counter() - start
    path = f"{folder}/{name}.json"
    save(graph, path)
    return path, seconds


def main() -> int:
    import tempfile

    options = parse_options(__doc__)
    repeats = 3 if options.quick else 7
    cold = [fresh(COLD) for _ in range(repeats)]
    rows = [
        (
            "all operators, cold",
            cold[0]["operators"],
            cold[0]["splits"],
            "",
            *spread(cold),
            f"{COLD_LIMIT:g}",
        )
    ]
    results: dict[str, object] = {"cold": cold}
    total = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS:
            path, seconds = capture(name, folder)
            runs = [fresh(GRAPH, path) for _ in range(repeats)]
            results[name] = {"capture_seconds": seconds, "runs": runs}
            total += statistics.median(r["seconds"] for r in runs)
            rows.append(
                (name, runs[0]["nodes"], runs[0]["splits"], runs[0]["analyses"], *spread(runs), "")
            )
    rows.append(("both graphs", "", "", "", f"{total:.2f}", "", f"{GRAPHS_LIMIT:g}"))
    print_table(
        ("", "operators", "splits", "analyses", "seconds (median)", "least to most", "target"), rows
    )
    save_result("describe_speed", options, results)
    median = statistics.median(r["seconds"] for r in cold)
    misses = []
    if median > COLD_LIMIT:
        misses.append(f"all operators from cold: {median:.2f} s, target {COLD_LIMIT} s")
    if total > GRAPHS_LIMIT:
        misses.append(f"both graphs: {total:.2f} s, target {GRAPHS_LIMIT} s")
    return finish(
        options, misses, f"cold {median:.2f} s (target 2), both graphs {total:.2f} s (target 5)"
    )


def spread(runs: list[dict[str, float]]) -> tuple[str, str]:
    seconds = [r["seconds"] for r in runs]
    return f"{statistics.median(seconds):.2f}", f"{min(seconds):.2f} to {max(seconds):.2f}"


if __name__ == "__main__":
    sys.exit(main())
