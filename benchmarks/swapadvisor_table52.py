"""SwapAdvisor's Table 5.2: ResNet-152 inference in 64 MB to 1 GB at batch 1, 16, 32 and 64, simulated.

    paper           seconds of an iteration on a V100, measured by its authors; N/A where their planner found no plan
    roofline        ours, with the times of the p3.2xlarge preset: products at the data sheet's rate
    paper's speed   ours, all operators slower by one factor, so that a step with 1024 MB takes what the paper's does

The paper's kernels take 17 ms at batch 1, where the roofline has 9 ms, but parameters come at the same rate in both. So what swapping
costs relative to 1024 MB can only be compared at the paper's speed. `bound` is what no plan can beat there: operators take their time,
and parameters that do not fit have to come. Copies take 10 us and the preset's 12 GB/s of one way alone where a plan copies nothing out;
where it does, half of the 20 GB/s of both ways together. 1 MB is 10^6 bytes.
"""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import replace

import graphwright as gw
from _report import finish, parse_options, print_table, save_result
from graphwright import zoo
from graphwright.machine import cluster
from graphwright.memory import Planner, find_plan, plan_without_swaps, problem_of
from graphwright.plans import MemoryProblem, MemoryTooSmall, verify_memory
from graphwright.simulate import CostModel

SIZES = (64, 128, 192, 256, 320, 512, 640, 1024)  # MB
PAPER = {  # batch size: seconds, None for N/A
    1: (0.024, 0.022, 0.018, 0.017, 0.017, 0.017, 0.017, 0.017),
    16: (None, 0.077, 0.044, 0.043, 0.042, 0.040, 0.040, 0.040),
    32: (None, None, None, 0.130, 0.073, 0.067, 0.067, 0.067),
    64: (None, None, None, None, None, 0.238, 0.123, 0.121),
}
QUICK = (1,)
SEARCHES = ("belady", "greedy")
ROUNDING = 0.0005  # the table has milliseconds


def main() -> int:
    options = parse_options(__doc__)
    warnings.simplefilter("ignore")
    both_ways = cluster("p3.2xlarge")
    assert both_ways.host is not None
    one_way = replace(both_ways, host=replace(both_ways.host, duplex=2 * both_ways.host.bandwidth))
    rows, results, missed = [], {}, []
    for batch, published in PAPER.items():
        if options.quick and batch not in QUICK:
            continue
        workload = zoo.load("resnet152", batch_size=batch)
        graph = gw.capture(workload.model.eval(), inputs=workload.batch[0])
        costs = CostModel(measured=False)
        problems = [problem_of(graph, on, costs).problem for on in (one_way, both_ways)]
        whole = published[-1]
        slower = [slowed(p, whole) for p in problems]
        for size, paper in zip(SIZES, published, strict=True):
            start = time.monotonic()
            here, there = (best_time(p, size * 10**6, options.seed) for p in (problems, slower))
            seconds = time.monotonic() - start
            name = f"batch {batch}, {size} MB"
            bound = least_time(slower[0], size * 10**6) / whole - 1
            cost = None if there is None else there / whole - 1
            results[name] = {
                "paper": paper, "roofline": here, "paper_speed": there, "paper_cost": paper and paper / whole - 1,
                "cost": cost, "bound": bound, "search_seconds": seconds,
            }  # fmt: skip
            if paper is not None and (there is None or there > paper + ROUNDING):
                missed.append(
                    f"{name}: {show(there)} at the paper's speed, the paper has {show(paper)}"
                )
            rows.append([
                batch, f"{size} MB", show(paper), show(here), show(there), "N/A" if paper is None else f"{paper / whole - 1:.0%}",
                "N/A" if cost is None else f"{cost:.0%}", f"{bound:.0%}", f"{seconds:.0f}",
            ])  # fmt: skip
            print(f"{name}: {show(there)}, paper {show(paper)}", file=sys.stderr, flush=True)
    print_table(
        ["batch", "memory", "paper", "roofline", "paper's speed", "paper's cost", "cost", "bound", "search, s"],
        rows,
    )  # fmt: skip
    save_result("swapadvisor_table52", options, results)
    both = [r for r in results.values() if r["paper"] is not None]
    more = sum(r["paper"] is None and r["paper_speed"] is not None for r in results.values())
    return finish(
        options,
        missed,
        f"{len(both) - len(missed)} of {len(both)} cells at most the paper's time; {more} of its N/A cells have a plan",
    )


def slowed(problem: MemoryProblem, seconds: float) -> MemoryProblem:
    """The problem with all operators slower by one factor, so that a step that swaps nothing takes some seconds with its batch's copy."""
    plan = plan_without_swaps(Planner(problem), SIZES[-1] * 10**6)
    assert plan is not None
    copy = plan.makespan - problem.compute_time
    factor = (seconds * 1e12 - copy) / problem.compute_time
    operators = (replace(op, duration=round(factor * op.duration)) for op in problem.operators)
    return replace(problem, operators=tuple(operators))


def best_time(problems: list[MemoryProblem], capacity: int, seed: int) -> float | None:
    """Seconds of the best plan at one way's rate, at that of both if it copies something out; None where an operator needs more."""
    for problem in problems:
        planner = Planner(problem)
        try:
            plan = plan_without_swaps(planner, capacity)
            if plan is None:
                plan = find_plan(
                    problem, capacity, searches=SEARCHES, seed=seed, planner=planner
                ).plan
        except MemoryTooSmall:
            return None
        verify_memory(plan, problem)
        if not plan.count("out"):
            break
    return plan.makespan / 1e12


def least_time(problem: MemoryProblem, capacity: int) -> float:
    """Seconds that no plan can beat: of the operators, or of parameters beyond the capacity at the best rate of a copy."""
    lasting = [s for s in problem.storages if s.begins_on_host]
    rate = max(s.nbytes / s.in_time for s in lasting)
    return max(problem.compute_time, (sum(s.nbytes for s in lasting) - capacity) / rate) / 1e12


def show(seconds: float | None) -> str:
    return "N/A" if seconds is None else f"{seconds:.3f} s"


if __name__ == "__main__":
    sys.exit(main())
