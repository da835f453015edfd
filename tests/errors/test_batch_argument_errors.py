"""Numbers, flags and words beside the tensors of a batch are part of the graph: others are refused."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

import graphwright as gw
from graphwright.errors import BatchMismatch
from graphwright.lower import lower
from graphwright.partition import layers
from graphwright.plans import make_plan
from graphwright.run.processes import World
from graphwright.run.step.batch import cut_batch

SGD = {"optimizer": torch.optim.SGD, "optimizer_options": {"lr": 0.1}}


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, scale=1.0, how="mean", flags=()):
        out = self.layer(x).square() * scale
        return out.mean() if how == "mean" else out.sum()


def planned(batch):
    model = Scaled()
    graph = gw.capture(model, None, batch, **SGD)
    return model, graph, make_plan(graph, gw.cluster("local:1"), {})


BATCH = {"x": torch.ones(2, 4), "scale": 2.0, "how": "mean", "flags": [True, {"deep": 3}]}
OTHERS = {
    "a number": ({"scale": 3.0}, r"inputs.scale is 3.0, but the step was captured with 2.0"),
    "a word": ({"how": "sum"}, r"inputs.how is 'sum', but the step was captured with 'mean'"),
    "a flag": ({"flags": [False, {"deep": 3}]}, r"inputs.flags.0 is False, .* with True"),
    "inside": ({"flags": [True, {"deep": 4}]}, r"inputs.flags.1.deep is 4, .* with 3"),
    "one more": ({"flags": [True, {"deep": 3}, 5]}, r"flags.2 is 5, .* captured without it"),
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("given", ["batch", "graph"])
def test_other_arguments_are_refused(other, given):
    model, graph, plan = planned(BATCH)
    example = {"batch": BATCH} if given == "batch" else {"graph": graph}
    step = gw.compile(plan, model, None, **SGD, **example)
    expected = model(**BATCH).item()
    assert float(step(BATCH)) == pytest.approx(expected)
    changed, says = OTHERS[other]
    with pytest.raises(BatchMismatch, match=says):
        step({**BATCH, **changed})
    with pytest.raises(BatchMismatch, match=r"inputs.how is left out"):
        step({name: value for name, value in BATCH.items() if name != "how"})
    assert step.num_steps == 1
    step.close()


def test_arguments_are_saved_with_the_graph(tmp_path):
    _, graph, _ = planned(BATCH)
    gw.save(graph, tmp_path / "graph.json")
    assert gw.load(tmp_path / "graph.json").options == graph.options


def test_as_a_tensor_it_may_change():
    model, graph, plan = planned({"x": torch.ones(2, 4), "scale": torch.tensor(2.0)})
    step = gw.compile(plan, model, None, **SGD, graph=graph)
    for scale in (2.0, 3.0):
        batch = {"x": torch.ones(2, 4), "scale": torch.tensor(scale)}
        expected = step.gather()(**batch).item()
        assert float(step(batch)) == pytest.approx(expected)
    step.close()


class Sample(NamedTuple):
    x: Tensor
    scale: float


class TakesSample(Scaled):
    def forward(self, sample):
        return super().forward(sample.x, sample.scale)


def test_a_named_tuple_is_given_to_the_model_as_it_is():
    model, batch = TakesSample(), Sample(torch.ones(2, 4), 2.0)
    graph = gw.capture(model, None, batch, **SGD)
    assert "inputs.x" in graph.inputs
    step = gw.compile(make_plan(graph, gw.cluster("local:1"), {}), model, None, **SGD, batch=batch)
    expected = model(batch).item()
    assert float(step(batch)) == pytest.approx(expected)
    with pytest.raises(BatchMismatch, match=r"inputs.scale is 4.0"):
        step(Sample(torch.ones(2, 4), 4.0))
    step.close()


class TwoLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.second(self.first(x)).square().mean()


def part_of_rank(rank, batch):
    """What a rank takes of a batch, where the first of two layers is on another device."""
    graph = gw.capture(TwoLayers(), None, torch.ones(3, 4), **SGD)
    program = lower(graph, layers(graph, gw.cluster("local:2"))).program(rank)
    here = World(rank=rank, size=2, local_rank=rank, device=torch.device("cpu"), backend="gloo")
    return cut_batch({"inputs.0": batch}, graph, program, here)


def test_a_rank_that_reads_nothing_of_a_batch_refuses_it_as_the_others_do():
    """It would go on alone, and make the step with the next batch of the others."""
    assert part_of_rank(0, torch.ones(3, 4))["inputs.0"].shape == (3, 4)
    assert part_of_rank(1, torch.ones(3, 4)) == part_of_rank(1, torch.ones(0, 4)) == {}
    for rank in range(2):
        with pytest.raises(BatchMismatch, match=r"inputs.0 has shape \[4, 3\]; give the whole"):
            part_of_rank(rank, torch.ones(4, 3))


@pytest.mark.parametrize(
    ("batch", "says"),
    [
        (torch.ones(3, 4, device="meta"), "inputs.0 is on the meta device; give a dense tensor"),
        (torch.ones(3, 4).to_sparse(), "inputs.0 is a torch.sparse_coo tensor; give a dense"),
    ],
)
@pytest.mark.parametrize("rank", range(2))
def test_tensors_without_dense_values_are_refused(rank, batch, says):
    with pytest.raises(BatchMismatch, match=says):
        part_of_rank(rank, batch)
