"""Which transfers a rank waits for though nobody reads their results yet."""

import torch
from torch import nn

from graphwright.capture import capture
from graphwright.lower import lower
from graphwright.lower.waiting import UnderWay
from graphwright.machine import cluster
from graphwright.partition import random_plan
from graphwright.plans import Collective, Exchange, Together, Wait, values_made, values_read


def test_what_should_have_ended_is_waited_for_beyond_the_slack():
    under_way = UnderWay(limit=10)
    under_way.begin(0, output=5, nbytes=8, end=100)
    under_way.begin(1, output=6, nbytes=8, end=100)
    under_way.begin(2, output=7, nbytes=99, end=200)
    assert under_way.overdue(now=50) == []
    assert under_way.overdue(now=100) == [0]  # the other one is within the slack
    assert under_way.overdue(now=150) == []
    assert under_way.overdue(now=200) == [1, 2]


def test_whoever_reads_a_result_has_waited():
    under_way = UnderWay(limit=0)
    under_way.begin(0, output=5, nbytes=8, end=100)
    under_way.begin(1, output=None, nbytes=8, end=100)  # sends only
    under_way.read(5)
    assert under_way.overdue(now=100) == [1]


def test_programs_wait_once_for_what_began_before_and_nobody_read():
    layers = [m for _ in range(4) for m in (nn.Linear(256, 256), nn.ReLU())]
    model, batch = nn.Sequential(*layers), (torch.randn(64, 256), torch.randn(64, 256))
    graph = capture(model, nn.functional.mse_loss, batch, optimizer=torch.optim.SGD)
    num_waits = 0
    for seed in range(4):
        lowered = lower(graph, random_plan(graph, cluster("local:2"), seed=seed))
        for rank in range(2):
            begun, read = {}, set()
            for number, i in enumerate(lowered.program(rank).instructions):
                if isinstance(i, Wait):
                    assert read.isdisjoint(begun.pop(i.begun))
                    num_waits += 1
                elif isinstance(i, Collective | Exchange | Together):
                    begun[number] = values_made(i)
                read.update(values_read(i))
    assert num_waits > 10
