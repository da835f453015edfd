"""Plans of other systems and of experts."""

from dataclasses import replace

import numpy as np
import pytest

from _reference_searches.seeded import assignment_of
from additive import COSTS, coarse_of
from graphwright.describe import Soap, node_splits, sample_dims, soap
from graphwright.machine import cluster
from graphwright.partition import (
    RECIPES,
    SYSTEMS,
    Weight,
    least,
    make_estimate,
    narrow,
    other_plan,
)
from graphwright.partition.recipes.systems import most_split
from graphwright.partition.search.recursive import TOFU
from graphwright.plans import Along, local_bytes
from graphwright.simulate import simulate
from graphwright.tasks import place_node
from random_plans import zoo_graph

ALL = (*RECIPES, *SYSTEMS)


def leads(name):
    """The heavy groups' leads: the node, and its splits by their class."""
    coarse, graph = coarse_of(name), zoo_graph(name)
    samples = sample_dims(graph)
    for group in coarse.groups:
        if group.weight is Weight.HEAVY:
            node = graph.nodes[group.slots[group.lead][0]]
            yield node, {s.index: soap(s, node, graph, samples) for s in node_splits(graph, node)}


@pytest.mark.parametrize("system", ALL)
@pytest.mark.parametrize("name", ["lenet", "gpt2"])
@pytest.mark.parametrize("on", ["p2.8xlarge", "summit"])
def test_every_plan_can_be_followed(name, on, system):
    coarse, graph = coarse_of(name), zoo_graph(name)
    plan = other_plan(system, coarse, cluster(on), COSTS)
    assert plan.algorithm == system
    for node in graph.nodes:
        place_node(coarse.facts, node, plan.strategy(node.name), plan.cluster)


def choices_of(plan, node):
    return [c.index for c in plan.strategy(node.name).choices if isinstance(c, Along)]


def test_one_weird_trick():
    plan = other_plan("one-weird-trick", coarse_of("lenet"), cluster("local:4"), COSTS)
    for node, kinds in leads("lenet"):
        used = choices_of(plan, node)
        if "convolution" in node.op:
            assert {kinds[index] for index in used} == {Soap.SAMPLE}
        else:
            assert set(used) == {"j"}  # columns of the weight, through its transposed view


def test_zero_keeps_nothing_whole():
    graph = zoo_graph("gpt2")
    plan = other_plan("zero", coarse_of("gpt2"), cluster("local:4"), COSTS)
    for node, kinds in leads("gpt2"):
        assert {kinds[index] for index in choices_of(plan, node)} <= {Soap.SAMPLE}
    for name, sharding in plan.inputs.items():
        type = graph.tensors[name].type
        if graph.tensors[name].role.value != "input" and any(s % 4 == 0 for s in type.shape):
            assert (local_bytes(sharding, type) * 4 == type.nbytes).all(), name


def test_megatron_splits_samples_between_nodes_only():
    plan = other_plan("megatron", coarse_of("gpt2"), cluster("v100-2x8"), COSTS)
    inner = set()
    for node, kinds in leads("gpt2"):
        outer, *inside = plan.strategy(node.name).choices
        if isinstance(outer, Along):
            assert kinds[outer.index] is Soap.SAMPLE
        inner |= {kinds[c.index] for c in inside if isinstance(c, Along)}
    assert inner
    assert Soap.SAMPLE not in inner


def test_all_row_lives_in_rows():
    plan = other_plan("all-row", coarse_of("mlp"), cluster("local:2"), COSTS)
    graph = zoo_graph("mlp")
    for name, sharding in plan.inputs.items():
        if graph.tensors[name].type.rank and graph.tensors[name].type.shape[0] >= 2:
            assert str(sharding) == "[S0]"


def least_bytes(name, on, space):
    estimate = make_estimate(coarse_of(name), cluster(on), COSTS, space, measure="bytes")
    return least(narrow(estimate, None).problem()).time


@pytest.mark.parametrize("name", ["mlp", "lenet", "gpt2", "rnnlm-2"])
def test_restrictions_never_move_fewer_bytes(name):
    """By the model's own measure, each system's best is no better than the best of the space that it restricts."""
    on = "local:4"
    free = least_bytes(name, on, TOFU)
    assert least_bytes(name, on, replace(TOFU, reduction=False)) >= free * (1 - 1e-9)
    assert least_bytes(name, on, replace(TOFU, single_split=True)) >= free * (1 - 1e-9)
    model = make_estimate(
        coarse_of(name),
        cluster(on),
        COSTS,
        TOFU,
        measure="bytes",
        plans=[other_plan(s, coarse_of(name), cluster(on), COSTS) for s in ("tofu", "spartan")],
    )
    best = least(model.problem()).time
    for number in range(2):
        found = assignment_of(model, number)
        assert found is not None
        assert found.time >= best * (1 - 1e-9)


def test_optcnn_is_the_fastest_by_its_estimate():
    coarse, on = coarse_of("lenet"), cluster("p2.8xlarge")
    plans = [other_plan(n, coarse, on, COSTS) for n in ("optcnn", "data", "zero", "tofu")]
    model = make_estimate(coarse, on, COSTS, plans=plans)
    times = [assignment_of(model, n).time for n in range(len(plans))]
    assert times[0] == min(times)


def test_one_device():
    for system in ALL:
        plan = other_plan(system, coarse_of("mlp"), cluster("local:1"), COSTS)
        assert simulate(zoo_graph("mlp"), plan, costs=COSTS).moved_bytes == 0


def test_a_rule_that_allows_nothing_leaves_replication():
    model = make_estimate(coarse_of("mlp"), cluster("local:4"), COSTS)
    g = next(g for g, x in enumerate(model.coarse.groups) if x.weight is Weight.HEAVY)
    group = model.coarse.groups[g]
    (only,) = most_split(model.all[g], group, lambda *_: False, model.cluster)
    assert (model.all[g].choice[only] == 0).all()
    many = most_split(model.all[g], group, lambda *_: True, model.cluster)
    split = np.array(model.all[g].options[group.lead].units)[model.all[g].choice[many, group.lead]]
    assert (split > 0).all()
