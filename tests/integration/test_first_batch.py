"""Steps without an example, in two real processes: the first batch is captured, whole; later ones may be parts."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphwright as gw
from graphwright.errors import WorkerFailed
from graphwright.partition import data_parallel
from graphwright.run import world
from limits import HANG


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).double()


def make_batches():
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(3, 8, 4, generator=draw, dtype=torch.float64)
    return list(zip(x, torch.randint(3, (3, 8), generator=draw), strict=True))


def make_plan():
    graph = gw.capture(
        make_model(), F.cross_entropy, make_batches()[0], optimizer=torch.optim.SGD, clip_norm=0.1
    )
    return data_parallel(graph, "local:2")


def train(plan, first_is_whole):
    step = gw.compile(plan, make_model(), F.cross_entropy, torch.optim.SGD, clip_norm=0.1)
    losses = []
    for number, (x, t) in enumerate(make_batches()):
        whole = first_is_whole and number == 0
        rows = slice(None) if whole else slice(4 * _rank(), 4 * _rank() + 4)
        losses.append(float(step((x[rows], t[rows]))))
    return losses


def _rank():
    return world().rank


def train_alone():
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters())
    losses = []
    for x, t in make_batches():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), t)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def test_a_whole_first_batch_and_parts_after_it():
    for losses in gw.launch(2, timeout=HANG)(train, make_plan(), True):
        assert losses == pytest.approx(train_alone(), rel=1e-12)


def test_a_part_as_the_first_batch_is_refused_on_every_rank():
    with pytest.raises(
        WorkerFailed, match=r"inputs.0 \[4, 4\].*not this rank's part.*batch=.*graph="
    ):
        gw.launch(2, timeout=HANG)(train, make_plan(), False)
