"""What `house.py` times, inside one tree: ``python _house_cases.py FOLDER --cases a,b [--tiny]``.

It runs with the code of either tree, so it uses what both offer at their front doors, and prints
{case: {"seconds": [...], "result": a number that must not change}}. Graphs are captured once for
each tree and kept in FOLDER.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

import torch
from torch import nn

import graphwright as gw
from graphwright import ir, zoo
from graphwright.machine import cluster
from graphwright.partition import data_parallel, random_plan, sizes_of
from graphwright.plans import figures_of
from graphwright.simulate import CostModel, Incremental

Timed = tuple[list[float], float]
SGD = {"lr": 0.01, "momentum": 0.9}
WORKERS = 2


@dataclass(frozen=True, kw_only=True)
class Case:
    """A graph by its name, on devices of a cluster, and what is timed with it."""

    what: str
    model: str
    on: str
    devices: int
    repeats: int = 3
    quick: bool = False


CASES = {
    "tofu table 1, rnn-10-8k": Case(
        what="tofu", model="rnn-10-8k", on="p2.8xlarge", devices=8, quick=True
    ),
    "tofu table 1, wresnet-152-10": Case(
        what="tofu", model="wresnet-152-10", on="p2.8xlarge", devices=8, repeats=1
    ),
    "tensoropt table 3, rnn": Case(
        what="frontier", model="tensoropt-rnn", on="v100-2x8", devices=16, quick=True
    ),
    "tensoropt table 3, transformer": Case(
        what="frontier", model="tensoropt-transformer", on="v100-2x8", devices=16, repeats=1
    ),
    "tensoropt table 3, wresnet": Case(
        what="frontier", model="tensoropt-wresnet", on="v100-2x8", devices=16, repeats=1
    ),
    "growth, gpt-12 on 16": Case(
        what="frontier", model="gpt-12", on="dgx-h100:128", devices=16, repeats=1, quick=True
    ),
    "growth, gpt-24 on 16": Case(
        what="frontier", model="gpt-24", on="dgx-h100:128", devices=16, repeats=1
    ),
    "growth, gpt-24 on 1024": Case(
        what="frontier", model="gpt-24", on="dgx-h100:128", devices=1024, repeats=1
    ),
    "table 3.4, full, alexnet on 16": Case(
        what="full", model="alexnet", on="flexflow-k80", devices=16, repeats=10, quick=True
    ),
    "table 3.4, delta, alexnet on 16": Case(
        what="delta", model="alexnet", on="flexflow-k80", devices=16, repeats=200, quick=True
    ),
    "table 3.4, full, inception-v3 on 64": Case(
        what="full", model="inception-v3", on="flexflow-k80", devices=64, repeats=3
    ),
    "table 3.4, delta, inception-v3 on 64": Case(
        what="delta", model="inception-v3", on="flexflow-k80", devices=64, repeats=100
    ),
    "step, mlp on local:2": Case(
        what="step", model="mlp", on="local:2", devices=WORKERS, repeats=20, quick=True
    ),
    "step, gpt on local:2": Case(
        what="step", model="gpt", on="local:2", devices=WORKERS, repeats=20, quick=True
    ),
}


def workload(name: str, tiny: bool) -> Any:
    """A model of the zoo, or one of those of `vs_torch` and `search_growth`."""
    torch.manual_seed(0)
    if tiny:
        return zoo.load("mlp", small=True, device="cpu")
    if name == "mlp":
        layers = [m for _ in range(4) for m in (nn.Linear(1024, 1024), nn.ReLU())]
        return zoo.Workload(
            name=name,
            model=nn.Sequential(*layers, nn.Linear(1024, 1000)),
            loss_fn=nn.functional.cross_entropy,
            batch=(torch.randn(128, 1024), torch.randint(0, 1000, (128,))),
            optimizer=torch.optim.SGD,
        )
    if name == "gpt":
        return zoo.gpt(4, width=256, batch_size=8, sequence=128, vocabulary=4096, device="cpu")
    if name.startswith("gpt-"):
        return zoo.gpt(int(name.removeprefix("gpt-")), width=1024, batch_size=64)
    return zoo.load(name)


def captured(name: str, folder: Path, tiny: bool) -> ir.Graph:
    path = folder / f"{name}.json.gz"
    if not path.exists():
        ir.save(workload(name, tiny).capture(), path)
    return ir.load(path)


def machine(case: Case) -> Any:
    whole = cluster(case.on)
    if case.devices == whole.num_devices:
        return whole
    if case.on == "flexflow-k80":
        return whole.resized({whole.levels[0].name: case.devices // 4})
    return sizes_of(whole, (case.devices,))[case.devices]


def time_search(case: Case, graph: ir.Graph, algorithm: str) -> Timed:
    """`gw.plan` of one algorithm, nothing to compare with, and one plan simulated."""
    seconds, found = [], None
    for _ in range(case.repeats):
        start = perf_counter()
        found = gw.plan(
            graph, machine(case), algorithm=algorithm, baselines=(), points=1, memory="1TB",
            costs=CostModel(measured=False),
        )  # fmt: skip
        seconds.append(perf_counter() - start)
    assert found is not None
    return seconds, figures_of(found.fastest()).time


def time_full(case: Case, graph: ir.Graph) -> Timed:
    """The task graphs of so many random plans, each made and timed once."""
    on, costs = machine(case), CostModel(measured=False)
    seconds, total = [], 0.0
    for seed in range(case.repeats):
        plan = random_plan(graph, on, seed)
        start = perf_counter()
        total += gw.simulate(graph, plan, costs=costs).makespan
        seconds.append(perf_counter() - start)
    return seconds, total


def time_delta(case: Case, graph: ir.Graph) -> Timed:
    """So many proposals, one operator after the other as in a random plan: half are accepted."""
    on, seconds, total = machine(case), [], 0.0
    plan, other = data_parallel(graph, on), random_plan(graph, on, 0)
    for _ in range(4):
        run, rng = Incremental(graph, plan, CostModel(measured=False)), Random(0)
        names = [rng.choice(graph.nodes).name for _ in range(case.repeats)]
        start, total = perf_counter(), 0.0
        for number, name in enumerate(names):
            total += run.propose({name: other.strategy(name)})
            run.accept() if number % 2 else run.reject()
        seconds.append(perf_counter() - start)
    return seconds[1:], total


def train(plan: gw.Plan, name: str, repeats: int, tiny: bool) -> Timed:
    """In each process: seconds of steps, and the last loss."""
    given = workload(name, tiny)
    step = gw.compile(
        plan, given.model, given.loss_fn, torch.optim.SGD, batch=given.batch, optimizer_options=SGD
    )
    seconds, loss = [], 0.0
    for _ in range(repeats + 3):
        start = perf_counter()
        loss = float(step(given.batch))
        seconds.append(perf_counter() - start)
    return seconds[3:], loss


def time_step(case: Case, tiny: bool) -> Timed:
    given = workload(case.model, tiny)
    graph = gw.capture(
        given.model, given.loss_fn, given.batch, optimizer=torch.optim.SGD, optimizer_options=SGD
    )
    plan = data_parallel(graph, machine(case))
    return gw.launch(WORKERS)(train, plan, case.model, case.repeats, tiny)[0]


def warm_up() -> None:
    """Load compiled code with a tiny model, so that no case waits for it."""
    graph, on = workload("mlp", tiny=True).capture(), cluster("dgx-h100")
    for algorithm in ("tofu", "frontier"):
        gw.plan(graph, on, algorithm=algorithm, baselines=(), points=1)
    name, plan = graph.nodes[0].name, data_parallel(graph, on)
    Incremental(graph, plan, CostModel()).propose({name: random_plan(graph, on, 0).strategy(name)})


def run(case: Case, folder: Path, tiny: bool) -> Timed:
    if case.what == "step":
        return time_step(case, tiny)
    graph = captured(case.model, folder, tiny)
    timed: dict[str, Callable[[], Timed]] = {
        "tofu": lambda: time_search(case, graph, "tofu"),
        "frontier": lambda: time_search(case, graph, "frontier"),
        "full": lambda: time_full(case, graph),
        "delta": lambda: time_delta(case, graph),
    }
    return timed[case.what]()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", required=True)
    parser.add_argument("--tiny", action="store_true", help="all cases with the smallest model")
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    warm_up()
    results = {}
    for name in given.cases.split(";"):
        seconds, result = run(CASES[name], given.folder, given.tiny)
        results[name] = {"seconds": seconds, "result": result}
        print(f"  {name}: {statistics.median(seconds):.4g} s", file=sys.stderr, flush=True)
    print(json.dumps({"package": gw.__file__, "cases": results}))


if __name__ == "__main__":
    main()
