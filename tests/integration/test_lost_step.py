"""A step that fails on one rank only: the others are told at once, and all go on from a checkpoint as if nothing had happened."""

from time import monotonic

import pytest
import torch
from torch import nn

import graphwright as gw
from graphwright.errors import BatchMismatch, StepLost
from graphwright.partition import baseline
from graphwright.run.processes.world import JOIN_SECONDS
from limits import HANG

STEPS = 3


def make():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 10)).double()
    batch = (torch.randn(32, 64).double(), torch.randint(10, (32,)))
    return model, nn.functional.cross_entropy, batch


def break_down(*arguments):
    raise RuntimeError("as a kernel would")


def train(plan, folder, fails):
    model, loss_fn, batch = make()
    step = gw.compile(plan, model, loss_fn, torch.optim.Adam, batch=batch)
    losses = [float(step(batch)) for _ in range(2)]  # they compare before these two
    step.save(folder)
    if fails:
        labels = batch[1].clone()
        if fails == "label":
            labels[-1] = 999  # in the last rank's part, which that rank refuses
        elif step.world.rank == 1:
            step._run, run = break_down, step._run
        begun = monotonic()
        with pytest.raises((BatchMismatch, RuntimeError)):
            step(tuple(step.part_of((batch[0], labels)).values()))
        if fails == "kernel" and step.world.rank == 1:
            step._run = run
        assert monotonic() - begun < JOIN_SECONDS  # nobody waits for a collective's own limit
        with pytest.raises(StepLost):
            step(batch)
        step.load(folder)
    return losses + [float(step(batch)) for _ in range(STEPS)]


def test_all_go_on_from_a_checkpoint(tmp_path):
    model, loss_fn, batch = make()
    graph = gw.capture(model, loss_fn, batch, optimizer=torch.optim.Adam)
    plan = baseline("data", graph, "local:2")
    smooth, *others = [
        gw.launch(2, timeout=HANG)(train, plan, str(tmp_path / fails), fails)
        for fails in ("", "label", "kernel")
    ]
    assert others == [smooth, smooth]
    assert smooth[0][0] > smooth[0][-1]
