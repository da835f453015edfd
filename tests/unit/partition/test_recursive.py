"""Tofu's recursion: axis by axis, everything in parts."""

from itertools import pairwise

import numpy as np
import pytest

from additive import COSTS, coarse_of
from graphwright.ir import TensorType
from graphwright.machine import cluster
from graphwright.partition import Weight, coarsen, other_plan, recursive
from graphwright.partition.moving import Prices
from graphwright.plans import local_bytes
from graphwright.simulate import simulate
from random_plans import chain, zoo_graph

MODELS = ("mlp", "lenet", "gpt2", "rnnlm-2", "candle-uno", "dlrm")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("on", ["local:2", "local:4", "p2.8xlarge", "summit"])
def test_steps_do_not_decrease(name, on):
    """Theorem 1, on 2, 4, 8 and 6 devices."""
    found = recursive(coarse_of(name), cluster(on), COSTS)
    assert len(found.steps) == len(cluster(on).axes)
    assert found.exact
    assert all(later >= earlier * (1 - 1e-9) for earlier, later in pairwise(found.steps))


def test_moving_between_splits_is_cheaper_in_one_go():
    """Why the theorem is one of steps that are taken one after the other: from rows to columns over several axes at once moves less."""
    prices, square = Prices(cluster("p2.8xlarge"), COSTS), TensorType((64, 64), "float32")
    row = lambda dim, count: np.array([[dim] * count + [-1] * (3 - count)], dtype=np.int8)
    moved = [
        prices.table(square, row(0, n), row(1, n))[1][0, 0] / square.nbytes / 2 ** (3 - n)
        for n in (1, 2, 3)
    ]
    assert np.diff([0.0, *moved]) == pytest.approx([1 / 2, 1 / 4, 1 / 8])


@pytest.mark.parametrize("name", MODELS)
def test_what_lives_between_steps_is_in_equal_parts(name):
    """Where some dim has enough elements a device has its share, no more."""
    on, graph = cluster("p2.8xlarge"), zoo_graph(name)
    plan = recursive(coarse_of(name), on, COSTS).plan
    shared = 0
    for group in coarse_of(name).groups:
        if group.weight is not Weight.UPDATE:
            continue
        for tensor in group.inputs:
            type = graph.tensors[tensor].type
            if any(size >= 16 and size % on.num_devices == 0 for size in type.shape):
                held = local_bytes(plan.inputs[tensor], type)
                assert held.max() * on.num_devices < type.nbytes * 1.1, (
                    tensor,
                    plan.inputs[tensor],
                )
                shared += 1
    assert shared


def test_a_parameter_is_not_whole_where_its_state_is_in_parts():
    """Nothing is replicated, so a tied embedding lives in parts as well, whatever its readers need."""
    graph = zoo_graph("gpt2")
    plan = recursive(coarse_of("gpt2"), cluster("local:4"), COSTS).plan
    for name, sharding in plan.inputs.items():
        type = graph.tensors[name].type
        if graph.tensors[name].role.value == "parameter" and max(type.shape) >= 16:
            assert "R" not in str(sharding), (name, type, sharding)


def test_operators_of_a_group_may_differ():
    for name in ("mlp", "gpt2"):
        args = coarse_of(name), cluster("p2.8xlarge"), COSTS
        mixed, tied = recursive(*args), recursive(*args, mixed=False)
        assert mixed.steps[0] <= tied.steps[0]


def test_one_device():
    found = recursive(coarse_of("lenet"), cluster("local:1"), COSTS)
    assert found.steps == ()
    assert simulate(zoo_graph("lenet"), found.plan, costs=COSTS).moved_bytes == 0


def test_one_product_is_split():
    coarse = coarsen(chain(1))
    found = recursive(coarse, cluster("local:2"), COSTS)
    assert str(found.plan.strategies["mm"]) in ("i", "j", "k")


def test_the_same_plan_by_the_name_of_the_system():
    coarse, on = coarse_of("mlp"), cluster("p2.8xlarge")
    named = other_plan("tofu", coarse, on, COSTS)
    assert named.algorithm == "tofu"
    assert named.strategies == recursive(coarse, on, COSTS).plan.strategies
