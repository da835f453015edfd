r"""What a plan makes of a graph: where every operator's parts are, where every tensor is, and how it gets to where it is needed.

    source(t)       the sharding in which a tensor is made, or in which an input lives between steps
    needs(t)        the shardings in which it is needed: by its readers, and, as the new value of an input, where that lives
    movement        from the source to each of them; readers that need the same share one copy

That copy, or the source itself, is held from the forward pass to the backward pass. A plan's `keep` says which of them is, and the other one
is brought back when a node behind the forward pass, a *late* one, comes close to needing it (TensorOpt section 4, tensor reuse):

             forward pass                          later
    before   source ------------------------------ source --> copy again      FSDP: parameters are gathered twice
                   \--> copy
    after    source                                /--> source again
                   \--> copy --------------------- copy

A view that a forward node made is no copy: a late node that reads it reads what it shows, and brings that back where it has to.

From this `assemble` makes the whole task graph, and `simulate.Incremental` the difference that one operator's new strategy makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphwright.errors import InvalidStrategy
from graphwright.ir import CONSTANT_OP, Graph, Node, TensorType
from graphwright.machine import Cluster
from graphwright.plans import (
    Kept,
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
from graphwright.tasks.costs import Costs, Pooled
from graphwright.tasks.movement import Movement, movement, picoseconds
from graphwright.tasks.placing import Placed, place
from graphwright.tasks.reshard import reshard
from graphwright.tasks.site import Site
from graphwright.tasks.staging import Order

_LOCAL_BITS = 17
_MOVE_BITS = 26


class Copy(NamedTuple):
    """A tensor in one sharding; `turn` is 1 for what is brought back for late nodes, otherwise 0."""

    tensor: str
    sharding: Sharding
    turn: int


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """One tensor brought to one sharding; `number` orders the moves that follow one node or precede it.

    It starts from the copy that the tensor has in the movement's source sharding, in turn 0.
    """

    tensor: str
    target: Sharding
    turn: int
    movement: Movement
    position: int
    number: int
    pacemaker: int | None


class Expansion:
    """A graph under a plan; `placed` may be exchanged node by node. Plans for one cluster and cost model may share a `cache`."""

    def __init__(
        self, site: Site, plan: Plan, costs: Costs, cache: Movements | None = None
    ) -> None:
        check_plan(plan, site.graph)
        self.site, self.cluster, self.costs = site, plan.cluster, costs
        self.mesh = whole_mesh(self.cluster)
        self.given: Mapping[str, Sharding] = plan.inputs
        self.keep: Mapping[str, Kept] = {}
        self.reused: frozenset[str] = frozenset()
        self._reuses: dict[str, _Reuse] = {}
        self.cache = Movements(self.cluster, costs) if cache is None else cache
        self.placed = [self.place(node, plan.strategy(node.name)) for node in site.graph.nodes]
        self.keep_copies(plan.keep)

    def exchange(self, node: int, placed: Placed) -> None:
        """Give a node another place."""
        self.placed[node] = placed
        self._reuses.clear()

    def keep_copies(self, keep: Mapping[str, Kept]) -> None:
        """Say which copies are kept for late nodes."""
        self.keep = dict(keep)
        families = {self.site.root[name] for name in keep}
        self.reused = frozenset(name for of in families for name in self.site.family[of])
        self._reuses.clear()

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

    def needs(self, name: str) -> dict[tuple[Sharding, int], int | None]:
        """The shardings in which a tensor is needed, in which turn, and the first node that needs it so, None for the end of the step."""
        found: dict[tuple[Sharding, int], int | None] = {}
        again: dict[Sharding, int] = {}
        site = self.site
        for reader, arg in site.readers[name]:
            needed = self.placed[reader].inputs[arg]
            assert needed is not None
            if name not in self.reused:
                found.setdefault((needed, 0), reader)
                continue
            copy, first = self.reading(name, needed, reader), [reader]
            if not copy.turn:
                found.setdefault((needed, 0), reader)
                if site.shows(reader, name, arg) and not site.late[reader]:
                    copy, first = self._late_copy(name, needed), self._late_readers(reader)
            if copy == Copy(name, needed, 1) and first:
                again[needed] = min(again.get(needed, first[0]), *first)
        for replaced in site.replaces.get(name, ()):
            found.setdefault((self.source(replaced), 0), None)
        if name in site.results and self.source(name).is_partial:  # what the step returns is whole
            found.setdefault((resting(self.source(name)), 0), None)
        return found | {(needed, 1): first for needed, first in again.items()}

    def moves(self, name: str) -> dict[tuple[Sharding, int], Move]:
        """How a tensor gets to each sharding in which it is needed and is not, turn by turn."""
        source = self.source(name)
        found: dict[tuple[Sharding, int], Move] = {}
        made = self.site.producer.get(name)
        type = self.site.graph.tensors[name].type
        for (target, turn), first in self.needs(name).items():
            if target == source and not turn:
                continue
            start = self.start(Copy(name, target, turn))
            if first is not None and (turn or self.site.is_resident(name)):
                position, pacemaker = 2 * first + 1, self.site.pacemaker(first)
            elif made is not None:
                position, pacemaker = compute_position(made[0]), None
            else:  # an input that takes the place of another at the end of the step
                position, pacemaker = 2 * len(self.placed) + 1, None
            found[target, turn] = Move(
                tensor=name,
                target=target,
                turn=turn,
                movement=self.cache.movement(
                    type, start, target, self.site.is_gathered(name), self.site.order.get(name)
                ),
                position=position,
                number=_number(name, target, turn),
                pacemaker=pacemaker,
            )
        return found

    # -- which copies are kept ------------------------------------------------------------------------

    def reading(self, name: str, needed: Sharding, reader: int) -> Copy:
        """The copy that a node reads where it needs a tensor in a sharding; of a view perhaps that of what it shows."""
        if name in self.reused and self.site.late[reader]:
            return self._late_copy(name, needed)
        return Copy(name, needed, 0)

    def start(self, copy: Copy) -> Sharding:
        """Where a copy is moved from: the source, but for what is brought back once that is dropped."""
        if copy.turn and self._reuse(copy.tensor).kept == "after":
            return self._reuse(copy.tensor).moved[0]
        return self.source(copy.tensor)

    def kept(self, name: str) -> Kept | None:
        """Which copy of a tensor is kept for late nodes, None for all: what the plan says, where that makes a difference."""
        return self._reuse(name).kept if name in self.reused else None

    def _reuse(self, name: str) -> _Reuse:
        found = self._reuses.get(name)
        if found is None:
            found = self._reuses[name] = self._find_reuse(name)
        return found

    def _find_reuse(self, name: str) -> _Reuse:
        site, kept, made = self.site, self.keep.get(name), self.site.producer.get(name)
        if kept is None or (made is not None and site.late[made[0]]):
            return _Reuse(None, ())
        source = self.source(name)
        needed = [(r, self.placed[r].inputs[arg]) for r, arg in site.readers[name]]
        moved = [(r, n) for r, n in needed if n is not None and n != source]
        if kept == "before":
            return _Reuse("before" if moved else None, ())
        stays = (
            site.is_resident(name)
            or (name in site.results and not source.is_partial)
            or any(self.source(old) == source for old in site.replaces.get(name, ()))
        )
        shape = site.graph.tensors[name].type.shape
        early = dict.fromkeys(n for r, n in moved if not site.late[r])
        whole = [
            n for n in early if _has_all(n, shape)
        ]  # the rest cannot be brought back from others
        after = tuple(dict.fromkeys([*whole, *early]))
        return _Reuse("after" if whole and not stays else None, after)

    def _late_copy(self, name: str, needed: Sharding) -> Copy:
        """The copy that late nodes read."""
        reuse, site = self._reuse(name), self.site
        is_source = needed == self.source(name)
        made = site.producer.get(name)
        if reuse.kept == "before":
            return Copy(name, needed, 0 if is_source else 1)
        if reuse.kept == "after":
            return Copy(name, needed, 0 if needed in reuse.moved else 1)
        if is_source and made is not None and site.is_view[made[0]] and not site.late[made[0]]:
            viewed, arg = site.viewed(made[0])
            shown = self.placed[made[0]].inputs[arg]
            assert shown is not None
            copy = self._late_copy(viewed, shown)
            if copy.turn:
                return copy
        return Copy(name, needed, 0)

    def _late_readers(self, view: int) -> list[int]:
        """The late nodes that read, through a forward view or views of it, another copy of what the view shows."""
        site = self.site
        found: list[int] = []
        for name in site.graph.nodes[view].outputs:
            for reader, arg in site.readers[name]:
                needed = self.placed[reader].inputs[arg]
                assert needed is not None
                if self._late_copy(name, needed).tensor == name:
                    continue
                if site.late[reader]:
                    found.append(reader)
                elif site.shows(reader, name, arg):
                    found += self._late_readers(reader)
        return found


@dataclass(frozen=True, slots=True)
class _Reuse:
    """Which copy of a tensor is kept, and the shardings to which it is moved for forward nodes: in their order, those with all of it first."""

    kept: Kept | None
    moved: tuple[Sharding, ...]


@lru_cache(maxsize=65536)
def _has_all(sharding: Sharding, shape: tuple[int, ...]) -> bool:
    """Whether all of a tensor is there: an operator with strides leaves out what it does not read."""
    for dim, pieces in sharding.pieces:
        end = 0
        for start, stop in sorted(pieces):
            if start > end:
                return False
            end = max(end, stop)
        if end < shape[dim]:
            return False
    return True


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
        alone = any(not device.overlaps for device in cluster.devices)
        self.pooled = Pooled(costs) if alone else costs
        kinds = list(dict.fromkeys(cluster.devices))
        self.kinds = kinds
        self.kind_of = np.array([kinds.index(d) for d in cluster.devices], dtype=np.int64)
        self._durations: dict[tuple[str, Placed], NDArray[np.int64]] = {}
        self._movements: dict[tuple[TensorType, Sharding, Sharding, bool, Order], Movement] = {}

    def forget_beyond(self, most: int) -> None:
        """Begin anew once there are more of them than `most`."""
        if len(self._durations) + len(self._movements) > most:
            self._durations.clear()
            self._movements.clear()

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

    def movement(
        self,
        type: TensorType,
        source: Sharding,
        target: Sharding,
        pooled: bool = False,
        order: Order = None,
    ) -> Movement:
        """The tasks that bring a tensor of `type`, laid out in an order, from one sharding to another; `pooled`: small sums go in buckets."""
        key = (type, source, target, pooled, order)
        found = self._movements.get(key)
        if found is None:
            costs = self.pooled if pooled else self.costs
            steps = reshard(self.cluster, costs, type, source, target, order)
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
def _number(tensor: str, target: Sharding, turn: int) -> int:
    """A number from 1 on that depends on the tensor, the sharding and the turn alone, whatever else there is."""
    words = f"{tensor} {_digest(target)}" + " again" * turn
    digest = blake2b(words.encode(), digest_size=8).digest()
    return 1 + int.from_bytes(digest, "big") % ((1 << _MOVE_BITS) - 1)


@lru_cache(maxsize=65536)
def _digest(sharding: Sharding) -> str:
    return blake2b(repr(sharding).encode(), digest_size=8).hexdigest()
