"""Graphs that can be read but not run: every call is one that PyTorch takes, with its types."""

import json

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

import graphwright as gw
from graphwright import ir
from graphwright.aten import check_calls
from graphwright.cli import app
from graphwright.errors import GraphFileError, InvalidCall, InvalidCluster, InvalidGraph, StoreError
from graphwright.machine import Measurement, Store, from_toml, to_toml
from graphwright.zoo import load


class Turned(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x).permute(1, 0).relu()


@pytest.fixture(scope="module")
def document():
    batch = torch.ones(5, 4), torch.ones(3, 5)
    graph = gw.capture(Turned(), nn.functional.mse_loss, batch, optimizer=torch.optim.SGD)
    return ir.to_json(graph)


@pytest.mark.parametrize("what", [3, None, nn.Linear(2, 2)])
def test_what_is_no_graph_is_not_saved(tmp_path, what):
    with pytest.raises(GraphFileError, match=r"is no graph; gw\.save writes what gw\.capture"):
        gw.save(what, tmp_path / "graph.json")
    assert not list(tmp_path.iterdir())


def first(document, op):
    return next(node for node in document["nodes"] if node["op"] == op)


def permute_out_of_range(document):
    first(document, "aten.permute")["attrs"]["dims"] = [1, 7]


def nothing_to_multiply(document):
    first(document, "aten.mm")["inputs"] = [None]


def too_few(document):
    first(document, "aten.mm")["inputs"].pop()


def another_type(document):
    first(document, "aten.mul.Scalar")["outputs"][0]["type"] = "float32[3, 6]"


def words_for_numbers(document):
    first(document, "aten.permute")["attrs"]["dims"] = "ten"


def no_attribute(document):
    del first(document, "aten.permute")["attrs"]


def another_operator(document):
    first(document, "aten.relu")["op"] = "aten.mm"


CHANGES = [permute_out_of_range, nothing_to_multiply, too_few, another_type, words_for_numbers,
           no_attribute, another_operator]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_node_that_its_operator_does_not_take(document, change, tmp_path):
    changed = json.loads(document)
    change(changed)
    graph = ir.from_json(json.dumps(changed))
    with pytest.raises(InvalidGraph, match=r"node \w+") as caught:
        check_calls(graph)
    assert caught.value.rule == "call"
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(changed))
    for verb in (["plan", path], ["simulate", path], ["profile", path, "--devices", "1,2"]):
        done = CliRunner().invoke(app, [*map(str, verb), "--cluster", "local:2"])
        assert isinstance(done.exception, InvalidGraph), (verb, done.exception)


@pytest.mark.parametrize("change", [permute_out_of_range, nothing_to_multiply, words_for_numbers])
def test_the_planner_says_what_does_not_fit(document, change):
    """Given such a graph itself, without the check that reading one includes."""
    changed = json.loads(document)
    change(changed)
    with pytest.raises(InvalidCall, match="does not fit its description"):
        gw.plan(ir.from_json(json.dumps(changed)), "local:2")


@pytest.mark.parametrize("name", ["lenet", "gpt2", "rnn-2-1k", "bert-base"])
def test_what_capture_makes_passes(name):
    check_calls(load(name, small=True).capture())


def test_an_operator_that_this_pytorch_lacks_is_left_alone(document):
    changed = json.loads(document)
    first(changed, "aten.relu")["op"] = "mylib.relu"
    check_calls(ir.from_json(json.dumps(changed)))


@pytest.mark.parametrize("figure", ["1e300", "1e25", "1e-300", "9" * 400, '"1e30GB/s"'])
def test_figures_that_no_machine_has(figure):
    text = to_toml(gw.cluster("dgx-h100")).replace('"400GB/s"', figure)
    assert figure in text
    with pytest.raises(InvalidCluster, match="bandwidth"):
        from_toml(text)


def test_a_machine_that_takes_hours_for_one_transfer():
    slow = to_toml(gw.cluster("dgx-h100")).replace('"450GB/s"', "1e-9").replace('"3us"', "1e9")
    graph = load("mlp", small=True).capture()
    with pytest.raises(InvalidCluster, match="one computation or transfer would take"):
        gw.plan(graph, from_toml(slow), objective="time")


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("compute", "seconds", "soon"), ("compute", "spread", b"\x00"), ("compute", "repeats", "x"),
        ("compute", "seconds", 9e999), ("compute", "seconds", -1), ("compute", "repeats", 0.5),
        ("collective", "log2_size", "large"), ("collective", "log2_size", 400),
        ("compute", "attrs", b"\xff"), ("collective", "kind", 7.5),
    ],
)  # fmt: skip
def test_a_store_with_other_types(tmp_path, table, column, value):
    import sqlite3
    from contextlib import closing

    store = Store(tmp_path / "costs.sqlite")
    measured = Measurement(seconds=1.0, spread=0.0, repeats=1)
    store.put_compute("cpu", "2", "aten.mm", "", "", measured)
    store.put_collective("hash", "all_reduce", "1x2", 4, measured)
    with closing(sqlite3.connect(store.path)) as database:
        database.execute("PRAGMA ignore_check_constraints = 1")
        database.execute(f"UPDATE {table} SET {column} = ?", (value,))
        database.commit()
    read = {"compute": lambda: store.load_compute("cpu", "2"),
            "collective": lambda: store.load_collective("hash")}  # fmt: skip
    if (table, column, value) == ("collective", "kind", 7.5):  # TEXT columns turn numbers to text
        assert list(read[table]()) == [("7.5", "1x2", 4)]
        return
    with pytest.raises(StoreError):
        read[table]()
