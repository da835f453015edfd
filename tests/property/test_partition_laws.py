"""What holds for the additive problem of any graph: random graphs with backward passes and updates, random machines."""

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphwright as gw
from _reference_searches.seeded import assignment_of
from additive import COSTS, codes, random_assignment, recomputed
from graphwright.machine import cluster
from graphwright.partition import (
    Estimate,
    coarsen,
    least,
    make_estimate,
    recursive,
    track,
)
from graphwright.partition.estimate.moving.tables import Prices
from graphwright.plans import figures_of
from graphwright.simulate import simulate
from graphwright.tasks import place_node
from random_plans import random_graph, two_pass_graph

MACHINES = ("local:2", "local:3", "local:4", "p2.8xlarge", "summit")
PRICES = {on: Prices(cluster(on), COSTS) for on in MACHINES}
seeds, machines = st.integers(0, 10**6), st.sampled_from(MACHINES)


def graph_of(seed: int):
    rng = Random(seed)
    return rng.choice([random_graph, two_pass_graph])(rng)


def model_of(graph, on: str, **options) -> Estimate:
    return make_estimate(coarsen(graph), cluster(on), COSTS, prices=PRICES[on], **options)


@given(seeds)
def test_groups_hold_every_node_once(seed):
    graph = graph_of(seed)
    coarse = coarsen(graph)
    inside = [i for group in coarse.groups for i in group.nodes]
    free = [i for i, g in enumerate(coarse.group_of) if g < 0]
    assert sorted([*inside, *free]) == list(range(len(graph.nodes)))
    assert all(i in coarse.groups[coarse.group_of[i]].slots[coarse.slot_of[i]] for i in inside)


@settings(max_examples=20)
@given(seeds, machines)
def test_configurations_say_what_placing_says(seed, on):
    model = model_of(graph_of(seed), on)
    facts, rng = model.coarse.facts, np.random.default_rng(seed)
    for g, group in enumerate(model.coarse.groups):
        found = model.all[g]
        for c in rng.integers(len(found), size=3):
            for slot, nodes in enumerate(group.slots):
                node = facts.graph.nodes[nodes[0]]
                placed = place_node(facts, node, found.strategy(c, slot), model.cluster)
                for arg, sharding in enumerate(placed.inputs):
                    assert sharding is None or codes(sharding) == found.need(slot, arg)[c].tolist()
                for output, sharding in enumerate(placed.outputs):
                    assert codes(sharding) == found.made(slot, output)[c].tolist()


@settings(max_examples=20)
@given(seeds, machines)
def test_times_add_up(seed, on):
    model = model_of(graph_of(seed), on)
    problem = model.problem()
    found = random_assignment(problem, np.random.default_rng(seed))
    assert found.time == pytest.approx(recomputed(model, model.plan(found, "random")), rel=0.03)


@settings(max_examples=20)
@given(seeds, machines)
def test_plans_lead_back_to_their_assignments(seed, on):
    graph = graph_of(seed)
    model = model_of(graph, on)
    found = random_assignment(model.problem(), np.random.default_rng(seed))
    plan = model.plan(found, "random")
    again = model_of(graph, on, plans=[plan])
    back = assignment_of(again, 0)
    assert back is not None
    assert again.problem().evaluate(back.choices.tolist(), {}) == pytest.approx(
        (found.time, found.memory)
    )
    assert simulate(graph, plan, costs=COSTS).makespan > 0


@settings(max_examples=15)
@given(seeds, machines)
def test_recursion_moves_no_less_the_later_it_cuts_and_its_plan_can_be_followed(seed, on):
    graph, machine = graph_of(seed), cluster(on)
    recursion = recursive(coarsen(graph), machine, COSTS)
    assert simulate(graph, recursion.plan, costs=COSTS).makespan > 0
    assert len(recursion.steps) == len(machine.axes) and min(recursion.steps) >= 0
    if recursion.exact and recursion.complete:  # Tofu's theorem 1, for axes of one size
        for (before, axis), (after, other) in pairwise(
            zip(recursion.steps, machine.axes, strict=True)
        ):
            assert axis.size != other.size or before <= after * (1 + 1e-9)


@settings(max_examples=15)
@given(seeds, machines)
def test_frontiers_reach_from_the_smallest_to_the_fastest(seed, on):
    problem = model_of(graph_of(seed), on).problem()
    points = track(problem).points
    assert points[-1].time == pytest.approx(least(problem).time)
    assert points[0].memory == pytest.approx(least(problem, np.inf).memory)


@settings(max_examples=10)
@given(seeds, machines)
def test_plans_are_never_worse_than_baselines(seed, on):
    found = gw.plan(graph_of(seed), on, points=3, costs=COSTS)
    for name, other in found.others.items():
        its = figures_of(other)
        assert any(f.time <= its.time and f.memory <= its.memory for f in map(figures_of, found)), (
            name
        )
