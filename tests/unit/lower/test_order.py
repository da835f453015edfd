"""The one order of all ranks: simulated, never before what is read, and the same wherever ranks meet."""

import pytest
import torch

from graphwright.ir import GraphBuilder, Phase, Role, TensorType
from graphwright.lower import lower
from graphwright.machine import cluster
from graphwright.partition import BASELINES, random_plan
from graphwright.plans import Mesh, Strategy, make_plan, on_one, verify_programs
from graphwright.simulate import CostModel, schedule
from graphwright.tasks import Computation, Expansion, GraphFacts, assemble, find_moves
from programs import meets, programs_of
from random_plans import any_plan, chain, zoo_graph
from threads import largest_difference

COSTS = CostModel(measured=False)
FOUR = cluster("local:4")


def positions(lowered):
    """Where each node, and each hop of a tensor's moves, stands in the order."""
    nodes, hops = {}, {}
    for at, action in enumerate(lowered.actions):
        for each in (*action.before, action):  # small sums go together
            if isinstance(each.block, Computation):
                nodes[each.block.node] = at
            else:
                hops[*each.block.name, each.stage] = at
    return nodes, hops


@pytest.mark.parametrize("name", ["mlp", "lenet", "rnnlm-2", "dlrm"])
@pytest.mark.parametrize("how", [*BASELINES, "random"])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_any_two_ranks_meet_in_the_same_order(name, how, count):
    graph, on = zoo_graph(name), cluster(f"local:{count}")
    plan = random_plan(graph, on, 1) if how == "random" else BASELINES[how](graph, on)
    programs = programs_of(lower(graph, plan, costs=COSTS))
    verify_programs(programs)
    met = sum(len(meets(a, b.rank)) for a in programs for b in programs if a is not b)
    assert (met == 0) == (how == "replicate")


def test_every_node_and_every_transferring_hop_stands_once():
    graph = zoo_graph("rnnlm-2")
    lowered = lower(graph, random_plan(graph, FOUR, 3), costs=COSTS)
    nodes, hops = positions(lowered)
    assert sorted(nodes) == list(range(len(graph.nodes)))
    joined = sum(len(a.before) for a in lowered.actions)
    assert len(nodes) + len(hops) == len(lowered.actions) + joined
    x = lowered.expansion
    wanted = {
        (*move.name, k)
        for name in graph.tensors
        for move in find_moves(x, name)
        for k, hop in enumerate(move.movement.hops)
        if hop.end > hop.first
    }
    assert hops.keys() == wanted


def test_nothing_stands_before_what_it_reads():
    graph = zoo_graph("lenet")
    lowered = lower(graph, random_plan(graph, FOUR, 5), costs=COSTS)
    nodes, hops = positions(lowered)
    x = lowered.expansion
    num_read = 0
    for i, node in enumerate(graph.nodes):
        for arg, name in enumerate(node.inputs):
            if name in x.facts.producer:
                assert nodes[x.facts.producer[name][0]] < nodes[i]
            needed = x.placed[i].inputs[arg]
            for hop in [h for h in hops if h[:3] == (name, needed, 0)]:
                assert hops[hop] < nodes[i]
                num_read += 1
    assert num_read > 10


def test_the_order_is_that_of_the_simulation():
    """Where nothing waits for anything else, blocks stand by the time at which they begin."""
    graph = chain(6)
    plan = make_plan(graph, FOUR, {})
    tasks = assemble(Expansion(GraphFacts(graph), plan, COSTS))
    start = schedule(tasks).start
    lowered = lower(graph, plan, costs=COSTS)
    assert [action.block.name for action in lowered.actions] == list(range(6))
    assert sorted(start.tolist()) == start.tolist()


def test_what_is_ready_first_runs_first():
    """Two nodes on a device, given in the graph in the other order: the second waits for a transfer, so the first goes on."""
    build, large = GraphBuilder(), TensorType((512, 512), "float32")
    build.add_input("x", large)
    build.add_input("z", large)
    build.add("aten.mm", ["x", "x"], {}, large, names="far")
    build.add("aten.relu", ["far"], {}, large, names="late")
    build.add("aten.relu", ["z"], {}, large, names="early")
    graph = build.build(["late", "early"])
    strategies = {"far": on_one(1), "late": on_one(0), "early": on_one(0)}
    lowered = lower(graph, make_plan(graph, cluster("local:2"), strategies), costs=COSTS)
    order = [
        graph.nodes[a.block.node].name for a in lowered.actions if isinstance(a.block, Computation)
    ]
    assert order.index("early") < order.index("late")


def test_who_lacks_nothing_still_comes_after_the_exchange():
    """Ranks 0 and 1 have all of y, and need none of the exchange that takes it to 2 and 3; yet that is where their copy is made."""
    build, rows = GraphBuilder(), TensorType((8, 8), "float64")
    large = TensorType((512, 512), "float64")
    build.add_input("x", rows)
    build.add_input("big", large)
    build.add("aten.relu", ["big"], {}, large, names="z")
    build.add("aten.relu", ["z"], {}, large, names="z.everywhere")
    build.add("aten.relu", ["x"], {}, rows, names="y")
    build.add("aten.relu", ["y"], {}, rows, names="early")
    build.add("aten.neg", ["y"], {}, rows, names="late", phase=Phase.BACKWARD)
    graph = build.build(["z.everywhere", "early", "late"])
    pair = Mesh((0, 1), (2,))
    strategies = {
        "z": Strategy(("-",), pair),
        "z.everywhere": Strategy(("-", "-")),
        "y": Strategy(("-",), pair),
        "early": Strategy(("-", "i0")),
        "late": Strategy(("i0",), pair),
    }
    plan = make_plan(graph, FOUR, strategies, keep={"y": "after"})
    lowered = lower(graph, plan, costs=COSTS)
    x, (nodes, hops) = lowered.expansion, positions(lowered)
    again = [move for move in find_moves(x, "y") if move.turn]
    assert [m.movement.num_tasks for m in again] == [0]
    (exchange,) = [at for (tensor, *_), at in hops.items() if tensor == "y"]
    assert exchange < nodes[x.facts.position["late"]]
    values = {
        "x": torch.randn(8, 8, dtype=torch.float64),
        "big": torch.randn(512, 512, dtype=torch.float64),
    }
    assert largest_difference(graph, plan, values, costs=COSTS)[0] == 0


def test_one_order_whatever_asks_for_it():
    from random import Random

    graph = zoo_graph("mlp")
    plan = any_plan(Random(3), graph, FOUR)
    first, second = (lower(graph, plan, costs=COSTS) for _ in range(2))

    def words(lowered):
        return [(action.block.name, action.stage) for action in lowered.actions]

    assert words(first) == words(second)


def test_a_parameter_is_replaced_after_its_last_reader():
    build, square = GraphBuilder(), TensorType((8, 8), "float32")
    build.add_input("x", square)
    build.add_input("w", square, Role.PARAMETER)
    build.add("aten.mm", ["x", "w"], {}, square, names="y")
    update = {"phase": Phase.UPDATE, "role": Role.PARAMETER, "of": "w"}
    build.add("aten.add.Tensor", ["w", "x"], {"alpha": 1}, square, names="w.new", **update)
    graph = build.build(["y", "w.new"], {"w": "w.new"})
    strategies = {"y": on_one(1), "w.new": on_one(0)}
    lowered = lower(graph, make_plan(graph, cluster("local:2"), strategies), costs=COSTS)
    nodes, hops = positions(lowered)
    (sent,) = [at for (tensor, *_), at in hops.items() if tensor == "w"]
    assert sent < nodes[1]
