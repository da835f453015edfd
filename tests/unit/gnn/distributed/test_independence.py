"""Models that look across vertices are refused; those that pass along edges are not, nor changed."""

import copy
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import graphwright.gnn as dgl
from gnn_parts import KINDS, MODELS, SIZE, Stack, add_features, gcn, largest_difference
from graphwright.gnn.distributed.training import GraphStore
from graphwright.gnn.distributed.training.independence import check_independence
from graphwright.gnn.nn import GATConv, GraphConv
from graphwright.gnn.storage import NotDistributable

DTYPES = (torch.float32, torch.float64)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def make_graph(dtype, count=300):
    g = dgl.graph((torch.arange(4 * count) * 7 % count, torch.arange(4 * count) // 4))
    return add_features(g, 0, dtype)


def check(model, dtype=torch.float32, modes=(True, False), count=300):
    store = GraphStore.of(make_graph(dtype, count))
    check_independence(model.to(dtype), store, "feat", modes=modes)


class Between(nn.Module):
    """A GCN with something of one's own between its layers."""

    def __init__(self, own, module=None):
        super().__init__()
        self.first, self.last = GraphConv(SIZE, 6), GraphConv(6, KINDS)
        self.own, self.module = own, module

    def forward(self, g, x):
        return self.last(g, F.relu(self.own(self, g, self.first(g, x))))


def pair_norm(m, g, x):
    x = x - x.mean(0)
    return x / x.pow(2).sum(1).mean().sqrt()


ACROSS = {
    "mean": (lambda m, g, x: x - x.mean(0),),
    "pair norm": (pair_norm,),
    "softmax": (lambda m, g, x: torch.softmax(x, 0),),
    "std": (lambda m, g, x: x / x.std(),),
    "norm": (lambda m, g, x: x / x.norm(),),
    "max": (lambda m, g, x: x / x.max(),),
    "gram": (lambda m, g, x: x @ (x.T @ x),),
    "batch_norm": (lambda m, g, x: F.batch_norm(x, None, None, training=True),),
    "batch_norm in training": (
        lambda m, g, x: F.batch_norm(x, x.new_zeros(6), x.new_ones(6), training=m.training),
    ),
    "InstanceNorm1d": (lambda m, g, x: m.module(x[None].mT)[0].mT, nn.InstanceNorm1d(6)),
    "attention": (lambda m, g, x: m.module(x, x, x)[0], nn.MultiheadAttention(6, 2)),
    "GRU": (lambda m, g, x: m.module(x)[0], nn.GRU(6, 6)),
    "Conv1d": (lambda m, g, x: m.module(x.T).T, nn.Conv1d(6, 6, 3, padding=1)),
    "cumsum": (lambda m, g, x: x.cumsum(0),),
    "roll": (lambda m, g, x: x.roll(1, 0),),
    "flip": (lambda m, g, x: x.flip(0),),
    "sort": (lambda m, g, x: x.sort(0).values,),
    "first row": (lambda m, g, x: x + x[0],),
    "arange": (lambda m, g, x: x + torch.arange(len(x))[:, None] / 100,),
    "num_nodes": (lambda m, g, x: x / g.num_nodes(),),
    "num_edges": (lambda m, g, x: x / g.num_edges(),),
    "nodes": (lambda m, g, x: x + g.nodes()[:, None] / 100,),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [60, 300, 5000])
@pytest.mark.parametrize("name", ACROSS)
def test_looking_across_vertices_is_refused(name, count, dtype):
    with pytest.raises(NotDistributable, match="depends on vertices that no edge leads from"):
        check(Between(*ACROSS[name]), dtype, modes=(True,), count=count)


@pytest.mark.parametrize("name", sorted(set(ACROSS) - {"batch_norm in training"}))
def test_looking_across_vertices_is_refused_for_prediction(name):
    with pytest.raises(NotDistributable):
        check(Between(*ACROSS[name]), modes=(False,))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MODELS)
def test_layers_that_pass_along_edges_are_accepted(name, dtype):
    for count in (1, 2, 60, 300):
        check(MODELS[name](), dtype, count=count)


DROPOUT = nn.Sequential(nn.Dropout(0.5), nn.Linear(6, 6), nn.BatchNorm1d(6), nn.LayerNorm(6))


@pytest.mark.parametrize(
    "model",
    [
        Between(lambda m, g, x: m.module(x), DROPOUT),
        Between(lambda m, g, x: F.dropout(x, 0.5, m.training)),
        Between(lambda m, g, x: x + torch.rand_like(x)),
        Between(lambda m, g, x: torch.log(x)),
        Stack(GATConv(SIZE, KINDS, 1, feat_drop=0.5, attn_drop=0.5)),
    ],
)
def test_dropout_and_numbers_that_are_not_finite_are_accepted(model):
    check(model)


def test_dropout_hides_nothing():
    model = Between(lambda m, g, x: F.dropout(x - x.mean(0), 0.5, m.training))
    with pytest.raises(NotDistributable):
        check(model)


def test_zeros_hide_nothing():
    model = Between(lambda m, g, x: x + m.module * x.mean(0), nn.Parameter(torch.zeros(1)))
    with pytest.raises(NotDistributable):
        check(model)


def test_model_graph_and_generator_are_as_before():
    model, g = MODELS["gin"]().eval(), make_graph(torch.float32)
    before, names, drawn = copy.deepcopy(model), set(g.ndata), torch.get_rng_state()
    check_independence(model, GraphStore.of(g), "feat", modes=(True, False))
    assert largest_difference(model, before) == 0
    assert not any(module.training for module in model.modules())
    assert [type(m) for m in model.modules()] == [type(m) for m in before.modules()]
    assert set(g.ndata) == names
    assert torch.equal(torch.get_rng_state(), drawn)


def test_distribute_and_predict_refuse_before_workers_start(monkeypatch):
    g, model = make_graph(torch.float32), Between(*ACROSS["mean"])
    started = []
    module = sys.modules[dgl.distribute.__module__]
    monkeypatch.setattr(module, "_run", lambda *given: started.append(1))
    for call in (dgl.distribute, dgl.predict):
        with pytest.raises(NotDistributable, match="check=False"):
            call(model, g, workers=2)
        assert not started
        for allowed in ({"workers": 2, "check": False}, {"workers": 1}, {}):
            with pytest.raises(TypeError):  # of what stands for results
                call(model, g, **allowed)
            assert started.pop()


def test_a_graph_without_vertices():
    g = dgl.graph(([], []))
    g.ndata["feat"] = torch.zeros(0, SIZE)
    check_independence(gcn(), GraphStore.of(g), "feat", modes=(True,))


class Embedded(nn.Module):
    """Has a row of parameters for each vertex, by its number."""

    def __init__(self, count):
        super().__init__()
        self.rows, self.inner = nn.Embedding(count, SIZE), gcn()

    def forward(self, g, x):
        return self.inner(g, self.rows(g.nodes()))


def test_a_small_graph_is_not_made_larger():
    with pytest.raises(NotDistributable):
        check(Embedded(40), count=40)
