"""Small models on real workers, in float64: three steps leave what three steps on one device leave.

`benchmarks/exactness.py` does the same for every model of the zoo and many more plans.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from graphwright.describe import node_splits
from graphwright.ir import Graph
from graphwright.lower import lower
from graphwright.machine import Cluster, cluster
from graphwright.partition import BASELINES
from graphwright.plans import Plan, make_plan
from graphwright.simulate import CostModel

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import _exact as exact
from limits import HANG

TOLERANCE = 1e-10
MODELS = {
    "lenet": "convolutions in rows, with halos",
    "alexnet": "convolutions with strides, uneven",
    "resnet50": "BatchNorm",
    "rnntc": "LSTM",
    "dlrm": "embeddings of features",
    "rnnlm-2": "embeddings of words, a recurrence of its own",
    "gpt2": "tied weights",
    "bert-base": "dropout",
}
FEW = ("lenet", "bert-base")
"""What runs on four workers too."""


@cache
def case(model: str) -> exact.Case:
    return exact.prepare(model, "float64")


def in_rows(graph: Graph, on: Cluster) -> Plan:
    """Every convolution and pooling in rows of the image, so that each needs some of its neighbours'."""
    ways = on.num_devices
    strategies = {}
    for node in graph.nodes:
        rows = [s for s in node_splits(graph, node) if s.index == "y0" and s.max_parts >= ways]
        if rows:
            strategies[node.name] = " ".join(["y0"] * len(on.axes))
    return make_plan(graph, on, strategies, algorithm="rows")


def jobs_of(number: int, model: str, count: int) -> list[exact.Job]:
    graph, on = case(model).graph, cluster(f"local:{count}")
    names = ("data", "layers") if model in ("dlrm", "rnnlm-2") else ("data",)
    found = [exact.Job(case=number, label=n, plan=BASELINES[n](graph, on)) for n in names]
    if model in ("lenet", "alexnet"):
        found.append(exact.Job(case=number, label="rows", plan=in_rows(graph, on)))
    return found + exact.random_jobs(number, graph, on, [count] if count == 3 else [0, 1])


@pytest.mark.parametrize("count", [2, pytest.param(3, marks=pytest.mark.slow), 4])
def test_steps_on_workers_equal_steps_on_one_device(count):
    models = FEW if count == 4 else tuple(MODELS)
    cases = [case(model) for model in models]
    jobs = [job for n, model in enumerate(models) for job in jobs_of(n, model, count)]
    done = exact.run(count, cases, jobs, HANG)
    assert [d.job for d in done] == jobs
    apart = {
        exact.describe(cases[d.job.case], d.job): d.worst
        for d in done
        if not d.worst.difference <= TOLERANCE
    }
    assert not apart


def test_the_models_have_what_they_stand_for():
    ops = {model: Counter(node.op for node in case(model).graph.nodes) for model in MODELS}
    assert any(name.endswith("running_var") for name in case("resnet50").kept)
    assert ops["rnntc"]["aten.sigmoid"] >= 3
    assert ops["dlrm"]["aten.embedding_dense_backward"] >= 3
    assert case("bert-base").draws
    readers = [n.op for n in case("gpt2").graph.nodes if "tokens.weight" in n.inputs]
    assert "aten.embedding" in readers
    assert len(set(readers)) > 1
    for model in ("lenet", "alexnet"):
        graph = case(model).graph
        lowered = lower(graph, in_rows(graph, cluster("local:2")), costs=CostModel(measured=False))
        calls = str(lowered.program(0)).splitlines()
        assert any("aten.convolution(" in line and ":" in line for line in calls)


def test_a_difference_is_noticed():
    """With weights that are a millionth away the same run does not pass."""
    right, (job, *_) = case("dlrm"), jobs_of(0, "dlrm", 2)
    moved = {n: v + 1e-6 if v.is_floating_point() else v for n, v in right.kept.items()}
    (done,) = exact.run(2, [replace(right, kept=moved)], [job], HANG)
    assert 1e-7 < done.worst.difference < 1e-4
    assert done.worst.where in right.kept
