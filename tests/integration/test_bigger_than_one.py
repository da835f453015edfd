"""A model whose training does not fit into the memory that one worker may have: the system refuses it alone, and it trains on four."""

import resource
import sys

import pytest
import torch
from torch import nn

import graphwright as gw
from graphwright.errors import WorkerFailed
from graphwright.run import world
from limits import HANG

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="RLIMIT_DATA limits memory on Linux only"
)
OPTIMIZER = {"optimizer": torch.optim.Adam, "optimizer_options": {"lr": 1e-4}}
WIDTH, DEPTH = 2048, 20
WEIGHTS = DEPTH * WIDTH * (WIDTH + 1) * 4
CAP = 3 * WEIGHTS
"""Training with Adam keeps four times the weights: parameters, two moments and a gradient."""


def make():
    """The model on the meta device, where it takes no memory, and a batch."""
    with torch.device("meta"):
        layers = [m for _ in range(DEPTH) for m in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    torch.manual_seed(0)
    return nn.Sequential(*layers), (torch.randn(16, WIDTH), torch.randn(16, WIDTH))


def allow(nbytes):
    """From here on, let this process take so many more bytes of private memory, and not one more."""
    with open("/proc/self/status") as file:
        now = next(int(line.split()[1]) << 10 for line in file if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (now + nbytes, now + nbytes))


def capture():
    model, batch = make()
    return gw.capture(model, nn.functional.mse_loss, batch, **OPTIMIZER)


def train(plan, cap):
    model, batch = make()
    graph = capture()  # imports much
    world()
    if cap is not None:
        allow(cap)
    step = gw.compile(plan, model, nn.functional.mse_loss, graph=graph, **OPTIMIZER)
    return [float(step(batch)) for _ in range(3)]


def plan_for(workers):
    graph = capture()
    found = gw.plan(graph, gw.cluster(f"local:{workers}"), objective="memory")
    return found, gw.simulate(graph, found, found.cluster).memory.peak.max()


def test_four_workers_train_what_one_cannot():
    alone, needed = plan_for(1)
    assert needed > CAP
    with pytest.raises(WorkerFailed, match="can't allocate memory"):
        gw.launch(1, timeout=HANG)(train, alone, CAP)
    shared, needed = plan_for(4)
    assert needed < CAP / 2
    ranks = gw.launch(4, timeout=HANG)(train, shared, CAP)
    [losses] = gw.launch(1, timeout=HANG)(train, alone, None)
    assert ranks == [pytest.approx(losses, rel=1e-4)] * 4
