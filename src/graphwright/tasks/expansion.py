"""What a plan makes of a graph: where every operator's parts are, where every tensor is, and how it gets to where it is needed.

    source(t)       the sharding in which a tensor is made, or in which an input lives between steps
    wanted(t)       the shardings in which it is needed: by its readers, and, as the new value of an input, where that lives
    movement        from the source to each of them; readers that need the same share one copy

From this `assemble` makes the whole task graph, and `simulate.Incremental` the difference that one operator's new strategy makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from graphwright.describe import Types, properties, types_of
from graphwright.errors import InvalidStrategy
from graphwright.ir import CONSTANT_OP, Attrs, Graph, Node, Role, TensorType
from graphwright.machine import Cluster
from graphwright.plans import (
    CATEGORIES,
    Partial,
    Plan,
    Replicated,
    Sharding,
    Strategy,
    check_plan,
    check_strategy,
    device_array,
    replicated,
    whole_mesh,
)
from graphwright.tasks.costs import Costs
from graphwright.tasks.movement import Movement, movement, picoseconds
from graphwright.tasks.placing import Placed, place
from graphwright.tasks.reshard import reshard

PREFETCH = 8
"""A graph input that has to be moved is fetched when the device has come this close, in nodes that compute, to its first reader."""

_LOOKAHEAD = 8
"""How many readers in a row are asked what a node without a cause is for."""

_LOCAL_BITS = 17
_MOVE_BITS = 26
_ROLES = {
    Role.PARAMETER: "parameter",
    Role.BUFFER: "parameter",
    Role.OPTIMIZER_STATE: "optimizer_state",
}


class Site:
    """What the graph itself says, worked out once: readers, producers, views, categories of memory."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.position = {node.name: i for i, node in enumerate(graph.nodes)}
        self.types = [types_of(graph, node) for node in graph.nodes]
        self.attrs = [
            n.attrs if isinstance(n.attrs, Attrs) else Attrs(n.attrs) for n in graph.nodes
        ]
        self.producer: dict[str, tuple[int, int]] = {}
        self.readers: dict[str, list[tuple[int, int]]] = {name: [] for name in graph.tensors}
        for i, node in enumerate(graph.nodes):
            for arg, name in enumerate(node.inputs):
                if name is not None:
                    self.readers[name].append((i, arg))
            for output, name in enumerate(node.outputs):
                self.producer[name] = (i, output)
        self.replaces: dict[str, list[str]] = {}
        for old, new in graph.updates.items():
            self.replaces.setdefault(new, []).append(old)
        self.is_view = [
            node.op != CONSTANT_OP and _is_view(node.op, a, t)
            for node, a, t in zip(graph.nodes, self.attrs, self.types, strict=True)
        ]
        self._computing = self._computing_before()
        self.results = frozenset(graph.outputs) - self.replaces.keys()
        self.turns = self._turns()

    def pacemaker(self, reader: int) -> int | None:
        """The node after which an input that `reader` is the first to need is fetched."""
        before = self._computing[reader]
        return before[-PREFETCH] if len(before) >= PREFETCH else None

    def writer(self, name: str) -> int | None:
        """The node that makes the new value of an input, which is written to where the old one is."""
        new = self.graph.updates.get(name)
        made = None if new is None else self.producer.get(new)
        return None if made is None else made[0]

    def _turns(self) -> dict[int, tuple[int, ...]]:
        """Nodes that wait for others without reading what they make, device by device.

        Those that would be ready at once wait for what they are joined with; and who writes a new value waits for the readers of the old.
        """
        found: dict[int, list[int]] = {
            after: [before] for after, before in self._unprompted().items()
        }
        for name in self.graph.updates:
            writer = self.writer(name)
            if writer is not None:
                earlier = [reader for reader, _ in self.readers[name] if reader < writer]
                found.setdefault(writer, []).extend(dict.fromkeys(earlier))
        return {after: tuple(befores) for after, befores in found.items()}

    def category(self, name: str) -> int:
        """The category of a tensor's memory, as a number of CATEGORIES."""
        tensor = self.graph.tensors[name]
        if tensor.role is Role.GRADIENT and tensor.of is not None:
            of = self.graph.tensors[tensor.of]
            return CATEGORIES.index("gradient" if of.role is Role.PARAMETER else "activation")
        return CATEGORIES.index(_ROLES.get(tensor.role, "activation"))

    def _computing_before(self) -> list[tuple[int, ...]]:
        """For every node, the last PREFETCH nodes before it that compute something from something."""
        recent: tuple[int, ...] = ()
        found: list[tuple[int, ...]] = []
        for i, node in enumerate(self.graph.nodes):
            found.append(recent)
            if not self.is_view[i] and any(name is not None for name in node.inputs):
                recent = (*recent[1 - PREFETCH :], i) if PREFETCH > 1 else (i,)
        return found

    def _prompted(self) -> set[str]:
        """What depends on the data of the step, through any number of nodes."""
        given = {n for n in self.graph.inputs if self.graph.tensors[n].role is Role.INPUT}
        for node in self.graph.nodes:
            if any(name in given for name in node.inputs):
                given.update(node.outputs)
        return given - set(self.graph.inputs)

    def _unprompted(self) -> dict[int, int]:
        """Nodes that nothing but inputs of the graph lead to, each with a node that it waits for.

        They would be ready at once, and hold what they make until it is needed: so ``momentum * state`` waits for the gradient that it is to
        be added to. Single numbers need no such care.
        """
        prompted = self._prompted()
        found: dict[int, int] = {}
        for i, node in enumerate(self.graph.nodes):
            tiny = all(self.graph.tensors[name].type.rank == 0 for name in node.outputs)
            if prompted.isdisjoint(node.outputs) and not self.is_view[i] and not tiny:
                before = self._counterpart(i, prompted)
                if before is not None:
                    found[i] = before
        return found

    def _counterpart(self, i: int, prompted: set[str]) -> int | None:
        """Where what joins the result of a node in its first reader comes from, or the computing node before it."""
        last = self._computing[i][-1] if self._computing[i] else None
        current = i
        for _ in range(_LOOKAHEAD):
            readers = [
                r for name in self.graph.nodes[current].outputs for r, _ in self.readers[name]
            ]
            if not readers:
                break
            current = min(readers)
            makers = [
                self.producer[name][0]
                for name in self.graph.nodes[current].inputs
                if name in prompted
            ]
            earlier = [maker for maker in makers if maker < i]
            if earlier:
                return max(earlier)
            if makers:
                break
        return last


@lru_cache(maxsize=65536)
def _is_view(op: str, attrs: Attrs, types: Types) -> bool:
    return properties(op, attrs, types).view


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """One tensor brought to one sharding; `number` orders the moves that follow one node or precede it."""

    tensor: str
    target: Sharding
    movement: Movement
    position: int
    number: int
    pacemaker: int | None


class Expansion:
    """A graph under a plan; `placed` may be exchanged node by node."""

    def __init__(self, site: Site, plan: Plan, costs: Costs) -> None:
        check_plan(plan, site.graph)
        self.site, self.cluster, self.costs = site, plan.cluster, costs
        self.mesh = whole_mesh(self.cluster)
        self.given: Mapping[str, Sharding] = plan.inputs
        self.cache = Movements(self.cluster, costs)
        self.placed = [self.place(node, plan.strategy(node.name)) for node in site.graph.nodes]

    def place(self, node: Node, strategy: Strategy) -> Placed:
        """Spread a node over devices by a strategy."""
        return place_node(self.site, node, strategy, self.cluster)

    def duration(self, node: int) -> NDArray[np.int64]:
        """Picoseconds of each device's part, in the order of the mesh; all 0 for what computes nothing."""
        op = self.site.graph.nodes[node].op
        return self.cache.durations(op, self.placed[node], self.site.is_view[node])

    def source(self, name: str) -> Sharding:
        """Where a tensor is when it has been made, or, for an input, between steps."""
        made = self.site.producer.get(name)
        if made is not None:
            return self.placed[made[0]].outputs[made[1]]
        if name in self.given:
            return self.given[name]
        for reader, arg in self.site.readers[name]:
            needed = self.placed[reader].inputs[arg]
            assert needed is not None
            return resting(needed)
        return replicated(self.mesh)

    def wanted(self, name: str) -> dict[Sharding, int | None]:
        """The shardings in which a tensor is needed, with the first node that needs it so, None for the end of the step."""
        found: dict[Sharding, int | None] = {}
        for reader, arg in self.site.readers[name]:
            needed = self.placed[reader].inputs[arg]
            assert needed is not None
            found.setdefault(needed, reader)
        for replaced in self.site.replaces.get(name, ()):
            found.setdefault(self.source(replaced), None)
        if name in self.site.results and self.source(name).is_partial:
            found.setdefault(resting(self.source(name)), None)  # what the step returns is whole
        return found

    def moves(self, name: str) -> dict[Sharding, Move]:
        """How a tensor gets to each sharding in which it is needed and is not."""
        source = self.source(name)
        found: dict[Sharding, Move] = {}
        made = self.site.producer.get(name)
        type = self.site.graph.tensors[name].type
        for target, reader in self.wanted(name).items():
            if target == source:
                continue
            if made is not None:
                position, pacemaker = 2 * made[0] + 2, None
            elif reader is not None:
                position, pacemaker = 2 * reader + 1, self.site.pacemaker(reader)
            else:  # an input that takes the place of another at the end of the step
                position, pacemaker = 2 * len(self.placed) + 1, None
            found[target] = Move(
                tensor=name,
                target=target,
                movement=self.cache.movement(type, source, target),
                position=position,
                number=_number(name, target),
                pacemaker=pacemaker,
            )
        return found


def place_node(site: Site, node: Node, strategy: Strategy, cluster: Cluster) -> Placed:
    """Spread a node over the devices of a cluster by a strategy."""
    i = site.position[node.name]
    check_strategy(strategy, cluster, node.name)
    mesh = whole_mesh(cluster) if strategy.mesh is None else strategy.mesh
    try:
        return place(node.op, site.attrs[i], site.types[i], strategy, mesh)
    except InvalidStrategy as error:
        raise type(error)(f"{node.name}: {error}") from error


def place_all(graph: Graph, plan: Plan) -> list[Placed]:
    """Every node of a graph, spread as a plan says."""
    check_plan(plan, graph)
    site = Site(graph)
    return [place_node(site, node, plan.strategy(node.name), plan.cluster) for node in graph.nodes]


class Movements:
    """Durations and movements, each worked out once for a cluster and a cost model."""

    def __init__(self, cluster: Cluster, costs: Costs) -> None:
        self.cluster, self.costs = cluster, costs
        kinds = list(dict.fromkeys(cluster.devices))
        self.kinds = kinds
        self.kind_of = np.array([kinds.index(d) for d in cluster.devices], dtype=np.int64)
        self._durations: dict[tuple[str, Placed], NDArray[np.int64]] = {}
        self._movements: dict[tuple[TensorType, Sharding, Sharding], Movement] = {}

    def durations(self, op: str, placed: Placed, is_view: bool) -> NDArray[np.int64]:
        """Picoseconds of each part of an operator."""
        found = self._durations.get((op, placed))
        if found is None:
            table = np.zeros((len(placed.classes), len(self.kinds)), dtype=np.int64)
            if not is_view and op != CONSTANT_OP:
                for c, part in enumerate(placed.classes):
                    for k, device in enumerate(self.kinds):
                        seconds = self.costs.compute(op, part.attrs, part.types, device)
                        table[c, k] = picoseconds(seconds)
            kinds = self.kind_of[device_array(placed.mesh)]
            found = self._durations[op, placed] = table[placed.class_of, kinds]
        return found

    def movement(self, type: TensorType, source: Sharding, target: Sharding) -> Movement:
        """The tasks that bring a tensor of `type` from one sharding to another."""
        key = (type, source, target)
        found = self._movements.get(key)
        if found is None:
            steps = reshard(self.cluster, self.costs, type, source, target)
            found = self._movements[key] = movement(steps, type, source, target)
        return found


@lru_cache(maxsize=65536)
def resting(needed: Sharding) -> Sharding:
    """The sharding in which an input that is needed so lives: cut evenly, without halos, and no terms."""
    placements = tuple(Replicated() if isinstance(p, Partial) else p for p in needed.placements)
    return Sharding(needed.mesh, placements)


def key_base(position: int, number: int) -> int:
    """The key of the first task of a block; keys are topological and depend on nothing but what the block is."""
    return (position << (_MOVE_BITS + _LOCAL_BITS)) | (number << _LOCAL_BITS)


def compute_position(node: int) -> int:
    """The position of a node's block; its outputs' moves share it, moves of inputs have the odd one before."""
    return 2 * node + 2


@lru_cache(maxsize=1 << 20)
def _number(tensor: str, target: Sharding) -> int:
    """A number from 1 on that depends on the tensor and the sharding alone, whatever else there is."""
    digest = blake2b(f"{tensor} {_digest(target)}".encode(), digest_size=8).digest()
    return 1 + int.from_bytes(digest, "big") % ((1 << _MOVE_BITS) - 1)


@lru_cache(maxsize=65536)
def _digest(sharding: Sharding) -> str:
    return blake2b(repr(sharding).encode(), digest_size=8).hexdigest()
