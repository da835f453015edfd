"""Workers with half of the memory that their parts need train as workers with enough, and keep checkpoints."""

import pytest
import torch
from torch import nn

import graphwright as gw
from graphwright.errors import MemoryTooSmall
from graphwright.machine import cluster
from graphwright.partition import data_parallel, random_plan

LOSS = nn.functional.cross_entropy


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.drop, self.head = nn.Dropout(0.2), nn.Linear(8, 5)

    def forward(self, x):
        x = torch.relu(self.norm(self.stem(x)))
        return self.head(self.drop(x).mean((2, 3)))


def make():
    torch.manual_seed(0)
    return Model().double(), (torch.randn(8, 3, 8, 8).double(), torch.randint(0, 5, (8,)))


def plan_of(kind):
    model, batch = make()
    graph = gw.capture(model, LOSS, batch, optimizer=torch.optim.Adam)
    on = cluster("local:2")
    return graph, data_parallel(graph, on) if kind == "data" else random_plan(graph, on, 5)


def train(kind, limit, folder):
    """Three steps, a checkpoint, one more; then the checkpoint and that one again."""
    model, batch = make()
    _, plan = plan_of(kind)
    step = gw.compile(plan, model, LOSS, torch.optim.Adam, batch=batch, memory=limit)
    losses = [float(step(batch)) for _ in range(3)]
    step.save(folder)
    losses.append(float(step(batch)))
    values = {name: value.tolist() for name, value in step.values().items()}
    step.load(folder)
    again = float(step(batch))
    names = sorted(step.state_dict())
    gathered = {name: value.tolist() for name, value in step.gather().named_parameters()}
    assert gathered == {name: values[name] for name in gathered}
    arena = None if step.memory is None else step.memory.plan.arena
    return losses, values, again, names, arena


def refused(limit):
    model, batch = make()
    _, plan = plan_of("data")
    try:
        gw.compile(plan, model, LOSS, torch.optim.Adam, batch=batch, memory=limit)
    except MemoryTooSmall as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", ["data", "random"])
def test_workers_with_half_the_memory_train_exactly(tmp_path, kind):
    graph, plan = plan_of(kind)
    whole = gw.swap(graph, "1GB", partition=plan)
    limit = max(max(whole.needs) // 2, whole.least)
    free = gw.launch(2)(train, kind, None, tmp_path / "free")
    tight = gw.launch(2)(train, kind, limit, tmp_path / "tight")
    for (losses, values, again, names, _), (found, held, repeated, found_names, arena) in zip(
        free, tight, strict=True
    ):
        assert arena <= limit < max(whole.needs)
        assert found == pytest.approx(losses, rel=1e-10)
        assert repeated == found[-1] and again == losses[-1]
        assert found_names == names
        for name, value in values.items():
            torch.testing.assert_close(
                torch.tensor(held[name]), torch.tensor(value), rtol=1e-10, atol=1e-10, msg=name
            )


def test_too_little_memory_is_refused_on_all_workers_before_they_start():
    first, other = gw.launch(2)(refused, "1kB")
    assert first.startswith("rank 0: operator ") and other.startswith("rank 1: operator ")
