"""Predicted against measured, for random strategies on processes of this machine: time of a step, and memory of a rank.

For each model 20 random plans on local:2. Before, every distinct call of all plans is measured alone (as `graphwright calibrate` does), and what collectives between the processes take
(`graphwright calibrate --cluster local:2`). Then the plans train in turns in two processes, some steps in each of several rounds: the median step against the simulated makespan, and the most bytes that PyTorch's allocator
holds at once, with what lives between steps, against the simulated peak. Targets: mean error of time under 15% and rank correlation over 0.9, mean error of memory under 5%. The papers: TensorOpt
under 8% and 5%, FlexFlow under 30%.

`again` is the rank correlation of the times of even rounds with those of odd ones: what measuring a second time would predict. `spread` is by how much the slowest plan takes longer than the fastest.
"""

from __future__ import annotations

import copy
import statistics
import sys
import tempfile
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from scipy.stats import spearmanr
from torch import nn

import graphwright as gw
from _report import finish, parse_options, print_table, save_result
from graphwright import zoo
from graphwright.machine import Store, cluster
from graphwright.partition import random_plan
from graphwright.plans import Plan
from graphwright.run import calibrate, calls_of_plan
from graphwright.run.measure_links import measure_local
from graphwright.simulate import CostModel, Simulator
from graphwright.tasks import Site
from graphwright.zoo.workload import Workload

WORKERS = 2
PLANS, QUICK_PLANS = 20, 5
ROUNDS, STEPS = 10, 5
TIME_ERROR, MEMORY_ERROR, RANKS = 0.15, 0.05, 0.9


def load(name: str) -> Workload:
    """The model with weights and a batch; the same in every process."""
    torch.manual_seed(0)
    match name:
        case "mlp":
            layers = [m for _ in range(3) for m in (nn.Linear(1024, 1024), nn.ReLU())]
            model = nn.Sequential(*layers, nn.Linear(1024, 512))
            batch: Any = torch.randn(256, 1024), torch.randint(0, 512, (256,))
            loss = nn.functional.cross_entropy
        case "conv":
            model = nn.Sequential(
                nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
                nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 16 * 16, 512), nn.ReLU(), nn.Linear(512, 100),
            )  # fmt: skip
            batch = torch.randn(16, 3, 64, 64), torch.randint(0, 100, (16,))
            loss = nn.functional.cross_entropy
        case _:
            return zoo.gpt(2, width=256, batch_size=8, sequence=128, vocabulary=2048, device="cpu")
    return Workload(name=name, model=model, loss_fn=loss, batch=batch, optimizer=torch.optim.SGD)


def run_all(name: str, plans: list[Plan]) -> list[tuple[list[list[float]], int]]:
    """In every process: for each plan the seconds of its steps in each round, and the most bytes held."""
    import torch.distributed as dist

    from graphwright.run import world

    world()
    workload = load(name)
    steps = []
    for plan in plans:
        own = copy.deepcopy(workload.model)
        steps.append(gw.compile(plan, own, workload.loss_fn, torch.optim.SGD, batch=workload.batch))
        steps[-1](workload.batch)
    seconds: list[list[list[float]]] = [[] for _ in plans]
    for _ in range(ROUNDS):
        for step, found in zip(steps, seconds, strict=True):
            step(workload.batch)
            taken = []
            for _ in range(STEPS):
                dist.barrier()
                start = perf_counter()
                step(workload.batch)
                dist.barrier()
                taken.append(perf_counter() - start)
            found.append(taken)
    return [
        (found, most_bytes(step, workload.batch))
        for step, found in zip(steps, seconds, strict=True)
    ]


def most_bytes(step: Any, batch: Any) -> int:
    """The bytes that live between steps, the data, and the most that the allocator adds to them during one.

    The profiler does not see that memory is freed which was there before it began, old parameters that make room for new ones: so it watches two steps, and the second counts.
    """
    held = sum(s.local.untyped_storage().nbytes() for s in step.shards().values())
    held += sum(part.nbytes for part in step.part_of(batch).values())
    with torch.profiler.profile(profile_memory=True, record_shapes=False) as profile:
        step(batch)
        with torch.profiler.record_function("second"):
            step(batch)
    events = sorted(profile.profiler.kineto_results.events(), key=lambda e: e.start_ns())
    begin = next(e.start_ns() for e in events if e.name() == "second")
    now = most = 0
    for event in events:
        if event.name() == "[memory]" and event.start_ns() >= begin:
            now += event.nbytes()
            most = max(most, now)
    return held + most


def main() -> int:
    options = parse_options(__doc__)
    on, rows, misses, results = cluster(f"local:{WORKERS}"), [], [], {}
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "costs.sqlite")
        measure_local(on, store=store)
        for name in ("mlp",) if options.quick else ("mlp", "conv", "gpt"):
            workload = load(name)
            graph = gw.capture(
                workload.model, workload.loss_fn, workload.batch, optimizer=torch.optim.SGD
            )
            count = QUICK_PLANS if options.quick else PLANS
            plans = [
                random_plan(graph, on, seed=options.seed + n, subsets=False) for n in range(count)
            ]
            calls = [call for plan in plans for call in calls_of_plan(graph, plan)]
            calibrate(calls, device=on.name, store=store, seconds=0.05)
            simulator = Simulator(Site(graph), on, CostModel(store))
            predicted = []
            for plan in plans:
                step = simulator.run(plan)
                predicted.append((step.makespan, int(step.memory.peak.max())))
            ranks = gw.launch(WORKERS, timeout=1800)(run_all, name, plans)
            measured = [
                (statistics.median(list(chain(*a[0]))), max(a[1], b[1]))
                for a, b in zip(*ranks, strict=True)
            ]
            halves = [
                [statistics.median(list(chain(*a[0][half::2]))) for a in ranks[0]]
                for half in (0, 1)
            ]
            again = float(spearmanr(*halves)[0])
            spread = max(m[0] for m in measured) / min(m[0] for m in measured) - 1
            time = [(p[0] - m[0]) / m[0] for p, m in zip(predicted, measured, strict=True)]
            memory = [(p[1] - m[1]) / m[1] for p, m in zip(predicted, measured, strict=True)]
            error, error_memory = (statistics.fmean(map(abs, e)) for e in (time, memory))
            order = float(spearmanr([p[0] for p in predicted], [m[0] for m in measured])[0])
            order_memory = float(spearmanr([p[1] for p in predicted], [m[1] for m in measured])[0])
            rows.append((name, count, f"{error:.1%}", f"{statistics.fmean(time):+.1%}", order, again, f"{spread:.0%}",
                         f"{error_memory:.1%}", f"{statistics.fmean(memory):+.1%}", order_memory))  # fmt: skip
            results[name] = {"predicted": predicted, "measured": measured, "again": again}
            for what, value, limit in (
                ("time", error, TIME_ERROR),
                ("memory", error_memory, MEMORY_ERROR),
            ):
                if value > limit:
                    misses.append(f"{name}: {what} is {value:.1%} off, target {limit:.0%}")
            if order < RANKS:
                misses.append(f"{name}: rank correlation of times {order:.3f}, target {RANKS}")
    print_table(
        (
            "model",
            "plans",
            "time off",
            "bias",
            "ranks",
            "again",
            "spread",
            "memory off",
            "bias",
            "ranks",
        ),
        rows,
    )
    save_result("prediction_error", options, results)
    figure = "; ".join(f"{r[0]} time {r[2]}, ranks {r[4]:.2f}, memory {r[7]}" for r in rows)
    return finish(options, misses, figure)


if __name__ == "__main__":
    sys.exit(main())
