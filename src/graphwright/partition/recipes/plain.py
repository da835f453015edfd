"""Plans that need no search, for comparison and as starting points.

data        every operator is split over the samples; gradients are summed when they are used
layers      consecutive layers on consecutive devices, by the arithmetic in them ("model parallel")
replicate   every device does everything
"""

from __future__ import annotations

from collections.abc import Mapping

from graphwright.describe import Soap, Split, cost, node_splits, properties, sample_dims, soap
from graphwright.errors import InvalidStrategy
from graphwright.ir import Graph, Node, Phase, Role
from graphwright.machine import Cluster
from graphwright.machine import cluster as find_cluster
from graphwright.plans import (
    Along,
    Choice,
    Keep,
    Partial,
    Plan,
    Replicate,
    Sharding,
    Strategy,
    make_plan,
    on_one,
    whole_mesh,
)
from graphwright.tasks import GraphFacts, facts_of, place


def replicate(graph: Graph, cluster: Cluster | str) -> Plan:
    """Every device does everything."""
    return make_plan(graph, find_cluster(cluster), {}, algorithm="replicate")


def data_parallel(
    graph: Graph | GraphFacts, cluster: Cluster | str, batch_dim: int | Mapping[str, int] = 0
) -> Plan:
    """Every operator is split over the samples; what has none is computed by all, on terms for as
    long as it is linear in them."""
    cluster = find_cluster(cluster)
    facts, mesh = facts_of(graph), whole_mesh(cluster)
    graph = facts.graph
    samples = sample_dims(graph, batch_dim)
    used = _axes_for(_num_samples(graph, batch_dim), mesh.shape)
    made: dict[str, Sharding] = {}
    strategies: dict[str, Strategy] = {}
    for i, node in enumerate(graph.nodes):
        split = _over_samples(graph, node, samples)
        if split is not None:
            strategy = _spread(split, mesh.shape, used)
        else:
            strategy = _keep_terms(node, facts, i, made, len(mesh.shape))
        try:
            placed = place(node.op, facts.attrs[i], facts.types[i], strategy, mesh)
        except InvalidStrategy:
            strategy = Strategy((Replicate(),) * len(mesh.shape))
            placed = place(node.op, facts.attrs[i], facts.types[i], strategy, mesh)
        made.update(zip(node.outputs, placed.outputs, strict=True))
        strategies[node.name] = strategy
    return make_plan(graph, cluster, strategies, algorithm="data")


def _over_samples(graph: Graph, node: Node, samples: Mapping[str, frozenset[int]]) -> Split | None:
    if node.phase is Phase.UPDATE:
        return None
    for split in node_splits(graph, node):
        if soap(split, node, graph, samples) is Soap.SAMPLE:
            return split
    return None


def _num_samples(graph: Graph, batch_dim: int | Mapping[str, int]) -> int:
    """The samples in a batch: the size of the batch dim of what the step is given."""
    sizes = [1]
    for name in graph.inputs:
        tensor = graph.tensors[name]
        dim = batch_dim if isinstance(batch_dim, int) else batch_dim.get(name, 0)
        if tensor.role is Role.INPUT and dim < tensor.type.rank:
            sizes.append(tensor.type.shape[dim])
    return max(sizes)


def _axes_for(num_samples: int, shape: tuple[int, ...]) -> frozenset[int]:
    """The axes to split the batch along, innermost first, a sample for each part at least."""
    ways, used = 1, set()
    for axis in reversed(range(len(shape))):
        if ways * shape[axis] <= num_samples:
            ways *= shape[axis]
            used.add(axis)
    return frozenset(used)


def _spread(split: Split, shape: tuple[int, ...], used: frozenset[int]) -> Strategy:
    """Split along all of the axes used, or along as many as there are parts for."""
    choices: list[Choice] = [Replicate()] * len(shape)
    ways = 1
    for axis in sorted(used, reverse=True):
        if ways * shape[axis] <= split.max_parts:
            ways *= shape[axis]
            choices[axis] = Along(split.index)
    return Strategy(tuple(choices))


def _keep_terms(
    node: Node, facts: GraphFacts, i: int, made: Mapping[str, Sharding], num_axes: int
) -> Strategy:
    """Let terms of sums pass through an operator that is linear in all of them together."""
    choices: list[Choice] = [Replicate()] * num_axes
    if node.phase is not Phase.UPDATE:
        linear = properties(node.op, facts.attrs[i], facts.types[i]).linear
        for axis in range(num_axes):
            partial = frozenset(
                arg
                for arg, name in enumerate(node.inputs)
                if name is not None
                and name in made
                and made[name].placements[axis] == Partial("sum")
            )
            if partial and partial in linear:
                choices[axis] = Keep(tuple(sorted(partial)))
    return Strategy(tuple(choices))


def layers(graph: Graph | GraphFacts, cluster: Cluster | str) -> Plan:
    """Consecutive forward nodes on consecutive devices, in equal shares of the arithmetic; the rest
    follows its forward node."""
    cluster = find_cluster(cluster)
    facts = facts_of(graph)
    graph = facts.graph
    forward = [i for i, node in enumerate(graph.nodes) if node.phase is Phase.FORWARD]
    arithmetic = {
        i: 1 + cost(graph.nodes[i].op, facts.attrs[i], facts.types[i]).operations for i in forward
    }
    total, done = sum(arithmetic.values()), 0
    device: dict[str, int] = {}
    for i in forward:
        share = (done + arithmetic[i] / 2) / total
        device[graph.nodes[i].name] = min(cluster.num_devices - 1, int(share * cluster.num_devices))
        done += arithmetic[i]
    for node in graph.nodes:
        if node.name not in device:
            device[node.name] = _follow(graph, facts, node, device)
    strategies = {name: on_one(d) for name, d in device.items()}
    return make_plan(graph, cluster, strategies, algorithm="layers")


def _follow(graph: Graph, facts: GraphFacts, node: Node, device: Mapping[str, int]) -> int:
    """The device of a node's forward partner, of its parameter's reader, or of its inputs."""
    if node.partner is not None and node.partner in device:
        return device[node.partner]
    for name in (node.parameter, *node.inputs):
        if name is None:
            continue
        if name in facts.producer:
            maker = graph.nodes[facts.producer[name][0]].name
            if maker in device:
                return device[maker]
        for reader, _ in facts.readers.get(name, ()):
            if graph.nodes[reader].name in device:
                return device[graph.nodes[reader].name]
    return 0
