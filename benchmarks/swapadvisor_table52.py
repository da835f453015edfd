"""SwapAdvisor's Table 5.2: ResNet-152 inference in 64 MB to 1 GB at batch 1, 16, 32 and 64, simulated; measured where there is a GPU.

    paper           seconds of an iteration on a V100, measured by its authors; N/A where their planner found no plan
    roofline        ours, with the times of the p3.2xlarge preset: products at the data sheet's rate
    paper's speed   ours, all operators slower by one factor, so that a step with 1024 MB takes what the paper's does

The paper's kernels take 17 ms at batch 1, where the roofline has 9 ms, but parameters come at the same rate in both. So what swapping
costs relative to 1024 MB can only be compared at the paper's speed. `bound` is what no plan can beat there: operators take their time,
and parameters that do not fit have to come. Copies take 10 us and the preset's 12 GB/s of one way alone where a plan copies nothing out;
where it does, half of the 20 GB/s of both ways together. 1 MB is 10^6 bytes.

On a GPU the same memory plans, priced by what is measured there, run: milliseconds beside the prediction, and the cost of less memory beside the paper's. Memory is that of the
arena; what kernels need beside it is on the last line of each batch. `--measured` leaves the simulation out.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from statistics import median

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
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--measured", action="store_true", help="only what is measured on a GPU")
    options, given = parse_options(__doc__, own), own.parse_known_args()[0]
    warnings.simplefilter("ignore")
    on_gpu = measure(options.quick) if has_gpu() else {}
    if given.measured:
        save_result("swapadvisor_table52", options, on_gpu)
        return finish(options, [], f"{len(on_gpu)} cells measured" if on_gpu else "there is no GPU here: nothing was measured")  # fmt: skip
    both_ways = cluster("p3.2xlarge")
    assert both_ways.host is not None
    one_way = replace(both_ways, host=replace(both_ways.host, duplex=2 * both_ways.host.bandwidth))
    rows, results, missed, factors = [], {}, [], {}
    for batch, published in PAPER.items():
        if options.quick and batch not in QUICK:
            continue
        workload = zoo.load("resnet152", batch_size=batch)
        graph = gw.capture(workload.model.eval(), inputs=workload.batch[0])
        costs = CostModel(measured=False)
        problems = [problem_of(graph, on, costs).problem for on in (one_way, both_ways)]
        whole = published[-1]
        slower = [slowed(p, whole) for p in problems]
        factors[batch] = slower[0].compute_time / problems[0].compute_time
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
    print(
        "Simulated. At the paper's speed all operators of a batch take so many times their roofline that a step in 1024 MB takes what the "
        f"paper's does: {', '.join(f'{factor:.2f} (batch {batch})' for batch, factor in factors.items())}.\n"
        "Copies take 12 GB/s where a plan copies nothing out, 10 GB/s each way where it does."
    )
    print_table(
        ["batch", "memory", "paper", "roofline", "paper's speed", "paper's cost", "cost", "bound", "search, s"],
        rows,
    )  # fmt: skip
    save_result("swapadvisor_table52", options, {**results, "measured": on_gpu})
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


def has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def measure(quick: bool) -> dict[str, object]:
    """The cells of the table on this GPU."""
    import torch

    from graphwright import ir
    from graphwright.machine import Store, to_toml
    from graphwright.run import calibrate, calls_of, measure_host_link, memory_beside
    from swap_gpu import clean, plan_one

    link = measure_host_link()
    on = replace(cluster("h200"), host=replace(link, duplex=2 * link.bandwidth))
    rows, cells = [], {}
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(
        max(1, (os.cpu_count() or 2) - 2), mp_context=get_context("spawn")
    ) as pool:  # fmt: skip
        for batch, published in PAPER.items():
            if quick and batch not in QUICK:
                continue
            workload = zoo.load("resnet152", batch_size=batch, device="cpu")
            model, inputs = workload.model.eval(), workload.batch[0]
            graph = gw.capture(model, inputs=inputs)
            ir.save(graph, path := Path(folder) / f"{batch}.json")
            runs = gw.swap(graph, "1TB", cluster=on).given.graph  # with whole kernels
            beside, store = memory_beside(runs), Store(Path(folder) / f"{batch}.sqlite")
            calibrate(calls_of(runs), device="cuda", store=store, seconds=0.01)
            outs = [str(Path(folder) / f"{batch}-{size}.plan.json") for size in SIZES]
            tasks = [
                pool.submit(plan_one, str(path), str(store.path), to_toml(on), size * 10**6, out)
                for size, out in zip(SIZES, outs, strict=True)
            ]
            with torch.no_grad():
                there, x = model.cuda(), inputs.cuda()
                wanted, eager = there(x).cpu(), milliseconds(lambda there=there, x=x: there(x))
                model = there.cpu()
            del there
            clean()
            found: dict[int, tuple[float, float, float]] = {}
            for size, out, task in zip(SIZES, outs, tasks, strict=True):
                if task.result() is not None:
                    continue
                planned = gw.swap(graph, plan=out, cluster=on, costs=CostModel(store))
                run = planned.compile(model, device="cuda", check_graph=False)
                given = inputs.pin_memory()
                apart = float((run(given).cpu() - wanted).abs().max() / wanted.abs().max())
                found[size] = (milliseconds(lambda run=run, given=given: run(given)), planned.time * 1e3, apart)  # fmt: skip
                del run
                clean()
            for size, paper in zip(SIZES, published, strict=True):
                ms, predicted, apart = found.get(size, (0.0, 0.0, 0.0))
                cells[f"batch {batch}, {size} MB"] = {"ms": ms, "predicted_ms": predicted, "apart": apart}  # fmt: skip
                rows.append([
                    batch, f"{size} MB", f"{ms:.2f} ms" if ms else "N/A", f"{predicted:.2f} ms" if ms else "N/A",
                    f"{ms / found[SIZES[-1]][0] - 1:+.0%}" if ms else "N/A", "N/A" if paper is None else f"{paper / published[-1] - 1:+.0%}", f"{apart:.0e}",
                ])  # fmt: skip
            rows.append([batch, "eager", f"{eager:.2f} ms", "", "", "", f"{beside / 1e6:.0f} MB beside"])  # fmt: skip
    print(f"{torch.cuda.get_device_name()}, host link {link.bandwidth / 1e9:.1f} GB/s")
    print_table(["batch", "memory", "measured", "predicted", "cost", "paper's cost", "difference"], rows)  # fmt: skip
    return cells


def milliseconds(run) -> float:
    """Of one call, the median; each waits for the one before."""
    import torch

    times = []
    for number in range(25):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        if number >= 5:
            times.append(time.perf_counter() - start)
    return 1e3 * median(times)


def show(seconds: float | None) -> str:
    return "N/A" if seconds is None else f"{seconds:.3f} s"


if __name__ == "__main__":
    sys.exit(main())
