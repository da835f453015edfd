"""Plans for the zoo on the machines of the papers: never worse than what others do, and the answers that are known to be good."""

import pytest

import graphwright as gw
from additive import COSTS
from graphwright import zoo
from graphwright.machine import cluster
from graphwright.partition import RECIPES, SYSTEMS, coarsen, least, make_estimate, narrow
from graphwright.plans import figures_of
from graphwright.simulate import simulate
from random_plans import zoo_graph

ALL = (*RECIPES, *SYSTEMS)


def no_worse(frontier, factor=1.0):
    """The baselines that no plan of a frontier matches, in time and memory within a factor."""
    mine = [figures_of(p) for p in frontier]
    return [
        name
        for name, other in frontier.others.items()
        if not any(
            f.time <= figures_of(other).time * factor
            and f.memory <= figures_of(other).memory * factor
            for f in mine
        )
    ]


@pytest.mark.parametrize(
    ("name", "on"),
    [
        ("mlp", "p2.8xlarge"),
        ("mlp", "summit"),
        ("lenet", "v100-2x8"),
        ("alexnet", "dgx-h100"),
        ("rnnlm-2", "summit"),
        ("rnnlm-2", "p2.8xlarge"),
        ("rnn-4-8k", "local:4"),
        ("dlrm", "v100-2x8"),
        ("candle-uno", "local:4"),
        ("candle-uno", "summit"),
        ("gpt2", "summit"),
        ("gpt2", "local:1"),
        ("llama-8b-4", "dgx-h100"),
    ],
)
def test_never_worse_than_any_baseline(name, on):
    found = gw.plan(zoo_graph(name), on, points=4, baselines=ALL, costs=COSTS)
    assert set(found.others) == (set(ALL) if cluster(on).num_devices > 1 else set())
    assert no_worse(found) == []


@pytest.mark.parametrize(
    ("name", "on"),
    [
        ("bert-base", "p2.8xlarge"),
        ("resnet50", "local:4"),
        ("nmt", "summit"),
    ],
)
def test_never_worse_than_what_people_do(name, on):
    found = gw.plan(zoo_graph(name), on, points=2, costs=COSTS)
    one_machine = len({axis.level for axis in cluster(on).axes}) == 1
    between_nodes = {"hsdp", "fsdp-tp"} if one_machine else set()
    for_convolutions = {"one-weird-trick"} if name != "resnet50" else set()
    assert set(found.others) == {*RECIPES, "tofu", "optcnn"} - between_nodes - for_convolutions
    assert no_worse(found) == []


@pytest.fixture(scope="module")
def alexnet():
    return zoo.load("alexnet", batch_size=256).capture()


def test_the_search_alone_keeps_up_with_all_others(alexnet):
    """Without being shown their plans, at the size of the papers."""
    found = gw.plan(alexnet, "p2.8xlarge", points=12, baselines=(), costs=COSTS)
    known = gw.plan(alexnet, "p2.8xlarge", points=1, baselines=ALL, costs=COSTS)
    mine = [figures_of(p) for p in found]
    for name, other in known.others.items():
        its = figures_of(other)
        assert any(f.time <= its.time * 1.03 and f.memory <= its.memory * 1.03 for f in mine), name


def heavy(graph, plan, part):
    """The strategies of the products and convolutions in the modules whose names hold a part."""
    return {
        node.name: plan.strategy(node.name)
        for node in graph.nodes
        if node.phase.value == "forward"
        and part in (node.module or "")
        and node.op in ("aten.mm", "aten.matmul", "aten.convolution", "graphwright.convolution")
    }


@pytest.mark.parametrize(("name", "batch"), [("alexnet", 256), ("vgg16", 64)])
def test_samples_for_convolutions_and_parameters_for_what_is_fully_connected(name, batch):
    """On slow links, as Krizhevsky found by hand."""
    graph = zoo.load(name, batch_size=batch).capture()
    found = gw.plan(
        graph, "p2.8xlarge", points=6, costs=COSTS, baselines=("data", "one-weird-trick")
    )
    fastest = found.fastest()
    convolutions, products = heavy(graph, fastest, "features"), heavy(graph, fastest, "classifier")
    assert len(convolutions) in (5, 13)
    assert len(products) == 3
    assert {str(s) for s in convolutions.values()} == {"b b b"}
    for strategy in products.values():
        assert set(str(strategy).split()) <= {"j", "k"}  # columns or rows of the weight, no samples
    times = {n: figures_of(p).time for n, p in found.others.items()}
    assert figures_of(fastest).time <= times["one-weird-trick"] < times["data"]


def test_data_parallelism_where_it_is_best():
    """Links so fast, and parameters so few, that nothing else pays."""
    graph = zoo.load("resnet50", batch_size=256).capture()
    estimate = narrow(make_estimate(coarsen(graph), cluster("dgx-h100"), COSTS), 64)
    fastest = estimate.plan(least(estimate.problem()), "fastest")
    split = [str(s) for s in heavy(graph, fastest, "layer1").values()]
    assert split
    assert set(split) == {"b b b"}


def test_columns_then_rows_and_heads_within_a_node():
    """Megatron's plan for a wide transformer and a batch that is too small for all devices."""
    graph = zoo.gpt(2, width=4096, batch_size=2, sequence=512, vocabulary=4096).capture()
    found = gw.plan(graph, "dgx-h100", points=6, costs=COSTS)
    smallest = found.smallest()
    for layer in ("layers.0", "layers.1"):
        (expand,) = heavy(graph, smallest, f"{layer}.feed_forward.expand").values()
        (contract,) = heavy(graph, smallest, f"{layer}.feed_forward.contract").values()
        assert str(expand) == "i2 i2 i2"
        assert str(contract) == "k k k"
    attention = [n for n in graph.nodes if "attention" in n.op]
    assert {str(smallest.strategy(n.name)) for n in attention} == {"h h h"}
    data = figures_of(found.others["data"])
    fastest = figures_of(found.fastest())
    assert fastest.time < data.time / 2
    assert fastest.memory < data.memory / 4
    megatron = figures_of(found.others["megatron"])
    assert fastest.time <= megatron.time * 1.001


def test_a_plan_survives_its_file(tmp_path, alexnet):
    found = gw.plan(alexnet, "p2.8xlarge", points=2, baselines=("data",), costs=COSTS)
    found.save(tmp_path / "frontier.json")
    again = gw.Frontier.load(tmp_path / "frontier.json")
    assert again == found
    plan = again.fastest()
    step = simulate(alexnet, plan, costs=COSTS)
    assert step.makespan == pytest.approx(figures_of(plan).time)
