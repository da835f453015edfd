"""SwapAdvisor's Figure 5.1: throughput on a 16 GB V100 relative to one with memory for everything, simulated.

    ideal       all operators one after the other, nothing copied
    od-swap     on demand: least recently used leaves, nothing moves earlier than a few operators before it is needed
    ours        the best plan found: any schedule and offset, cheap tensors made again, within the time of --budget

The paper's figures are what its text says (section 5.2); its bars are pictures. They were measured on a real V100; these are simulated.
Times of operators are the roofline of the p3.2xlarge preset: products at the data sheet's rate, and one kernel for each operator of the
graph that `gw.swap` plans and runs: batch norms and updates of parameters are one each. The ideal is the sum of the same times.

Plans are made for 10 GB/s each way, half of the 20 GB/s that the preset's link has both ways together; all columns but one price them so. "ours"
is the same plan on the link of the paper's machine (section 5.1): 12 GB/s while one way is idle, 10 GB/s each while both are busy.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

import graphwright as gw
from _report import finish, parse_options, print_table, save_result
from graphwright import zoo
from graphwright.machine import cluster
from graphwright.plans import STREAMS, MemoryPlan
from graphwright.simulate import CostModel

CAPACITY = 16 * 10**9
ALONE = 12 / 10
"""How much faster a copy goes while the other way is idle."""
PAPER = {  # (model, batch size): least share of the ideal by the paper's text, and what it says of its baseline
    ("wresnet-152-10", 64): (0.95, "80%"),
    ("inception-4", 64): (0.53, "20% to 150% slower"),
    ("inception-4", 16): (0.80, "20% to 150% slower"),
    ("nasnet-25", 64): (0.53, "20% to 150% slower"),
    ("rnn-8-8k", 256): (0.70, "below 1%"),
    ("brnn-4-8k", 128): (0.70, "below 1%"),
}
QUICK = (("inception-4", 16),)
SEARCHES = ("lru", "belady", "greedy", "genetic")
QUICK_SEARCHES = ("lru", "greedy")


def time_on_link(plan: MemoryPlan, alone: float) -> float:
    """The plan's time in picoseconds, where a copy goes `alone` times as fast while the other way is idle."""
    left = [float(end - start) for start, end in zip(plan.starts, plan.ends, strict=True)]
    queues = [[i for i, a in enumerate(plan.actions) if a.stream == s] for s in STREAMS]
    ended, heads, now = [False] * len(left), [0, 0, 0], 0.0
    while True:
        running = []
        for stream, queue in enumerate(queues):
            if heads[stream] < len(queue):
                at = queue[heads[stream]]
                if all(ended[n] for n in plan.actions[at].after if n >= 0):
                    running.append((stream, at))
        if not running:
            assert all(ended)
            return now
        copies = sum(stream > 0 for stream, _ in running)
        speed = {at: alone if stream and copies == 1 else 1.0 for stream, at in running}
        step = min(left[at] / speed[at] for _, at in running)
        now += step
        for stream, at in running:
            left[at] -= step * speed[at]
            if left[at] <= 0.5:
                ended[at] = True
                heads[stream] += 1


def main() -> int:
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--models", help="names with commas; all if not given")
    own.add_argument(
        "--budget", type=float, default=60.0, help="seconds of the genetic search for each row (60)"
    )
    options, given = parse_options(__doc__, own), own.parse_known_args()[0]
    wanted = given.models.split(",") if given.models else [name for name, _ in PAPER]
    warnings.simplefilter("ignore")
    on = cluster("p3.2xlarge")
    rows, results = [], {}
    for (name, batch), (paper, baseline) in PAPER.items():
        if name not in wanted or (options.quick and (name, batch) not in QUICK):
            continue
        graph = zoo.load(name, batch_size=batch).capture()
        start = time.monotonic()
        found = gw.swap(
            graph,
            CAPACITY,
            cluster=on,
            costs=CostModel(measured=False),
            search=QUICK_SEARCHES if options.quick else SEARCHES,
            budget=given.budget,
            seed=options.seed,
        )
        seconds = time.monotonic() - start
        problem = found.given.problem
        ideal = problem.compute_time
        shares = {search: found.unlimited / t for search, t in found.times.items()}
        halved = ideal / found.plan.makespan
        ours = ideal / time_on_link(found.plan, ALONE)
        results[f"{name}, batch {batch}"] = {
            "paper": paper, "ours": ours, "at_10_each_way": halved, "shares": shares, "needs": problem.held_at_once(), "operators": len(problem.operators), "seconds": seconds,
            "ideal_seconds": ideal / 1e12, "algorithm": found.plan.algorithm,
        }  # fmt: skip
        rows.append([
            name, str(batch), str(len(problem.operators)), f"{problem.held_at_once() / 1e9:.0f} GB", f"{paper:.0%}", f"{ours:.1%}", f"{ours / paper:.2f}",
            f"{halved:.1%}", baseline, f"{shares['lru']:.0%}", f"{shares.get('belady', float('nan')):.0%}", f"{shares['greedy']:.0%}",
            f"{shares.get('genetic', float('nan')):.0%}", f"{seconds:.0f}",
        ])  # fmt: skip
        print(f"{name}: {ours:.1%} by {found.plan.algorithm}", file=sys.stderr, flush=True)
    print_table(
        [
            "model",
            "batch",
            "operators",
            "needs",
            "paper",
            "ours",
            "ratio",
            "at 10 GB/s",
            "paper's baseline",
            "od-swap",
            "belady",
            "greedy",
            "genetic",
            "search, s",
        ],
        rows,
    )
    missed = [name for name, row in results.items() if row["ours"] < row["paper"]]
    save_result("swapadvisor_fig51", options, results)
    worst = min(row["ours"] / row["paper"] for row in results.values())
    return finish(options, missed, f"{len(rows)} rows; least ratio to the paper {worst:.2f}")


if __name__ == "__main__":
    sys.exit(main())
