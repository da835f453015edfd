"""Full-graph training in real processes: exact, in one call or under a launcher, and ends when one is lost."""

import copy
import json
import os
import runpy
import signal
import time
from pathlib import Path

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import graphwright.gnn as dgl
from gnn_parts import MODELS, add_features, gcn, largest_difference, sgd, train_whole
from graphwright import cli
from graphwright.errors import CheckpointNotSaved, InvalidCheckpoint, InvalidModelName, WorkerFailed
from graphwright.gnn.distributed import CostModel, InvalidTraining
from graphwright.run import launch

ROC = ("gcn", "gin", "gat", "sage mean", "sage pool", "commnet", "deep residual gcn")
CUTS = ((0, 290, 300), (0, 0, 120, 300), (0, 3, 3, 250, 300))
STEPS = 5


def make_graph(dtype=torch.float32):
    g = dgl.data.rmat(8, 2500, seed=5)
    g.add_nodes(300 - g.num_nodes())  # without edges
    return add_features(g, 0, dtype)


def make_model(name, dtype=torch.float32):
    torch.manual_seed(1)
    return MODELS[name]().to(dtype)


def train_all(partition):
    """In one of several processes: what becomes of each model, and its losses."""
    made = {}
    for name in ROC:
        model = make_model(name)
        trained = dgl.distribute(
            model, make_graph(), epochs=STEPS, optimizer=sgd, partition=partition
        )
        made[name] = (model, trained.losses, trained.outputs)
    return made


@pytest.mark.parametrize("bounds", CUTS)
def test_models_of_the_paper_train_as_in_one_process(bounds):
    ranks = launch(len(bounds) - 1, threads=1)(train_all, bounds)
    g = make_graph()
    for name in ROC:
        whole = make_model(name)
        expected = train_whole(whole, g, STEPS, sgd)
        outputs = whole.eval()(g, g.ndata["feat"])
        torch.testing.assert_close(ranks[0][name][1], expected, rtol=1e-5, atol=1e-5)
        for made in ranks:
            assert largest_difference(made[name][0], whole) < 1e-5, name
            assert (made[name][2] - outputs).abs().max() < 1e-5 * outputs.abs().max()
        for made in ranks[1:]:
            assert largest_difference(made[name][0], ranks[0][name][0]) == 0, name


def train_what_differs(what):
    """In one of several processes: another model, or another graph, than in the others."""
    torch.manual_seed(int(os.environ["RANK"]) if what == "model" else 0)
    model, g = MODELS["gcn"](), make_graph()
    if what == "graph" and os.environ["RANK"] == "1":
        g.add_edges([0], [1], {"w": torch.ones(1), "kind": torch.zeros(1, dtype=torch.long)})
    dgl.distribute(model, g, epochs=1)


def test_processes_that_made_different_things_are_refused():
    message = r"RanksDiffer: rank 0 has made one model, and rank 1 another model\. Seed random"
    with pytest.raises(WorkerFailed, match=message):
        launch(2, threads=1)(train_what_differs, "model")
    message = (
        r"one graph \(300 v.*, 2,500 edges\), and rank 1 another graph \(300 v.*, 2,501 edges\)"
    )
    with pytest.raises(WorkerFailed, match=message):
        launch(2, threads=1)(train_what_differs, "graph")


def modes_after_training():
    """In one of several processes: which modules train, before and after, of a model in part frozen."""
    model = make_model("gin")
    model.layers[0].eval()
    before = [module.training for module in model.modules()]
    dgl.distribute(model, make_graph(), epochs=1, evaluate_every=1)
    return before, [module.training for module in model.modules()]


def test_modules_are_in_training_mode_as_before():
    for before, after in launch(2, threads=1)(modes_after_training):
        assert True in before
        assert False in before
        assert after == before


def test_one_call_starts_workers_cuts_anew_and_predicts():
    g, seen = make_graph(torch.float64), []
    model = make_model("gcn", torch.float64)
    whole = copy.deepcopy(model)
    expected = train_whole(whole, g, 12, sgd)
    trained = dgl.distribute(
        model, g, workers=2, epochs=12, optimizer=sgd, order="metis", evaluate_every=6,
        threads=1, on_epoch=seen.append,
    )  # fmt: skip
    torch.testing.assert_close(trained.losses, expected, rtol=1e-10, atol=1e-10)
    assert largest_difference(model, whole) < 1e-10
    torch.testing.assert_close(trained.outputs, whole(g, g.ndata["feat"]))
    assert [epoch.number for epoch in seen] == list(range(1, 13))
    assert seen[-1] == trained.epochs[-1]
    right = (trained.outputs.argmax(1) == g.ndata["label"])[g.ndata["train_mask"]]
    assert trained.epochs[-1].accuracy == {"train": pytest.approx(float(right.double().mean()))}
    assert isinstance(trained.cost, CostModel)
    assert len(trained.cost.weights) == 3

    other = add_features(dgl.data.barabasi_albert(200, 3), 1, torch.float64)
    found = dgl.predict(model, other, workers=2, cost=trained.cost, threads=1)
    torch.testing.assert_close(found, model(other, other.ndata["feat"]))


def test_the_command_trains_a_file(tmp_path):
    example = Path(__file__).parents[2] / "examples" / "train_gnn_on_two.py"
    options = ["--workers", "2", "--epochs", "6", "--fanouts", "5,5", "--json"]
    drawn, saved = tmp_path / "accuracy.svg", tmp_path / "model.safetensors"
    files = ["--accuracy-plot", str(drawn), "--save", str(saved)]
    result = CliRunner().invoke(cli.app, ["gnn-train", f"{example}:make", *options, *files])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [epoch["number"] for epoch in found["epochs"]] == [1, 2, 3, 4, 5, 6]
    assert found["workers"] == 2
    assert set(found["epochs"][-1]["accuracy"]) == {"train", "test"}
    assert "Time to accuracy" in drawn.read_text()
    model, g = runpy.run_path(str(example))["make"]()
    model.load_state_dict(dgl.data.load_tensors(str(saved)))
    test = g.ndata["test_mask"].bool()
    right = (model.eval()(g, g.ndata["feat"]).argmax(1) == g.ndata["label"])[test]
    told = found["epochs"][-1]["accuracy"]["test"]
    assert float(right.double().mean()) == pytest.approx(told, abs=0.01)


def make_wrong():
    """A graph with a label that the model has no output for."""
    g = make_graph()
    g.ndata["label"][:] = 7
    return make_model("gcn"), g


def test_the_command_says_what_was_wrong_with_the_file():
    result = CliRunner().invoke(cli.app, ["gnn-train", f"{__file__}:make_wrong", "--workers", "2"])
    assert isinstance(result.exception, InvalidTraining)
    assert "Target 7 is out of bounds" in str(result.exception)
    result = CliRunner().invoke(cli.app, ["gnn-train", f"{__file__}:make_graph", "--workers", "2"])
    assert isinstance(result.exception, InvalidModelName)


class Fatal(nn.Module):
    """Is killed in the third epoch, on rank 1, in the middle of a pass."""

    def __init__(self):
        super().__init__()
        self.inner, self.passes = gcn(), 0

    def forward(self, g, x):
        self.passes += 1
        if self.passes == 3 and os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        return self.inner(g, x)


def test_a_worker_that_is_killed_ends_the_training():
    began = time.monotonic()
    model = Fatal()
    before = copy.deepcopy(model)
    with pytest.raises(WorkerFailed, match=r"rank 1 of 2 was killed by signal 9") as caught:
        dgl.distribute(model, make_graph(), workers=2, epochs=1000, threads=1)
    assert caught.value.rank == 1
    assert largest_difference(model, before) == 0
    assert time.monotonic() - began < 300  # the machine may be busy; without an end it never would


class KilledOnce(nn.Module):
    """Is killed in the middle of its seventh pass, on rank 1, unless that has happened before."""

    def __init__(self, mark):
        super().__init__()
        self.inner, self.passes, self.mark = make_model("gin", torch.float64), 0, str(mark)

    def forward(self, g, x):
        self.passes += 1
        if self.passes == 7 and os.environ.get("RANK") == "1" and not Path(self.mark).exists():
            Path(self.mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.inner(g, x)


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def test_training_goes_on_with_those_that_are_left(tmp_path):
    g, seen = make_graph(torch.float64), []
    model = KilledOnce(tmp_path / "killed")
    whole = copy.deepcopy(model)
    expected = train_whole(whole, g, 10, momentum)
    trained = dgl.distribute(
        model, g, workers=3, epochs=10, optimizer=momentum, threads=1, elastic=True, every=2,
        check=False, on_epoch=seen.append,
    )  # fmt: skip
    assert len(trained.lost) == 1
    assert "rank 1 of 3 was killed by signal 9" in trained.lost[0]
    torch.testing.assert_close(trained.losses, expected, rtol=1e-10, atol=1e-10)
    assert largest_difference(model, whole) < 1e-10
    assert [len(epoch.busy) for epoch in trained.epochs] == [3] * 6 + [2] * 4
    assert [epoch.number for epoch in seen] == list(range(1, 11))
    assert len(trained.bounds) == 3
    times = [epoch.since_start for epoch in trained.epochs]
    assert times == sorted(times)


def test_training_resumes_with_another_number_of_workers(tmp_path):
    g, folder = make_graph(torch.float64), tmp_path / "kept"
    model = make_model("gin", torch.float64)
    whole = copy.deepcopy(model)
    expected = train_whole(whole, g, 9, momentum)
    options = {"optimizer": momentum, "threads": 1, "checkpoint": folder, "every": 2}
    dgl.distribute(copy.deepcopy(model), g, workers=1, epochs=5, **options)
    assert sorted(path.name for path in folder.iterdir()) == ["epoch-000004.pt", "epoch-000005.pt"]
    with pytest.raises(InvalidTraining, match=r"holds checkpoints already.*epoch-000005.*resume"):
        dgl.distribute(model, g, workers=2, epochs=9, **options)
    trained = dgl.distribute(model, g, workers=2, epochs=9, resume=True, **options)
    torch.testing.assert_close(trained.losses, expected, rtol=1e-10, atol=1e-10)
    assert largest_difference(model, whole) < 1e-10
    assert trained.lost == ()

    fewer = add_features(dgl.data.barabasi_albert(200, 3), 1, torch.float64)
    again = {"workers": 2, "epochs": 9, "resume": True, **options}
    with pytest.raises(InvalidCheckpoint, match="is of a graph with 300 vertices"):
        dgl.distribute(model, fewer, **again)
    with pytest.raises(InvalidCheckpoint, match=r"of another model: 'layers.*' has shape"):
        dgl.distribute(make_model("gcn", torch.float64), g, **again)
    (folder / "epoch-000009.pt").write_bytes(b"PK no zip file")
    with pytest.raises(InvalidCheckpoint, match=r"epoch-000009\.pt cannot be read; remove it"):
        dgl.distribute(model, g, **again)


def test_what_cannot_be_kept_or_continued_is_refused(tmp_path):
    g, model = make_graph(), make_model("gcn")
    cases = (
        ({"resume": True}, "resume=True needs the folder"),
        ({"every": 0}, "every=0; give a number of epochs"),
        ({"checkpoint": 3}, "checkpoint=3; give a folder"),
        ({"elastic": True, "partition": (0, 100, 300)}, "is for 2 workers, and elastic"),
    )
    for options, message in cases:
        with pytest.raises(InvalidTraining, match=message):
            dgl.distribute(model, g, workers=2, **options)
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointNotSaved, match="cannot be made"):
        dgl.distribute(model, g, workers=1, epochs=1, checkpoint=tmp_path / "file" / "folder")
