"""Tofu's recursion: axis by axis, everything in parts."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch

from additive import COSTS, coarse_of
from graphwright.capture import capture
from graphwright.ir import TensorType
from graphwright.machine import cluster
from graphwright.partition import Weight, coarsen, other_plan, recursive
from graphwright.partition.estimate.moving.tables import Prices
from graphwright.partition.estimate.stepwise import Stepwise
from graphwright.plans import local_bytes
from graphwright.simulate import simulate
from random_plans import chain, zoo_graph

MODELS = ("mlp", "lenet", "gpt2", "rnnlm-2", "candle-uno", "dlrm")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("on", ["local:2", "local:4", "p2.8xlarge", "summit"])
def test_steps_do_not_decrease(name, on):
    """Theorem 1, on 2, 4 and 8 devices, where everything has enough parts, and on 6, where the second step cuts in three."""
    found = recursive(coarse_of(name), cluster(on), COSTS)
    assert len(found.steps) == len(cluster(on).axes)
    assert found.exact
    assert min(found.steps) >= 0
    if found.complete:
        assert all(later >= earlier * (1 - 1e-9) for earlier, later in pairwise(found.steps))


@pytest.mark.parametrize("on", ["local:2", "p2.8xlarge", "v100-2x8"])
@pytest.mark.parametrize("widths", [(512, 512), (256, 1024, 256), (4096, 64, 64, 128)])
def test_steps_do_not_decrease_where_everything_has_enough_parts(widths, on):
    model = torch.nn.Sequential(
        *(
            layer
            for a, b in pairwise(widths)
            for layer in (torch.nn.Linear(a, b), torch.nn.ReLU(), torch.nn.LayerNorm(b))
        )
    )
    batch = torch.zeros(256, widths[0]), torch.zeros(256, widths[-1])
    graph = capture(model, torch.nn.functional.mse_loss, batch, optimizer=torch.optim.SGD)
    found = recursive(coarsen(graph), cluster(on), COSTS)
    assert found.exact and found.complete
    assert all(later >= earlier * (1 - 1e-9) for earlier, later in pairwise(found.steps))
    assert found.steps[0] > 0


def test_the_same_choices_cost_more_the_later_they_are_made():
    """What theorem 1 rests on: bytes along an axis do not depend on later axes, and only grow with copies along earlier ones."""
    on, type = cluster("p2.8xlarge"), TensorType((64, 64), "float32")
    prices = Stepwise(on)
    codes = np.array(list(product((0, 1, -1, -2), repeat=3)), dtype=np.int8)
    moved, _ = prices.table(type, codes, codes)
    number = {tuple(row): i for i, row in enumerate(codes.tolist())}
    for u, v in product((0, 1, -1, -2), repeat=2):
        first = moved[number[u, -1, -1], number[v, -1, -1]]
        for earlier in (0, 1, -1):
            later = moved[number[earlier, u, -1], number[earlier, v, -1]]
            assert later == first * (2 if earlier == -1 else 1)


@pytest.mark.parametrize(
    ("source", "target", "times"),
    [((0,), (1,), 1 / 2), ((0,), (-1,), 1), ((-2,), (0,), 1), ((-2,), (-1,), 2), ((-1,), (0,), 0)],
)
def test_bytes_along_one_axis_are_those_of_the_collective(source, target, times):
    """By the same name as what `tasks.reshard` counts for two devices."""
    on, type = cluster("local:2"), TensorType((64, 64), "float32")
    rows = np.array([source], dtype=np.int8), np.array([target], dtype=np.int8)
    assert Stepwise(on).table(type, *rows)[1][0, 0] == times * type.nbytes
    assert Prices(on, COSTS).table(type, *rows)[1][0, 0] == pytest.approx(times * type.nbytes)


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
