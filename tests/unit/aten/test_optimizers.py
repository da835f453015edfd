"""Any first-order optimizer's update becomes part of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, StepLR

import eager
from graphwright import capture
from graphwright.ir import Phase, Role

pytestmark = pytest.mark.filterwarnings("ignore:no description")

OPTIMIZERS: list[tuple[type[torch.optim.Optimizer], dict[str, Any]]] = [
    (torch.optim.SGD, {"lr": 0.1}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    (torch.optim.SGD, {"lr": 0.1, "maximize": True}),
    (torch.optim.Adam, {"lr": 0.01}),
    (torch.optim.Adam, {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1, "foreach": True}),
    (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
    (torch.optim.Adagrad, {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.2}),
    (torch.optim.RMSprop, {"lr": 0.01, "momentum": 0.5, "centered": True}),
    (torch.optim.Adadelta, {"lr": 0.5}),
    (torch.optim.Adamax, {"lr": 0.01}),
    (torch.optim.NAdam, {"lr": 0.01}),
    (torch.optim.NAdam, {"lr": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    (torch.optim.RAdam, {"lr": 0.01, "weight_decay": 0.1}),
    (torch.optim.ASGD, {"lr": 0.01, "weight_decay": 0.1, "t0": 1.0}),
    (torch.optim.Rprop, {"lr": 0.01}),
]


def model_and_batch() -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    return model, (torch.randn(5, 4, dtype=torch.float64), torch.randint(3, (5,)))


@pytest.mark.parametrize(
    ("optimizer", "options"), OPTIMIZERS, ids=lambda value: getattr(value, "__name__", None)
)
def test_optimizer_trains_alike(
    optimizer: type[torch.optim.Optimizer], options: dict[str, Any]
) -> None:
    model, batch = model_and_batch()
    eager.assert_trains_alike(model, F.cross_entropy, batch, optimizer, options)


def test_parameter_groups_keep_their_own_options() -> None:
    model, batch = model_and_batch()

    def make(model: nn.Module) -> torch.optim.Optimizer:
        groups = [
            {"params": list(model[0].parameters()), "lr": 0.5},
            {"params": list(model[2].parameters()), "weight_decay": 0.3},
        ]
        return torch.optim.AdamW(groups, lr=0.01, weight_decay=0.0)

    graph = eager.assert_trains_alike(model, F.cross_entropy, batch, make)
    counters = [name for name in graph.inputs if name.startswith("optimizer.step")]
    assert counters == ["optimizer.step.0", "optimizer.step.1"]


def test_bias_correction_appears_once_for_each_group() -> None:
    model, batch = model_and_batch()
    graph = capture.capture(model, F.cross_entropy, batch, optimizer=torch.optim.Adam)
    powers = [node for node in graph.nodes if node.op == "aten.pow.Scalar"]
    assert sorted(node.attrs["self"] for node in powers) == [0.9, 0.999]
    assert graph.tensors["optimizer.step.0"].type.dtype == "float64"


def test_state_belongs_to_its_parameter_and_updates_know_it() -> None:
    model, batch = model_and_batch()
    graph = capture.capture(model, F.cross_entropy, batch, optimizer=torch.optim.Adam)
    state = graph.tensors["0.weight.exp_avg"]
    assert (state.role, state.of) == (Role.OPTIMIZER_STATE, "0.weight")
    new = graph.tensors["0.weight.exp_avg.new"]
    assert (new.role, new.of) == (Role.OPTIMIZER_STATE, "0.weight.exp_avg")
    assert graph.node("2.bias.new").parameter == "2.bias"
    for node in graph.nodes:
        if node.phase is Phase.UPDATE and node.outputs[0].endswith(".new"):
            owner = (
                node.name.removesuffix(".new").removesuffix(".exp_avg").removesuffix(".exp_avg_sq")
            )
            assert owner in (node.parameter, "optimizer.step.0")


def test_a_running_optimizer_goes_on_from_its_state() -> None:
    model, batch = model_and_batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, dampening=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        F.cross_entropy(model(batch[0]), batch[1]).backward()
        optimizer.step()
    graph = capture.capture(model, F.cross_entropy, batch, optimizer=optimizer)
    values = capture.bind(graph, model, batch, optimizer=optimizer)
    outputs = capture.replay(graph, values)
    optimizer.zero_grad()
    F.cross_entropy(model(batch[0]), batch[1]).backward()
    optimizer.step()
    for name, parameter in model.named_parameters():
        assert eager.difference(outputs[f"{name}.new"], parameter) < 1e-12


def test_capture_leaves_optimizer_and_model_as_they_were() -> None:
    model, batch = model_and_batch()
    model.train(False)
    optimizer = torch.optim.Adam(model.parameters())
    before = [p.clone() for p in model.parameters()]
    random = torch.get_rng_state()
    capture.capture(model, F.cross_entropy, batch, optimizer=optimizer)
    assert not optimizer.state
    assert all(p.grad is None and type(p) is nn.Parameter for p in model.parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert torch.equal(random, torch.get_rng_state())
    assert not model.training
    assert not torch.compiler.is_compiling()


SCHEDULED: list[tuple[type[torch.optim.Optimizer], dict[str, Any]]] = [
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
    (torch.optim.Adam, {"lr": 0.01}),
    (torch.optim.AdamW, {"lr": 0.01, "weight_decay": 0.1}),
    (torch.optim.Adagrad, {"lr": 0.1, "lr_decay": 0.1}),
]

SCHEDULES: dict[str, Callable[[torch.optim.Optimizer], LRScheduler]] = {
    "StepLR": lambda optimizer: StepLR(optimizer, 1, gamma=0.3),
    "LambdaLR": lambda optimizer: LambdaLR(optimizer, lambda step: 1 / (1 + step)),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("kind", "options"), SCHEDULED, ids=lambda v: getattr(v, "__name__", ""))
def test_a_schedule_feeds_the_learning_rate(
    kind: type[torch.optim.Optimizer], options: dict[str, Any], schedule: str
) -> None:
    model, batch = model_and_batch()
    optimizer = kind(model.parameters(), **options)
    scheduler = SCHEDULES[schedule](optimizer)
    graph = capture.capture(model, F.cross_entropy, batch, optimizer=optimizer)
    values = {
        name: tensor.clone()
        for name, tensor in capture.bind(graph, model, batch, optimizer=optimizer).items()
    }
    rates = set()
    for _ in range(3):
        rate = optimizer.param_groups[0]["lr"]
        rates.add(rate)
        values["optimizer.lr.0"] = torch.tensor(rate, dtype=torch.float64)
        values = capture.advance(graph, values, capture.replay(graph, values))
        optimizer.zero_grad()
        F.cross_entropy(model(batch[0]), batch[1]).backward()
        optimizer.step()
        scheduler.step()
        for name, parameter in model.named_parameters():
            assert eager.difference(values[name], parameter) < 1e-12, name
    assert len(rates) == 3
    bound = capture.bind(graph, model, batch, optimizer=optimizer)["optimizer.lr.0"]
    assert bound.item() == optimizer.param_groups[0]["lr"]


def test_learning_rate_is_an_input_that_the_step_keeps() -> None:
    model, batch = model_and_batch()

    def make(model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(
            [
                {"params": list(model[0].parameters()), "lr": 0.5},
                {"params": list(model[2].parameters())},
            ],
            lr=0.01,
        )

    graph = eager.assert_trains_alike(model, F.cross_entropy, batch, make)
    for name in ("optimizer.lr.0", "optimizer.lr.1"):
        tensor = graph.tensors[name]
        assert (tensor.type.shape, tensor.type.dtype) == ((), "float64")
        assert (tensor.role, tensor.of) == (Role.OPTIMIZER_STATE, None)
        assert name in graph.inputs and name not in graph.updates
    updates = [node for node in graph.nodes if node.phase is Phase.UPDATE]
    negations = [node.parameter for node in updates if node.op == "aten.neg"]
    assert negations == ["0.weight", "2.weight"]  # the first parameters that read them
    assert len(updates) == 2 + 4  # and one node for each parameter


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
def test_learning_rate_given_as_a_tensor(kind: type[torch.optim.Optimizer]) -> None:
    model, batch = model_and_batch()
    options = {"lr": torch.tensor(1e-2), "weight_decay": 0.1}
    eager.assert_trains_alike(model, F.cross_entropy, batch, kind, options)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.scale = nn.Parameter(torch.tensor(1.5))

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) * self.scale


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW, torch.optim.Adagrad])
def test_a_parameter_of_no_dims_keeps_its_dtype(kind: type[torch.optim.Optimizer]) -> None:
    torch.manual_seed(0)
    batch = (torch.randn(5, 4), torch.randint(3, (5,)))
    graph = eager.assert_trains_alike(Scaled(), F.cross_entropy, batch, kind, {"lr": 0.1})
    assert graph.tensors["scale.new"].type == graph.tensors["scale"].type


class ReadsItsRate(torch.optim.Optimizer):
    def __init__(self, params: Any, lr: float = 0.1) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad * float(group["lr"]))


def test_a_rate_that_has_to_be_a_number_is_fixed_with_a_warning() -> None:
    model, batch = model_and_batch()
    with pytest.warns(capture.ConstantLearningRate, match=r"ReadsItsRate.*capture again"):
        graph = eager.assert_trains_alike(model, F.cross_entropy, batch, ReadsItsRate)
    assert "optimizer.lr.0" not in graph.inputs
