"""How the operators of a group follow its lead along one axis.

Splitting the lead's index fixes the layouts of what it reads and makes; every other operator of the
group then takes the choice that moves the fewest bytes, given the layouts known so far, neighbours
first. A gradient is wanted in the layout of what it is the gradient of.

    mm: j          w split by columns, y by columns        column-parallel
    grad of x      reads w and dy, both split by columns: sums over them, so dx is a sum of terms
    grad of w      split by columns, like w

So a group has about as many joint choices as its lead has splits, however many operators it holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from graphwright.ir import Phase, Role, TensorType
from graphwright.partition.space.coarsen import Coarse, Group, Weight
from graphwright.partition.space.options import PARTIAL, REPLICATED, Codes, Options, options
from graphwright.plans import Along, Replicate
from graphwright.tasks import GraphFacts

_TIE = 1e-3
"""What replication costs, as a share of the bytes touched, so that among equals an operator is
split."""
_FEW = 16
"""A reduced index, or a dim of a parameter, of fewer elements is not split."""
_HEAVY = 1.0
"""The same for heavy operators, which are to be split where they can be."""
_HOPE = 0.5
"""How much it counts that an output is not in the layout hoped for, against an input that is not in
the layout needed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupChoices:
    """The joint choices of a group along one axis.

    choice[joint, slot]      numbers an option of the slot's operator
    rest[joint, resident]    the layout in which an input that the group updates lives between steps
    lead_option[joint]       which option of the lead it follows
    """

    options: tuple[Options, ...]
    lead: int
    choice: NDArray[np.int16]
    rest: Codes
    lead_option: NDArray[np.int16]


def find_group_choices(coarse: Coarse, group: Group, *, reduction: bool = True) -> GroupChoices:
    """Every joint choice of a group, replication of everything first; without `reduction` no
    operator's result is a sum of terms."""
    followers = _Followers(coarse.facts, group, reduction)
    rows: dict[tuple[int, ...], int] = {}
    for option, choice in enumerate(followers.options[group.lead].choices):
        if isinstance(choice, Replicate):
            rows[(0,) * len(group.slots)] = option
        elif isinstance(choice, Along) and _worthwhile(group, followers, option, reduction):
            rows.setdefault(tuple(followers.from_lead(option)), option)
    every = GroupChoices(
        options=tuple(followers.options),
        lead=group.lead,
        choice=np.array(list(rows), dtype=np.int16).reshape(len(rows), len(group.slots)),
        rest=np.zeros((len(rows), 0), dtype=np.int8),
        lead_option=np.array(list(rows.values()), dtype=np.int16),
    )
    return _with_residents(coarse.facts, group, every) if group.weight is Weight.UPDATE else every


def _worthwhile(group: Group, followers: _Followers, option: int, reduction: bool) -> bool:
    """Whether the lead is to be split so: the few rows and columns of a kernel are neither added up
    from parts nor stored in parts."""
    lead = followers.options[group.lead]
    if lead.reduces[option]:
        return reduction and lead.extent[option] >= _FEW
    if group.weight is not Weight.UPDATE:
        return True
    return lead.extent[option] >= _FEW or lead.extent[option] == max(lead.extent)


def _with_residents(facts: GraphFacts, group: Group, every: GroupChoices) -> GroupChoices:
    """What is updated lives as it is updated, or, if a parameter, whole (ZeRO's stage 1)."""
    slot_of = {node: s for s, slot in enumerate(group.slots) for node in slot}
    numbers, rests = [], []
    for number, row in enumerate(every.choice):
        rest = []
        for name in group.inputs:
            needed = [
                int(every.options[slot_of[r]].need[row[slot_of[r]], arg])
                for r, arg in facts.readers[name]
                if r in slot_of
            ]
            rest.append(needed[0] if needed and needed[0] >= 0 else REPLICATED)
        whole = [
            REPLICATED if facts.graph.tensors[name].role is Role.PARAMETER else code
            for name, code in zip(group.inputs, rest, strict=True)
        ]
        for variant in dict.fromkeys((tuple(rest), tuple(whole))):
            numbers.append(number)
            rests.append(variant)
    return replace(
        every,
        choice=every.choice[numbers],
        rest=np.array(rests, dtype=np.int8).reshape(len(rests), len(group.inputs)),
        lead_option=every.lead_option[numbers],
    )


class _Followers:
    """The operators of a group, one for each slot, and the tensors between them."""

    def __init__(self, facts: GraphFacts, group: Group, reduction: bool) -> None:
        self.facts, self.group, self.graph = facts, group, facts.graph
        self.reduction = reduction
        self.nodes = [typical(slot) for slot in group.slots]
        self.options = [
            options(self.graph.nodes[i].op, facts.attrs[i], facts.types[i]) for i in self.nodes
        ]
        self.is_view = [facts.is_view[i] for i in self.nodes]
        self.families = self._families()
        self.base = self._bases()
        self.touching: dict[str, list[int]] = {}
        for s, i in enumerate(self.nodes):
            node = self.graph.nodes[i]
            for name in dict.fromkeys((*node.inputs, *node.outputs)):
                if name is not None:
                    self.touching.setdefault(self.base[name], []).append(s)

    def _bases(self) -> dict[str, str]:
        """What each tensor is the gradient of, or the tensor itself.

        What backward operators read and nobody in the group makes is the gradient of the forward
        output of its type.
        """
        forward = [self.graph.nodes[i] for i in self.nodes]
        forward = [node for node in forward if node.phase is Phase.FORWARD]
        known = {name for node in forward for name in (*node.inputs, *node.outputs)}
        outputs: dict[TensorType, str] = {}
        lead = self.graph.nodes[self.nodes[self.group.lead]]
        for made_name in (*lead.outputs, *(n for node in forward for n in node.outputs)):
            outputs.setdefault(self.graph.tensors[made_name].type, made_name)
        made = {name for i in self.nodes for name in self.graph.nodes[i].outputs}
        bases: dict[str, str] = {}
        for i in self.nodes:
            node = self.graph.nodes[i]
            for name in (*node.inputs, *node.outputs):
                if name is None or name in bases:
                    continue
                tensor = self.graph.tensors[name]
                bases[name] = name
                if tensor.role is Role.GRADIENT and tensor.of is not None and tensor.of in known:
                    bases[name] = tensor.of
                elif node.phase is Phase.BACKWARD and name not in known and name not in made:
                    bases[name] = outputs.get(tensor.type, name)
        return bases

    def from_lead(self, option: int) -> list[int]:
        """An option for every slot, given the lead's."""
        layouts = _Layouts(self)
        layouts.decide(self.group.lead, option)
        for slot, view in enumerate(self.is_view):  # of a weight, of the result
            if view and layouts.ready(slot) == 2:
                layouts.decide(slot, self._best(slot, layouts))
        first, *others = self.families
        for slot in first:
            if layouts.chosen[slot] < 0:
                layouts.decide(slot, self._best(slot, layouts))
        for family in others:
            for slot, like in zip(family, first, strict=True):
                if layouts.chosen[slot] < 0:
                    layouts.decide(slot, layouts.chosen[like])
        while (slot := layouts.next_open()) >= 0:
            layouts.decide(slot, self._best(slot, layouts))
        return layouts.chosen

    def _families(self) -> list[list[int]]:
        """The lead with its backward operators, and those that do the same beside it (key and value
        beside query), in the same order."""
        if self.group.weight is not Weight.HEAVY:
            return [[self.group.lead]]
        place = {self.graph.nodes[i].name: s for s, i in enumerate(self.nodes)}
        families: dict[int, list[int]] = {self.group.lead: [self.group.lead]}
        for s, i in enumerate(self.nodes):
            node = self.graph.nodes[i]
            if node.phase is Phase.FORWARD and not self.is_view[s]:
                families[s] = [s]
            elif node.partner in place and not self.is_view[s]:
                families.setdefault(place[node.partner], [place[node.partner]]).append(s)
        lead = families.pop(self.group.lead)
        return [lead, *(other for other in families.values() if self._alike(lead, other))]

    def _alike(self, family: list[int], other: list[int]) -> bool:
        """Whether two families have the same operators with the same choices."""
        return len(family) == len(other) and all(
            self.graph.nodes[self.nodes[a]].op == self.graph.nodes[self.nodes[b]].op
            and self.options[a].choices == self.options[b].choices
            for a, b in zip(family, other, strict=True)
        )

    def _best(self, slot: int, layouts: _Layouts) -> int:
        node, own = self.graph.nodes[self.nodes[slot]], self.options[slot]
        inputs = [
            (arg, self.graph.tensors[name].type.nbytes, layouts.available(name))
            for arg, name in enumerate(node.inputs)
            if name is not None
        ]
        outputs = [
            (output, self.graph.tensors[name].type.nbytes, layouts.hoped(name))
            for output, name in enumerate(node.outputs)
        ]
        touched = sum(nbytes for _, nbytes, _ in (*inputs, *outputs))
        heavy = self.group.weight is Weight.HEAVY and any(own.reduces)
        costs = []
        for option in range(len(own.choices)):
            if own.reduces[option] and not self.reduction:
                costs.append(float("inf"))
                continue
            cost = (_HEAVY if heavy else _TIE) * touched if option == 0 else 0.0
            for arg, nbytes, available in inputs:
                need = int(own.need[option, arg])
                if available:
                    cost += nbytes * min(_move(code, need) for code in available)
                elif need == PARTIAL:
                    cost += 4 * nbytes
            for output, nbytes, hoped in outputs:
                made = int(own.made[option, output])
                if hoped:
                    cost += _HOPE * nbytes * max(_move(made, code) for code in hoped)
                elif made == PARTIAL:
                    cost += nbytes * _TIE
            costs.append(cost)
        return min(range(len(costs)), key=lambda o: (costs[o], o))


class _Layouts:
    """The layouts known so far while a group follows its lead, and whose turn it is next.

    Views come first, but a view is decided only when what it views has been made, or what it shows
    is wanted: not for being free. Then comes the operator that most bytes of decided neighbours
    touch. Both only ever grow, so an entry of the queue that is out of date has a newer one before
    it.
    """

    def __init__(self, followers: _Followers) -> None:
        self.followers = followers
        num_slots = len(followers.nodes)
        self.chosen = [-1] * num_slots
        self.known: dict[str, set[int]] = {}
        self.wanted: dict[str, set[int]] = {}
        self.weight = [0] * num_slots
        self.queue = [(-self.ready(s), 0, s) for s in range(num_slots)]
        heapify(self.queue)

    def ready(self, slot: int) -> int:
        followers = self.followers
        if not followers.is_view[slot]:
            return 1
        node = followers.graph.nodes[followers.nodes[slot]]
        made = any(self.known.get(name) for name in node.inputs if name is not None)
        return 2 if made or any(self.wanted.get(name) for name in node.outputs) else 0

    def next_open(self) -> int:
        """The slot to decide next; -1 when all are."""
        while self.queue:
            slot = heappop(self.queue)[-1]
            if self.chosen[slot] < 0:
                return slot
        return -1

    def decide(self, slot: int, option: int) -> None:
        followers = self.followers
        self.chosen[slot] = option
        node, options = followers.graph.nodes[followers.nodes[slot]], followers.options[slot]
        for arg, name in enumerate(node.inputs):
            if name is not None:
                self.wanted.setdefault(name, set()).add(int(options.need[option, arg]))
                self.known.setdefault(name, set())
                self._weigh(name)
        for output, name in enumerate(node.outputs):
            self.known.setdefault(name, set()).add(int(options.made[option, output]))
            self._weigh(name)

    def _weigh(self, name: str) -> None:
        followers = self.followers
        nbytes = followers.graph.tensors[name].type.nbytes
        for slot in followers.touching[followers.base[name]]:
            self.weight[slot] += nbytes
            if self.chosen[slot] < 0:
                heappush(self.queue, (-self.ready(slot), -self.weight[slot], slot))

    def available(self, name: str) -> set[int]:
        """The layouts in which a tensor is there when an operator of the group comes to read it."""
        codes = self.known.get(name, set()) | self.wanted.get(name, set())
        return codes or self._like_base(name)

    def hoped(self, name: str) -> set[int]:
        """The layouts in which an output is wanted."""
        return self.wanted.get(name, set()) or self._like_base(name)

    def _like_base(self, name: str) -> set[int]:
        base = self.followers.base[name]
        if base == name:  # the other way round: a tensor is there as its gradient is
            return set()
        codes = self.known.get(base, set()) or self.wanted.get(base, set())
        return {REPLICATED if code == PARTIAL else code for code in codes}


def typical(slot: tuple[int, ...]) -> int:
    """The node that stands for a slot: the middle one, as the first and last may differ."""
    return slot[len(slot) // 2]


def _move(have: int, want: int) -> float:
    """What a byte costs along one axis: gathering 1, adding up and gathering 2."""
    if have in (want, REPLICATED):
        return 0.0
    if have == PARTIAL:
        return 2.0 if want == REPLICATED else 1.0
    return {REPLICATED: 1.0, PARTIAL: 3.0}.get(want, 0.5)
