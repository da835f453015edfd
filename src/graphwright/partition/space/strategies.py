"""The strategies that operators may have: for every axis one of its splits or replication, on all
devices or on some (FlexFlow's SOAP).

Each published system searches a part of one space:

    Tofu              no replication                      TensorOpt   everything on all devices
    ICML18            no replication, no reduction        FlexFlow    everything, on some devices
    Mesh-TensorFlow   one mesh: `roles`                   data parallel   batch_only
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from random import Random

from graphwright.describe import Soap, Split, node_splits
from graphwright.errors import InvalidStrategy
from graphwright.ir import Graph, Node
from graphwright.machine import Cluster
from graphwright.plans import Along, Choice, Mesh, Plan, Replicate, Strategy, make_plan, whole_mesh
from graphwright.tasks import GraphFacts, place_node


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Which strategies a search may use.

    `replication`: operators that can be split may still be computed by several devices along an
    axis. `reduction`: results may be sums of terms from several devices. `batch_only`: nothing but
    samples is split. `roles` says for every axis what it splits for all operators alike, "sample"
    or "other" (Mesh-TensorFlow's one mesh with named dims). `single_split`: one choice for all axes
    (each tensor chopped along one dim). `reuse`: a tensor that was moved may be moved again for the
    backward instead of being kept. `loader`: the batch arrives split by samples; otherwise as its
    readers need it. `batch_dim` is the dim of the step's data that runs over samples, 1 for
    sequences that have time first. `width` is how many configurations of a group are kept for an
    exact search, None for all; `distinct` how many joint choices one level of many axes may mix.
    """

    replication: bool = True
    reduction: bool = True
    batch_only: bool = False
    roles: tuple[str, ...] | None = None
    single_split: bool = False
    subsets: bool = False
    reuse: bool = True
    loader: bool = True
    batch_dim: int = 0
    width: int | None = 64
    distinct: int = 2

    def allows(self, kind: Soap | None, axis: int) -> bool:
        """Whether an operator may be split so along an axis, None for replication."""
        if kind is None:
            return True
        if self.batch_only and kind is not Soap.SAMPLE:
            return False
        if self.roles is None:
            return True
        return (kind is Soap.SAMPLE) == (self.roles[axis] == "sample")


_SUBSET = 0.25
"""How often a random strategy uses some of the devices only."""


def random_strategy(
    rng: Random, splits: tuple[Split, ...], cluster: Cluster, *, subsets: bool = True
) -> Strategy:
    """A random strategy; whether its splits go together is for the caller to see."""
    mesh = None
    shape = whole_mesh(cluster).shape
    if subsets and shape and rng.random() < _SUBSET:
        mesh = _random_mesh(rng, cluster)
        shape = mesh.shape
    left = {split.index: split.max_parts for split in splits}
    choices: list[Choice] = []
    for size in shape:
        possible = [index for index, parts in left.items() if parts >= size]
        index = rng.choice([*possible, None])
        if index is None:
            choices.append(Replicate())
        else:
            left[index] //= size
            choices.append(Along(index))
    return Strategy(tuple(choices), mesh)


def _random_mesh(rng: Random, cluster: Cluster) -> Mesh:
    """The devices beneath a prefix of the axes: one node of several, one device."""
    shape = whole_mesh(cluster).shape
    inner = shape[rng.randint(1, len(shape)) :]
    count = prod(inner)
    first = rng.randrange(cluster.num_devices // count) * count
    return Mesh(tuple(range(first, first + count)), inner)


def random_plan(graph: Graph, cluster: Cluster, seed: int = 0, *, subsets: bool = True) -> Plan:
    """A random strategy for every node."""
    rng, facts = Random(seed), GraphFacts(graph)
    strategies = {
        node.name: valid_strategy(rng, facts, node, cluster, subsets=subsets)
        for node in graph.nodes
    }
    return make_plan(graph, cluster, strategies, algorithm="random", seed=seed)


def valid_strategy(
    rng: Random, facts: GraphFacts, node: Node, cluster: Cluster, *, subsets: bool = True
) -> Strategy:
    """A random strategy that the node can follow."""
    splits = node_splits(facts.graph, node)
    for _ in range(8):
        strategy = random_strategy(rng, splits, cluster, subsets=subsets)
        try:
            place_node(facts, node, strategy, cluster)
        except InvalidStrategy:
            continue
        return strategy
    return Strategy((Replicate(),) * len(cluster.axes))
