"""The example of FlexFlow's figure 3.4, timed by hand: a three-layer RNN of two steps, each layer on devices of its own.

    layer 1, embedding    o1 o2    devices 0, 1    1 s a sample
    layer 2, recurrent    o3 o4    devices 2, 3    2 s a sample; o3 reads o1, o4 reads o2 and o3
    layer 3, linear       o5 o6    devices 4, 5    3 s a sample; o5 reads o3, o6 reads o4

There are two samples, one on each device of a layer. Every pair of devices has a link, over which a sample's 16 bytes take 1 s.
The thesis prints the figure's times in the picture alone, so these are our own.
"""

import pytest

from graphwright.ir import GraphBuilder, Role, TensorType
from graphwright.machine import Cluster, Device, FrozenDict, Level, Link
from graphwright.plans import Along, Mesh, Strategy, make_plan
from graphwright.simulate import Incremental, simulate

SECONDS_PER_SAMPLE = {
    "aten.embedding": 1.0,
    "aten.tanh": 2.0,
    "aten.add.Tensor": 2.0,
    "aten.mm": 3.0,
}
LAYERS = {"o1": 0, "o2": 0, "o3": 2, "o4": 2, "o5": 4, "o6": 4}


class ByHand:
    """Costs in whole seconds: operators by the sample, transfers by the byte."""

    def compute(self, op, attrs, types, device):
        return SECONDS_PER_SAMPLE[op] * types.outputs[0].shape[0]

    def communicate(self, traffic):
        return float((traffic.loads / traffic.cluster.resource_bandwidths[traffic.resources]).max())


@pytest.fixture
def cluster():
    device = Device(
        name="gpu",
        memory=1 << 30,
        rates=FrozenDict({"float32": 1e12}),
        bandwidth=1e12,
        launch=0.0,
    )
    pairs = [(a, b) for a in range(6) for b in range(a)]
    return Cluster(
        name="six",
        levels=(Level(name="gpu", count=6, bandwidth=1.0, latency=0.0),),
        devices=(device,) * 6,
        links=tuple(Link(devices=(b, a), bandwidth=16.0, latency=0.0) for a, b in pairs),
        source="made up",
    )


@pytest.fixture
def graph():
    made = GraphBuilder()
    sample = TensorType((2, 4), "float32")
    words = [
        made.add_input(f"words{step}", TensorType((2,), "int64"), Role.INPUT) for step in (1, 2)
    ]
    table = made.add_input("table", TensorType((10, 4), "float32"), Role.PARAMETER)
    weight = made.add_input("weight", TensorType((4, 4), "float32"), Role.PARAMETER)
    look = {"padding_idx": -1, "scale_grad_by_freq": False, "sparse": False}
    made.add("aten.embedding", (table, words[0]), look, sample, names="o1")
    made.add("aten.embedding", (table, words[1]), look, sample, names="o2")
    made.add("aten.tanh", ("o1",), {}, sample, names="o3")
    made.add("aten.add.Tensor", ("o2", "o3"), {"alpha": 1}, sample, names="o4")
    made.add("aten.mm", ("o3", weight), {}, sample, names="o5")
    made.add("aten.mm", ("o4", weight), {}, sample, names="o6")
    return made.build(("o5", "o6"))


def over_samples(graph, name, first):
    """Sample k on device `first` + k."""
    from graphwright.describe import Concat, node_splits

    split = next(s for s in node_splits(graph, graph.node(name)) if s.joins == (Concat(0),))
    return Strategy((Along(split.index),), Mesh((first, first + 1), (2,)))


def alone(device):
    return Strategy((), Mesh((device,), ()))


def times(timeline):
    """{(what, where): (ready, start, end)} in seconds."""
    tasks, schedule = timeline.tasks, timeline.schedule
    found = {}
    for t in range(len(tasks)):
        used = tasks.resource[tasks.resource_ptr[t] : tasks.resource_ptr[t + 1]]
        name = (
            timeline.graph.nodes[tasks.node[t]].name
            if tasks.kind[t] == 0
            else tasks.labels[tasks.node[t]]
        )
        where = " ".join(tasks.resource_names[r] for r in used)
        moments = (schedule.ready[t], schedule.start[t], schedule.end[t])
        found[name, where] = tuple(int(m) / 1e12 for m in moments)
    return found


MODEL_PARALLEL = {
    ("o1", "gpu 0"): (0, 0, 1),
    ("o1", "gpu 1"): (0, 0, 1),
    ("o2", "gpu 0"): (0, 1, 2),
    ("o2", "gpu 1"): (0, 1, 2),
    ("%o1", "link 0-2"): (1, 1, 2),
    ("%o1", "link 1-3"): (1, 1, 2),
    ("%o2", "link 0-2"): (2, 2, 3),
    ("%o2", "link 1-3"): (2, 2, 3),
    ("o3", "gpu 2"): (2, 2, 4),
    ("o3", "gpu 3"): (2, 2, 4),
    ("o4", "gpu 2"): (4, 4, 6),
    ("o4", "gpu 3"): (4, 4, 6),
    ("%o3", "link 2-4"): (4, 4, 5),
    ("%o3", "link 3-5"): (4, 4, 5),
    ("%o4", "link 2-4"): (6, 6, 7),
    ("%o4", "link 3-5"): (6, 6, 7),
    ("o5", "gpu 4"): (5, 5, 8),
    ("o5", "gpu 5"): (5, 5, 8),
    ("o6", "gpu 4"): (7, 8, 11),  # waits for o5
    ("o6", "gpu 5"): (7, 8, 11),
}

O3_ON_ONE_DEVICE = {
    **{k: v for k, v in MODEL_PARALLEL.items() if k[0] in ("o1", "o2", "%o2")},
    ("%o1", "link 0-2"): (1, 1, 2),
    ("%o1", "link 1-2"): (1, 1, 2),
    ("o3", "gpu 2"): (2, 2, 6),  # both samples
    ("%o3", "link 2-3"): (6, 6, 7),  # to o4's other half
    ("o4", "gpu 2"): (6, 6, 8),
    ("o4", "gpu 3"): (7, 7, 9),
    ("%o3", "link 2-4"): (6, 6, 7),
    ("%o3", "link 2-5"): (6, 6, 7),
    ("%o4", "link 2-4"): (8, 8, 9),
    ("%o4", "link 3-5"): (9, 9, 10),
    ("o5", "gpu 4"): (7, 7, 10),
    ("o5", "gpu 5"): (7, 7, 10),
    ("o6", "gpu 4"): (9, 10, 13),
    ("o6", "gpu 5"): (10, 10, 13),
}

THIRD_LAYER_ON_ONE_DEVICE = {
    **{k: v for k, v in MODEL_PARALLEL.items() if k[0] in ("o1", "o2", "%o1", "%o2", "o3", "o4")},
    ("%o3", "link 2-4"): (4, 4, 5),
    ("%o3", "link 3-4"): (4, 4, 5),
    ("%o4", "link 2-4"): (6, 6, 7),
    ("%o4", "link 3-4"): (6, 6, 7),
    ("o5", "gpu 4"): (5, 5, 11),
    ("o6", "gpu 4"): (7, 11, 17),
}


@pytest.fixture
def strategies(graph):
    return {name: over_samples(graph, name, first) for name, first in LAYERS.items()}


@pytest.mark.parametrize(
    ("changes", "expected", "makespan"),
    [
        ({}, MODEL_PARALLEL, 11),
        ({"o3": alone(2)}, O3_ON_ONE_DEVICE, 13),
        ({"o5": alone(4), "o6": alone(4)}, THIRD_LAYER_ON_ONE_DEVICE, 17),
    ],
    ids=["model parallel", "o3 on one device", "third layer on one device"],
)
def test_full_simulation(graph, cluster, strategies, changes, expected, makespan):
    timeline = simulate(graph, strategies | changes, cluster, costs=ByHand())
    assert times(timeline) == expected
    assert timeline.makespan == makespan


@pytest.mark.parametrize(
    ("changes", "makespan"),
    [({"o3": alone(2)}, 13), ({"o5": alone(4), "o6": alone(4)}, 17)],
    ids=["o3 on one device", "third layer on one device"],
)
def test_delta_simulation(graph, cluster, strategies, changes, makespan):
    run = Incremental(graph, make_plan(graph, cluster, strategies), ByHand())
    assert run.makespan == 11
    assert run.propose(changes) == makespan
    run.reject()
    assert run.makespan == 11
    assert run.propose(changes) == makespan
    run.accept()
    assert run.makespan == makespan
    assert run.propose({name: strategies[name] for name in changes}) == 11


def test_the_critical_path_is_the_chain_of_the_last_layer(graph, cluster, strategies):
    timeline = simulate(graph, strategies, cluster, costs=ByHand())
    names = [step.name for step in timeline.critical_path]
    assert [name.split()[0] for name in names][-2:] == ["o5", "o6"] or "o6" in names[-1]
    assert sum(step.duration for step in timeline.critical_path) == 11
