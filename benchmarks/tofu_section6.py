"""Tofu's section 6: what each of k workers holds at most during a step, against a k-th of what one device holds.

The paper: ideally it is a k-th; a partitioned graph without the order of the original one, and with copies around what is fetched, needed far more. Here
every plan trains on k processes of this machine: the most bytes that PyTorch's allocator holds at once, with what lives between steps, on the
fullest rank, beside the same measured on one device. Plans are Tofu's, and the smallest of our own. What a product needs whole, and what is on its way, come on top of a k-th; what one device
holds in copies that parts do not need is saved. Target: our smallest plan holds less than one and a half times a k-th, everywhere.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

import graphwright as gw
import prediction_error
from _report import finish, parse_options, print_table, save_result
from graphwright import zoo
from graphwright.machine import cluster
from graphwright.partition import coarsen, other_plan, replicate
from graphwright.plans import Plan
from graphwright.simulate import CostModel
from graphwright.zoo.workload import Workload
from prediction_error import most_bytes

MODELS = ("mlp", "conv", "gpt", "rnn", "alexnet", "resnet50")
QUICK = ("mlp", "gpt")
WORKERS = (2, 4)
NEAR = 1.5


def load(name: str) -> Workload:
    """The model with weights and a batch."""
    match name:
        case "rnn":
            return zoo.load("rnnlm-4", batch_size=32, device="cpu")
        case "alexnet" | "resnet50":
            return zoo.load(name, batch_size=8, device="cpu")
        case _:
            return prediction_error.load(name)


def hold(name: str, plans: dict[str, Plan]) -> dict[str, int]:
    """In every process: the most bytes that it holds under each plan."""
    found = {}
    for label, plan in plans.items():
        w = load(name)
        step: Any = gw.compile(plan, w.model, w.loss_fn, torch.optim.SGD, batch=w.batch)
        step(w.batch)
        found[label] = most_bytes(step, w.batch)
        step.close()
    return found


def main() -> int:
    options = parse_options(__doc__)
    rows, misses, results = [], [], dict[str, dict[str, Any]]()
    costs, worst = CostModel(measured=False), 0.0
    for name in QUICK if options.quick else MODELS:
        w = load(name)
        graph = gw.capture(w.model, w.loss_fn, w.batch, optimizer=torch.optim.SGD)
        alone = gw.launch(1)(hold, name, {"alone": replicate(graph, "local:1")})[0]["alone"]
        results[name] = {"alone": alone}
        for count in WORKERS:
            on = cluster(f"local:{count}")
            plans = {
                "tofu": other_plan("tofu", coarsen(graph), on, costs),
                "smallest": gw.plan(graph, on, objective="memory", costs=costs),
            }
            ranks = gw.launch(count, timeout=1800)(hold, name, plans)
            share = alone / count
            for label in plans:
                most = max(rank[label] for rank in ranks)
                least = min(rank[label] for rank in ranks)
                results[name][f"{label} on {count}"] = [rank[label] for rank in ranks]
                rows.append((name, count, label, alone / 1e6, share / 1e6, least / 1e6, most / 1e6, most / share))  # fmt: skip
                if label == "smallest":
                    worst = max(worst, most / share)
                    if most > NEAR * share:
                        misses.append(f"{name} on {count}: {most / share:.2f} times a share")
        print(f"{name}: done", flush=True)
    print_table(
        ("model", "workers", "plan", "alone MB", "a share MB", "emptiest MB", "fullest MB", "of a share"),
        rows,
    )  # fmt: skip
    save_result("tofu_section6", options, results)
    return finish(options, misses, f"the smallest plans hold at most {worst:.2f} times a share")


if __name__ == "__main__":
    sys.exit(main())
