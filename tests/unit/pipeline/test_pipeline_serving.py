"""Serving as memory plans predict it: times of the plans, models that have no plan."""

import pytest
import torch
from torch import nn

import graphwright as gw
from graphwright.errors import InvalidOption
from graphwright.pipeline import serve_models
from graphwright.plans import MemoryTooSmall


@pytest.fixture(scope="module")
def graph():
    layers = [layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.ReLU())]
    return gw.capture(nn.Sequential(*layers).eval(), inputs=torch.randn(8, 64))


def test_servers_take_what_their_memory_plans_take(graph):
    whole = gw.swap(graph, "1MB", cluster="p3.2xlarge")
    memory = 2 * whole.least
    found = serve_models(graph, memory, models=(2,), cluster="p3.2xlarge", requests=500)
    part = gw.swap(graph, whole.least, cluster="p3.2xlarge", search=("belady", "greedy"))
    by_name = {server.name: server for server in found.servers}
    assert list(by_name) == ["alone", "partitioned", "shared", "cached"]
    assert by_name["partitioned"].seconds == part.time > by_name["alone"].seconds
    assert by_name["shared"].load > 0 and by_name["shared"].room == 1
    assert found.samples == 8 and found.weights >= 6 * 64 * 65 * 4
    assert len(found.served[0]) == 8 and found.to_dict()["servers"][1]["num_models"] == 2


def test_parts_that_are_too_small_are_named(graph):
    whole = gw.swap(graph, "1MB", cluster="p3.2xlarge")
    found = serve_models(graph, 4 * whole.least, models=(2, 16), cluster="p3.2xlarge", requests=100)
    assert list(found.refused) == [16] and "for each model" in found.refused[16]
    with pytest.raises(MemoryTooSmall, match="16 models"):
        serve_models(graph, 4 * whole.least, models=(16,), cluster="p3.2xlarge", requests=100)


def test_other_options_are_refused(graph):
    with pytest.raises(InvalidOption, match="numbers of models"):
        serve_models(graph, "1MB", models=(0,), cluster="p3.2xlarge")
    model = nn.Linear(3, 2)
    batch = torch.randn(4, 3), torch.randint(0, 2, (4,))
    trains = gw.capture(model, nn.functional.cross_entropy, batch, optimizer=torch.optim.SGD)
    with pytest.raises(InvalidOption, match="serving is for inference"):
        serve_models(trains, "1MB", cluster="p3.2xlarge")
