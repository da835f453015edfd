"""Two real processes that each read their part of every batch train as one device does over the same order of samples."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import Dataset

import graphwright as gw
from eager import difference
from graphwright.machine import cluster
from graphwright.partition import data_parallel, replicate
from graphwright.plans import Along, Strategy, make_plan
from graphwright.run import World, shard_loader, world
from limits import HANG

BATCH, EPOCHS = 6, 2
OPTIONS = {"lr": 0.05, "momentum": 0.9}


class Samples(Dataset):
    """Twenty pairs; says how often each was read."""

    def __init__(self):
        draw = torch.Generator().manual_seed(1)
        self.x = torch.randn(20, 4, 6, generator=draw, dtype=torch.float64)
        self.t = torch.randint(3, (20,), generator=draw)
        self.read = [0] * 20

    def __len__(self):
        return 20

    def __getitem__(self, number):
        self.read[number] += 1
        return self.x[number], self.t[number]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)

    def forward(self, x):
        return self.last(torch.tanh(self.norm(self.first(x).mean(1))))


def make_model():
    torch.manual_seed(0)
    return Net().double()


def make_graph():
    x, t = torch.zeros(BATCH, 4, 6).double(), torch.zeros(BATCH, dtype=torch.int64)
    return gw.capture(
        make_model(), F.cross_entropy, (x, t), optimizer=torch.optim.SGD,
        optimizer_options=OPTIONS, accumulate=3, clip_norm=0.5,
    )  # fmt: skip


def train(plan):
    """One rank: losses, parameters and buffers at the end, how many samples were read, and the shapes of a part."""
    dataset = Samples()
    options = {"optimizer_options": OPTIONS}
    step = gw.compile(
        plan, make_model(), F.cross_entropy, torch.optim.SGD, graph=make_graph(), **options
    )
    loader = shard_loader(dataset, step, shuffle=True, seed=7)
    losses, shapes = [], set()
    for epoch in range(EPOCHS):
        loader.set_epoch(epoch)
        for batch in loader:
            shapes.add(tuple(tuple(t.shape) for t in batch))
            losses.append(float(step(batch)))
    state = {name: value.clone() for name, value in step.gather().state_dict().items()}
    return losses, state, sum(dataset.read), shapes


def train_by_world():
    """One rank with parts by its number alone, as without a plan."""
    loader = shard_loader(Samples(), world(), batch_size=BATCH, shuffle=True, seed=7)
    return [t for _, t in loader]


def train_alone():
    here = World(rank=0, size=1, local_rank=0, device=torch.device("cpu"), backend=None)
    loader = shard_loader(Samples(), here, batch_size=BATCH, shuffle=True, seed=7)
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), **OPTIONS)
    losses = []
    for epoch in range(EPOCHS):
        loader.set_epoch(epoch)
        for x, t in loader:
            optimizer.zero_grad()
            parts = [
                F.cross_entropy(model(a), b) / 3
                for a, b in zip(x.chunk(3), t.chunk(3), strict=True)
            ]
            sum(parts).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            losses.append(float(sum(parts).detach()))
    return losses, copy.deepcopy(model.state_dict())


def along_features(graph):
    """Inputs cut along their last dim: every rank needs some of every sample."""
    readers = [node.name for node in graph.nodes if "inputs.0" in node.inputs]
    strategies = dict.fromkeys(readers, Strategy((Along("i2"),)))
    return make_plan(graph, cluster("local:2"), strategies, algorithm="features")


@pytest.mark.parametrize("how", ["data", "replicate", "features"])
def test_training_with_parts_is_training_with_all(how):
    graph = make_graph()
    made = {"data": data_parallel, "replicate": replicate}
    plan = along_features(graph) if how == "features" else made[how](graph, "local:2")
    losses, state = train_alone()
    results = gw.launch(2, timeout=HANG)(train, plan)
    for found, trained, _, _ in results:
        assert found == pytest.approx(losses, rel=1e-9)
        for name, tensor in state.items():
            assert difference(trained[name], tensor) < 1e-9, name
    batches = EPOCHS * (20 // BATCH)
    part = BATCH // 2 if how == "data" else BATCH
    width = 3 if how == "features" else 6
    for _, _, num_read, shapes in results:
        assert num_read == batches * part
        assert shapes == {((part, 4, width), (part,))}


def test_ranks_of_a_world_read_halves():
    found = gw.launch(2, timeout=HANG)(train_by_world)
    dataset = Samples()
    here = World(rank=0, size=1, local_rank=0, device=torch.device("cpu"), backend=None)
    whole = [t for _, t in shard_loader(dataset, here, batch_size=BATCH, shuffle=True, seed=7)]
    for one, other, both in zip(*found, whole, strict=True):
        assert torch.equal(torch.cat([one, other]), both)
