"""A device that holds less than a pass needs: the same numbers, within the limit, by any way of caching."""

import copy

import pytest
import torch
from torch import nn

import graphwright.gnn as dgl
from gnn_parts import MODELS, add_features, largest_difference, train_in_parts, train_whole
from graphwright.gnn.distributed.cache import CACHING, DeviceCache
from graphwright.gnn.distributed.training import InvalidTraining
from graphwright.memory import check_transfers
from graphwright.plans import MemoryTooSmall

CPU = torch.device("cpu")
PLENTY = 10**9


def make_graph(edges=400):
    return add_features(dgl.data.rmat(6, edges, seed=5), 0, torch.float64)


def caches(memory, caching="least"):
    """A function that makes caches, and the list of those that it has made."""
    made = []

    def make():
        made.append(DeviceCache(memory=memory, device=CPU, caching=caching))
        made[-1].small = 64
        return made[-1]

    return make, made


def train(name, bounds, cache, steps=3):
    torch.manual_seed(1)
    return train_in_parts(MODELS[name]().double(), make_graph(), bounds, steps, cache=cache)


def tight(name, bounds):
    """A tenth more than the least memory in which the passes of all workers run."""
    make, made = caches(PLENTY)
    train(name, bounds, make, steps=2)
    needs = []
    for cache in made:
        known = cache.passes["train"]
        problem = known.problem()
        most = max(
            sum(problem.storages[s].nbytes for s in {*o.reads, *o.makes}) for o in problem.operators
        )
        needs.append(cache.fixed + known.beside + most)
    return int(1.1 * max(needs))


@pytest.mark.parametrize("name", [name for name in MODELS if name != "sage lstm"])
def test_training_in_little_memory_is_training(name):
    g = make_graph()
    torch.manual_seed(1)
    whole = MODELS[name]().double()
    expected = train_whole(whole, g, 3)
    for bounds in ((0, 64), (0, 20, 64)):
        make, made = caches(tight(name, bounds))
        for losses, model in train(name, bounds, make):
            torch.testing.assert_close(losses, expected, rtol=1e-10, atol=1e-10)
            assert largest_difference(model, whole) < 1e-10
        for cache in made:
            assert cache.peak <= cache.room(cache.passes["train"])


@pytest.mark.parametrize("caching", CACHING)
def test_what_is_copied_is_what_was_chosen_but_for_what_is_held_unread(caching):
    bounds = (0, 64)
    make, made = caches(tight("deep residual gcn", bounds), caching)
    train("deep residual gcn", bounds, make, steps=4)
    (cache,) = made
    known = cache.passes["train"]
    problem = known.problem()
    assert check_transfers(problem, cache.room(known), known.chosen) == known.chosen
    lent = sum(known.sizes[s] for s in range(known.lent))
    made_bytes = sum(known.sizes.values()) - lent
    assert known.chosen.bytes_in <= cache.bytes_in <= known.chosen.bytes_in + made_bytes
    assert known.chosen.bytes_out <= cache.bytes_out <= known.chosen.bytes_out + made_bytes


def test_choosing_copies_less_than_the_least_recently_used():
    bounds, moved = (0, 64), {}
    memory = tight("deep residual gcn", bounds)
    for caching in CACHING:
        make, made = caches(memory, caching)
        train("deep residual gcn", bounds, make)
        moved[caching] = made[0].bytes_in + made[0].bytes_out
    assert moved["least"] <= moved["recent"] < moved["nothing"]


class Fickle(nn.Module):
    """Computes something else in every other pass."""

    def __init__(self):
        super().__init__()
        self.fc, self.passes, self.kept = nn.Linear(5, 3), 0, None

    def forward(self, g, x):
        self.passes += 1
        h = self.fc(x)
        if self.passes % 2:
            h = torch.tanh(h) + h
        self.kept = h
        return h * 2


def test_a_pass_that_does_something_else_is_right_as_well():
    g = make_graph()
    torch.manual_seed(1)
    model = Fickle().double()
    whole = copy.deepcopy(model)
    expected = train_whole(whole, g, 6)
    make, _ = caches(60_000)
    ((losses, part),) = train_in_parts(model, g, (0, 64), 6, cache=make)
    torch.testing.assert_close(losses, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(part.kept, whole.kept)


def test_too_little_memory_is_refused_with_numbers():
    make, _ = caches(3000)
    with pytest.raises(MemoryTooSmall, match=r"bytes"):
        train("gcn", (0, 64), make)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"memory": 0}, "give bytes, or a size"),
        ({"memory": "1GB", "caching": "some"}, "it is one of least, recent, nothing"),
        (
            {"memory": "1GB", "sampling": dgl.distributed.Sampling(fanouts=(2,))},
            "smaller mini-batches",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(options, words):
    with pytest.raises(InvalidTraining, match=words):
        dgl.distribute(MODELS["gcn"](), make_graph(), workers=1, epochs=1, **options)
