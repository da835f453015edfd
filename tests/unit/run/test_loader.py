"""Which samples a rank reads."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import Dataset, TensorDataset

import graphwright as gw
from graphwright.partition import replicate
from graphwright.run import World, shard_loader
from graphwright.run.loader import PartSampler, collate


def world_of(rank, size):
    return World(rank=rank, size=size, local_rank=rank, device=torch.device("cpu"), backend="gloo")


def numbers(count):
    return TensorDataset(torch.arange(count))


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_parts_of_all_ranks_are_the_batches_in_order(shuffle, size):
    loaders = [
        shard_loader(numbers(23), world_of(rank, size), batch_size=5, shuffle=shuffle, seed=3)
        for rank in range(size)
    ]
    found = [torch.cat([part for (part,) in parts]) for parts in zip(*loaders, strict=True)]
    assert [len(batch) for batch in found] == [5, 5, 5, 5]
    assert all(len(loader) == 4 for loader in loaders)
    seen = torch.cat(found).tolist()
    assert len(set(seen)) == 20
    assert (seen == list(range(20))) != shuffle


def test_every_epoch_and_seed_has_an_order_of_its_own():
    def order(seed, epoch):
        loader = shard_loader(numbers(64), world_of(0, 1), batch_size=8, shuffle=True, seed=seed)
        loader.set_epoch(epoch)
        return tuple(torch.cat([part for (part,) in loader]).tolist())

    assert order(0, 0) == order(0, 0)
    assert len({order(seed, epoch) for seed in (0, 1) for epoch in (0, 1, 2)}) == 6


def test_a_last_batch_is_dropped_or_filled_up_from_the_beginning():
    whole = PartSampler(7, 4, (0, 4), drop_last=False)
    assert list(whole) == [[0, 1, 2, 3], [4, 5, 6, 0]]
    assert list(PartSampler(7, 4, (2, 4), drop_last=False)) == [[2, 3], [6, 0]]
    assert list(PartSampler(7, 4, (0, 4))) == [[0, 1, 2, 3]]
    assert list(PartSampler(3, 8, (0, 8), drop_last=False)) == [[0, 1, 2, 0, 1, 2, 0, 1]]


class Counting(Dataset):
    """Notes what is read."""

    def __init__(self):
        self.read = []

    def __len__(self):
        return 12

    def __getitem__(self, number):
        self.read.append(number)
        return number


def test_a_rank_reads_no_more_than_its_part():
    dataset = Counting()
    list(shard_loader(dataset, world_of(1, 3), batch_size=6))
    assert dataset.read == [2, 3, 8, 9]


def test_tuples_stay_the_arguments_of_a_model():
    x = torch.ones(2)
    (inputs, targets) = collate([((x, x), {"a": x, "b": [1, 2]})] * 3)
    assert isinstance(inputs, tuple)
    assert [t.shape for t in inputs] == [(3, 2), (3, 2)]
    assert targets["a"].shape == (3, 2)
    assert [t.tolist() for t in targets["b"]] == [[1, 1, 1], [2, 2, 2]]


def test_workers_read_the_same():
    alone = shard_loader(numbers(12), world_of(1, 2), batch_size=4, shuffle=True)
    helped = shard_loader(numbers(12), world_of(1, 2), batch_size=4, shuffle=True, num_workers=1)
    pairs = zip(alone, helped, strict=True)
    assert all(torch.equal(a, b) for (a,), (b,) in pairs)


def test_a_step_knows_its_batch_size_and_trains_on_what_is_loaded():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    dataset = TensorDataset(torch.randn(20, 4), torch.randint(3, (20,)))
    graph = gw.capture(model, F.cross_entropy, dataset[:8], optimizer=torch.optim.SGD)
    step = gw.compile(
        replicate(graph, "local:1"), model, F.cross_entropy, torch.optim.SGD, graph=graph
    )
    loader = shard_loader(dataset, step)
    assert [tuple(x.shape) for x, _ in loader] == [(8, 4), (8, 4)]
    losses = [float(step(batch)) for _ in range(20) for batch in loader]
    assert losses[-1] < losses[1]
