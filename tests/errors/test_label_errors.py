"""A label or token out of range is refused before the step changes anything."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphwright as gw
from graphwright.errors import BatchMismatch
from graphwright.plans import make_plan
from graphwright.run.step.labels import find_labels
from limits import HANG


class Words(nn.Module):
    def __init__(self, rows=8):
        super().__init__()
        self.table = nn.Embedding(rows, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, tokens):
        return self.head(self.table(tokens))


def planned(model, loss_fn, batch, devices=1, **strategies):
    graph = gw.capture(model, loss_fn, batch, optimizer=torch.optim.SGD)
    return graph, make_plan(graph, gw.cluster(f"local:{devices}"), strategies)


def batch(token=1, label=1):
    return torch.tensor([0, 7, 3, token]), torch.tensor([0, 2, 1, label])


def refused(step, given, match):
    before = {name: value.clone() for name, value in step.values().items()}
    with pytest.raises(BatchMismatch, match=match):
        step(given)
    assert all(torch.equal(value, before[name]) for name, value in step.values().items())
    assert step.num_steps == 0


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (batch(label=3), r"targets.0: 3 is out of range for aten.gather, .*from 3: 0 to 2"),
        (batch(label=-1), r"targets.0: -1 is out of range"),
        (batch(label=-100), None),
        (batch(token=8), r"inputs.0: 8 is out of range for aten.embedding in table, .*from 8"),
        (batch(token=-1), r"inputs.0: -1 is out of range"),
        (batch(), None),
    ],
)
def test_labels_and_tokens(given, match):
    torch.manual_seed(0)
    model = Words()
    _, plan = planned(model, F.cross_entropy, batch())
    step = gw.compile(plan, model, F.cross_entropy, torch.optim.SGD, batch=batch())
    if match is not None:
        refused(step, given, match)
    expected = F.cross_entropy(model(given[0] % 8), given[1]) if match is None else None
    loss = step(batch() if match else given)
    assert loss.isfinite() and step.num_steps == 1
    if expected is not None:
        assert loss.item() == pytest.approx(expected.item())


def test_an_ignored_label_of_ones_own():
    model = Words()
    loss_fn = nn.CrossEntropyLoss(ignore_index=255)
    _, plan = planned(model, loss_fn, batch())
    step = gw.compile(plan, model, loss_fn, torch.optim.SGD, batch=batch())
    assert step(batch(label=255)).isfinite()
    with pytest.raises(BatchMismatch, match="-100 is out of range"):
        step(batch(label=-100))


class Columns(nn.Module):
    """One tensor for two tables: its columns have ranges of their own."""

    def __init__(self):
        super().__init__()
        self.few, self.many = nn.Embedding(2, 4), nn.Embedding(50, 4)

    def forward(self, x):
        return self.few(x[:, 0]) + self.many(x[:, 1]) + self.many.weight[x[:, 2]]


def test_columns_have_ranges_of_their_own():
    model, target = Columns(), torch.zeros(3, 4)
    good = torch.tensor([[1, 49, -50], [0, 7, 49], [1, 0, -1]])
    graph, plan = planned(model, F.mse_loss, (good, target))
    assert sorted(label.lookup.size for label in find_labels(graph)) == [2, 50, 50]
    step = gw.compile(plan, model, F.mse_loss, torch.optim.SGD, batch=(good, target))
    for row, column, value in ((0, 0, 2), (1, 1, 50), (2, 1, -1), (2, 2, -51), (0, 2, 50)):
        bad = good.clone()
        bad[row, column] = value
        refused(step, (bad, target), f"inputs.0: {value} is out of range")
    step((good, target))


def test_what_follows_from_more_than_the_batch_is_left_to_the_kernel():
    class Offset(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(8, 4)
            self.register_buffer("offset", torch.tensor([1, 2, 3, 4]))

        def forward(self, x):
            return self.table(x + self.offset)

    graph, _ = planned(Offset(), F.mse_loss, (torch.zeros(4, dtype=torch.int64), torch.ones(4, 4)))
    assert find_labels(graph) == []


def train(plan, label, in_parts):
    torch.manual_seed(0)
    model = Words()
    step = gw.compile(plan, model, F.cross_entropy, torch.optim.SGD, batch=batch())
    given = batch(label=label)
    if in_parts:
        given = tuple(step.part_of(given).values())
    try:
        step(given)
    except BatchMismatch as error:  # ranks compare before the first step, so all are told
        refused_with = str(error)
    step(batch())  # goes on with what there was
    return refused_with, step.num_steps


@pytest.mark.parametrize("in_parts", [False, True])
def test_on_several_ranks(in_parts):
    graph = gw.capture(Words(), F.cross_entropy, batch(), optimizer=torch.optim.SGD)
    plan = gw.plan(graph, "local:2", baselines=("data",)).others["data"]
    (first, steps), other = gw.launch(2, timeout=HANG)(train, plan, 3, in_parts)
    assert other == (first, steps) and steps == 1
    assert "targets.0: 3 is out of range" in first
