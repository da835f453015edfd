"""The additive problem of a graph: what its tables add up to, against simulated and recomputed figures, and the way back to plans."""

from dataclasses import FrozenInstanceError
from math import isfinite

import numpy as np
import pytest
from scipy.stats import spearmanr

from _reference_searches.milp import solve
from _reference_searches.seeded import assignment_of
from additive import (
    COSTS,
    changed,
    coarse_of,
    model_of,
    problem_of,
    random_assignment,
    recomputed,
)
from graphwright import zoo
from graphwright.ir import Role
from graphwright.machine import cluster
from graphwright.partition import (
    Space,
    Weight,
    coarsen,
    least,
    make_estimate,
    narrow,
    track,
)
from graphwright.plans import local_bytes
from graphwright.tasks import expand
from part_by_part import simulate
from random_plans import zoo_graph

CASES = [
    ("mlp", "p2.8xlarge"),
    ("lenet", "v100-2x8"),
    ("gpt2", "local:4"),
    ("rnnlm-2", "v100-2x8"),
    ("candle-uno", "summit"),
    ("resnet50", "local:4"),
]


@pytest.mark.parametrize(("name", "on"), CASES)
def test_time_is_the_sum_of_its_parts(name, on):
    """Every operator's longest part and every resharding, each worked out by itself: within two per cent."""
    model, problem = model_of(name, on), problem_of(name, on)
    rng = np.random.default_rng(1)
    for _ in range(2):
        found = random_assignment(problem, rng)
        plan = model.plan(found, "random")
        assert found.time == pytest.approx(recomputed(model, plan), rel=0.02)


@pytest.mark.parametrize(("name", "on"), CASES[:5])
def test_plans_of_assignments_can_be_expanded_and_give_the_assignment_back(name, on):
    graph, problem = zoo_graph(name), problem_of(name, on)
    model = model_of(name, on)
    found = random_assignment(problem, np.random.default_rng(2))
    plan = model.plan(found, "random")
    assert len(expand(graph, plan, costs=COSTS)) > 0
    again = make_estimate(model.coarse, model.cluster, COSTS, plans=[plan])
    back = assignment_of(again, 0)
    assert back is not None
    same = again.problem().evaluate(back.choices.tolist(), {})
    assert same == pytest.approx((found.time, found.memory), rel=1e-9)


@pytest.mark.parametrize(("name", "on"), CASES[:5])
def test_parameters_and_states_are_counted_where_they_live(name, on):
    """Updates' own memory is exactly the bytes that the fullest device has of what they write."""
    model, problem = model_of(name, on), problem_of(name, on)
    graph = model.coarse.facts.graph
    rng = np.random.default_rng(3)
    found = random_assignment(problem, rng)
    plan = model.plan(found, "random")
    for g, group in enumerate(model.coarse.groups):
        if group.weight is Weight.UPDATE and group.inputs:
            counted = problem.unary[g].memory[found.choices[g], 0]
            lives = [local_bytes(plan.inputs[n], graph.tensors[n].type) for n in group.inputs]
            assert counted >= sum(float(b.mean()) for b in lives) * 0.999
            sizes = [graph.tensors[n].type for n in group.inputs]
            if all(t.numel % model.cluster.num_devices == 0 for t in sizes):
                held = problem.unary[g].memory[found.choices[g], 0]
                assert held >= sum(float(b.max()) for b in lives) * 0.999


@pytest.mark.parametrize("on", ["p2.8xlarge", "v100-2x8"])
@pytest.mark.parametrize(
    "workload",
    [
        zoo.gpt(1, width=512, batch_size=8, sequence=128, vocabulary=8192),
        zoo.load("rnnlm-2", batch_size=64),
        zoo.load("mlp", batch_size=256),
    ],
    ids=lambda w: w.name,
)
def test_estimates_rank_plans_as_the_simulator_does(workload, on):
    """From good plans to random ones, where operators take longer than starting them."""
    graph = workload.capture()
    model = narrow(make_estimate(coarsen(graph), cluster(on), COSTS), 16)
    problem = model.problem()
    points = track(problem, precision=0.1).points
    rng, rows = np.random.default_rng(4), []
    for number in range(24):
        near = points[rng.integers(len(points))]
        found = changed(problem, near, rng, (0.02, 0.1, 0.4, 1.0)[number % 4])
        step = simulate(graph, model.plan(found, "random"), costs=COSTS)
        rows.append((found.time, step.makespan, found.memory, float(step.memory.peak.max())))
    time, simulated, memory, peak = np.array(rows).T
    assert spearmanr(time, simulated)[0] > 0.9
    assert ((time / simulated > 0.75) & (time / simulated < 1.5)).all()
    assert spearmanr(memory, peak)[0] > 0.6
    assert ((memory / peak > 0.35) & (memory / peak < 1.25)).all()


def test_the_ends_are_those_of_the_exact_solver():
    problem = problem_of("lenet", "local:4")
    fastest, smallest = least(problem), least(problem, np.inf)
    assert fastest.time == pytest.approx(solve(problem).time)
    assert smallest.memory == pytest.approx(solve(problem, objective="memory").memory)
    points = track(problem).points
    assert points[0].memory == pytest.approx(smallest.memory)
    assert points[-1].time == pytest.approx(fastest.time)


def test_data_arrives_as_the_loader_splits_it():
    graph = zoo_graph("gpt2")
    data = [n for n in graph.inputs if graph.tensors[n].role is Role.INPUT]
    for loader in (True, False):
        model = make_estimate(coarse_of("gpt2"), cluster("local:4"), COSTS, Space(loader=loader))
        plan = model.plan(least(model.problem()), "fastest")
        for name in data:
            assert (name in plan.inputs) == loader
            if loader:
                size = graph.tensors[name].type.shape[0]
                assert plan.inputs[name].ways(0) == max(w for w in (1, 2, 4) if size % w == 0)


def test_copies_are_kept_or_moved_again():
    """Between the fastest and the smallest plan some copies are dropped; without reuse none is."""
    model = model_of("gpt2", "p2.8xlarge")
    kept = [model.plan(p, "frontier").keep for p in track(model.problem(), precision=0.02).points]
    assert kept[0]
    assert set().union(*(k.values() for k in kept)) <= {"before", "after"}
    rigid = model_of("gpt2", "p2.8xlarge", Space(reuse=False))
    assert all(table.time.shape[-1] == 1 for table in rigid.problem().pairs.values())
    assert not rigid.plan(least(rigid.problem(), np.inf), "smallest").keep


def test_reuse_never_costs_memory():
    free, rigid = model_of("gpt2", "p2.8xlarge"), model_of("gpt2", "p2.8xlarge", Space(reuse=False))
    assert least(free.problem(), np.inf).memory <= least(rigid.problem(), np.inf).memory
    assert least(free.problem()).time == pytest.approx(least(rigid.problem()).time)


def test_equal_layers_share_their_tables():
    problem = problem_of("gpt2", "p2.8xlarge")
    assert len({t.key for t in problem.unary}) < len(problem.unary) / 2
    assert all(isfinite(float(t.time.min())) for t in problem.unary)


def test_selecting_leaves_the_estimate_as_it_is_and_shares_its_tables():
    whole = make_estimate(coarse_of("mlp"), cluster("p2.8xlarge"), COSTS)
    before = whole.problem()
    part = whole.select({0: np.array([0])})
    assert len(part.configurations[0]) == 1
    assert len(whole.configurations[0]) == len(whole.all[0]) > 1
    assert least(part.problem()).time >= least(before).time
    assert part.unary(1) is whole.unary(1)
    again = part.select({0: np.arange(len(whole.all[0]))})
    assert all(a is b for a, b in zip(again.problem().unary, before.unary, strict=True))
    assert all(again.problem().pairs[pair] is table for pair, table in before.pairs.items())
    with pytest.raises(FrozenInstanceError):
        whole.active = part.active


def test_one_device_moves_nothing():
    model = model_of("lenet", "local:1")
    found = least(model.problem())
    step = simulate(zoo_graph("lenet"), model.plan(found, "one"), costs=COSTS)
    assert step.moved_bytes == 0
    assert found.time == pytest.approx(step.makespan, rel=0.1)
    assert found.memory == pytest.approx(float(step.memory.peak.max()), rel=0.5)


def test_what_is_on_its_way_counts_by_a_share():
    """Of two plans that hold the same, the one that gathers a weight for each use is the larger."""
    graph = zoo.load("mlp", batch_size=256).capture()
    model = make_estimate(coarsen(graph), cluster("local:4"), COSTS)
    assert 0 < model.tables.transit <= 0.3
    counted = model.problem()
    nobody = make_estimate(coarsen(graph), cluster("local:4"), COSTS)
    nobody.tables.transit = 0.0
    held = nobody.problem()
    for pair, table in counted.pairs.items():
        assert (table.memory >= held.pairs[pair].memory).all()
    gathered = [
        (table.memory - held.pairs[pair].memory)[table.time[..., 0] > 0, 0].max(initial=0.0)
        for pair, table in counted.pairs.items()
        if np.isfinite(table.time[..., 0]).all()
    ]
    assert max(gathered) > 0
