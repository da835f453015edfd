"""Tokens and samples in a second, model FLOPs utilisation, and what training costs."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import graphwright as gw
from graphwright import zoo
from graphwright.machine import cluster
from graphwright.partition import data_parallel
from graphwright.plans import Figures
from graphwright.report import to_dict
from graphwright.simulate import simulate, step_size


def test_the_arithmetic_of_a_step_is_that_of_its_products():
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
    batch = (torch.empty(16, 32), torch.empty(16, 8))
    size = step_size(gw.capture(model, F.mse_loss, batch))
    assert size.operations == 3 * 2 * 16 * (32 * 64 + 64 * 8)
    assert (size.samples, size.tokens, size.dtype) == (16, 0, "float32")
    assert step_size(gw.capture(model, inputs=batch[0])).operations == size.operations // 3


def test_six_operations_for_each_weight_and_token():
    """The usual formula, for a decoder: 6 for each weight, and 6 layers width length in attention."""
    layers, width, length, words = 2, 256, 64, 1000
    graph = zoo.gpt(layers, width=width, batch_size=4, sequence=length, vocabulary=words).capture()
    size = step_size(graph)
    assert size.tokens == 4 * length
    weights = 12 * layers * width**2 + width * words
    expected = size.tokens * (6 * weights + 6 * layers * width * length)
    assert size.operations == pytest.approx(expected, rel=0.02)


def test_utilisation_counts_all_devices_in_the_dtype_of_the_products():
    graph = zoo.gpt(2, width=256, batch_size=8, sequence=64, vocabulary=512).capture()
    on = cluster("dgx-h100")
    timeline = simulate(graph, data_parallel(graph, on))
    share = timeline.size.utilisation(timeline.makespan, on)
    assert share == pytest.approx(timeline.size.operations / (timeline.makespan * 8 * 67e12))


def test_figures_say_rates_and_prices():
    figures = Figures(time=0.5, memory=1, samples=16, tokens=4096, utilisation=0.4)
    assert (figures.unit, figures.rate(8)) == ("tokens", 1024)
    assert figures.price(3.6, 8) == pytest.approx(1e9 / (4096 / 0.5) * 8 * 3.6 / 3600)
    assert replace(figures, tokens=0).unit == "samples"
    assert Figures.from_json(figures.to_json()) == figures


def test_they_are_in_the_data_of_plans_and_timelines():
    graph = zoo.load("gpt2", small=True).capture()
    frontier = gw.plan(graph, "p5.48xlarge", points=1, baselines=("data",))
    for data in (
        to_dict(frontier.plans[0]),
        to_dict(simulate(graph, data_parallel(graph, "p5.48xlarge"))),
    ):
        assert data["tokens_per_second_per_device"] > 0
        assert 0 < data["model_flops_utilisation"] < 1
        assert data["price_per_billion_tokens"] > 0
