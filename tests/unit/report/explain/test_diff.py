"""Two plans side by side: their figures, and the operators that they split differently."""

import json
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from graphwright import zoo
from graphwright.errors import PlanMismatch
from graphwright.partition import data_parallel, replicate
from graphwright.plans import Figures
from graphwright.report import diff_plans, show, to_dict


@pytest.fixture(scope="module")
def gpt():
    return zoo.gpt(4, width=64, heads=2, batch_size=8, sequence=6, vocabulary=11).capture()


@pytest.fixture(scope="module")
def both(gpt):
    return data_parallel(gpt, "local:4"), replicate(gpt, "local:4")


def shown(found):
    console = Console(width=120, record=True, file=StringIO())
    show(found, console)
    return " ".join(console.export_text().split())


def test_with_the_graph_operators_go_by_blocks_in_words(gpt, both):
    found = diff_plans(*both, gpt, names=("a.json", "b.json"))
    assert found.num_same + found.num_different == len(gpt.nodes)
    named = {c.module for c in found.changes}
    assert "layers.0 to 2" in named
    change = next(c for c in found.changes if c.module == "layers.0 to 2" and "query" in c.what)
    assert (change.count, change.before, change.after) == (
        3,
        "batch in 4",
        "every device does all of it",
    )
    assert change.nodes
    text = shown(found)
    for words in (
        "layers.0 to 2 ×3",
        "found by",
        "busiest link moves",
        "a.json",
        "optimizer state",
    ):
        assert words in text


def test_every_node_that_differs_is_named(gpt, both):
    first, second = both
    found = diff_plans(first, second)
    names = [n for c in found.changes for n in c.nodes]
    assert len(names) == len(set(names)) == found.num_different
    assert set(names) == {
        n.name for n in gpt.nodes if first.strategy(n.name) != second.strategy(n.name)
    }
    assert "name the model" in shown(found)


def test_plans_that_are_alike(gpt, both):
    found = diff_plans(both[0], both[0], gpt)
    assert found.changes == ()
    assert f"all {len(gpt.nodes)} operators are split alike" in shown(found)


def test_one_operator_that_differs_inside_of_a_group(gpt, both):
    first = both[0]
    node = next(n for n in gpt.nodes if n.op == "aten.permute" and n.phase == "backward")
    second = replace(first, strategies={**first.strategies, node.name: both[1].strategy(node.name)})
    found = diff_plans(first, second, gpt)
    assert found.num_different == 1
    (change,) = found.changes
    assert change.nodes == (node.name,)
    assert change.after == "the same; 1 operators beside it otherwise"


def test_figures_that_are_there_are_kept_and_compared(gpt, both):
    first = replace(both[0], figures=Figures(time=2.0, memory=100, estimate_time=1.0))
    second = replace(both[1], figures=Figures(time=1.0, memory=150, nbytes=5))
    text = shown(diff_plans(first, second))
    for words in ("2 s │ 1 s │ -50%", "100 B │ 150 B │ +50%", "0 B │ 5 B │ new", "1 s │ - │"):
        assert words in text
    assert diff_plans(first, second, gpt).first.figures == first.figures


def test_as_data(gpt, both):
    for graph in (None, gpt):
        found = json.loads(json.dumps(to_dict(diff_plans(*both, graph))))
        assert found["first"]["algorithm"] == "data"
        assert ("time" in found["first"]) == (graph is not None)
        assert found["changes"][0].keys() == {"block", "count", "what", "nodes", "first", "second"}


def test_plans_of_different_graphs_are_refused(gpt, both):
    other = zoo.load("mlp", small=True).capture()
    with pytest.raises(PlanMismatch, match="the plans are for different graphs"):
        diff_plans(both[0], replicate(other, "local:4"))
    with pytest.raises(PlanMismatch, match="was made for graph"):
        diff_plans(*both, other)
