"""An optimizer's update is one operator, with the optimizer's own values."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn, optim

import graphwright as gw
from graphwright.machine import cluster
from graphwright.partition import replicate
from graphwright.rewrite import rejoin

ONE = cluster("local:1")
DECAYED = {"lr": 0.02, "weight_decay": 0.1}
UPDATES: list[tuple[type[optim.Optimizer], dict[str, Any], str]] = [
    (optim.SGD, {**DECAYED, "momentum": 0.9, "nesterov": True}, "sgd"),
    (optim.Adam, {**DECAYED, "maximize": True}, "adam"),
    (optim.AdamW, DECAYED, "adam"),
    (optim.Adagrad, {"foreach": True}, "adagrad"),
    (optim.Adagrad, {"foreach": False, "lr_decay": 0.2}, "adagrad"),
    (optim.Adagrad, {**DECAYED, "lr_decay": 0.1, "initial_accumulator_value": 0.3}, "adagrad"),
    (optim.Adagrad, {**DECAYED, "eps": 0.01, "maximize": True}, "adagrad"),
    (optim.Adagrad, {"lr": 0.1, "fused": True}, "adagrad"),
    (optim.RMSprop, {**DECAYED, "maximize": True}, "rmsprop"),
    (optim.RMSprop, {**DECAYED, "momentum": 0.9, "alpha": 0.9, "eps": 0.01}, "rmsprop_momentum"),
    (optim.Adadelta, {**DECAYED, "rho": 0.8, "maximize": True}, "adadelta"),
    (optim.Adamax, {**DECAYED, "betas": (0.8, 0.9), "maximize": True}, "adamax"),
    (optim.RAdam, {**DECAYED, "maximize": True}, "radam"),
    (optim.RAdam, {**DECAYED, "decoupled_weight_decay": True}, "radam"),
]


def model_and_batch() -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    return model, (torch.randn(5, 4, dtype=torch.float64), torch.randint(3, (5,)))


@pytest.mark.parametrize(
    ("kind", "options", "op"), UPDATES, ids=lambda value: getattr(value, "__name__", None)
)
def test_an_update_is_one_operator_and_trains_as_the_optimizer(
    kind: type[optim.Optimizer], options: dict[str, Any], op: str
) -> None:
    model, batch = model_and_batch()
    loss_fn = nn.CrossEntropyLoss()
    graph = gw.capture(model, loss_fn, batch, optimizer=kind, optimizer_options=options)
    plan = replicate(graph, ONE)
    joined, _ = rejoin(graph, plan)
    updates = [node.op for node in joined.nodes if node.op == f"graphwright.{op}"]
    assert len(updates) == len(list(model.parameters()))
    eager = copy.deepcopy(model)
    optimizer = kind(eager.parameters(), **options)
    step = gw.compile(
        plan, model, loss_fn, kind, batch=batch, graph=graph, optimizer_options=options
    )
    for _ in range(8):  # RAdam changes its rule after five steps
        optimizer.zero_grad()
        loss = loss_fn(eager(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        torch.testing.assert_close(step(batch), loss, rtol=1e-12, atol=1e-13)
    values = step.values()
    for name, parameter in eager.named_parameters():
        torch.testing.assert_close(values[name], parameter.detach(), rtol=1e-11, atol=1e-12)
        for key, state in optimizer.state[parameter].items():
            if state.dim():
                torch.testing.assert_close(values[f"{name}.{key}"], state, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (optim.SGD, {"lr": 0.1}),
        (optim.Adam, {"amsgrad": True}),
        (optim.RMSprop, {"centered": True}),
        (optim.NAdam, {}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_other_rules_stay_in_parts(kind: type[optim.Optimizer], options: dict[str, Any]) -> None:
    model, batch = model_and_batch()
    graph = gw.capture(
        model, nn.CrossEntropyLoss(), batch, optimizer=kind, optimizer_options=options
    )
    joined, _ = rejoin(graph, replicate(graph, ONE))
    own = {f"graphwright.{op}" for _, _, op in UPDATES}
    assert not own & {node.op for node in joined.nodes}
