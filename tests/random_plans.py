"""Small graphs and plans at random."""

from __future__ import annotations

from functools import cache
from random import Random

from graphwright import zoo
from graphwright.capture import capture
from graphwright.describe import node_splits, properties
from graphwright.errors import InvalidStrategy
from graphwright.ir import Graph, GraphBuilder, Node, Phase, Role, TensorType
from graphwright.machine import Cluster
from graphwright.partition import random_strategy
from graphwright.plans import Keep, Kept, Plan, Replicate, Sharding, Strategy, make_plan
from graphwright.simulate import CostModel
from graphwright.tasks import Expansion, GraphFacts
from reshardings import random_mesh, random_sharding


def matrix(rows: int, columns: int) -> TensorType:
    return TensorType((rows, columns), "float32")


def chain(length: int, size: int = 64) -> Graph:
    """Products, each of the one before: nothing can run beside anything else."""
    build = GraphBuilder()
    now = build.add_input("x", matrix(size, size))
    weight = build.add_input("w", matrix(size, size), Role.PARAMETER)
    for _ in range(length):
        (now,) = build.add("aten.mm", [now, weight], {}, matrix(size, size))
    return build.build([now])


def random_graph(rng: Random, num_nodes: int = 12) -> Graph:
    """Products, sums, views and new values of parameters, of matrices with uneven sizes; often with a backward pass that reads all of it."""
    build = GraphBuilder()
    sizes = [rng.randint(2, 9) for _ in range(3)]
    pool = [build.add_input("x", matrix(*rng.choices(sizes, k=2)))]
    weights: list[str] = []
    updates: dict[str, str] = {}
    turn = rng.choice([num_nodes, num_nodes // 2, num_nodes // 3])
    for number in range(num_nodes):
        late = number >= turn
        phase = Phase.BACKWARD if late else Phase.FORWARD
        of = rng.choice(pool if late else pool[-4:])
        rows, columns = build.type(of).shape
        here = matrix(rows, columns)
        alike = [t for t in pool if build.type(t).shape == (rows, columns)]
        match rng.choice(["product", "product", "add", "multiply", "relu", "turn", "update"]):
            case "product":
                known = [w for w in weights if build.type(w).shape[0] == columns]
                if late and known:
                    weight = rng.choice(known)
                else:
                    width = rng.choice(sizes)
                    weight = build.add_input(f"w{number}", matrix(columns, width), Role.PARAMETER)
                    weights.append(weight)
                made = matrix(rows, build.type(weight).shape[1])
                pool += build.add("aten.mm", [of, weight], {}, made, phase=phase)
            case "add":
                pair = [of, rng.choice(alike)]
                pool += build.add("aten.add.Tensor", pair, {"alpha": 1}, here, phase=phase)
            case "multiply":
                pair = [of, rng.choice(alike)]
                pool += build.add("aten.mul.Tensor", pair, {}, here, phase=phase)
            case "relu":
                pool += build.add("aten.relu", [of], {}, here, phase=phase)
            case "turn":
                shown = rng.choice([of, *weights])
                turned = matrix(*reversed(build.type(shown).shape))
                pool += build.add("aten.permute", [shown], {"dims": (1, 0)}, turned, phase=phase)
            case _:
                old = build.add_input(f"p{number}", here, Role.PARAMETER)
                change = rng.choice(alike)
                if rng.random() < 0.7:  # the old value is read before it is replaced
                    pool += build.add("aten.mul.Tensor", [of, old], {}, here, phase=phase)
                    weights.append(old)
                pair = [old, change]
                (new,) = build.add("aten.add.Tensor", pair, {"alpha": 1}, here, phase=phase)
                updates[old] = new
    return build.build([pool[-1], *updates.values()], updates)


def two_pass_graph(rng: Random, num_nodes: int = 16, size: int = 6) -> Graph:
    """A forward pass with many views, and a backward pass that reads what that has made, its views and its weights."""
    build, square = GraphBuilder(), matrix(size, size)
    weights = [build.add_input(f"w{n}", square, Role.PARAMETER) for n in range(3)]
    pool = [build.add_input("x", square), *weights]
    forward = num_nodes // 2
    made: list[str] = []
    for number in range(num_nodes):
        late = number >= forward
        phase = Phase.BACKWARD if late else Phase.FORWARD
        given = made[:forward] if late and rng.random() < 0.8 else [*pool, *made][-5:]
        of, other = rng.choice(given), rng.choice([*made[:forward], *weights])
        if rng.random() < (0.15 if late else 0.45):
            of = rng.choice([of, *weights])
            made += build.add("aten.permute", [of], {"dims": (1, 0)}, square, phase=phase)
        elif rng.random() < 0.4:
            made += build.add("aten.mul.Tensor", [of, other], {}, square, phase=phase)
        else:
            made += build.add("aten.mm", [of, other], {}, square, phase=phase)
    pair = [weights[0], made[-1]]
    add = ("aten.add.Tensor", pair, {"alpha": 1}, square)
    (new,) = build.add(*add, names="w0.new", phase=Phase.UPDATE, role=Role.PARAMETER, of="w0")
    return build.build([rng.choice(made), new], {"w0": new})


@cache
def zoo_graph(name: str) -> Graph:
    """The training step of a small model."""
    w = zoo.load(name, small=True, device="cpu")
    options = {"optimizer": w.optimizer, "optimizer_options": w.optimizer_options}
    return capture(w.model, w.loss_fn, w.batch, **options)


def any_strategy(rng: Random, x: Expansion, node: Node) -> Strategy:
    """A strategy that the node can follow: on all devices or some, at times with terms that pass through."""
    graph, i = x.facts.graph, x.facts.position[node.name]
    linear = properties(node.op, x.facts.attrs[i], x.facts.types[i]).linear
    for _ in range(8):
        found = random_strategy(rng, node_splits(graph, node), x.cluster)
        if linear and found.choices and rng.random() < 0.4:
            axis = rng.randrange(len(found.choices))
            choices = list(found.choices)
            choices[axis] = Keep(tuple(sorted(rng.choice(linear))))
            found = Strategy(tuple(choices), found.mesh)
        try:
            x.place(node, found)
        except InvalidStrategy:
            continue
        return found
    return Strategy((Replicate(),) * len(x.mesh.shape))


def any_keep(rng: Random, graph: Graph, share: float = 0.5) -> dict[str, Kept]:
    """For some tensors, which of their copies is kept."""
    keep: dict[str, Kept] = {}
    for name in graph.tensors:
        if rng.random() < share:
            keep[name] = "before" if name in graph.inputs else rng.choice(["before", "after"])
    return keep


def any_plan(rng: Random, graph: Graph, cluster: Cluster) -> Plan:
    """A random strategy for most nodes, a random place for some inputs, and what is kept for some tensors."""
    x = Expansion(GraphFacts(graph), make_plan(graph, cluster, {}), CostModel(measured=False))
    strategies = {n.name: any_strategy(rng, x, n) for n in graph.nodes if rng.random() < 0.9}
    inputs: dict[str, Sharding] = {}
    for name in graph.inputs:
        if rng.random() < 0.3:
            mesh, shape = random_mesh(rng, cluster), graph.tensors[name].type.shape
            found = random_sharding(rng, mesh, shape, reducer=None, halos=False)
            inputs[name] = Sharding(mesh, found.placements)
    keep = any_keep(rng, graph, rng.choice([0.0, 0.3, 0.8]))
    return make_plan(graph, cluster, strategies, inputs=inputs, keep=keep)
