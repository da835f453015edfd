"""`gw.plan`: objectives, options, baselines, and what it says about itself."""

import itertools
from importlib import import_module

import numpy as np
import pytest
import torch
from torch import nn

import graphwright as gw
from additive import COSTS
from graphwright.errors import DoesNotFit
from graphwright.ir import GraphBuilder, TensorType
from graphwright.machine import cluster
from graphwright.partition import ALGORITHMS, RECIPES, SYSTEMS, Space, sizes_of
from graphwright.partition.estimate.problem import Assignment
from graphwright.partition.search.frontier.candidates import spread
from graphwright.plans import figures_of
from graphwright.simulate import simulate
from random_plans import chain, zoo_graph

QUICK = {"points": 3, "baselines": ("data", "zero")}


@pytest.fixture(scope="module")
def frontier():
    return gw.plan(zoo_graph("gpt2"), "p2.8xlarge", costs=COSTS, points=6)


def test_a_frontier_is_sorted_and_nothing_in_it_is_dominated(frontier):
    figures = [figures_of(p) for p in frontier]
    assert [f.memory for f in figures] == sorted(f.memory for f in figures)
    assert [f.time for f in figures] == sorted((f.time for f in figures), reverse=True)
    assert len({(f.time, f.memory) for f in figures}) == len(figures)


def test_figures_are_what_the_simulator_says(frontier):
    graph = zoo_graph("gpt2")
    for plan in (*frontier, *frontier.others.values()):
        step, figures = simulate(graph, plan, costs=COSTS), figures_of(plan)
        assert figures.time == pytest.approx(step.makespan)
        assert figures.memory == int(step.memory.peak.max())
        assert figures.nbytes == step.moved_bytes


def test_recipes_are_beside_the_frontier(frontier):
    out_of_place = {"hsdp", "fsdp-tp", "one-weird-trick"}  # one machine, and no convolutions
    assert set(frontier.others) == {*RECIPES, "tofu", "optcnn"} - out_of_place
    for other in map(figures_of, frontier.others.values()):
        assert any(
            f.time <= other.time and f.memory <= other.memory for f in map(figures_of, frontier)
        )


def test_searched_plans_have_estimates(frontier):
    searched = [p for p in frontier if p.algorithm == "frontier"]
    assert searched
    assert all(figures_of(p).estimate_time > 0 for p in searched)


def test_every_objective():
    graph = zoo_graph("mlp")
    plan = lambda objective: figures_of(
        gw.plan(graph, "p2.8xlarge", objective=objective, costs=COSTS, **QUICK)
    )
    frontier = gw.plan(graph, "p2.8xlarge", costs=COSTS, **QUICK)
    every = [figures_of(p) for p in (*frontier, *frontier.others.values())]
    assert plan("time").time == min(f.time for f in every)
    assert plan("memory").memory == min(f.memory for f in every)
    assert plan("bytes").nbytes == min(f.nbytes for f in every)


def test_fewest_devices():
    graph = zoo_graph("mlp")
    options = {"costs": COSTS, **QUICK}
    alone = gw.plan(graph, "local:1", costs=COSTS).smallest()
    few = gw.plan(graph, "p2.8xlarge", objective="devices", **options)
    assert few.cluster.num_devices == 1
    limit = int(figures_of(alone).memory * 0.6)
    some = gw.plan(graph, "p2.8xlarge", objective="devices", memory=limit, **options)
    assert 1 < some.cluster.num_devices < 8
    assert figures_of(some).memory <= limit
    for count in range(1, some.cluster.num_devices):
        with pytest.raises(DoesNotFit):
            gw.plan(
                graph,
                sizes_of(cluster("p2.8xlarge"))[count],
                objective="time",
                memory=limit,
                **options,
            )


def test_a_limit_is_kept():
    graph = zoo_graph("gpt2")
    free = gw.plan(graph, "p2.8xlarge", costs=COSTS, **QUICK)
    limit = figures_of(free.smallest()).memory
    plan = gw.plan(graph, "p2.8xlarge", objective="time", memory=limit, costs=COSTS, **QUICK)
    assert figures_of(plan).memory <= limit


@pytest.mark.parametrize("algorithm", [a for a in ALGORITHMS if a != "mcmc"])
def test_every_algorithm(algorithm):
    found = gw.plan(zoo_graph("mlp"), "local:4", algorithm=algorithm, baselines=(), costs=COSTS)
    assert {p.algorithm for p in found} == {algorithm}


def test_annealing(monkeypatch):
    """Half a second of a clock that counts how often it is asked: a millisecond each time."""
    clock = itertools.count(step=0.001)
    for where in ("registry", "plan", "search.annealing.chains"):
        module = import_module(f"graphwright.partition.{where}")
        monkeypatch.setattr(module, "perf_counter", lambda: next(clock))
    found = gw.plan(zoo_graph("mlp"), "local:2", algorithm="mcmc", budget=0.5, costs=COSTS)
    assert any("annealing" in note for note in found.notes)
    assert figures_of(found.fastest()).time <= figures_of(found.others["data"]).time


def test_the_same_search_twice():
    plan = lambda: gw.plan(zoo_graph("lenet"), "v100-2x8", costs=COSTS, **QUICK)
    assert plan() == plan()


def test_a_wider_space_finds_no_worse():
    graph = zoo_graph("gpt2")
    plan = lambda **space: gw.plan(
        graph, "local:4", space=Space(**space), baselines=(), points=2, costs=COSTS
    )
    fastest = lambda f: min(figures_of(p).estimate_time for p in f)
    assert fastest(plan()) <= fastest(plan(batch_only=True))
    assert fastest(plan()) <= fastest(plan(replication=False))


def test_one_device_needs_no_search():
    found = gw.plan(zoo_graph("lenet"), "local:1", costs=COSTS)
    assert len(found) == 1
    assert not found.others
    assert figures_of(found.fastest()).nbytes == 0


def test_graphs_of_one_node_and_of_inference():
    assert len(gw.plan(chain(1), "local:2", costs=COSTS))
    graph = gw.capture(nn.Sequential(nn.Linear(16, 16), nn.ReLU()), inputs=torch.zeros(8, 16))
    found = gw.plan(graph, "local:4", costs=COSTS)
    assert figures_of(found.fastest()).time > 0


def test_operators_without_a_description_are_noted():
    build, square = GraphBuilder(), TensorType((8, 8), "float32")
    x = build.add_input("x", square)
    (y,) = build.add("mine.strange", [x], {}, square)
    (z,) = build.add("aten.relu", [y], {}, square)
    found = gw.plan(build.build([z]), "local:2", costs=COSTS)
    assert any("mine.strange" in note for note in found.notes)


def test_progress_is_reported():
    seen = []
    gw.plan(zoo_graph("mlp"), "local:2", costs=COSTS, report=lambda *row: seen.append(row), **QUICK)
    assert {what for what, _, _ in seen} >= {"baselines", "simulating plans"}
    assert all(0 <= done <= total for _, done, total in seen)


@pytest.mark.parametrize("budget", [0, 0.001, 0.2])
def test_a_budget_that_runs_out_returns_the_best_so_far(budget):
    found = gw.plan(zoo_graph("gpt2"), "v100-2x8", budget=budget, costs=COSTS)
    assert len(found)
    assert any("time budget" in note for note in found.notes)


def test_a_budget_without_baselines():
    found = gw.plan(zoo_graph("mlp"), "local:2", budget=0, baselines=(), costs=COSTS)
    assert len(found)


def test_sizes_of_a_cluster():
    assert list(sizes_of(cluster("p2.8xlarge"))) == list(range(1, 9))
    two_nodes = sizes_of(cluster("v100-2x8"))
    assert list(two_nodes) == [*range(1, 9), 16]
    assert all(c.num_devices == n for n, c in two_nodes.items())
    assert list(sizes_of(cluster("v100-2x8"), [4, 11, 32])) == [4, 32]


def test_spreading_keeps_both_ends():
    points = [
        Assignment(choices=np.zeros(0, int), options={}, time=1.0 / (1 + n), memory=1.0 + n)
        for n in range(50)
    ]
    some = spread(points, 7)
    assert (some[0], some[-1]) == (points[0], points[-1])
    assert len(some) <= 7
    assert spread(points, 60) == points
    assert spread([], 3) == []


def test_systems_as_baselines():
    found = gw.plan(zoo_graph("mlp"), "local:4", baselines=SYSTEMS, points=2, costs=COSTS)
    assert set(found.others) == set(SYSTEMS)
