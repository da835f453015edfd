"""Pictures of partitions: every tile is there, in the colour of its device, and what is repeated is drawn once."""

import pytest

from graphwright import zoo
from graphwright.describe import node_splits
from graphwright.errors import GraphFileError, PlanMismatch
from graphwright.ir import TensorType
from graphwright.machine import cluster
from graphwright.partition import data_parallel, random_plan, replicate
from graphwright.plans import Mesh, Sharding, make_plan
from graphwright.report import plot_partition
from graphwright.report.pictures.partition import device_colours, draw_partition, tiles
from graphwright.report.pictures.partition_tensors import DrawnTensor, find_runs

PNG = b"\x89PNG\r\n\x1a\n"
MESH = Mesh(tuple(range(8)), (2, 2, 2))
CONV = ("out", "in", "height", "width")


def part(shape, words, names=("batch", "channel"), mesh=MESH):
    return DrawnTensor(TensorType(shape, "float32"), Sharding(mesh, tuple(words.split())), names)


@pytest.fixture(scope="module")
def gpt():
    return zoo.gpt(4, width=64, heads=2, batch_size=8, sequence=6, vocabulary=11).capture()


@pytest.fixture(scope="module")
def resnet():
    return zoo.load("wresnet-50-2", batch_size=8).capture()


def texts(figure):
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text)]


def test_tiles_are_where_the_sharding_says():
    dims, found, more = tiles(part((8, 6), "S0 S1 R"))
    assert (dims, more) == ((0, 1), "")
    assert {(t.top, t.left): t.owners for t in found} == {
        (0, 0): (0, 1),
        (0, 0.5): (2, 3),
        (0.5, 0): (4, 5),
        (0.5, 0.5): (6, 7),
    }


@pytest.mark.parametrize("words", ["R R R", "S0 S0 S0", "S1 S0 S1", "S0 R S1", "P(sum) S0 R"])
def test_tiles_cover_the_tensor_once(words):
    _, found, _ = tiles(part((9, 7), words))
    assert sum((t.bottom - t.top) * (t.right - t.left) for t in found) == pytest.approx(1)
    assert sorted(d for t in found for d in t.owners) == list(range(8))


def test_a_dim_that_is_split_is_drawn_and_a_third_one_said():
    assert tiles(part((4, 4, 6, 6), "S2 S2 R", CONV))[0] == (0, 2)
    assert tiles(part((4, 4, 6, 6), "S2 S0 R", CONV))[0] == (0, 2)
    dims, found, more = tiles(part((4, 4, 6, 6), "S0 S1 S2", CONV))
    assert dims == (0, 1)
    assert more == "height ÷2"
    assert {t.owners for t in found} == {(0, 1), (2, 3), (4, 5), (6, 7)}
    assert tiles(part((4, 5, 6), "S0 R R", ("batch", "position", "channel")))[0] == (0, 2)
    assert tiles(part((4, 4), "P(sum) R R"))[2] == "terms of a sum"


def test_what_has_one_dim_is_a_strip():
    dims, found, _ = tiles(part((8,), "S0 R R", ("row",)))
    assert dims == (0, 0)
    assert [(t.left, t.right) for t in found] == [(0, 0.5), (0.5, 1)]


def test_fewer_rows_than_parts_leave_parts_empty():
    _, found, _ = tiles(part((2, 6), "S0 S0 R"))
    assert [t.owners for t in found] == [(2, 3), (6, 7)]


def test_equal_layers_are_one_run(gpt):
    runs = find_runs(gpt, data_parallel(gpt, cluster("p2.8xlarge")))
    assert [(run.title, run.count) for run in runs] == [
        ("tokens", 1),
        ("positions", 1),
        ("layers.0 to 3", 4),
    ]
    assert [layer.name for layer in runs[2].layers][:2] == ["attention.query", "attention.key"]
    weight, data = runs[2].layers[4].weight, runs[2].layers[4].data
    assert (weight.type.shape, weight.names) == ((256, 64), ("out", "in"))
    assert data is not None
    assert data.sharding.ways(0) == 8


def test_a_layer_that_is_cut_otherwise_ends_the_run(gpt):
    machine = cluster("p2.8xlarge")
    base = data_parallel(gpt, machine)
    query = next(n for n in gpt.nodes if n.module == "layers.2.attention.query")
    index = node_splits(gpt, query)[0].index
    other = make_plan(gpt, machine, {**base.strategies, query.name: f"{index} - -"})
    titles = [(run.title, run.count) for run in find_runs(gpt, other)]
    assert titles[2:] == [("layers.0 to 1", 2), ("layers.2", 1), ("layers.3", 1)]


def test_blocks_of_a_residual_network_are_tofus(resnet):
    runs = find_runs(resnet, data_parallel(resnet, cluster("p2.8xlarge")))
    assert [(run.title, run.count, len(run.layers)) for run in runs] == [
        ("conv1", 1, 1),
        ("layer1.0", 1, 4),
        ("layer1.1 to 2", 2, 3),
        ("layer2.0", 1, 4),
        ("layer2.1 to 3", 3, 3),
        ("layer3.0", 1, 4),
        ("layer3.1 to 5", 5, 3),
        ("layer4.0", 1, 4),
        ("layer4.1 to 2", 2, 3),
        ("fc", 1, 1),
    ]
    weight, data = runs[1].layers[1].weight, runs[1].layers[1].data
    assert weight.names == CONV
    assert data is not None
    assert data.names == ("batch", "channel", "height", "width")


def test_an_unrolled_weight_is_there_once():
    graph = zoo.load("rnnlm", small=True).capture()
    runs = find_runs(graph, replicate(graph, cluster("p2.8xlarge")))
    assert [run.title for run in runs] == ["embedding", "cells.0 to 1", "output"]
    hidden = runs[1].layers[1]
    assert hidden.name == "hidden"
    assert hidden.data is not None
    assert hidden.data.names[0] == "batch"


def test_colours_are_those_of_the_owners():
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_hex

    graph = zoo.load("mlp", small=True).capture()
    figure = draw_partition(graph, data_parallel(graph, cluster("p2.8xlarge"), 0))
    weights, data = [
        {to_hex(colour) for colour in shapes.get_facecolor()}
        for shapes in figure.findobj(PolyCollection)[:2]
    ]
    assert weights == {"#dcdcdc"}
    assert data <= set(device_colours(8))
    assert len(data) == 8


@pytest.mark.parametrize("count", [1, 2, 8, 16, 64])
def test_every_device_has_a_colour_of_its_own(count):
    assert len(set(device_colours(count))) == count


def test_of_many_weights_the_largest_are_shown(resnet):
    plan = data_parallel(resnet, cluster("p2.8xlarge"))
    words = texts(draw_partition(resnet, plan, num=7))
    assert "layer4.0" in words
    assert "layer1.0" not in words
    assert any("7 of 30 weights shown" in text for text in words)
    assert not any("weights shown" in text for text in texts(draw_partition(resnet, plan)))


def test_the_picture_says_repeats_and_where_it_comes_from(gpt):
    plan = random_plan(gpt, cluster("v100-2x8"), seed=5)
    words = texts(draw_partition(gpt, data_parallel(gpt, cluster("v100-2x8"))))
    assert "×4" in words
    assert "out 256" in words
    caption = next(t for t in texts(draw_partition(gpt, plan)) if "graphwright" in t)
    for part in ("v100-2x8", "random", "seed 5", gpt.hash[:12]):
        assert part in caption


def test_files_are_png_or_svg(gpt, tmp_path):
    plan = data_parallel(gpt, cluster("v100-2x8"))
    plot_partition(gpt, plan, tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(PNG)
    plot_partition(gpt, plan, tmp_path / "p.svg", title="Mine")
    assert "Mine" in (tmp_path / "p.svg").read_text()
    with pytest.raises(GraphFileError, match=r"has to end in \.png or \.svg"):
        plot_partition(gpt, plan, tmp_path / "p.jpg")


def test_a_plan_of_another_graph_is_refused(gpt, tmp_path):
    other = zoo.load("mlp", small=True).capture()
    with pytest.raises(PlanMismatch):
        plot_partition(other, data_parallel(gpt, cluster("v100-2x8")), tmp_path / "p.png")
    assert not list(tmp_path.iterdir())


def test_a_graph_without_weights_is_an_empty_picture(tmp_path):
    import timelines

    graph = timelines.make_graph()
    plot_partition(graph, replicate(graph, cluster("p2.8xlarge")), tmp_path / "p.png")
