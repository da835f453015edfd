"""Small graphs and plans at random."""

from __future__ import annotations

from functools import cache
from random import Random

from graphwright import zoo
from graphwright.capture import capture
from graphwright.describe import node_splits, properties
from graphwright.errors import InvalidStrategy
from graphwright.ir import Graph, GraphBuilder, Node, Role, TensorType
from graphwright.machine import Cluster
from graphwright.partition import random_strategy
from graphwright.plans import Keep, Plan, Replicate, Sharding, Strategy, make_plan
from graphwright.simulate import CostModel
from graphwright.tasks import Expansion, Site
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
    """Products, sums, views and new values of parameters, of matrices with uneven sizes."""
    build = GraphBuilder()
    sizes = [rng.randint(2, 9) for _ in range(3)]
    pool = [build.add_input("x", matrix(*rng.choices(sizes, k=2)))]
    updates: dict[str, str] = {}
    for number in range(num_nodes):
        of = rng.choice(pool[-4:])
        rows, columns = build.type(of).shape
        alike = [t for t in pool if build.type(t).shape == (rows, columns)]
        match rng.choice(["product", "product", "add", "multiply", "relu", "turn", "update"]):
            case "product":
                width = rng.choice(sizes)
                weight = build.add_input(f"w{number}", matrix(columns, width), Role.PARAMETER)
                pool += build.add("aten.mm", [of, weight], {}, matrix(rows, width))
            case "add":
                pair = [of, rng.choice(alike)]
                pool += build.add("aten.add.Tensor", pair, {"alpha": 1}, matrix(rows, columns))
            case "multiply":
                pool += build.add(
                    "aten.mul.Tensor", [of, rng.choice(alike)], {}, matrix(rows, columns)
                )
            case "relu":
                pool += build.add("aten.relu", [of], {}, matrix(rows, columns))
            case "turn":
                pool += build.add("aten.permute", [of], {"dims": (1, 0)}, matrix(columns, rows))
            case _:
                old = build.add_input(f"p{number}", matrix(rows, columns), Role.PARAMETER)
                change = rng.choice(alike)
                if rng.random() < 0.7:  # the old value is read before it is replaced
                    pool += build.add("aten.mul.Tensor", [of, old], {}, matrix(rows, columns))
                pair = [old, change]
                (new,) = build.add("aten.add.Tensor", pair, {"alpha": 1}, matrix(rows, columns))
                updates[old] = new
    return build.build([pool[-1], *updates.values()], updates)


@cache
def zoo_graph(name: str) -> Graph:
    """The training step of a small model."""
    w = zoo.load(name, small=True, device="cpu")
    options = {"optimizer": w.optimizer, "optimizer_options": w.optimizer_options}
    return capture(w.model, w.loss_fn, w.batch, **options)


def any_strategy(rng: Random, x: Expansion, node: Node) -> Strategy:
    """A strategy that the node can follow: on all devices or some, at times with terms that pass through."""
    graph, i = x.site.graph, x.site.position[node.name]
    linear = properties(node.op, x.site.attrs[i], x.site.types[i]).linear
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


def any_plan(rng: Random, graph: Graph, cluster: Cluster) -> Plan:
    """A random strategy for most nodes, a random place for some inputs."""
    x = Expansion(Site(graph), make_plan(graph, cluster, {}), CostModel(measured=False))
    strategies = {n.name: any_strategy(rng, x, n) for n in graph.nodes if rng.random() < 0.9}
    inputs: dict[str, Sharding] = {}
    for name in graph.inputs:
        if rng.random() < 0.3:
            mesh, shape = random_mesh(rng, cluster), graph.tensors[name].type.shape
            found = random_sharding(rng, mesh, shape, reducer=None, halos=False)
            inputs[name] = Sharding(mesh, found.placements)
    return make_plan(graph, cluster, strategies, inputs=inputs)
