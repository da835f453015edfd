"""Tofu's table 1: seconds to search a partition of WResNet-152 and RNN-10 for 8 workers, with and without recursion.

The paper: "DP with coarsening" 8 hours and more than 24 hours; with recursion 8.3 s and 66.6 s. Ours: the recursion of section 5.2, and the same
least-bytes problem over all axes at once (elimination on the grouped graph). Both from a captured graph to a plan, coarsening included. Target: at
most 2 s each. Whether the recursion's plan moves as little as the other's is printed too, and theorem 1: no step moves more than the next. Steps are
counted as in the paper, one axis after the other; what moves in the end, over several axes at once where that is faster, is simulated.
"""

from __future__ import annotations

import statistics
import sys
from dataclasses import replace
from time import perf_counter

from _report import finish, parse_options, print_table, save_result
from graphwright import zoo
from graphwright.ir import Graph
from graphwright.machine import cluster
from graphwright.partition import coarsen, least, make_estimate, narrow, recursive
from graphwright.partition.search.recursive import TOFU
from graphwright.simulate import CostModel, simulate

CASES = (
    ("wresnet-152-10", "8 hours", 8.3),
    ("rnn-10-8k", "> 24 hours", 66.6),
)
LIMIT = 2.0


def search_recursively(graph: Graph) -> tuple[float, object]:
    on, costs = cluster("p2.8xlarge"), CostModel(measured=False)
    start = perf_counter()
    found = recursive(coarsen(graph), on, costs)
    return perf_counter() - start, found


def search_at_once(graph: Graph) -> tuple[float, object]:
    on, costs = cluster("p2.8xlarge"), CostModel(measured=False)
    start = perf_counter()
    space = replace(TOFU, width=64)
    estimate = narrow(make_estimate(coarsen(graph), on, costs, space, measure="bytes"), 64)
    plan = estimate.plan(least(estimate.problem()), "at once")
    return perf_counter() - start, plan


def main() -> int:
    options = parse_options(__doc__)
    search_recursively(zoo.load("mlp", small=True).capture())  # loads compiled code
    search_at_once(zoo.load("mlp", small=True).capture())
    rows, misses, results = [], [], {}
    for name, plain, paper in CASES[1:] if options.quick else CASES:
        graph = zoo.load(name).capture()
        repeats = 1 if options.quick else 3
        recursions = [search_recursively(graph) for _ in range(repeats)]
        at_once = [search_at_once(graph) for _ in range(repeats)]
        found = recursions[0][1]
        moved = simulate(graph, found.plan).moved_bytes
        moved_at_once = simulate(graph, at_once[0][1]).moved_bytes
        seconds = statistics.median(s for s, _ in recursions)
        other = statistics.median(s for s, _ in at_once)
        steps = " <= ".join(f"{s / 1e9:.1f}" for s in found.steps)
        rows.append(
            (name, len(graph.nodes), plain, paper, seconds, paper / seconds, other, moved / 1e9, moved_at_once / 1e9, steps)
        )  # fmt: skip
        results[name] = {
            "recursive": [s for s, _ in recursions],
            "at_once": [s for s, _ in at_once],
            "paper": paper,
            "moved": moved,
            "moved_at_once": moved_at_once,
            "steps": found.steps,
        }
        for what, value in (("recursive", seconds), ("at once", other)):
            if value > LIMIT:
                misses.append(f"{name}, {what}: {value:.2f} s, limit {LIMIT:g} s")
        if any(b < a * (1 - 1e-9) for a, b in zip(found.steps, found.steps[1:], strict=False)):
            misses.append(f"{name}: a step moves less than the one before (theorem 1): {steps}")
    print_table(
        ("model", "nodes", "paper, DP", "paper s", "ours s", "ratio", "at once s", "GB moved", "at once GB", "GB by step"),
        rows,
    )  # fmt: skip
    save_result("tofu_table1", options, results)
    figure = "; ".join(f"{r[0]} {r[4]:.2f} s (paper {r[3]} s)" for r in rows)
    return finish(options, misses, figure)


if __name__ == "__main__":
    sys.exit(main())
