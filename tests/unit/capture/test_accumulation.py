"""Gradients accumulated over micro-batches: one graph, equal to the loop that one writes by hand."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import eager
from graphwright import capture
from graphwright.ir import Phase
from graphwright.machine import cluster
from graphwright.partition import coarsen, data_parallel, random_plan
from graphwright.simulate import CostModel, simulate
from threads import largest_difference


class Images(nn.Module):
    """Batch norm keeps statistics of each micro-batch; a block runs again in the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.block = nn.Sequential(nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 8))
        self.fc = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.conv(x))).flatten(1)
        return self.fc(checkpoint(self.block, x, use_reentrant=False))


class Words(nn.Module):
    """Weights used several times: tied, and by a recurrence."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 6)
        self.rnn = nn.LSTM(6, 6, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return (self.rnn(self.table(x))[0] @ self.table.weight.T).transpose(1, 2)


def images() -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    return Images().double(), (torch.randn(12, 2, 4, 4).double(), torch.randint(3, (12,)))


def words() -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    return Words().double(), (torch.randint(11, (12, 4)), torch.randint(11, (12, 4)))


def loop(model: nn.Module, batch: Any, count: int) -> Tensor:
    """The loss of a batch, its gradients left in the parameters."""
    total = torch.zeros((), dtype=torch.float64)
    for x, t in zip(batch[0].chunk(count), batch[1].chunk(count), strict=True):
        loss = F.cross_entropy(model(x), t) / count
        loss.backward()
        total += loss.detach()
    return total


@pytest.mark.parametrize("make", [images, words])
@pytest.mark.parametrize("count", [2, 3, 12])
@pytest.mark.parametrize("clip_norm", [None, 0.05])
def test_training_is_that_of_the_loop(make: Any, count: int, clip_norm: float | None) -> None:
    model, batch = make()
    alone = copy.deepcopy(model)
    options = {"lr": 0.1, "momentum": 0.9}
    graph = capture.capture(
        model, F.cross_entropy, batch, optimizer=torch.optim.SGD, optimizer_options=options,
        accumulate=count, clip_norm=clip_norm,
    )  # fmt: skip
    eager.assert_provenance(graph)
    values = capture.bind(graph, model, batch, optimizer=torch.optim.SGD, optimizer_options=options)
    optimizer = torch.optim.SGD(alone.parameters(), **options)
    for _ in range(2):
        outputs = capture.replay(graph, values)
        values = capture.advance(graph, values, outputs)
        optimizer.zero_grad()
        loss = loop(alone, batch, count)
        if clip_norm is not None:
            nn.utils.clip_grad_norm_(alone.parameters(), clip_norm)
        optimizer.step()
        assert eager.difference(outputs["loss"], loss) < 1e-12
        for name, tensor in (*alone.named_parameters(), *alone.named_buffers()):
            assert eager.difference(values[name], tensor) < 1e-9, name
    if make is images:
        assert int(values["norm.num_batches_tracked"]) == 2 * count


def test_dropout_draws_anew_in_each_micro_batch() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3)).double()
    batch = (torch.randn(6, 4).double(), torch.randint(3, (6,)))
    graph = capture.capture(model, F.cross_entropy, batch, accumulate=3)
    values = capture.bind(graph, model, batch)
    torch.manual_seed(5)
    outputs = capture.replay(graph, values)
    torch.manual_seed(5)
    assert eager.difference(outputs["loss"], loop(model, batch, 3)) < 1e-12
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert eager.difference(outputs[f"{name}.grad"], parameter.grad) < 1e-12


def test_hooks_of_parameters_run_for_each_micro_batch() -> None:
    model = nn.Linear(4, 3).double()
    model.weight.register_hook(lambda grad: grad.clamp(-0.01, 0.01))
    batch = (torch.randn(6, 4).double(), torch.randint(3, (6,)))
    graph = capture.capture(model, F.cross_entropy, batch, accumulate=2)
    eager.assert_provenance(graph)
    outputs = capture.replay(graph, capture.bind(graph, model, batch))
    loop(model, batch, 2)
    assert model.weight.grad is not None
    assert eager.difference(outputs["weight.grad"], model.weight.grad) < 1e-12


def test_samples_may_lie_along_another_dim_and_tensors_may_have_none() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 3)

        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            return self.fc(x * mask)

    model = Masked().double()
    x, mask, t = torch.randn(5, 6, 4).double(), torch.rand(5, 1, 4).double(), torch.randn(6, 5, 3)
    loss_fn = lambda y, t: F.mse_loss(y.transpose(0, 1), t.double())
    graph = capture.capture(
        model, loss_fn, ((x, mask), t), accumulate=2, batch_dim={"inputs.0": 1, "inputs.1": None}
    )
    outputs = capture.replay(graph, capture.bind(graph, model, ((x, mask), t)))
    for a, b in zip(x.chunk(2, 1), t.chunk(2), strict=True):
        (loss_fn(model(a, mask), b) / 2).backward()
    assert model.fc.weight.grad is not None
    assert eager.difference(outputs["fc.weight.grad"], model.fc.weight.grad) < 1e-12


@pytest.mark.parametrize("make", [images, words])
def test_micro_batches_are_split_alike(make: Any) -> None:
    model, batch = make()
    plain = capture.capture(model, F.cross_entropy, batch, optimizer=torch.optim.Adam)
    graph = capture.capture(model, F.cross_entropy, batch, optimizer=torch.optim.Adam, accumulate=4)
    assert len(coarsen(graph).groups) <= len(coarsen(plain).groups) + 1
    products = Counter(
        node.step for node in graph.nodes if node.phase is Phase.FORWARD and node.op == "aten.mm"
    )
    assert len(products) == (16 if make is words else 4)
    assert len(set(products.values())) == 1


def test_activations_of_one_micro_batch_are_held_at_a_time() -> None:
    with torch.device("meta"):
        layers = [m for _ in range(4) for m in (nn.Linear(64, 64), nn.GELU())]
        model, batch = nn.Sequential(*layers), (torch.empty(4096, 64), torch.empty(4096, 64))
    on = cluster("local:2")
    held = {}
    for count in (1, 8):
        graph = capture.capture(
            model, F.mse_loss, batch, optimizer=torch.optim.SGD, accumulate=count
        )
        step = simulate(graph, data_parallel(graph, on), costs=CostModel(measured=False))
        held[count] = step.memory.peak.max()
    data = 2 * 4096 * 64 * 4 // 2
    assert held[8] - data < (held[1] - data) / 4


@pytest.mark.parametrize("make", [images, words])
def test_plans_of_several_devices_do_the_same(make: Any) -> None:
    model, batch = make()
    graph = capture.capture(
        model, F.cross_entropy, batch, optimizer=torch.optim.SGD,
        optimizer_options={"lr": 0.1}, accumulate=3, clip_norm=0.1,
    )  # fmt: skip
    values = capture.bind(
        graph, model, batch, optimizer=torch.optim.SGD, optimizer_options={"lr": 0.1}
    )
    on = cluster("local:3")
    for plan in (data_parallel(graph, on), random_plan(graph, on, seed=1)):
        apart, name = largest_difference(graph, plan, values)
        assert apart < 1e-9, (plan.algorithm, name)
