r"""What a plan makes of a graph: where parts of operators are, and which copies of tensors.

    source(t)         the sharding in which a tensor is made, or an input lives between steps
    needs(t)          the shardings in which it is needed: by its readers, and, as the new value of
                      an input, where that lives; readers that need the same share one copy
    reading(t, ...)   the copy that one of its readers reads
    result(t)         where a result is in the end: what the step returns has no terms left

That copy, or the source itself, is held from the forward pass to the backward pass. A plan's `keep`
says which of them is, and the other one is brought back when a node behind the forward pass, a
*late* one, comes close to needing it (TensorOpt section 4, tensor reuse):

             forward pass                          later
    before   source ------------------------------ source --> copy again   FSDP gathers twice
                   \--> copy
    after    source                                /--> source again
                   \--> copy --------------------- copy

A view that a forward node made is no copy: a late node that reads it reads what it shows, and
brings that back where it has to.

Which tasks follow from this is the matter of `blocks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphwright.errors import InvalidStrategy
from graphwright.ir import Graph, Node
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
    replicated,
    shared_sharding,
    whole_mesh,
)
from graphwright.tasks.costs import Costs, fusion_of
from graphwright.tasks.graph_facts import GraphFacts
from graphwright.tasks.movement import Tasks
from graphwright.tasks.placing import Placed, place
from graphwright.tasks.templates import Templates


class Copy(NamedTuple):
    """A tensor in one sharding; `turn` is 1 for what is brought back for late nodes, else 0."""

    tensor: str
    sharding: Sharding
    turn: int


class Expansion:
    """A graph under a plan; `placed` may be exchanged node by node.

    Plans for one cluster and cost model may share a `cache`.
    """

    def __init__(
        self, facts: GraphFacts, plan: Plan, costs: Costs, cache: Templates | None = None
    ) -> None:
        check_plan(plan, facts.graph)
        self.facts, self.cluster, self.costs = facts, plan.cluster, costs
        self.fused = facts.fused(fusion_of(costs))
        self.mesh = whole_mesh(self.cluster)
        self.given: Mapping[str, Sharding] = plan.inputs
        self.returned: Mapping[str, Sharding] = plan.results
        self.keep: Mapping[str, Kept] = {}
        self.reused: frozenset[str] = frozenset()
        self._reuses: dict[str, _Reuse] = {}
        self.cache = Templates(self.cluster, costs) if cache is None else cache
        self.placed = self._place_all(plan)
        self.keep_copies(plan.keep)

    def _place_all(self, plan: Plan) -> list[Placed]:
        """Every node by its strategy; equal calls under equal strategies are placed once."""
        known: dict[tuple[int, Strategy], Placed] = {}
        all_placed: list[Placed] = []
        for node, call in zip(self.facts.graph.nodes, self.facts.call, strict=True):
            strategy = plan.strategy(node.name)
            placed = known.get((call, strategy))
            if placed is None:
                placed = known[call, strategy] = self.place(node, strategy)
            all_placed.append(placed)
        return all_placed

    def exchange(self, node: int, placed: Placed) -> None:
        """Give a node another place."""
        self.placed[node] = placed
        self._reuses.clear()

    def keep_copies(self, keep: Mapping[str, Kept]) -> None:
        """Say which copies are kept for late nodes."""
        self.keep = dict(keep)
        families = {self.facts.root[name] for name in keep}
        self.reused = frozenset(name for of in families for name in self.facts.family[of])
        self._reuses.clear()

    def place(self, node: Node, strategy: Strategy) -> Placed:
        """Spread a node over devices by a strategy."""
        return place_node(self.facts, node, strategy, self.cluster)

    def tasks(self, node: int) -> Tasks:
        """The parts of a node, one for each device in the order of the mesh."""
        op = self.facts.graph.nodes[node].op
        return self.cache.call(op, self.placed[node], self.facts.is_view[node], self.fused[node])

    def duration(self, node: int) -> NDArray[np.int64]:
        """Picoseconds of each part; all 0 for what computes nothing."""
        return self.tasks(node).duration

    def source(self, name: str) -> Sharding:
        """Where a tensor is when it has been made, or, for an input, between steps."""
        made = self.facts.producer.get(name)
        if made is not None:
            return self.placed[made[0]].outputs[made[1]]
        if name in self.given:
            return self.given[name]
        for reader, arg in self.facts.readers[name]:
            needed = self.placed[reader].inputs[arg]
            assert needed is not None
            return resting(needed)
        return replicated(self.mesh)

    def needs(self, name: str) -> dict[tuple[Sharding, int], int | None]:
        """The shardings in which a tensor is needed, in which turn.

        Each with the first node that needs it so, None for the end of the step.
        """
        needs: dict[tuple[Sharding, int], int | None] = {}
        again: dict[Sharding, int] = {}
        facts, reused = self.facts, name in self.reused
        for reader, arg in facts.readers[name]:
            needed = self.placed[reader].inputs[arg]
            assert needed is not None
            if not reused:
                needs.setdefault((needed, 0), reader)
                continue
            copy, first = self.reading(name, needed, reader), [reader]
            if not copy.turn:
                needs.setdefault((needed, 0), reader)
                if facts.shows(reader, name, arg) and not facts.late[reader]:
                    copy, first = self._late_copy(name, needed), self._late_readers(reader)
            if copy == Copy(name, needed, 1) and first:
                again[needed] = min(again.get(needed, first[0]), *first)
        for replaced in facts.replaces.get(name, ()):
            needs.setdefault((self.source(replaced), 0), None)
        if name in facts.results and self.source(name).is_partial:
            needs.setdefault((self.result(name), 0), None)
        return needs | {(needed, 1): first for needed, first in again.items()}

    def result(self, name: str) -> Sharding:
        """Where a result is when the step is done: as it was made, or added up from its terms."""
        source = self.source(name)
        if not source.is_partial:
            return source
        return self.returned.get(name) or resting(source)

    # -- which copies are kept --------------------------------------------------------------------

    def reading(self, name: str, needed: Sharding, reader: int) -> Copy:
        """The copy that a node reads where it needs a tensor in a sharding.

        Of a view it may be that of what the view shows.
        """
        if name in self.reused and self.facts.late[reader]:
            return self._late_copy(name, needed)
        return Copy(name, needed, 0)

    def start(self, copy: Copy) -> Sharding:
        """Where a copy is moved from: the source, or, where that was dropped, what was kept."""
        if copy.turn and self._reuse(copy.tensor).kept == "after":
            return self._reuse(copy.tensor).moved[0]
        return self.source(copy.tensor)

    def kept(self, name: str) -> Kept | None:
        """Which copy is kept for late nodes: what the plan says, where that makes a difference.

        None where all of them are.
        """
        return self._reuse(name).kept if name in self.reused else None

    def _reuse(self, name: str) -> _Reuse:
        reuse = self._reuses.get(name)
        if reuse is None:
            reuse = self._reuses[name] = self._find_reuse(name)
        return reuse

    def _find_reuse(self, name: str) -> _Reuse:
        facts, kept, made = self.facts, self.keep.get(name), self.facts.producer.get(name)
        if kept is None or (made is not None and facts.late[made[0]]):
            return _Reuse(None, ())
        source = self.source(name)
        needed = [(r, self.placed[r].inputs[arg]) for r, arg in facts.readers[name]]
        moved = [(r, n) for r, n in needed if n is not None and n != source]
        if kept == "before":
            return _Reuse("before" if moved else None, ())
        stays = (
            facts.is_resident(name)
            or (name in facts.results and not source.is_partial)
            or any(self.source(old) == source for old in facts.replaces.get(name, ()))
        )
        shape = facts.graph.tensors[name].type.shape
        early = dict.fromkeys(n for r, n in moved if not facts.late[r])
        whole = [
            n for n in early if _has_all(n, shape)
        ]  # the rest cannot be brought back from others
        after = tuple(dict.fromkeys([*whole, *early]))
        return _Reuse("after" if whole and not stays else None, after)

    def _late_copy(self, name: str, needed: Sharding) -> Copy:
        """The copy that late nodes read."""
        reuse, facts = self._reuse(name), self.facts
        is_source = needed == self.source(name)
        made = facts.producer.get(name)
        if reuse.kept == "before":
            return Copy(name, needed, 0 if is_source else 1)
        if reuse.kept == "after":
            return Copy(name, needed, 0 if needed in reuse.moved else 1)
        if is_source and made is not None and facts.is_view[made[0]] and not facts.late[made[0]]:
            viewed, arg = facts.viewed(made[0])
            shown = self.placed[made[0]].inputs[arg]
            assert shown is not None
            copy = self._late_copy(viewed, shown)
            if copy.turn:
                return copy
        return Copy(name, needed, 0)

    def _late_readers(self, view: int) -> list[int]:
        """The late nodes that read another copy of what a forward view shows, through it."""
        facts = self.facts
        late: list[int] = []
        for name in facts.graph.nodes[view].outputs:
            for reader, arg in facts.readers[name]:
                needed = self.placed[reader].inputs[arg]
                assert needed is not None
                if self._late_copy(name, needed).tensor == name:
                    continue
                if facts.late[reader]:
                    late.append(reader)
                elif facts.shows(reader, name, arg):
                    late += self._late_readers(reader)
        return late


@dataclass(frozen=True, slots=True)
class _Reuse:
    """Which copy of a tensor is kept, and the shardings to which forward nodes have it moved.

    These are in the order of the nodes, but those with all of the tensor come first.
    """

    kept: Kept | None
    moved: tuple[Sharding, ...]


@lru_cache(maxsize=65536)
def _has_all(sharding: Sharding, shape: tuple[int, ...]) -> bool:
    """Whether all of a tensor is there: strides leave out what is not read."""
    for dim, pieces in sharding.pieces:
        end = 0
        for start, stop in sorted(pieces):
            if start > end:
                return False
            end = max(end, stop)
        if end < shape[dim]:
            return False
    return True


def place_node(facts: GraphFacts, node: Node, strategy: Strategy, cluster: Cluster) -> Placed:
    """Spread a node over the devices of a cluster by a strategy."""
    i = facts.position[node.name]
    check_strategy(strategy, cluster, node.name)
    mesh = whole_mesh(cluster) if strategy.mesh is None else strategy.mesh
    try:
        return place(node.op, facts.attrs[i], facts.types[i], strategy, mesh)
    except InvalidStrategy as error:
        raise type(error)(f"{node.name}: {error}") from error


def place_all(graph: Graph, plan: Plan) -> list[Placed]:
    """Every node of a graph, spread as a plan says."""
    check_plan(plan, graph)
    facts = GraphFacts(graph)
    return [place_node(facts, node, plan.strategy(node.name), plan.cluster) for node in graph.nodes]


@lru_cache(maxsize=65536)
def resting(needed: Sharding) -> Sharding:
    """Where an input that is needed so lives: cut evenly, without halos, and no terms."""
    placements = tuple(Replicated() if isinstance(p, Partial) else p for p in needed.placements)
    return shared_sharding(needed.mesh, placements)
