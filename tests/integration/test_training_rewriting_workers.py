"""A rewritten step trains on two workers as the model does on one device."""

import torch

import graphwright as gw
from graphwright.partition import baseline
from graphwright.plans import Plan
from graphwright.report import explain_plan
from graphwright.rewrite import Optimize, apply_passes, rules_of
from limits import HANG
from training_models import Gates


def make():
    torch.manual_seed(0)
    x, y = torch.randn(8, 3, 4).double(), torch.randn(8, 4).double()
    return Gates().double(), nn_loss, (x, y)


def nn_loss(out, target):
    return ((out - target) ** 2).mean()


def train(plan, steps):
    model, loss_fn, batch = make()
    step = gw.compile(plan, model, loss_fn, torch.optim.Adam(model.parameters()))
    return [float(step(batch)) for _ in range(steps)]


def test_two_workers_train_the_rewritten_step(tmp_path):
    model, loss_fn, batch = make()
    graph = gw.capture(model, loss_fn, batch, optimizer=torch.optim.Adam)
    changed = apply_passes(graph, [Optimize()])
    applied = rules_of(changed)
    assert applied is not None and applied.rules and applied.after < applied.before
    plan = baseline("data", changed, "local:2")
    assert [record.name for record in plan.passes] == ["unmerge", "optimize"]
    plan.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json")
    losses = gw.launch(2, timeout=HANG)(train, again, 3)[0]
    optimizer = torch.optim.Adam(model.parameters())
    for loss in losses:
        wanted = loss_fn(model(batch[0]), batch[1])
        assert abs(loss - wanted.item()) < 1e-10
        optimizer.zero_grad()
        wanted.backward()
        optimizer.step()
    assert "rules used" in str(explain_plan(graph, plan).notes)
