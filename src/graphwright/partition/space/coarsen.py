"""Which operators are split alike: from a graph of thousands of nodes to tens of groups per layer
(Tofu section 5.1).

    x --> [mm] --> [+ bias, gelu] --> [mm] --> [+ bias, dropout, + x, layer norm] --> ...
          dx dw     and gradients     dx dw

    heavy   one operator that contracts, or looks up, what it reads, with its backward operators;
            those of one kind that read the same tensor (query, key and value) go together, and so
            do the time steps of an unrolled recurrence
    light   element-wise operators, normalisations and the like between heavy ones: a connected run
            with the same number of heavy operators before it, so that no path leaves a group and
            comes back; a skip connection joins two groups
    update  what updates one parameter; it says where that and its state live between steps
    free    what is computed from single numbers; every device does it

A view belongs to what makes the viewed tensor, or, for a view of an input or of what is computed
from no data (a table of cosines that all layers read), to its reader. Backward
operators belong to their forward partner; terms of one gradient are added where they are made if
they are all made in one group. Everything is derived from descriptions; `Coarse.groups` hold every
node of the graph that is not free exactly once, so undoing is exact.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum

from graphwright.describe import Combine, Cost, cost, properties, splits
from graphwright.ir import CONSTANT_OP, Graph, Node, Phase, Role
from graphwright.tasks import GraphFacts, facts_of

_INTENSITY = 16
"""Operations for each element read or written from which on an operator counts as heavy, whatever
it does."""


class Weight(StrEnum):
    """What kind of group it is."""

    HEAVY = "heavy"
    LIGHT = "light"
    UPDATE = "update"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Group:
    """Operators that are split together.

    A slot holds the nodes (by their positions in the graph) that always have the same strategy: one
    node, or one for each time step. The `lead` slot is the one whose splits name the
    configurations. `inputs` are the graph inputs that live as the group says.
    """

    weight: Weight
    slots: tuple[tuple[int, ...], ...]
    lead: int
    inputs: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(node for slot in self.slots for node in slot)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Coarse:
    """A graph in groups; `group_of` and `slot_of` say where each node is, -1 for free ones."""

    facts: GraphFacts
    groups: tuple[Group, ...]
    group_of: tuple[int, ...]
    slot_of: tuple[int, ...]

    def __repr__(self) -> str:
        return f"Coarse({len(self.group_of):,} nodes in {len(self.groups):,} groups)"


def coarsen(
    graph: Graph | GraphFacts, *, merge_steps: bool = True, merge_siblings: bool = True
) -> Coarse:
    """Group the nodes of a graph."""
    facts = facts_of(graph)
    return _Coarsening(facts, merge_steps, merge_siblings).run()


def signature(coarse: Coarse, group: Group) -> Hashable:
    """What two groups have in common when one is the other in another layer: operators, wiring, and
    what is a gradient of what."""
    graph, facts = coarse.facts.graph, coarse.facts
    number: dict[str, int] = {}
    rows: list[Hashable] = []

    def label(name: str | None) -> Hashable:
        if name is None:
            return None
        tensor = graph.tensors[name]
        of = None if tensor.of is None else number.setdefault(tensor.of, len(number))
        return number.setdefault(name, len(number)), tensor.role, of

    for slot in group.slots:
        i = slot[len(slot) // 2]
        node = graph.nodes[i]
        rows.append(
            (
                node.op,
                facts.attrs[i],
                facts.types[i],
                node.phase,
                len(slot),
                tuple(map(label, node.inputs)),
                tuple(map(label, node.outputs)),
            )
        )
    residents = tuple((label(name), graph.tensors[name].type) for name in group.inputs)
    return group.weight, group.lead, tuple(rows), residents


class _Classes:
    """Disjoint sets of numbers.

    SciPy's `DisjointSet` does the same on dictionaries, at several times the time and a second's
    import; `connected_components` wants all pairs at once, but which sums are joined depends on
    earlier joins.
    """

    def __init__(self, count: int) -> None:
        self.parent = list(range(count))

    def find(self, i: int) -> int:
        root = i
        while self.parent[root] != root:
            root = self.parent[root]
        while self.parent[i] != root:
            self.parent[i], i = root, self.parent[i]
        return root

    def join(self, i: int, j: int) -> None:
        a, b = self.find(i), self.find(j)
        self.parent[max(a, b)] = min(a, b)


class _Coarsening:
    def __init__(self, facts: GraphFacts, merge_steps: bool, merge_siblings: bool) -> None:
        self.facts, self.graph = facts, facts.graph
        self.merge_steps, self.merge_siblings = merge_steps, merge_siblings
        self.nodes = facts.graph.nodes
        self.classes = _Classes(len(self.nodes))
        self.costs = _costs(facts)
        self.free = self._free()
        self.heavy = [
            node.phase is Phase.FORWARD and i not in self.free and self._is_heavy(i)
            for i, node in enumerate(self.nodes)
        ]

    def run(self) -> Coarse:
        """Join what goes together, and number the groups by their first nodes."""
        self._join_forward()
        sums = self._join_backward()
        self._join_updates()
        if self.merge_siblings:
            self._join_siblings()
        if self.merge_steps:
            self._join_steps()
        self._join_sums(sums)
        members: dict[int, list[int]] = {}
        for i in range(len(self.nodes)):
            if i not in self.free:
                members.setdefault(self.classes.find(i), []).append(i)
        groups = [self._group(nodes) for nodes in members.values()]
        group_of, slot_of = [-1] * len(self.nodes), [-1] * len(self.nodes)
        for g, group in enumerate(groups):
            for s, slot in enumerate(group.slots):
                for node in slot:
                    group_of[node], slot_of[node] = g, s
        return Coarse(
            facts=self.facts,
            groups=tuple(groups),
            group_of=tuple(group_of),
            slot_of=tuple(slot_of),
        )

    # -- what a node is ---------------------------------------------------------------------------

    def _free(self) -> set[int]:
        """Nodes that are computed from single numbers and constants, and those that gather a number
        of each of several parameters."""
        single = {name for name in self.graph.inputs if self.graph.tensors[name].type.numel <= 1}
        free: set[int] = set()
        for i, node in enumerate(self.nodes):
            given = all(name is None or name in single for name in node.inputs)
            small = all(self.graph.tensors[n].type.numel <= 1 for n in node.outputs)
            if (given and small) or self._gathers(node):
                free.add(i)
                single.update(node.outputs)
        return free

    def _gathers(self, node: Node) -> bool:
        """Whether an update node reads nothing but single numbers, from the updates of several
        parameters: the norm of all gradients."""
        if node.phase is not Phase.UPDATE:
            return False
        makers = [self.facts.producer.get(name) for name in node.inputs if name is not None]
        owners = {self.nodes[made[0]].parameter for made in makers if made is not None}
        return len(owners) > 1 and all(
            self.graph.tensors[name].type.numel <= 1 for name in node.inputs if name is not None
        )

    def _is_heavy(self, i: int) -> bool:
        node, types = self.nodes[i], self.facts.types[i]
        if self.facts.is_view[i] or node.op == CONSTANT_OP:
            return False
        elements = sum(t.numel for t in (*types.inputs, *types.outputs) if t is not None)
        if self.costs[i].operations >= _INTENSITY * elements:
            return True
        if any(self._is_matrix(name) for name in node.inputs if name is not None):
            return not properties(node.op, self.facts.attrs[i], types).elementwise
        return _contracts(self.facts, i)

    def _is_matrix(self, name: str) -> bool:
        """Whether a tensor is a parameter of two dims or more, or a view of one."""
        tensor = self.graph.tensors[self.facts.root[name]]
        return tensor.role is Role.PARAMETER and tensor.type.rank >= 2

    # -- joining ----------------------------------------------------------------------------------

    def _join_forward(self) -> None:
        """Views with what they view, and light operators with light neighbours that are as deep."""
        depth, rooted = self._depths()
        anchored = list(self.heavy)  # a heavy operator, or a view of what one makes
        for i, node in enumerate(self.nodes):
            if node.phase is not Phase.FORWARD or i in self.free:
                continue
            if self.facts.is_view[i] and not rooted[i]:
                self._join_reader(i)
                continue
            for name in node.inputs:
                made = self.facts.producer.get(name) if name is not None else None
                if made is None or made[0] in self.free:
                    continue
                if self.facts.is_view[i]:
                    self.classes.join(i, made[0])
                    anchored[i] |= anchored[made[0]]
                elif not anchored[i] and not anchored[made[0]] and depth[i] == depth[made[0]]:
                    self.classes.join(i, made[0])
            if self.facts.is_view[i] and all(
                name is None or name not in self.facts.producer for name in node.inputs
            ):
                self._join_reader(i)

    def _join_reader(self, i: int) -> None:
        for name in self.nodes[i].outputs:
            for reader, _ in self.facts.readers[name]:
                if self.nodes[reader].phase is Phase.FORWARD and reader not in self.free:
                    self.classes.join(i, reader)
                    return

    def _depths(self) -> tuple[list[int], list[bool]]:
        """The greatest number of heavy forward nodes on a path to each node, and whether it depends
        on data; what does not is as deep as its first reader."""
        depth = [0] * len(self.nodes)
        rooted = [False] * len(self.nodes)
        for i, node in enumerate(self.nodes):
            if node.phase is not Phase.FORWARD:
                continue
            for name in node.inputs:
                if name is None:
                    continue
                made = self.facts.producer.get(name)
                if made is None:
                    rooted[i] |= self.graph.tensors[name].role is Role.INPUT
                else:
                    before = made[0]
                    rooted[i] |= self.heavy[before]
                    rooted[i] |= rooted[before]
                    depth[i] = max(depth[i], depth[before] + self.heavy[before])
        for i in reversed(range(len(self.nodes))):
            if self.nodes[i].phase is Phase.FORWARD and not rooted[i]:
                readers = [
                    depth[r]
                    for name in self.nodes[i].outputs
                    for r, _ in self.facts.readers[name]
                    if self.nodes[r].phase is Phase.FORWARD
                ]
                depth[i] = min(readers, default=0)
        return depth, rooted

    def _join_backward(self) -> list[int]:
        """Backward nodes with their partners; sums of a gradient's terms are for later."""
        sums: list[int] = []
        for i, node in enumerate(self.nodes):
            if node.phase is not Phase.BACKWARD or i in self.free:
                continue
            if self._is_sum(i):
                sums.append(i)
            else:
                self._join_partner(i)
        return sums

    def _is_sum(self, i: int) -> bool:
        """Whether a backward node adds up terms of a gradient: linear in them, of one shape."""
        node, types = self.nodes[i], self.facts.types[i]
        terms = [arg for arg, name in enumerate(node.inputs) if name is not None]
        if len(terms) < 2 or any(types.inputs[arg] != types.outputs[0] for arg in terms):
            return False
        return frozenset(terms) in properties(node.op, self.facts.attrs[i], types).linear

    def _join_sums(self, sums: list[int]) -> None:
        """Terms made in one group are added there, others where the gradient belongs."""
        for i in sums:
            makers = [
                self.facts.producer[name][0] if name in self.facts.producer else None
                for name in self.nodes[i].inputs
                if name is not None
            ]
            groups = {None if m is None else self.classes.find(m) for m in makers}
            if len(groups) == 1 and None not in groups:
                self.classes.join(i, next(m for m in makers if m is not None))
            else:
                self._join_partner(i)

    def _join_partner(self, i: int) -> None:
        node = self.nodes[i]
        partner = self.facts.position.get(node.partner) if node.partner else None
        if partner is not None and partner not in self.free:
            self.classes.join(i, partner)
        else:
            self._join_neighbour(i)

    def _join_neighbour(self, i: int) -> None:
        """A backward node that nobody is the partner of goes with what makes its first input."""
        for name in self.nodes[i].inputs:
            made = self.facts.producer.get(name) if name is not None else None
            if made is not None and made[0] not in self.free:
                self.classes.join(i, made[0])
                return

    def _join_updates(self) -> None:
        """All nodes that update one parameter."""
        first: dict[str, int] = {}
        for i, node in enumerate(self.nodes):
            if node.phase is Phase.UPDATE and i not in self.free:
                if node.parameter is None:
                    self._join_neighbour(i)
                else:
                    self.classes.join(i, first.setdefault(node.parameter, i))

    def _join_siblings(self) -> None:
        """Heavy operators of one kind, layer and time step that read the same tensor, which is no
        parameter, as the same argument."""
        first: dict[Hashable, int] = {}
        for i, node in enumerate(self.nodes):
            if not self.heavy[i]:
                continue
            for arg, name in enumerate(node.inputs):
                made = self.facts.producer.get(name) if name is not None else None
                if made is None or self._is_matrix(name or ""):
                    continue
                key = (name, arg, node.op, self.facts.attrs[i], node.layer, node.step)
                self.classes.join(i, first.setdefault(key, i))

    def _join_steps(self) -> None:
        """The nodes that do the same at different time steps."""
        seen: dict[Hashable, int] = {}
        first: dict[Hashable, int] = {}
        for i, node in enumerate(self.nodes):
            if node.step is None or i in self.free:
                continue
            place = (node.module, node.layer, node.phase, node.op, self.facts.types[i])
            number = seen[place, node.step] = seen.get((place, node.step), -1) + 1
            self.classes.join(i, first.setdefault((place, number), i))

    # -- groups -----------------------------------------------------------------------------------

    def _group(self, nodes: list[int]) -> Group:
        slots = self._slots(nodes)
        heavy = any(self.heavy[i] for i in nodes)
        phases = {self.nodes[i].phase for i in nodes}
        update = phases == {Phase.UPDATE}
        lead = max(
            range(len(slots)),
            key=lambda s: (
                self.nodes[slots[s][0]].phase is Phase.FORWARD,
                self.heavy[slots[s][0]],
                self.costs[slots[s][0]].operations if heavy else 0,
                0 if self.facts.is_view[slots[s][0]] else len(_indices(self.facts, slots[s][0])),
                self.costs[slots[s][0]].bytes,
                -s,
            ),
        )
        weight = Weight.HEAVY if heavy else Weight.UPDATE if update else Weight.LIGHT
        return Group(weight=weight, slots=slots, lead=lead, inputs=self._residents(nodes))

    def _slots(self, nodes: list[int]) -> tuple[tuple[int, ...], ...]:
        """Nodes that do the same at different time steps share a slot."""
        slots: dict[Hashable, list[int]] = {}
        seen: dict[Hashable, int] = {}
        for i in nodes:
            node = self.nodes[i]
            if node.step is None or not self.merge_steps:
                slots[i] = [i]
                continue
            place = (node.module, node.layer, node.phase, node.op, self.facts.types[i])
            number = seen[place, node.step] = seen.get((place, node.step), -1) + 1
            slots.setdefault((place, number, _indices(self.facts, i)), []).append(i)
        return tuple(map(tuple, slots.values()))

    def _residents(self, nodes: list[int]) -> tuple[str, ...]:
        """The parameters and states that these nodes write."""
        residents = [
            old
            for i in nodes
            for name in self.nodes[i].outputs
            for old in self.facts.replaces.get(name, ())
            if self.graph.tensors[old].type.numel > 1
        ]
        return tuple(
            sorted(residents, key=lambda name: self.graph.tensors[name].role is not Role.PARAMETER)
        )


def _costs(facts: GraphFacts) -> list[Cost]:
    """What every node costs; equal calls are asked about once."""
    known: dict[Hashable, Cost] = {}
    costs = []
    for node, attrs, types in zip(facts.graph.nodes, facts.attrs, facts.types, strict=True):
        key = (node.op, attrs, types)
        if key not in known:
            known[key] = cost(node.op, attrs, types)
        costs.append(known[key])
    return costs


def _indices(facts: GraphFacts, i: int) -> tuple[str, ...]:
    return tuple(s.index for s in splits(facts.graph.nodes[i].op, facts.attrs[i], facts.types[i]))


def _contracts(facts: GraphFacts, i: int) -> bool:
    """Whether it sums products of two tensors: linear in each of two arguments by itself, along an
    index that parts of can be added up."""
    node: Node = facts.graph.nodes[i]
    linear = properties(node.op, facts.attrs[i], facts.types[i]).linear
    if sum(len(arguments) == 1 for arguments in linear) < 2:
        return False
    every_split = splits(node.op, facts.attrs[i], facts.types[i])
    return any(isinstance(j, Combine) and j.reducer == "sum" for s in every_split for j in s.joins)
