"""What `two_hosts.py` runs on the two hosts, one rank on each: it measures, plans, trains in turns and compares.

    torchrun ... _two_hosts.py JOB.json       {"kind": "ours" | "fsdp" | "same" | "exact", "folder": ..., "cluster": TOML, ...}

Ranks do the same; rank 0 measures calls and plans for both, writes `folder/result.json`, model by model, and says how far it is.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from time import monotonic, perf_counter
from typing import Any

import torch
from torch import nn

from graphwright import zoo
from graphwright.capture import prepare
from graphwright.ir import Graph
from graphwright.machine import Cluster, Store, from_toml
from graphwright.pipeline import RunOptions, open_session, plan_by_calls
from graphwright.plans import Plan, figures_of
from graphwright.run import Training, gather_results, time_in_turns, world
from graphwright.run.links.collectives import GroupLinks
from graphwright.run.measure.links import measure_links, world_groups
from graphwright.zoo import Workload

DATA, OURS, FSDP2 = "data parallelism", "the plan found", "FSDP2"
MODELS = ("alexnet", "mlp", "dlrm", "gpt")
WAIT = 1800.0
WITHIN = 1.5
"""Calls of plans that take up to so many times as long as the fastest are measured."""


def load(name: str, device: str) -> Workload:
    """A model that trains in tens of milliseconds on a core."""
    with torch.device(device):
        match name:
            case "alexnet":  # five convolutions and three layers, for images of 64 pixels
                convolutions = [
                    (3, 32, 5), (32, 64, 3), (64, 96, 3), (96, 96, 3), (96, 64, 3),
                ]  # fmt: skip
                layers: list[nn.Module] = []
                for number, (inner, outer, size) in enumerate(convolutions):
                    layers += [nn.Conv2d(inner, outer, size, padding=size // 2), nn.ReLU()]
                    layers += [nn.MaxPool2d(2)] if number in (0, 1, 4) else []
                layers += [nn.Flatten(), nn.Linear(64 * 8 * 8, 2048), nn.ReLU()]
                layers += [nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 100)]
                batch: Any = torch.randn(16, 3, 64, 64), torch.randint(0, 100, (16,))
            case "mlp":
                layers = [m for _ in range(3) for m in (nn.Linear(1024, 1024), nn.ReLU())]
                layers += [nn.Linear(1024, 1000)]
                batch = torch.randn(64, 1024), torch.randint(0, 1000, (64,))
            case "dlrm":
                return zoo.dlrm(6, rows=20_000, device=device)
            case _:
                return zoo.gpt(2, width=256, batch_size=8, sequence=128, vocabulary=4096, device=device)  # fmt: skip
        model = nn.Sequential(*layers)
    loss = nn.functional.cross_entropy
    return Workload(name=name, model=model, loss_fn=loss, batch=batch, optimizer=torch.optim.SGD)


def measure(on: Cluster, store: Store, largest: int) -> int:
    """Time transfers between the hosts; how many."""
    here = world(timeout=WAIT)
    sizes = [2**n for n in range(10, 25, 2) if 2**n <= largest]
    links = GroupLinks(world_groups(on))
    return len(measure_links(on, here, links, store=store, sizes=sizes, repeats=3, sweeps=3).times)


def plan(graph: Graph, on: Cluster, store: Store, device: str) -> tuple[dict[str, Plan], int]:
    """The fastest plan and data parallelism, by what rank 0 measures; the same on all ranks."""

    def planned() -> list[object]:  # JSON: ranks exchange nothing that could be executed
        if world().rank:
            return []
        found = plan_by_calls(
            graph,
            on,
            store,
            device=device,
            baselines=("data",),
            report=lambda *_: None,
            within=WITHIN,
        )
        ways = {OURS: found.frontier.fastest(), DATA: found.frontier.others["data"]}
        return [{name: each.to_json() for name, each in ways.items()}, found.num_calls]

    texts, num_calls = gather_results(planned)[0]
    return {name: Plan.from_json(text) for name, text in texts.items()}, num_calls


def train_ours(job: Mapping[str, Any], on: Cluster, store: Store) -> dict[str, Any]:
    """Every model with DistributedDataParallel and with plans, in turns."""
    found: dict[str, Any] = {"transfers": measure(on, store, job["largest"])}
    say(job, f"{found['transfers']} transfers measured")
    for name in job["models"]:
        make = partial(load, name)
        graph = prepare(make("meta"))
        plans, num_calls = plan(graph, on, store, job["device"])
        say(job, f"{name}: planned, {num_calls} calls")
        training = Training(make=make, graph=graph, plan=plans[OURS], num_steps=1)
        times = time_in_turns(training, plans, job["rounds"], job["steps"])
        waited = gather_results(lambda times=times: times.waited)
        say(job, f"{name}: trained in turns")
        found[name] = {
            "parameters": sum(p.numel() for p in make("meta").model.parameters()),
            "calls": num_calls,
            "predicted": {way: figures_of(each).time for way, each in plans.items()},
            "seconds": {way: list(each) for way, each in times.seconds.items()},
            "waited": {way: max(rank.get(way, 0.0) for rank in waited) for way in times.seconds},
            "refused": times.refused,
            "bytes": {way: figures_of(each).nbytes for way, each in plans.items()},
            "plan": plans[OURS].to_json(),
        }
        _save(job, found)
    return found


def compare_plans(job: Mapping[str, Any], on: Cluster, store: Store) -> dict[str, Any]:
    """What training by every plan in `plans`, of the models by their names, ends with, compared with one device."""
    world(timeout=WAIT)
    found: dict[str, Any] = {}
    for key, text in job["plans"].items():
        make = partial(load, key.split()[0])
        found[key] = comparison(make, Plan.from_json(text))
        say(job, f"{key}: compared with one device")
        _save(job, found)
    return found


def comparison(make: Callable[[str], Workload], plan: Plan) -> dict[str, Any]:
    """How far tensors that were trained by a plan are from those of one device; empty on ranks that do not compare."""
    options = RunOptions(plan=plan, check=True, quiet=True)
    check = open_session(make, options).run(lambda line: None).comparison
    if check is None:
        return {}
    return {"difference": check.worst[1], "dtype": check.dtype, "exact": check.agrees}


def train_fsdp(job: Mapping[str, Any], on: Cluster, store: Store) -> dict[str, Any]:
    """Every model with FSDP2, block by block or as a whole, whichever is faster."""
    import torch.distributed as dist

    from vs_torch import FSDP

    here, found = world(timeout=WAIT), dict[str, Any]()
    for name in job["models"]:
        seconds: dict[str, list[float]] = {}
        for way, make in FSDP.items():
            torch.manual_seed(0)
            step = make(load(name, "cpu"), here.rank, here.size)
            step()
            seconds[way] = []
            for _ in range(job["steps"] + 1):
                dist.barrier()
                began = perf_counter()
                step()
                seconds[way].append(perf_counter() - began)
        best = min(seconds, key=lambda way: median(seconds[way][1:]))
        found[name] = {"seconds": {FSDP2: seconds[best][1:]}, "way": best}
        say(job, f"{name}: trained by FSDP2")
        _save(job, found)
    return found


def compare_all(job: Mapping[str, Any], on: Cluster, store: Store) -> dict[str, Any]:
    """Small models of the zoo, with several processes on each host, compared with one device."""
    found: dict[str, Any] = {}
    for name in job["models"]:
        make = partial(zoo.load, name, small=True)
        graph = prepare(make(device="meta"))

        def planned(graph: Graph = graph) -> str:
            from graphwright.partition import plan as search

            return "" if world(timeout=WAIT).rank else search(graph, on, objective="time").to_json()

        chosen = Plan.from_json(gather_results(planned)[0])
        found[name] = comparison(lambda device, make=make: make(device=device), chosen)
        say(job, f"{name}: compared with one device")
        _save(job, found)
    return found


def say(job: Mapping[str, Any], what: str) -> None:
    """A line where the benchmark was started: this process prints to its host's log."""
    if world().rank == 0:
        with open(job["progress"], "a", encoding="utf-8") as terminal:
            terminal.write(f"{monotonic() - job['began']:5.0f} s  {job['wire']}, {what}\n")


def _save(job: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    if world().rank == 0:
        Path(job["folder"], "result.json").write_text(json.dumps(found))


KINDS = {"ours": train_ours, "fsdp": train_fsdp, "same": compare_plans, "exact": compare_all}


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    torch.set_num_threads(job["threads"])
    world(timeout=WAIT)
    store = Store(Path(job["folder"]) / "costs.sqlite")
    KINDS[job["kind"]](job, from_toml(job["cluster"]), store)


if __name__ == "__main__":
    main()
