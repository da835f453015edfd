"""Two workers on this machine, each with half of the memory that its part needs: exact, and predicted against measured.

For each model and plan, what each rank's program holds at once without swapping is worked out (`needs`), and both workers get half of that. They train some steps in float64 with that limit
(`gw.compile(plan, ..., memory=...)`), and the same plan without one, in turns: losses and all that lives between steps have to be equal to 1e-10, between the two and to a replay on one device.

time     the median step of both workers' mean, against `gw.swap(graph, memory, partition=plan).time`; every call of the plans and what the workers send each other is measured before
         (as `graphwright calibrate` does). Where other programs have the cores (Linux says for how long), that is taken off what was measured; the share is printed.
memory   the arena that a rank allocates, against the limit and the predicted peak. It is a hard limit: tensors are views in it.
swapped  bytes that a rank copies to its host and back in a step.

Targets: exact, the arena within the limit, and the mean error of the predicted time under 15%. Copies to the host are copies within this machine's memory, by the process that computes: they hide behind nothing here.
"""

from __future__ import annotations

import copy
import os
import statistics
import sys
import tempfile
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import nn

import graphwright as gw
from _report import finish, parse_options, print_table, save_result
from graphwright.capture import advance, bind, replay
from graphwright.ir import Graph
from graphwright.machine import Store, cluster
from graphwright.partition import data_parallel
from graphwright.plans import Plan
from graphwright.run import calibrate, calls_of_plan, measure_local, world
from graphwright.run.measure.timing import seconds_without_core
from graphwright.simulate import CostModel

WORKERS = 2
MODELS, QUICK_MODELS = ("mlp", "conv", "lstm", "transformer"), ("mlp", "transformer")
EXACT_STEPS, ROUNDS, STEPS = 3, 5, 4
TOLERANCE, TIME_ERROR = 1e-10, 0.15
LOSS = nn.functional.cross_entropy
OPTIONS = {"lr": 1e-3}


class Lstm(nn.Module):
    """A sequence to a class."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTM(width, width, 2, batch_first=True), nn.Linear(width, 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.cell(x)[0][:, -1])


class Transformer(nn.Module):
    """Two layers of an encoder over vectors."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
            for _ in range(2)
        )
        self.head = nn.Linear(width, 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1))


def load(name: str) -> tuple[nn.Module, Any]:
    """The model and a batch, in float64; the same in every process."""
    torch.manual_seed(0)
    match name:
        case "mlp":
            layers = [m for _ in range(4) for m in (nn.Linear(768, 768), nn.ReLU())]
            model: nn.Module = nn.Sequential(*layers, nn.Linear(768, 100))
            inputs = torch.randn(512, 768)
        case "conv":
            model = nn.Sequential(
                nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(),
                nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 8 * 8, 100),
            )  # fmt: skip
            inputs = torch.randn(64, 3, 32, 32)
        case "lstm":
            model, inputs = Lstm(256), torch.randn(64, 12, 256)
        case _:
            model, inputs = Transformer(256), torch.randn(16, 64, 256)
    return model.double(), (inputs.double(), torch.randint(0, 100, (len(inputs),)))


def capture(name: str) -> Graph:
    model, batch = load(name)
    return gw.capture(model, LOSS, batch, optimizer=torch.optim.Adam, optimizer_options=OPTIONS)


def make_step(name: str, plan: Plan, limit: int | None) -> tuple[Any, Any]:
    model, batch = load(name)
    adam, options = torch.optim.Adam, OPTIONS
    return gw.compile(
        plan, model, LOSS, adam, batch=batch, optimizer_options=options, memory=limit
    ), batch


def work(name: str, plan: Plan, limit: int) -> dict[str, Any]:
    """In every worker: how far the limited step is from the other and from one device, and what both take."""
    import torch.distributed as dist

    world()
    limited, batch = make_step(name, plan, limit)
    whole, _ = make_step(name, plan, None)
    apart = 0.0
    alone = replayed(name, EXACT_STEPS)
    for number in range(EXACT_STEPS):
        losses = [float(limited(batch)), float(whole(batch)), alone[number][0]]
        apart = max(apart, *(abs(a - b) / abs(b) for a in losses for b in losses))
    found = limited.values()
    for other in (whole.values(), alone[-1][1]):
        for tensor, value in found.items():
            scale = other[tensor].abs().max().clamp(min=1e-3)
            apart = max(apart, float((value - other[tensor]).abs().max() / scale))
    steps = {"limited": limited, "whole": whole}
    seconds: dict[str, list[float]] = {way: [] for way in steps}
    delayed = dict.fromkeys(steps, 0.0)
    for _ in range(ROUNDS):
        for way, step in steps.items():
            dist.barrier()
            step(batch)
            waited = seconds_without_core()
            for _ in range(STEPS):
                began = perf_counter()
                step(batch)
                seconds[way].append(perf_counter() - began)
            waited = seconds_without_core() - waited
            delayed[way] += waited if isfinite(waited) else 0.0
    memory = limited.memory.plan
    return {
        "apart": apart,
        "arena": memory.arena,
        "seconds": {way: statistics.median(each) for way, each in seconds.items()},
        "waited": {way: delayed[way] / sum(seconds[way]) for way in steps},
    }


def replayed(name: str, steps: int) -> list[tuple[float, dict[str, torch.Tensor]]]:
    """Losses and values of the steps on one device, without a plan."""
    model, batch = load(name)
    graph = gw.capture(
        copy.deepcopy(model), LOSS, batch, optimizer=torch.optim.Adam, optimizer_options=OPTIONS
    )
    values = bind(
        graph, model, batch, loss_fn=LOSS, optimizer=torch.optim.Adam, optimizer_options=OPTIONS
    )
    found = []
    for _ in range(steps):
        outputs = replay(graph, values)
        values = advance(graph, values, outputs)
        found.append((float(outputs["loss"]), {n: v.clone() for n, v in values.items()}))
    return found


def plans_of(graph: Graph) -> dict[str, Plan]:
    """Data parallelism, and the fastest plan for this machine."""
    on = cluster(f"local:{WORKERS}")
    return {"data": data_parallel(graph, on), "fastest": gw.plan(graph, on, objective="time")}


def main() -> int:
    options = parse_options(__doc__)
    names = QUICK_MODELS if options.quick else MODELS
    on = cluster(f"local:{WORKERS}")
    graphs = {name: capture(name) for name in names}
    cases = [(n, way, plan) for n, g in graphs.items() for way, plan in plans_of(g).items()]
    store = Store()
    calls = [call for name, _, plan in cases for call in calls_of_plan(graphs[name], plan)]
    calibrate(calls, device=on.name, store=store, seconds=0.05)
    measure_local(on, store=store)
    rows, results, misses, errors = [], {}, [], []
    for name, way, plan in cases:
        graph = graphs[name]
        roomy = gw.swap(graph, "64GB", partition=plan, costs=CostModel())
        limit = max(max(roomy.needs) // 2, roomy.least)
        planned = gw.swap(graph, limit, partition=plan, costs=CostModel())
        ranks = gw.launch(WORKERS)(work, name, plan, limit)
        busy = [rank["waited"]["limited"] for rank in ranks]
        measured = statistics.fmean(
            r["seconds"]["limited"] * (1 - b) for r, b in zip(ranks, busy, strict=True)
        )
        whole = statistics.fmean(r["seconds"]["whole"] * (1 - r["waited"]["whole"]) for r in ranks)
        apart, arena = max(r["apart"] for r in ranks), max(r["arena"] for r in ranks)
        error = planned.time / measured - 1
        errors.append(abs(error))
        case = f"{name}, {way}"
        if apart > TOLERANCE:
            misses.append(f"{case}: {apart:.2g} apart, more than {TOLERANCE:g}")
        if arena > limit:
            misses.append(f"{case}: an arena of {arena:,} bytes, the limit is {limit:,}")
        peak = int(planned.timeline.memory.peak.max())
        out, back = map(sum, zip(*planned.swapped, strict=True))
        results[case] = {
            "needs": planned.needs, "limit": limit, "arena": arena, "predicted_peak": peak, "swapped": planned.swapped,
            "apart": apart, "predicted": planned.time, "measured": measured, "whole": whole, "predicted_whole": planned.unlimited,
            "without_core": busy,
        }  # fmt: skip
        rows.append([
            case, f"{max(planned.needs) / 1e6:.1f} MB", f"{limit / 1e6:.1f} MB", f"{arena / 1e6:.1f} MB", f"{peak / 1e6:.1f} MB",
            f"{out / 1e6:.1f}, {back / 1e6:.1f} MB", f"{apart:.1g}", f"{1e3 * whole:.1f} ms", f"{1e3 * planned.time:.1f} ms",
            f"{1e3 * measured:.1f} ms", f"{error:+.0%}", f"{statistics.fmean(busy):.0%}",
        ])  # fmt: skip
        print(f"{case}: {apart:.1g} apart, {error:+.0%}", file=sys.stderr, flush=True)
    print_table(
        ["case", "needs", "limit", "arena", "predicted peak", "swapped out, in", "apart", "without limit", "predicted", "measured", "error",
         "cores away"],
        rows,
    )  # fmt: skip
    mean = statistics.fmean(errors)
    if mean > TIME_ERROR:
        misses.append(
            f"the predicted time is {mean:.0%} off on average, more than {TIME_ERROR:.0%}"
        )
    results["mean_error"] = mean
    save_result("swap_workers", options, results)
    worst = max(r["apart"] for r in results.values() if isinstance(r, dict))
    return finish(
        options,
        misses,
        f"half the memory on {WORKERS} workers: {worst:.1g} apart, time {mean:.0%} off",
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:  # measured anew, for this run alone
        os.environ.setdefault("GRAPHWRIGHT_COSTS", str(Path(folder) / "costs.sqlite"))
        sys.exit(main())
