"""Mixed precision: autocast's casts are part of the graph, wherever it is switched on."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import eager
from graphwright import capture
from graphwright.ir import Graph, Phase
from graphwright.machine import cluster
from graphwright.partition import data_parallel, random_plan
from threads import largest_difference

TOLERANCE = 0.03


def bfloat16() -> AbstractContextManager[Any]:
    return torch.autocast("cpu", dtype=torch.bfloat16)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.groups = nn.GroupNorm(2, 16)
        self.last = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.gelu(self.groups(self.norm(self.first(x)))))


def model_and_batch() -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    return Block(), (torch.randn(8, 8), torch.randint(5, (8,)))


def dtypes(graph: Graph, op: str, phase: Phase) -> set[str]:
    return {
        graph.tensors[n.name].type.dtype for n in graph.nodes if n.op == op and n.phase is phase
    }


def assert_equals_eager(graph: Graph, model: nn.Module, batch: Any, count: int = 1) -> None:
    """Eager as one writes it: forward and loss under autocast, backward and step outside."""
    alone = copy.deepcopy(model)
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.1)
    values = capture.bind(
        graph, model, batch, optimizer=torch.optim.SGD, optimizer_options={"lr": 0.1}
    )
    for _ in range(3):
        outputs = capture.replay(graph, values)
        values = capture.advance(graph, values, outputs)
        optimizer.zero_grad()
        total = torch.zeros(())
        for x, t in zip(batch[0].chunk(count), batch[1].chunk(count), strict=True):
            with bfloat16():
                loss = F.cross_entropy(alone(x), t) / count
            loss.backward()
            total += loss.detach()
        optimizer.step()
        assert eager.difference(outputs["loss"], total) < TOLERANCE
        for name, parameter in alone.named_parameters():
            assert values[name].dtype == torch.float32
            assert eager.difference(values[name], parameter) < TOLERANCE, name


@pytest.mark.parametrize("how", ["around", "given"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_step_in_mixed_precision_is_the_eager_one(how: str, count: int) -> None:
    model, batch = model_and_batch()
    with bfloat16() if how == "around" else nullcontext():
        graph = capture.capture(
            model, F.cross_entropy, batch, optimizer=torch.optim.SGD,
            optimizer_options={"lr": 0.1}, accumulate=count,
            autocast=torch.bfloat16 if how == "given" else None,
        )  # fmt: skip
    eager.assert_provenance(graph)
    assert dtypes(graph, "aten.mm", Phase.FORWARD) == {"bfloat16"}
    assert dtypes(graph, "aten.mm", Phase.BACKWARD) == {"bfloat16"}
    updates = {n for node in graph.nodes if node.phase is Phase.UPDATE for n in node.outputs}
    assert {graph.tensors[n].type.dtype for n in updates} <= {"float32", "float64"}
    assert_equals_eager(graph, model, batch, count)


def test_around_and_given_are_one_graph() -> None:
    model, batch = model_and_batch()
    given = capture.capture(model, F.cross_entropy, batch, autocast=torch.bfloat16)
    with bfloat16():
        around = capture.capture(model, F.cross_entropy, batch)
    assert given.hash == around.hash
    assert given.hash != capture.capture(model, F.cross_entropy, batch).hash


def test_a_loss_may_switch_it_on() -> None:
    def loss_fn(y: Tensor, t: Tensor) -> Tensor:
        with bfloat16():
            return F.mse_loss((y @ y.T).float(), t)

    batch = (torch.randn(6, 8), torch.randn(6, 6))
    graph = eager.assert_trains_alike(
        model_and_batch()[0], loss_fn, batch, torch.optim.SGD, {"lr": 0.01}, tolerance=TOLERANCE
    )
    assert dtypes(graph, "aten.mm", Phase.FORWARD) == {"bfloat16", "float32"}


class ForGraphicsCards(nn.Module):
    """Autocast of another device, switched off in between."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            x = self.fc(x)
            with torch.autocast("cuda", enabled=False):
                x = self.fc(x.float())
            return self.fc(x).float()


def test_autocast_of_another_device_means_the_same() -> None:
    batch = (torch.randn(6, 8), torch.randn(6, 8))
    graph = capture.capture(ForGraphicsCards(), F.mse_loss, batch)
    products = [n for n in graph.nodes if n.op == "aten.mm" and n.phase is Phase.FORWARD]
    found = [graph.tensors[n.name].type.dtype for n in products]
    assert found == ["bfloat16", "float32", "bfloat16"]
    assert not torch.is_autocast_enabled("cpu")
    assert torch.autocast("cpu", enabled=False).device == "cpu"


def test_normalisations_compute_with_one_dtype() -> None:
    """Kernels that take bfloat16 data with float32 weights exist on CPUs only."""
    model, batch = model_and_batch()
    graph = capture.capture(model, F.cross_entropy, batch, autocast=torch.bfloat16)
    for node in graph.nodes:
        if "layer_norm" in node.op:
            read = {graph.tensors[n].type.dtype for n in node.inputs if n is not None}
            assert read == {"float32"}, node


def test_a_graph_has_its_casts_so_replay_adds_none() -> None:
    model, batch = model_and_batch()
    graph = capture.capture(model, F.cross_entropy, batch, optimizer=torch.optim.Adam)
    values = capture.bind(graph, model, batch, optimizer=torch.optim.Adam)
    plain = capture.replay(graph, values)
    with bfloat16():
        under = capture.replay(graph, values)
    assert all(torch.equal(plain[name], under[name]) for name in plain)


def test_inference_in_mixed_precision() -> None:
    model, batch = model_and_batch()
    graph = capture.capture(model, inputs=batch[0], autocast=torch.bfloat16)
    (output,) = capture.replay(graph, capture.bind(graph, model, inputs=batch[0])).values()
    with bfloat16(), torch.no_grad():
        wanted = model(batch[0])
    assert output.dtype == wanted.dtype == torch.bfloat16
    assert eager.difference(output, wanted) < TOLERANCE


def test_parts_on_several_devices_cast_alike() -> None:
    model, batch = model_and_batch()
    graph = capture.capture(
        model, F.cross_entropy, batch, optimizer=torch.optim.SGD,
        optimizer_options={"lr": 0.1}, autocast=torch.bfloat16, clip_norm=0.5, accumulate=2,
    )  # fmt: skip
    values = capture.bind(
        graph, model, batch, optimizer=torch.optim.SGD, optimizer_options={"lr": 0.1}
    )
    on = cluster("local:2")
    for plan in (data_parallel(graph, on), random_plan(graph, on, seed=2)):
        apart, name = largest_difference(graph, plan, values)
        assert apart < TOLERANCE, (plan.algorithm, name)
