"""What two workers hold under random plans is what the simulation says;
`benchmarks/prediction_error.py` does the same for more plans and models."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import torch

import graphwright as gw
from graphwright.machine import cluster
from graphwright.partition import random_plan
from graphwright.simulate import CostModel, simulate

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import prediction_error as bench
from limits import HANG

SEEDS = range(6)


def held(plans):
    found = []
    for plan in plans:
        workload = bench.load("gpt")
        step = gw.compile(
            plan, workload.model, workload.loss_fn, torch.optim.SGD, batch=workload.batch
        )
        step(workload.batch)
        found.append(bench.most_bytes(step, workload.batch))
    return found


def test_workers_hold_what_is_predicted():
    workload, on = bench.load("gpt"), cluster("local:2")
    graph = gw.capture(workload.model, workload.loss_fn, workload.batch, optimizer=torch.optim.SGD)
    plans = [random_plan(graph, on, seed=seed, subsets=False) for seed in SEEDS]
    measured = map(max, zip(*gw.launch(2, timeout=HANG)(held, plans), strict=True))
    costs = CostModel(measured=False)
    errors = []
    for plan, most in zip(plans, measured, strict=True):
        predicted = int(simulate(graph, plan, costs=costs).memory.peak.max())
        errors.append(abs(predicted - most) / most)
    assert statistics.fmean(errors) < 0.05
    assert max(errors) < 0.1
