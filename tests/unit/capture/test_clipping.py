"""Clipping gradients by their common norm is part of the graph, and splits."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import eager
from graphwright import capture
from graphwright.describe import node_splits
from graphwright.ir import Graph, Phase, Role
from graphwright.machine import cluster
from graphwright.partition import coarsen, data_parallel, random_plan
from threads import largest_difference

OPTIONS = {"lr": 0.5, "momentum": 0.9}


def model_and_batch(dtype: torch.dtype = torch.float64) -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).to(dtype)
    return model, (torch.randn(8, 4, dtype=dtype) * 3, torch.randint(3, (8,)))


def captured(model: nn.Module, batch: Any, clip_norm: float) -> Graph:
    return capture.capture(
        model,
        F.cross_entropy,
        batch,
        optimizer=torch.optim.SGD,
        optimizer_options=OPTIONS,
        clip_norm=clip_norm,
    )


@pytest.mark.parametrize("clip_norm", [0.05, 1000.0], ids=["clipped", "under the bound"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_training_is_that_with_clip_grad_norm(clip_norm: float, dtype: torch.dtype) -> None:
    model, batch = model_and_batch(dtype)
    alone = copy.deepcopy(model)
    optimizer = torch.optim.SGD(alone.parameters(), **OPTIONS)
    graph = captured(model, batch, clip_norm)
    eager.assert_provenance(graph)
    values = capture.bind(graph, model, batch, optimizer=torch.optim.SGD, optimizer_options=OPTIONS)
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 0.05}[dtype]
    for _ in range(3):
        outputs = capture.replay(graph, values)
        values = capture.advance(graph, values, outputs)
        optimizer.zero_grad()
        F.cross_entropy(alone(batch[0]), batch[1]).backward()
        norm = nn.utils.clip_grad_norm_(alone.parameters(), clip_norm)
        optimizer.step()
        assert eager.difference(outputs["grad_norm"], norm) < tolerance
        for name, parameter in alone.named_parameters():
            assert eager.difference(values[name], parameter) < tolerance, name
    assert (float(norm) > clip_norm) == (clip_norm < 1)


def test_gradients_that_are_returned_are_clipped() -> None:
    model, batch = model_and_batch()
    graph = capture.capture(model, F.cross_entropy, batch, clip_norm=0.05)
    outputs = capture.replay(graph, capture.bind(graph, model, batch))
    F.cross_entropy(model(batch[0]), batch[1]).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.05)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert eager.difference(outputs[f"{name}.grad"], parameter.grad) < 1e-12


def test_squares_of_half_precision_do_not_overflow() -> None:
    model = nn.Linear(4, 4, bias=False).half()
    batch = (torch.full((2, 4), 100.0).half(), torch.zeros(2, 4).half())
    graph = capture.capture(model, lambda y, t: (y - t).sum() * 4, batch, clip_norm=1.0)
    outputs = capture.replay(graph, capture.bind(graph, model, batch))
    assert float(outputs["grad_norm"]) == pytest.approx(3200.0)
    assert float(outputs["weight.grad"].float().norm()) == pytest.approx(1.0, rel=1e-2)


class WithScale(nn.Module):
    """A parameter that is one number, one without a gradient, one that is frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.unused = nn.Parameter(torch.ones(3))
        self.frozen = nn.Parameter(torch.ones(4), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) * self.scale * self.frozen


class LossWithWeight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(100.0))

    def forward(self, y: Tensor, t: Tensor) -> Tensor:
        return (self.weight * (y - t) ** 2).mean()


def test_a_loss_with_weights_of_its_own_is_left_alone() -> None:
    torch.manual_seed(0)
    model, loss_fn = WithScale().double(), LossWithWeight().double()
    batch = torch.randn(6, 4).double(), torch.randn(6, 4).double()
    graph = capture.capture(model, loss_fn, batch, clip_norm=0.1)
    outputs = capture.replay(graph, capture.bind(graph, model, batch, loss_fn=loss_fn))
    loss_fn(model(batch[0]), batch[1]).backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    assert eager.difference(outputs["grad_norm"], norm) < 1e-12
    for name in ("fc.weight", "fc.bias", "scale"):
        assert (
            eager.difference(outputs[f"{name}.grad"], model.get_parameter(name).grad) < 1e-12  # type: ignore[arg-type]
        )
    assert eager.difference(outputs["loss_fn.weight.grad"], loss_fn.weight.grad) < 1e-12  # type: ignore[arg-type]


def test_gradients_keep_their_parameter_before_and_after() -> None:
    graph = captured(*model_and_batch(), 1.0)
    for owner in ("0.weight", "0.bias", "2.weight", "2.bias"):
        for name in (f"{owner}.grad", f"{owner}.grad.unclipped"):
            assert (graph.tensors[name].role, graph.tensors[name].of) == (Role.GRADIENT, owner)
    assert graph.node("0.weight.grad.unclipped").phase is Phase.BACKWARD
    assert graph.node("0.weight.grad").phase is Phase.UPDATE


def test_every_operator_on_a_gradient_splits_along_all_its_dims() -> None:
    graph = captured(*model_and_batch(), 1.0)
    readers = [n for n in graph.nodes if "0.weight.grad.unclipped" in n.inputs]
    squares = next(n for n in graph.nodes if n.name in readers[0].outputs)
    total = next(n for n in graph.nodes if squares.name in n.inputs)
    assert total.op.startswith("aten.sum")
    for node in (*readers, total):
        assert len(node_splits(graph, node)) == 2, node


def test_the_norm_adds_nothing_to_the_search() -> None:
    model, batch = model_and_batch()
    plain = capture.capture(model, F.cross_entropy, batch, optimizer=torch.optim.Adam)
    clipped = capture.capture(
        model, F.cross_entropy, batch, optimizer=torch.optim.Adam, clip_norm=1.0
    )
    assert len(coarsen(clipped).groups) == len(coarsen(plain).groups)


def test_parts_on_several_devices_have_one_norm() -> None:
    torch.manual_seed(0)
    model, batch = WithScale().double(), (torch.randn(6, 4).double(), torch.randn(6, 4).double())
    graph = capture.capture(
        model,
        F.mse_loss,
        batch,
        optimizer=torch.optim.SGD,
        optimizer_options=OPTIONS,
        clip_norm=0.1,
    )
    values = capture.bind(graph, model, batch, optimizer=torch.optim.SGD, optimizer_options=OPTIONS)
    on = cluster("local:4")
    for plan in (data_parallel(graph, on), *(random_plan(graph, on, seed=s) for s in range(3))):
        apart, name = largest_difference(graph, plan, values)
        assert apart < 1e-12, (plan.algorithm, name)
