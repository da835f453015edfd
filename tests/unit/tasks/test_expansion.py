"""Where tensors live, what waits for what, and what is in memory: small graphs, counted by hand."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import graphwright as gw
from graphwright.errors import InvalidStrategy, PlanMismatch
from graphwright.ir import GraphBuilder, Phase, Role, TensorType
from graphwright.machine import Cluster, Device, FrozenDict, Level, Link
from graphwright.partition import data_parallel, replicate
from graphwright.plans import Mesh, Sharding, Strategy, make_plan, on_one, whole_mesh
from graphwright.simulate import CostModel, Incremental, simulate

COSTS = CostModel(measured=False)
SIDE = 512
SIZE = SIDE * SIDE * 4
SQUARE = TensorType((SIDE, SIDE), "float32")


def make_cluster(*levels, links=()):
    device = Device(
        name="gpu",
        memory=1 << 34,
        rates=FrozenDict({"float32": 1e13}),
        bandwidth=1e12,
        launch=1e-6,
    )
    made = [
        Level(name=f"level{n}", count=c, bandwidth=b, latency=t)
        for n, (c, b, t) in enumerate(levels)
    ]
    count = 1
    for level in made:
        count *= level.count
    return Cluster(
        name="made", levels=tuple(made), devices=(device,) * count, links=links, source="made up"
    )


FOUR = make_cluster((4, 1e10, 1e-6))


def update_graph(between=0):
    """y = x @ w, some work after it, and w_new = w + 1."""
    made = GraphBuilder()
    x = made.add_input("x", SQUARE, Role.INPUT)
    w = made.add_input("w", SQUARE, Role.PARAMETER)
    made.add("aten.mm", (x, w), {}, SQUARE, names="y")
    last = "y"
    for n in range(between):
        (last,) = made.add("aten.mm", (last, x), {}, SQUARE, names=f"z{n}")
    made.add("aten.mm", (last, w), {}, SQUARE, names="late")
    add = ("aten.add.Tensor", (w, x), {"alpha": 1}, SQUARE)
    made.add(*add, names="w_new", phase=Phase.UPDATE, role=Role.PARAMETER, of="w")
    return made.build(("late", "w_new"), {"w": "w_new"})


def moments(timeline, name):
    """{(device or None): (start, end)} in picoseconds for a node's parts."""
    position = [node.name for node in timeline.graph.nodes].index(name)
    tasks, times = timeline.tasks, timeline.schedule
    own = [t for t in range(len(tasks)) if tasks.kind[t] == 0 and tasks.node[t] == position]
    return {int(tasks.device[t]): (int(times.start[t]), int(times.end[t])) for t in own}


# -- what the step returns ----------------------------------------------------------------------------


def test_terms_that_are_returned_are_added_up():
    model = nn.Linear(SIDE, SIDE)
    batch = (torch.randn(64, SIDE), torch.randn(64, SIDE))
    graph = gw.capture(model, nn.MSELoss(), batch)
    parameters = (SIDE * SIDE + SIDE) * 4
    timeline = simulate(graph, data_parallel(graph, FOUR), costs=COSTS)
    assert timeline.moved_bytes >= 2 * 3 * parameters


def test_what_is_returned_is_kept_to_the_end():
    model = nn.Sequential(*(nn.Linear(SIDE, SIDE, bias=False) for _ in range(6)))
    batch = (torch.randn(64, SIDE), torch.randn(64, SIDE))
    graph = gw.capture(model, nn.MSELoss(), batch)
    timeline = simulate(graph, replicate(graph, make_cluster((1, 1e10, 1e-6))), costs=COSTS)
    assert timeline.memory.curve(0)[1][1, -2] == 6 * SIZE  # gradients before all is over


# -- new values ---------------------------------------------------------------------------------------


def test_a_new_value_waits_for_the_readers_of_the_old_one():
    timeline = simulate(update_graph(12), replicate(update_graph(12), FOUR), costs=COSTS)
    read, written = moments(timeline, "late"), moments(timeline, "w_new")
    assert all(written[d][0] >= read[d][1] for d in range(4))


def test_a_new_value_waits_until_the_old_one_was_sent():
    graph = update_graph(12)
    names = [node.name for node in graph.nodes]
    plan = {name: on_one(1) for name in names} | {"y": on_one(0), "w_new": on_one(0)}
    timeline = simulate(graph, plan, FOUR, costs=COSTS)
    sent = [
        int(timeline.schedule.end[t])
        for t in range(len(timeline.tasks))
        if timeline.tasks.kind[t] and timeline.tasks.labels[timeline.tasks.node[t]] == "%w"
    ]
    assert sent
    assert moments(timeline, "w_new")[0][0] >= max(sent)


def test_a_new_value_that_is_elsewhere_has_memory_of_its_own():
    graph = update_graph()
    quarters = Sharding(whole_mesh(FOUR), ("S0", "S0"))
    whole = make_plan(graph, FOUR, {}, inputs={"w": quarters})
    apart = simulate(graph, whole, costs=COSTS).memory
    in_place = simulate(graph, make_plan(graph, FOUR, {}), costs=COSTS).memory
    assert in_place.peak[0] == 4 * SIZE  # x, w, y and late; w_new is written over w
    assert apart.peak[0] > 3 * SIZE + SIZE // 4


def test_incremental_keeps_these_orders():
    graph = update_graph(4)
    run = Incremental(graph, make_plan(graph, FOUR, {}), COSTS)
    for changes in (
        {"w_new": on_one(0)},
        {"y": on_one(2)},
        {"late": on_one(0), "w_new": on_one(3)},
    ):
        found = run.propose(changes)
        run.accept()
        assert found == simulate(graph, run.plan(), costs=COSTS).makespan


# -- routes -------------------------------------------------------------------------------------------


def chain_of_two():
    made = GraphBuilder()
    x = made.add_input("x", SQUARE, Role.INPUT)
    made.add("aten.relu", (x,), {}, SQUARE, names="first")
    made.add("aten.relu", ("first",), {}, SQUARE, names="second")
    return made.build(("second",))


def sending_time(cluster, source, target):
    timeline = simulate(
        chain_of_two(), {"first": on_one(source), "second": on_one(target)}, cluster, costs=COSTS
    )
    return float(timeline.tasks.duration[timeline.tasks.kind > 0].sum()) / 1e12


def test_a_slow_port_inside_a_node_slows_messages_between_nodes():
    assert sending_time(make_cluster((2, 1e11, 0.0), (2, 1e9, 0.0)), 0, 2) == pytest.approx(
        SIZE / 1e9
    )


def test_links_of_one_bandwidth_may_have_different_latencies():
    links = (
        Link(devices=(0, 1), bandwidth=1e12, latency=1e-6),
        Link(devices=(2, 3), bandwidth=1e12, latency=1e-3),
    )
    cluster = make_cluster((4, 1e9, 1e-6), links=links)
    assert sending_time(cluster, 0, 1) < 1e-4
    assert sending_time(cluster, 2, 3) > 1e-3


def test_devices_that_do_not_overlap_move_or_compute():
    """Two products without anything in common, and a message: beside computing where devices overlap, after it where not."""
    made = GraphBuilder()
    x = made.add_input("x", SQUARE, Role.INPUT)
    made.add("aten.relu", (x,), {}, SQUARE, names="first")
    made.add("aten.relu", ("first",), {}, SQUARE, names="there")
    made.add("aten.mm", ("first", "first"), {}, SQUARE, names="here")
    graph = made.build(("there", "here"))
    strategies = {"first": on_one(0), "there": on_one(1), "here": on_one(0)}
    at_once = simulate(graph, strategies, FOUR, costs=COSTS)
    alone = replace(FOUR, devices=tuple(replace(d, overlaps=False) for d in FOUR.devices))
    one_by_one = simulate(graph, strategies, alone, costs=COSTS)
    tasks = one_by_one.tasks
    [sent] = (t for t in range(len(tasks)) if tasks.kind[t] > 0)
    held = tasks.resource[tasks.resource_ptr[sent] : tasks.resource_ptr[sent + 1]]
    assert {0, 1} <= set(held.tolist())
    assert one_by_one.link_bytes == at_once.link_bytes
    assert one_by_one.computing == pytest.approx(at_once.computing)
    assert one_by_one.busy[0] == pytest.approx(at_once.busy[0] + tasks.duration[sent] / 1e12)
    assert one_by_one.makespan > at_once.makespan


# -- data parallel ------------------------------------------------------------------------------------


def test_a_batch_smaller_than_the_cluster_stays_inside_a_node():
    two_nodes = make_cluster((2, 1e9, 1e-6), (4, 1e11, 1e-6))
    graph = gw.capture(nn.Linear(8, 8), nn.MSELoss(), (torch.randn(4, 8), torch.randn(4, 8)))
    plan = data_parallel(graph, two_nodes)
    split = [s for s in plan.strategies.values() if any(str(c) not in "-+0" for c in s.choices)]
    assert split
    assert all(str(s.choices[0]) in ("-", "+0", "+1", "+0,1") for s in split)


# -- words and mistakes -------------------------------------------------------------------------------


def test_strategies_and_shardings_in_words():
    graph = update_graph()
    words = simulate(graph, {"y": "i i"}, FOUR, costs=COSTS)
    spelt = simulate(graph, {"y": Strategy(("i", "i"))}, FOUR, costs=COSTS)
    assert words.makespan == spelt.makespan != simulate(graph, {}, FOUR, costs=COSTS).makespan


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Strategy((1, 2)), InvalidStrategy, "no choices"),
        (lambda: Strategy(("i",), mesh=(0, 1)), InvalidStrategy, "no mesh"),
        (lambda: Mesh((0.5, 1), (2,)), InvalidStrategy, "device numbers"),
        (lambda: Mesh((0, 1), 2), InvalidStrategy, "size of every axis"),
        (lambda: Sharding(Mesh((0, 1), (2,)), (0,)), InvalidStrategy, "no placements"),
        (lambda: simulate(update_graph(), None, FOUR), PlanMismatch, "is no plan"),
        (lambda: simulate(update_graph(), "data", FOUR), PlanMismatch, "data_parallel"),
        (lambda: simulate(update_graph(), {"y": 3}, FOUR), InvalidStrategy, "is no strategy"),
        (lambda: simulate(update_graph(), {}), PlanMismatch, "give a cluster"),
        (
            lambda: make_plan(update_graph(), FOUR, {}, inputs={"w": "S0"}),
            InvalidStrategy,
            "is no sharding",
        ),
    ],
)
def test_mistakes(make, error, message):
    with pytest.raises(error, match=message):
        make()
