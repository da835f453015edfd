"""Sample, Attribute, Parameter: derived for the nodes of a graph from what the step is given."""

import torch

from graphwright.capture import capture
from graphwright.describe import Soap, node_splits, sample_dims, soap


def classes(graph, node, samples):
    return {split.index: soap(split, node, graph, samples) for split in node_splits(graph, node)}


def step(model, batch):
    return capture(model, torch.nn.functional.mse_loss, batch, optimizer=torch.optim.SGD)


def test_a_linear_layer_forward_and_backward():
    graph = step(torch.nn.Linear(6, 4), (torch.ones(8, 6), torch.ones(8, 4)))
    samples = sample_dims(graph)
    forward, backward = (
        next(n for n in graph.nodes if n.op == "aten.mm" and n.phase == phase)
        for phase in ("forward", "backward")
    )
    assert classes(graph, forward, samples)["i"] is Soap.SAMPLE
    assert classes(graph, backward, samples)["k"] is Soap.SAMPLE


def test_a_convolution_has_all_three_classes():
    model = torch.nn.Conv2d(3, 4, 3, bias=False)
    graph = step(model, (torch.ones(8, 3, 9, 9), torch.ones(8, 4, 7, 7)))
    convolution = next(n for n in graph.nodes if n.op == "aten.convolution")
    found = classes(graph, convolution, sample_dims(graph))
    assert found["b"] is Soap.SAMPLE
    assert found["y0"] is found["y1"] is Soap.ATTRIBUTE
    assert found["co"] is found["ci"] is Soap.PARAMETER


def test_every_update_is_along_parameters():
    graph = step(torch.nn.Linear(6, 4), (torch.ones(8, 6), torch.ones(8, 4)))
    samples = sample_dims(graph)
    for node in graph.nodes:
        if node.phase == "update" and graph.tensors[node.outputs[0]].of == "weight":
            assert set(classes(graph, node, samples).values()) == {Soap.PARAMETER}


def test_time_major_sequences_have_their_samples_in_dim_1():
    class Tagger(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = torch.nn.LSTM(6, 4)

        def forward(self, x):
            return self.lstm(x)[0]

    graph = step(Tagger(), (torch.ones(5, 8, 6), torch.ones(5, 8, 4)))
    samples = sample_dims(graph, batch_dim=1)
    assert samples["inputs.0"] == {1}
    cells = [n for n in graph.nodes if n.op == "aten.sigmoid" and n.phase == "forward"]
    assert cells
    assert all(samples[n.outputs[0]] == {0} for n in cells)
