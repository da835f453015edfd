"""Shapes of curves: what must not grow with the model, counted rather than timed."""

import torch
from torch import nn

from graphwright.capture import capture
from graphwright.describe import node_splits
from graphwright.describe.language.trace import num_traces
from graphwright.ir import to_json, to_text


def step(layers: int, width: int = 8):
    model = nn.Sequential(
        *(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(layers))
    )
    batch = (torch.ones(4, width), torch.ones(4, width))
    return capture(model, nn.functional.mse_loss, batch, optimizer=torch.optim.Adam)


def analyse(graph) -> int:
    for node in graph.nodes:
        node_splits(graph, node)
    return num_traces()


def test_a_deeper_model_needs_no_further_analysis():
    known = analyse(step(2))
    assert analyse(step(12)) == known


def test_a_wider_model_needs_no_further_analysis():
    known = analyse(step(2, width=8))
    assert analyse(step(2, width=24)) == known


def test_nodes_and_written_forms_grow_with_the_layers():
    sizes = []
    for layers in (4, 8, 12):
        graph = step(layers)
        sizes.append((len(graph.nodes), len(to_text(graph)), len(to_json(graph))))
    for one, two, three in zip(*sizes, strict=True):
        assert abs((three - two) - (two - one)) <= 0.1 * (two - one)
