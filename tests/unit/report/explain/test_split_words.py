"""Strategies in words: what is cut, into how many parts, and between which devices."""

import pytest

from graphwright import zoo
from graphwright.machine import cluster
from graphwright.plans import Mesh, Sharding, Strategy, on_one, whole_mesh
from graphwright.report.explain.split_words import Words
from graphwright.tasks import GraphFacts


@pytest.fixture(scope="module")
def lenet():
    return GraphFacts(zoo.load("lenet", small=True).capture())


@pytest.fixture(scope="module")
def gpt():
    return GraphFacts(
        zoo.gpt(2, width=64, heads=2, batch_size=8, sequence=6, vocabulary=11).capture()
    )


def say(facts, name, words, on="v100-2x8", mesh=None):
    strategy = Strategy(tuple(words.split()), mesh)
    return Words(facts, cluster(on)).strategy(facts.position[name], strategy)


@pytest.mark.parametrize(
    ("node", "strategy", "words"),
    [
        ("mm", "i i i i", "batch in 16"),
        ("mm", "- - - -", "every device does all of it"),
        ("mm", "i j j j", "batch in 2 over nodes; columns in 8 within a node"),
        ("mm", "- j j -", "2 copies over nodes; columns in 4, 2 copies within a node"),
        ("mm", "k k k k", "rows in 16 (sums)"),
        ("mm", "i k k k", "batch in 2 over nodes; rows in 8 (sums) within a node"),
        ("mm", "+0 +0 +0 +0", "16 terms passed on"),
        ("convolution_1", "b co co -", "batch in 2 over nodes; output channels in 4, 2 copies within a node"),
        ("convolution_1", "ci y0 y1 d0",
         "input channels in 2 (sums) over nodes; height in 2, width in 2, kernel height in 2 (sums) within a node"),
        ("add_1", "i0 i1 i2 i3", "batch in 2 over nodes; channels in 2, height in 2, width in 2 within a node"),
        ("fc1.weight.new", "i0 i1 - -", "rows in 2 over nodes; columns in 2, 4 copies within a node"),
        ("conv1.weight.new", "i0 - - -", "output channels in 2 over nodes; 8 copies within a node"),
        ("fc1.bias.new", "i0 i0 i0 i0", "elements in 16"),
    ],
)  # fmt: skip
def test_words(lenet, node, strategy, words):
    assert say(lenet, node, strategy) == words


def test_weights_are_known_behind_their_views_and_batches_behind_reductions(gpt):
    query = next(n for n in gpt.graph.nodes if n.module.endswith("attention.query"))
    matmul = next(n for n in gpt.graph.nodes if n.op == "aten.matmul")
    assert query.op == "aten.permute"
    assert say(gpt, matmul.name, "i2 i2", "local:4") == "columns in 4"
    assert say(gpt, matmul.name, "i1 i1", "local:4") == "positions in 4"
    attention = next(n for n in gpt.graph.nodes if "attention" in n.op)
    assert say(gpt, attention.name, "b h", "local:4") == "batch in 2, heads in 2"
    view = next(n for n in gpt.graph.nodes if n.op == "aten.view")
    assert say(gpt, view.name, "i2", "local:2") == "dim 2 in 2"


def test_some_of_the_devices():
    facts = GraphFacts(zoo.load("mlp", small=True).capture())
    words = Words(facts, cluster("v100-2x8"))
    assert words.strategy(1, on_one(3)) == "all of it on device 3"
    pair = Strategy(("i",), Mesh((4, 5), (2,)))
    assert words.strategy(facts.position["mm"], pair) == "batch in 2 on devices 4 to 5"
    apart = Strategy(("-",), Mesh((0, 9), (2,)))
    assert (
        words.strategy(facts.position["mm"], apart) == "every device does all of it on devices 0, 9"
    )


def test_one_device_and_one_level(lenet):
    assert Words(lenet, cluster("local:1")).strategy(0, Strategy(())) == "one device does it"
    assert say(lenet, "mm", "i -", "local:4") == "batch in 2, 2 copies"
    assert say(lenet, "mm", "i i j", "dgx-h100") == "batch in 4, columns in 2"


def test_an_index_that_nobody_knows_is_itself(lenet):
    assert Words(lenet, cluster("local:2")).index(0, "q") == "q"


def test_where_a_parameter_is_stored(lenet):
    words, mesh = Words(lenet, cluster("local:4")), whole_mesh(cluster("local:4"))
    type = lenet.graph.tensors["fc1.weight"].type
    assert words.sharding(Sharding(mesh, ("S0", "S0")), type) == "in 4 by rows"
    assert words.sharding(Sharding(mesh, ("S0", "S1")), type) == "in 2 by rows and in 2 by columns"
    assert words.sharding(Sharding(mesh, ("R", "R")), type) == "whole"
