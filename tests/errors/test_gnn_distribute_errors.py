"""What cannot be distributed says why, and what to do instead, before or without waiting for others."""

import pytest
import torch
from torch import nn

import graphwright.gnn as dgl
from gnn_parts import KINDS, SIZE, Stack, add_features, gcn, train_in_parts
from graphwright.errors import WorkerFailed
from graphwright.gnn import function as fn
from graphwright.gnn.distributed import InvalidRanges, InvalidTraining
from graphwright.gnn.distributed.training import GraphStore
from graphwright.gnn.nn import AvgPooling, EdgeWeightNorm
from graphwright.gnn.storage import NotDistributable


def make_graph():
    return add_features(dgl.graph(([0, 1, 2, 3], [1, 2, 3, 0])), 0, torch.float32)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"features": "x"},
            r"no feature 'x' of nodes; it has .*'feat', 'label', 'share', 'train_mask'",
        ),
        ({"masks": {"train": "mine"}}, "no feature 'mine'"),
        ({"masks": {"trian": "train_mask"}}, "no mask 'trian'; .* for train, val, test"),
        ({"partition": "best"}, "no partition 'best'; it is one of learned, edges, vertices"),
        ({"partition": {0: 4}}, r"partition=\{0: 4\}; give one of learned, edges, vertices, or"),
        ({"order": "random"}, "no order 'random'"),
        ({"order": [3, 2, 1, 0]}, r"no order \[3, 2, 1, 0\]"),
        ({"masks": {"train": "feat"}}, r"'feat' is no mask: shape \[4, 5\], torch.float32"),
        ({"masks": {"test": "share"}}, r"'share' is no mask: shape \[4\], torch.float32; give a b"),
        ({"order": torch.tensor([0, 0, 1, 2])}, "has to name each of 4 vertices once"),
        ({"epochs": -1}, "epochs=-1"),
        ({"epochs": 1.5}, r"epochs=1\.5; give a whole number"),
        ({"evaluate_every": True}, "evaluate_every=True"),
        ({"seed": -1}, "seed=-1"),
        ({"workers": "2"}, "workers='2'; give a whole number from 1"),
        ({"masks": ["train_mask"]}, r"masks=\['train_mask'\]"),
        (
            {"graph": None},
            "the graph is a NoneType, and it has to be a DGLGraph; dgl.graph, dgl.from",
        ),
        ({"model": "m"}, "the model is a str, and it has to be a Module"),
        ({"model": Stack(nn.LazyLinear(3))}, "layers.0.weight, layers.0.bias have no size yet"),
        ({"model": nn.Identity()}, "the model has no parameters to train"),
        ({"optimizer": torch.optim.Adam(gcn().parameters())}, "optimizer is a Adam; give a funct"),
        ({"loss": "mse"}, "loss is a str; give a function, as loss=partial"),
        ({"sampling": (10, 10)}, r"sampling=\(10, 10\); give .*Sampling"),
        ({"cost": {}}, "cost is a dict; give trained.cost"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_workers_start(options, message):
    g = make_graph()
    g.ndata["share"] = torch.tensor([0.0, 1.0, 0.5, 1.0])
    with pytest.raises(InvalidTraining, match=message):
        dgl.distribute(**{"model": gcn(), "graph": g, "workers": 2} | options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"graph": None}, "the graph is a NoneType"),
        ({"model": "m"}, "the model is a str"),
        ({"cost": {}}, "cost is a dict"),
        ({"workers": 0}, "workers=0"),
    ],
)
def test_predictions_that_do_not_fit_are_refused_before_workers_start(options, message):
    with pytest.raises(InvalidTraining, match=message):
        dgl.predict(**{"model": gcn(), "graph": make_graph(), "workers": 2} | options)


def test_graphs_of_several_types():
    g = dgl.heterograph({("a", "to", "b"): ([0], [0]), ("b", "to", "a"): ([0], [0])})
    for name in ("feat", "label", "train_mask"):
        g.ndata[name] = {kind: torch.ones(1) for kind in g.ntypes}
    for call in (
        GraphStore.of,
        lambda g: dgl.distribute(gcn(), g),
        lambda g: dgl.predict(gcn(), g),
    ):
        with pytest.raises(NotDistributable, match=r"to_homogeneous"):
            call(g)


class Reading(nn.Module):
    """Does something with a graph and its features."""

    def __init__(self, read):
        super().__init__()
        self.fc, self.read = nn.Linear(SIZE, KINDS), read

    def forward(self, g, x):
        self.read(g, x)
        return self.fc(x)


def pull(g, x):
    g.ndata["x"] = x
    g.pull([0], fn.copy_u("x", "m"), fn.sum("m", "y"))


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda g, x: AvgPooling()(g, x), "a readout was computed over a worker's own vertices"),
        (lambda g, x: EdgeWeightNorm()(g, torch.ones(g.num_edges())), "reduced at their sources"),
        (pull, "along some edges alone"),
    ],
)
def test_what_needs_more_than_a_part(read, message):
    with pytest.raises(NotDistributable, match=message):
        train_in_parts(Reading(read), make_graph(), (0, 2, 4), 1)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: Stack(Reading(lambda g, x: None), nn.Identity()), "takes 1 positional|forward"),
        (lambda: nn.BatchNorm2d(3), "BatchNorm2d, which would see one worker's vertices alone"),
    ],
)
def test_models_that_do_not_fit(model, message):
    with pytest.raises((TypeError, NotDistributable), match=message):
        train_in_parts(model(), make_graph(), (0, 2, 4), 1)


def test_outputs_and_losses_of_another_length():
    class Short(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(SIZE, KINDS)

        def forward(self, g, x):
            return self.fc(x)[:1]

    with pytest.raises(InvalidTraining, match=r"returned \[1, 3\] for 2 vertices"):
        train_in_parts(Short(), make_graph(), (0, 2, 4), 1)


def test_bounds_that_are_no_ranges():
    with pytest.raises(InvalidRanges, match="3 bounds from 0 to 4"):
        dgl.distribute(gcn(), make_graph(), workers=2, partition=(0, 4))
    with pytest.raises(InvalidRanges, match=r"whole numbers. Got \[0, 2.5, 4\]"):
        dgl.distribute(gcn(), make_graph(), workers=2, partition=(0, 2.5, 4))


def test_an_empty_training_mask():
    g = make_graph()
    g.ndata["train_mask"][:] = False
    with pytest.raises(InvalidTraining, match="the training mask is empty"):
        train_in_parts(gcn(), g, (0, 2, 4), 1)
    with pytest.raises(InvalidTraining, match="the training mask is empty"):
        dgl.distribute(gcn(), g, workers=2)


def test_labels_that_the_model_has_no_output_for():
    g = make_graph()
    g.ndata["label"][0] = 7
    message = (
        r"raised IndexError: Target 7 is out of bounds.*labels \[\d\] torch.int64 from \d to 7"
    )
    with pytest.raises(InvalidTraining, match=message):
        train_in_parts(gcn(), g, (0, 4), 1)


def test_what_a_worker_refuses_is_raised_as_what_it_is():
    g = make_graph()
    g.ndata["feat"][2, 1] = float("nan")
    with pytest.raises(
        InvalidTraining, match=r"first loss is nan: .* at 1 of 4 vertices, 2 amo"
    ) as caught:
        dgl.distribute(gcn(), g, workers=2, epochs=1, threads=1)
    assert isinstance(caught.value.__cause__, WorkerFailed)
    assert "of 2 raised" in str(caught.value.__cause__)
