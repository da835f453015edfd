"""One node of a cluster stands for all exactly where it may: figures are those of every device."""

import sys
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphwright.machine import Cluster, Device, Level
from graphwright.machine import cluster as named
from graphwright.partition import coarsen, data_parallel, other_plan
from graphwright.plans import make_plan
from graphwright.simulate import Simulator, figures
from graphwright.tasks import Expansion, GraphFacts, NotSymmetric, Templates, blocks, periods
from graphwright.zoo import gpt
from random_plans import any_keep, any_plan, any_strategy, random_graph, two_pass_graph, zoo_graph
from reshardings import Formulas, random_cluster

DEVICE = Device(name="gpu", memory=10**9, rates={"float32": 1e9}, bandwidth=1e9, launch=0.0)

HANDLES = replace(DEVICE, handling=2e-6, handling_bandwidth=2e9)
"""Transfers take some of its own time."""


def even_cluster(rng, device=DEVICE):
    """Equal devices in one to three levels; a level may be a bus."""
    counts = rng.choice([(2,), (4,), (2, 2), (2, 4), (4, 2), (3, 2), (1, 4), (2, 2, 2), (2, 3, 2)])
    levels = tuple(
        Level(
            name=f"level{n}",
            count=count,
            bandwidth=rng.choice([1e8, 1e9, 3e9]),
            latency=rng.choice([0.0, 1e-7, 1e-5]),
            shared=rng.random() < 0.2,
        )
        for n, count in enumerate(counts)
    )
    number = 1
    for count in counts:
        number *= count
    return Cluster(name="even", levels=levels, devices=(device,) * number)


def even_plan(rng, device=DEVICE):
    """A plan in which all parts are equal, on all devices."""
    graph, on = two_pass_graph(rng, size=24), even_cluster(rng, device)
    x = Expansion(GraphFacts(graph), make_plan(graph, on, {}), Formulas())
    drawn = {node.name: any_strategy(rng, x, node) for node in graph.nodes}
    strategies = {name: s for name, s in drawn.items() if s.mesh is None}
    return graph, make_plan(graph, on, strategies, keep=any_keep(rng, graph, 0.3))


def times_once(simulator, plan):
    """Whether devices that do the same can be timed once."""
    for templates in simulator.symmetric:
        try:
            blocks(Expansion(simulator.facts, plan, simulator.costs, templates))
        except NotSymmetric:
            continue
        return True
    return False


def check(graph, plan):
    simulator = Simulator(GraphFacts(graph), plan.cluster, Formulas())
    assert simulator.figures(plan) == figures(simulator.run(plan))
    return times_once(simulator, plan)


@given(st.integers(0, 2**32), st.sampled_from([DEVICE, HANDLES]))
def test_figures_of_even_plans_are_those_of_all_devices(seed, device):
    check(*even_plan(Random(seed), device))


@given(st.integers(0, 2**32))
def test_figures_of_any_plan_are_those_of_all_devices(seed):
    rng = Random(seed)
    graph = random_graph(rng)
    check(graph, any_plan(rng, graph, random_cluster(rng, 8)))


@pytest.mark.parametrize("device", [DEVICE, HANDLES])
def test_many_even_plans_are_timed_once(device):
    assert sum(check(*even_plan(Random(seed), device)) for seed in range(40)) >= 15


@pytest.mark.parametrize(("on", "period"), [("dgx-h100:4", 8), ("v100-2x8", 8), ("dgx-h100", 1)])
def test_data_parallelism_is_timed_by_one_node(on, period):
    graph = zoo_graph("gpt2")
    simulator = Simulator(GraphFacts(graph), named(on), Formulas())
    assert next(periods(named(on))) == period
    assert times_once(simulator, data_parallel(graph, named(on)))


def test_devices_of_two_kinds_are_not_alike():
    other = Device(name="old", memory=10**9, rates={"float32": 1e8}, bandwidth=1e8, launch=0.0)
    level = Level(name="gpu", count=2, bandwidth=1e9, latency=0.0)
    assert not list(periods(Cluster(name="mixed", levels=(level,), devices=(DEVICE, other))))


def test_where_all_is_timed_the_resources_are_the_clusters():
    on = named("v100-2x8")
    whole = Templates(on, Formulas())
    assert (whole.num_devices, whole.resource_names) == (on.num_devices, on.resources)


@pytest.mark.parametrize("name", ["zero", "megatron"])
def test_what_is_almost_alike_is_timed_almost_right(name, monkeypatch):
    """50,257 words over 32 devices: no part of the embedding is like another."""
    graph, on = gpt(1, width=256, batch_size=64).capture(), named("dgx-h100:4")
    simulator, costs = Simulator(GraphFacts(graph), on, Formulas()), Formulas()
    plan = other_plan(name, coarsen(graph), on, costs)
    assert not times_once(simulator, plan)
    exact = figures(simulator.run(plan))
    monkeypatch.setattr(sys.modules["graphwright.simulate.api"], "MOST_PARTS", 0)
    nearly = simulator.figures(plan)
    assert nearly.time == pytest.approx(exact.time, rel=0.01)
    assert nearly.memory == pytest.approx(exact.memory, rel=0.01)
    assert nearly.nbytes == exact.nbytes


@given(st.integers(0, 2**32))
def test_any_plan_can_be_timed_nearly(seed):
    rng = Random(seed)
    graph, plan = even_plan(rng)
    simulator = Simulator(GraphFacts(graph), plan.cluster, Formulas())
    exact = simulator.figures(plan)
    for templates in simulator.nearly:
        expansion = Expansion(simulator.facts, plan, simulator.costs, templates)
        nearly = figures(simulator._run(plan, expansion))
        assert nearly.nbytes == exact.nbytes
        assert 0.3 * exact.time <= nearly.time <= 3 * exact.time  # tiny tasks, the worst case
        assert 0.7 * exact.memory <= nearly.memory <= 3 * exact.memory
