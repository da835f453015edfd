"""`gw.compile(..., graph=g)` refuses what the graph was not captured from, as `batch=` does."""

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphwright as gw
from graphwright import ir
from graphwright.errors import InvalidOption, PlanMismatch
from graphwright.plans import make_plan

CLUSTER = gw.cluster("local:1")


def make(activation=nn.Tanh):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), activation(), nn.Linear(5, 3)).double()


def draw():
    return torch.randn(6, 4, dtype=torch.float64), torch.randint(3, (6,))


def planned(model, loss_fn=F.cross_entropy, batch=None, **options):
    graph = gw.capture(model, loss_fn, batch or draw(), **options)
    return graph, make_plan(graph, CLUSTER, {})


def softer(output, targets):
    return F.cross_entropy(output, targets, label_smoothing=0.1)


ADAM = {"optimizer": torch.optim.Adam, "optimizer_options": {"lr": 0.01}}
OTHERS = {
    "model": {"model": make(nn.ReLU)},
    "loss": {"loss_fn": softer},
    "betas": {"optimizer_options": {"betas": (0.5, 0.6)}},
    "decay": {"optimizer_options": {"weight_decay": 0.1}},
    "optimizer": {"optimizer": torch.optim.SGD},
    "none": {"optimizer": None, "optimizer_options": None},
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_the_graph_was_not_captured_from_is_refused(other):
    model = make()
    graph, plan = planned(model, **ADAM)
    given = {"model": model, "loss_fn": F.cross_entropy, **ADAM, **OTHERS[other]}
    with pytest.raises(PlanMismatch, match="not captured from this model, loss and optimizer"):
        gw.compile(plan, graph=graph, **given)
    with pytest.raises(PlanMismatch):
        gw.compile(plan, batch=draw(), **given)


def test_an_instance_with_other_betas():
    model = make()
    graph, plan = planned(model, **ADAM)
    other = torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.5, 0.6))
    with pytest.raises(PlanMismatch, match="betas"):
        gw.compile(plan, model, F.cross_entropy, other, graph=graph)
    same = torch.optim.Adam(model.parameters(), lr=0.5)  # rates are given to each step
    gw.compile(plan, model, F.cross_entropy, same, graph=graph)


def test_who_asks_for_it_is_trusted():
    graph, plan = planned(make(), **ADAM)
    step = gw.compile(plan, make(nn.ReLU), F.cross_entropy, **ADAM, graph=graph, check_graph=False)
    assert step(draw()).isfinite()


def test_a_graph_knows_the_options_that_it_was_captured_with(tmp_path):
    """Also one that was saved, and whatever autocast is on around."""
    for options in (
        {"clip_norm": 0.05},
        {"accumulate": 2},
        {"accumulate": 3, "clip_norm": 1.5, "batch_dim": {"targets.0": 0}},
        {"autocast": torch.bfloat16},
    ):
        model = make().float()
        inputs, targets = draw()
        graph, plan = planned(model, batch=(inputs.float(), targets), **ADAM, **options)
        ir.save(graph, tmp_path / "graph.json")
        read = ir.load(tmp_path / "graph.json")
        assert read.options == graph.options != {}
        for given in (graph, read, copy.copy(graph)):
            gw.compile(plan, model, F.cross_entropy, **ADAM, graph=given)
        with pytest.raises(InvalidOption, match="captured already"):
            gw.compile(plan, model, F.cross_entropy, **ADAM, graph=graph, clip_norm=2.0)
    graph, plan = planned(make(), **ADAM)
    assert graph.options == {}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        gw.compile(plan, make(), F.cross_entropy, **ADAM, graph=graph)


class Several(nn.Module):
    """Takes its inputs by name, nested, and a flag."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, more, flip=None):
        y = self.layer(x) + more[0] * more[1]["z"]
        return y if flip is None else -y


def of_several(output, targets):
    first, second = targets
    return F.mse_loss(output, first) + F.mse_loss(output, second)


def test_batches_of_several_tensors():
    torch.manual_seed(0)
    model, tensors = Several(), torch.randn(5, 6, 4)
    inputs = {"x": tensors[0], "more": (tensors[1], {"z": tensors[2]})}
    targets = tensors[3], tensors[4]
    sgd = {"optimizer": torch.optim.SGD}
    graph, plan = planned(model, of_several, (inputs, targets), **sgd)
    expected = of_several(model(**inputs), targets)
    step = gw.compile(plan, model, of_several, **sgd, graph=graph)
    assert step((inputs, targets)).item() == pytest.approx(expected.item())
    with pytest.raises(PlanMismatch):
        gw.compile(plan, model, lambda o, t: F.mse_loss(o, t[0] + t[1]), **sgd, graph=graph)


class Pair:
    """What no name of a tensor tells of."""

    def __init__(self, factor):
        self.factor = factor


class NeedsPair(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, pair):
        return self.layer(x) * pair.factor


def test_a_batch_that_only_the_first_batch_shows():
    """What cannot be captured from names alone is compared before the first step changes anything."""
    torch.manual_seed(0)
    model, x = NeedsPair(), torch.randn(6, 4)
    sgd = {"optimizer": torch.optim.SGD}
    graph, plan = planned(model, F.mse_loss, ((x, Pair(2.0)), x), **sgd)
    step = gw.compile(plan, model, F.mse_loss, **sgd, graph=graph)
    before = step.values()
    with pytest.raises(PlanMismatch, match="not captured from"):
        step(((x, Pair(3.0)), x))
    assert step.num_steps == 0
    assert all(torch.equal(value, before[name]) for name, value in step.values().items())
    assert step(((x, Pair(2.0)), x)).isfinite()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(((x, Pair(2.0)), x))


class InOrder(nn.Module):
    """Branches in the order of a set, which is another one in every process."""

    def __init__(self, order):
        super().__init__()
        self.order = order
        for name in order:
            self.register_buffer(name, torch.full((4,), float(len(name)), dtype=torch.float64))
        self.last = nn.Linear(4, 3, dtype=torch.float64)

    def forward(self, x):
        branches = {name: x.exp() * getattr(self, name) for name in self.order}
        return self.last(branches["full"] - branches["sliding"])


def test_a_model_that_iterates_over_a_set_is_the_same_in_any_order():
    graph, plan = planned(InOrder(["full", "sliding"]), **ADAM)
    other = InOrder(["sliding", "full"])
    assert gw.capture(other, F.cross_entropy, draw(), **ADAM).hash != graph.hash
    step = gw.compile(plan, other, F.cross_entropy, graph=graph, **ADAM)
    assert torch.isfinite(step(draw()))
    step.close()
