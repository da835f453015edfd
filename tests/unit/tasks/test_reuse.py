"""Which copies are held from the forward pass to the backward pass: bytes and memory, counted by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import graphwright as gw
from graphwright.errors import InvalidStrategy, PlanMismatch
from graphwright.ir import GraphBuilder, Phase, Role, TensorType
from graphwright.machine import Cluster, Device, Level
from graphwright.partition import data_parallel
from graphwright.plans import Sharding, Strategy, make_plan, on_one, whole_mesh
from graphwright.simulate import CostModel, Incremental, simulate
from graphwright.tasks import Expansion, GraphFacts, find_moves

COSTS = CostModel(measured=False)
SIDE = 512
SIZE = SIDE * SIDE * 4
SQUARE = TensorType((SIDE, SIDE), "float32")
BACKWARD = Phase.BACKWARD


def make_cluster(count: int) -> Cluster:
    device = Device(
        name="gpu", memory=1 << 34, rates={"float32": 1e13}, bandwidth=1e12, launch=1e-6
    )
    level = Level(name="gpu", count=count, bandwidth=1e10, latency=1e-6)
    return Cluster(name="made", levels=(level,), devices=(device,) * count)


FOUR, TWO = make_cluster(4), make_cluster(2)


def layers(count: int, update: bool = False):
    """Products with weights, and back again through the same ones."""
    build = GraphBuilder()
    now = build.add_input("x", SQUARE)
    for n in range(count):
        build.add_input(f"w{n}", SQUARE, Role.PARAMETER)
        (now,) = build.add("aten.mm", (now, f"w{n}"), {}, SQUARE, names=f"y{n}")
    for n in reversed(range(count)):
        pair = (now, f"w{n}")
        (now,) = build.add("aten.mm", pair, {}, SQUARE, names=f"g{n}", phase=BACKWARD)
    if not update:
        return build.build((now,))
    add = ("aten.add.Tensor", ("w0", "x"), {"alpha": 1}, SQUARE)
    build.add(*add, names="w0.new", phase=Phase.UPDATE, role=Role.PARAMETER, of="w0")
    return build.build((now, "w0.new"), {"w0": "w0.new"})


def quarters(graph, cluster=FOUR, dim=0):
    """Every parameter in equal parts on all devices."""
    mesh = whole_mesh(cluster)
    split = Sharding(mesh, (f"S{dim}",) * len(mesh.shape))
    tensors = graph.tensors
    return {n: split for n in graph.inputs if tensors[n].role is Role.PARAMETER}


def held(timeline, moment):
    """Bytes on device 0 at a moment in picoseconds."""
    times, curve = timeline.memory.curve(0)
    at = np.searchsorted(times, moment / 1e12, side="right") - 1
    return int(curve[:, at].sum())


def moment_of(timeline, name):
    """The middle of a node's part on device 0."""
    position = [node.name for node in timeline.graph.nodes].index(name)
    tasks, times = timeline.tasks, timeline.schedule
    for t in range(len(tasks)):
        if tasks.kind[t] == 0 and tasks.node[t] == position and tasks.device[t] == 0:
            return (int(times.start[t]) + int(times.end[t])) // 2
    raise AssertionError(name)


def transfers(timeline, label):
    tasks = timeline.tasks
    return [t for t in range(len(tasks)) if tasks.kind[t] and tasks.labels[tasks.node[t]] == label]


# -- before ---------------------------------------------------------------------------------------


def test_parameters_are_gathered_again():
    graph = layers(24)
    inputs = quarters(graph)
    once = simulate(graph, make_plan(graph, FOUR, {}, inputs=inputs), costs=COSTS)
    keep = dict.fromkeys(inputs, "before")
    twice = simulate(graph, make_plan(graph, FOUR, {}, inputs=inputs, keep=keep), costs=COSTS)
    assert once.moved_bytes == 24 * 3 * SIZE
    assert twice.moved_bytes == 2 * once.moved_bytes
    assert len(transfers(twice, "%w3")) == len(transfers(twice, "%w3 again")) > 0
    resting = 24 * SIZE // 4 + SIZE
    assert once.memory.peak[0] > resting + 24 * SIZE
    assert twice.memory.peak[0] < resting + 16 * SIZE
    assert held(twice, moment_of(twice, "y12")) < held(once, moment_of(once, "y12"))


def test_a_gathering_again_waits_for_the_device_to_come_close():
    graph = layers(24)
    inputs = quarters(graph)
    plan = make_plan(graph, FOUR, {}, inputs=inputs, keep=dict.fromkeys(inputs, "before"))
    timeline = simulate(graph, plan, costs=COSTS)
    first = min(int(timeline.schedule.start[t]) for t in transfers(timeline, "%w0 again"))
    assert first > moment_of(timeline, "g8")


def test_a_new_value_waits_for_the_old_one_to_be_gathered_again():
    graph = layers(3, update=True)
    inputs = quarters(graph)
    strategies = {"w0.new": "i0 i0"}
    plan = make_plan(graph, FOUR, strategies, inputs=inputs, keep={"w0": "before"})
    timeline = simulate(graph, plan, costs=COSTS)
    sent = max(int(timeline.schedule.end[t]) for t in transfers(timeline, "%w0 again"))
    assert moment_of(timeline, "w0.new") > sent


def test_what_is_made_is_moved_when_it_is_read_late():
    """x -> a on device 0; b reads it on 1 at once, and c there much later."""
    build = GraphBuilder()
    x = build.add_input("x", SQUARE)
    build.add("aten.relu", (x,), {}, SQUARE, names="a")
    (last,) = build.add("aten.relu", ("a",), {}, SQUARE, names="b")
    for n in range(10):
        (last,) = build.add("aten.relu", (last,), {}, SQUARE, names=f"z{n}")
    build.add("aten.mul.Tensor", ("a", last), {}, SQUARE, names="c", phase=BACKWARD)
    graph = build.build(("c",))
    strategies = {node.name: on_one(1) for node in graph.nodes} | {"a": on_one(0)}
    both = simulate(graph, make_plan(graph, TWO, strategies), costs=COSTS)
    keep = {"a": "before"}
    again = simulate(graph, make_plan(graph, TWO, strategies, keep=keep), costs=COSTS)
    assert (both.moved_bytes, again.moved_bytes) == (SIZE, 2 * SIZE)
    devices = [int(n) for n in again.memory.peak]
    assert devices == [
        2 * SIZE,
        2 * SIZE,
    ]  # x and a; z9, written over z8, with a in its second turn
    assert [int(n) for n in both.memory.peak] == [2 * SIZE, 2 * SIZE]


def test_late_readers_of_a_view_bring_back_what_it_shows():
    build = GraphBuilder()
    x, w = build.add_input("x", SQUARE), build.add_input("w", SQUARE, Role.PARAMETER)
    build.add("aten.permute", (w,), {"dims": (1, 0)}, SQUARE, names="t")
    (last,) = build.add("aten.mm", (x, "t"), {}, SQUARE, names="y")
    for n in range(12):
        (last,) = build.add("aten.relu", (last,), {}, SQUARE, names=f"z{n}")
    build.add("aten.mm", (last, "t"), {}, SQUARE, names="g", phase=BACKWARD)
    graph = build.build(("g",))
    inputs = quarters(graph)
    once = simulate(graph, make_plan(graph, FOUR, {}, inputs=inputs), costs=COSTS)
    plan = make_plan(graph, FOUR, {}, inputs=inputs, keep={"w": "before"})
    twice = simulate(graph, plan, costs=COSTS)
    assert twice.moved_bytes == 2 * once.moved_bytes
    assert held(once, moment_of(once, "z2")) - held(twice, moment_of(twice, "z2")) == SIZE
    # the view may also follow the parameter, and be moved itself
    follows = {"t": "i1 i1"}
    once = simulate(graph, make_plan(graph, FOUR, follows, inputs=inputs), costs=COSTS)
    plan = make_plan(graph, FOUR, follows, inputs=inputs, keep={"t": "before"})
    twice = simulate(graph, plan, costs=COSTS)
    assert twice.moved_bytes == 2 * once.moved_bytes > 0
    assert held(once, moment_of(once, "z2")) - held(twice, moment_of(twice, "z2")) == SIZE


def test_views_of_inputs_are_fetched_like_inputs():
    """Not all at the beginning of the step."""
    build = GraphBuilder()
    last = build.add_input("x", SQUARE)
    for n in range(24):
        build.add_input(f"w{n}", SQUARE, Role.PARAMETER)
        build.add("aten.permute", (f"w{n}",), {"dims": (1, 0)}, SQUARE, names=f"t{n}")
        (last,) = build.add("aten.mm", (last, f"t{n}"), {}, SQUARE, names=f"y{n}")
    graph = build.build((last,))
    follows = {f"t{n}": "i1 i1" for n in range(24)}
    plan = make_plan(graph, FOUR, follows, inputs=quarters(graph))
    timeline = simulate(graph, plan, costs=COSTS)
    first = min(int(timeline.schedule.start[t]) for t in transfers(timeline, "%t23"))
    assert first > moment_of(timeline, "y14")
    assert timeline.memory.peak[0] < 24 * SIZE // 4 + 14 * SIZE


# -- after ----------------------------------------------------------------------------------------


def there_and_back(source: str, forward: str, *late: str):
    """a is made one way, read another, and read in third ways, by c and d, in the backward pass."""
    build = GraphBuilder()
    x = build.add_input("x", SQUARE)
    build.add("aten.relu", (x,), {}, SQUARE, names="a")
    (last,) = build.add("aten.relu", ("a",), {}, SQUARE, names="b")
    for n in range(12):
        (last,) = build.add("aten.relu", (last,), {}, SQUARE, names=f"z{n}")
    chosen = dict(zip("cd", late, strict=False))
    for name in chosen:
        pair = ("a", last)
        (last,) = build.add("aten.mul.Tensor", pair, {}, SQUARE, names=name, phase=BACKWARD)
    graph = build.build((last,))
    rest = {node.name: forward for node in graph.nodes}
    return graph, rest | {"a": source} | chosen


@pytest.mark.parametrize(
    ("source", "forward", "late", "bytes_both", "bytes_after", "saved"),
    [
        ("i0", "i1", "i0", SIZE, SIZE // 2 * 3, 0),  # a and what c reads too; a again
        ("-", "i0", "-", SIZE, 2 * SIZE, SIZE // 2),  # a part is kept of the whole, and gathered
        ("i0", "-", "i0", SIZE, SIZE, -SIZE // 2),  # the whole is kept for a part, which is in it
        ("i0", "i1", "i1", SIZE // 2, SIZE // 2, 0),  # the copy is what late nodes need
    ],
)
def test_the_moved_copy_is_kept(source, forward, late, bytes_both, bytes_after, saved):
    graph, strategies = there_and_back(source, forward, late)
    both = simulate(graph, make_plan(graph, TWO, strategies), costs=COSTS)
    plan = make_plan(graph, TWO, strategies, keep={"a": "after"})
    after = simulate(graph, plan, costs=COSTS)
    assert (both.moved_bytes, after.moved_bytes) == (bytes_both, bytes_after)
    assert held(both, moment_of(both, "z2")) - held(after, moment_of(after, "z2")) == saved


def test_only_one_copy_is_held_where_both_are_needed_late():
    graph, strategies = there_and_back("i0", "i1", "i0", "i1")
    found = {}
    for kept in ("both", "before", "after"):
        keep = {} if kept == "both" else {"a": kept}
        timeline = simulate(graph, make_plan(graph, TWO, strategies, keep=keep), costs=COSTS)
        found[kept] = timeline.moved_bytes, held(timeline, moment_of(timeline, "z2"))
    nbytes, memory = found["both"]
    assert found["before"] == (nbytes + SIZE // 2, memory - SIZE // 2)
    assert found["after"] == (nbytes + SIZE // 2, memory - SIZE // 2)


@pytest.mark.parametrize("kept", ["before", "after"])
def test_what_is_returned_stays(kept):
    graph, strategies = there_and_back("i0", "i1", "i0")
    graph = replace(graph, outputs=("a", "c"))
    plan = make_plan(graph, TWO, strategies)
    kept = make_plan(graph, TWO, strategies, keep={"a": kept})
    times = [simulate(graph, p, costs=COSTS) for p in (plan, kept)]
    assert times[0].makespan == times[1].makespan
    assert times[0].memory.peak.tolist() == times[1].memory.peak.tolist()


# -- models, and changes --------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [0, 1])
def test_sharded_data_parallelism_of_a_model(dim):
    """Parameters live in parts, gradients are added up in parts, and each device updates its own."""
    model = nn.Sequential(*(nn.Linear(SIDE, SIDE, bias=False) for _ in range(24)))
    batch = (torch.randn(64, SIDE), torch.randn(64, SIDE))
    graph = gw.capture(model, nn.MSELoss(), batch, optimizer=torch.optim.SGD)
    plain = data_parallel(graph, FOUR)
    strategies = dict(plain.strategies)
    for node in graph.nodes:
        if node.phase is Phase.UPDATE and graph.tensors[node.name].type == SQUARE:
            strategies[node.name] = Strategy((f"i{dim}", f"i{dim}"))
    inputs = quarters(graph, dim=dim)
    sharded = make_plan(graph, FOUR, strategies, inputs=inputs)
    again = replace(sharded, keep=dict.fromkeys(inputs, "before"))
    first, second = (simulate(graph, plan, costs=COSTS) for plan in (sharded, again))
    assert first.memory.peak.max() > 24 * SIZE
    assert second.memory.peak.max() < 20 * SIZE
    # the backward pass does not need the first layer's parameters
    assert second.moved_bytes - first.moved_bytes == 23 * 3 * SIZE


def test_inference_has_nothing_to_keep():
    graph, strategies = there_and_back("i0", "i1", "i0")
    nodes = tuple(replace(node, phase=Phase.FORWARD) for node in graph.nodes)
    graph = replace(graph, nodes=nodes)
    x = Expansion(
        GraphFacts(graph),
        make_plan(graph, TWO, strategies, keep={"a": "after", "b": "before"}),
        COSTS,
    )
    assert all(not move.turn for name in graph.tensors for move in find_moves(x, name))


def test_proposals_of_what_is_kept():
    graph = layers(12, update=True)
    inputs = quarters(graph)
    run = Incremental(graph, make_plan(graph, FOUR, {}, inputs=inputs), COSTS)
    start = run.makespan
    for keep in ({"w3": "before"}, {"w4": "before", "w3": None}, {"y3": "after", "w0": "before"}):
        found = run.propose({"g3": on_one(1)}, keep)
        run.accept()
        assert found == simulate(graph, run.plan(), costs=COSTS).makespan
    assert dict(run.plan().keep) == {"w4": "before", "y3": "after", "w0": "before"}
    before = run.makespan
    assert run.propose({}, {"w4": None}) >= 0
    run.reject()
    assert run.makespan == before and start > 0
    for name, kept, error, message in (
        ("v", "before", PlanMismatch, "keeps 'v', which the graph does not have"),
        ("v", None, PlanMismatch, "keeps 'v', which the graph does not have"),
        ("w1", "after", InvalidStrategy, "keep of w1: it lives between steps"),
        ("y1", "both", InvalidStrategy, "keep of y1: 'both' is none of"),
    ):
        with pytest.raises(error, match=message):
            run.propose({}, {name: kept})
    assert run.makespan == before
    run.propose({}, {"w4": None})
    run.accept()
    assert "w4" not in run.plan().keep
