"""Ranks that were given different models, batches or learning rates are refused; nothing else is."""

import pytest
import torch
from torch import nn

import graphwright as gw
from graphwright.errors import RanksDiffer, WorkerFailed
from graphwright.partition import baseline
from graphwright.run import world
from limits import HANG


def make(seed=0):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).double()
    return model, nn.functional.cross_entropy, (torch.randn(12, 6).double(), torch.arange(12) % 3)


def planned(name="data"):
    model, loss_fn, batch = make()
    graph = gw.capture(model, loss_fn, batch, optimizer=torch.optim.SGD)
    return graph, baseline(name, graph, "local:2")


def train(graph, plan, kind, folder):
    rank = world().rank
    model, loss_fn, _ = make(seed=rank if kind in ("model", "loaded") else 0)
    x, y = make()[2]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    step = gw.compile(plan, model, loss_fn, optimizer, graph=graph)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    if kind == "loaded":  # models that were made differently, and a checkpoint over them
        same = gw.compile(plan, make()[0], loss_fn, torch.optim.SGD, graph=graph)
        same((x[rank * 6 : rank * 6 + 6], y[rank * 6 : rank * 6 + 6]))
        same.save(folder)
        step.load(folder)
    if kind == "batch":
        x = x[torch.randperm(12, generator=torch.Generator().manual_seed(rank))]
    part = slice(rank * 6, rank * 6 + 6)
    losses = []
    for _ in range(5):
        losses.append(float(step((x[part], y[part]) if kind == "parts" else (x, y))))
        if kind != "rate" or rank == 0:
            schedule.step()
    return losses


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("model", "rank 1 has a model with other values than rank 0. Call torch.manual_seed"),
        ("batch", "rank 1 was given another inputs.0 than rank 0"),
        ("rate", r"rank 1 has the learning rates {0: 0.5}, and rank 0 has {0: 0.25}"),
    ],
)  # fmt: skip
def test_what_differs_is_named(kind, message, tmp_path):
    with pytest.raises(WorkerFailed) as caught:
        gw.launch(2, timeout=HANG)(train, *planned(), kind, str(tmp_path))
    assert RanksDiffer.__name__ in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize(("kind", "plan"), [("parts", "data"), ("loaded", "data"), ("", "layers")])
def test_what_may_differ_does(kind, plan, tmp_path):
    """Parts of a batch, models that a checkpoint replaces, layers and learning rates that only one rank has."""
    first, second = gw.launch(2, timeout=HANG)(train, *planned(plan), kind, str(tmp_path))
    assert first == second
    assert first[-1] < first[0]
