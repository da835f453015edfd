"""What passes between the groups of a coarse graph, and what of it is held when memory is fullest.

    A: y = mm(x, w)   --y-->   B: gelu(y)          forward
                      <-dy--   B: gelu_backward    backward, reads y again

Memory is counted at one moment: where the graph, run on one device in its own order, holds the
most; in training that is about the end of the forward pass. A tensor that is there by then and is
read later is *held*: where it was made, or as the copy that a reader had moved.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from graphwright.ir import Role, TensorType
from graphwright.partition.space.coarsen import Coarse, Weight
from graphwright.tasks import GraphFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """One tensor on its way from a group to a group, which may be the same one.

    It is made by output `output` of slot `slot`, or, where `slot` is None, lives between steps as
    resident number `output`. `readers` are (slot, argument, whether it reads after the fullest
    moment). `held`: it is there at the fullest moment. `owner`: of all groups that hold it this one
    counts the original's memory; `kept`: the group that made it needs the original later, too.
    """

    type: TensorType
    slot: int | None
    output: int
    readers: tuple[tuple[int, int, bool], ...]
    held: bool
    owner: bool
    kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """An input of the graph that no group updates, read by one group; `batch`: it is data, and
    arrives as the loader splits it."""

    type: TensorType
    batch: bool
    readers: tuple[tuple[int, int, bool], ...]
    first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Flows:
    """How often each flow occurs between two groups (the maker first), what groups are given, and
    which tensors each flow stands for."""

    between: dict[tuple[int, int], Counter[Flow]]
    given: dict[int, Counter[Given]]
    held: dict[tuple[int, int], list[str]]


def find_flows(coarse: Coarse) -> Flows:
    """Everything that passes between groups and within them."""
    facts = coarse.facts
    fullest = fullest_moment(facts)
    residents = {
        name: (g, r)
        for g, group in enumerate(coarse.groups)
        if group.weight is Weight.UPDATE
        for r, name in enumerate(group.inputs)
    }
    between: dict[tuple[int, int], Counter[Flow]] = {}
    given: dict[int, Counter[Given]] = {}
    held: dict[tuple[int, int], list[str]] = {}
    counted: set[str] = set()
    for name, readings in facts.readers.items():
        readers: dict[int, dict[tuple[int, int, bool], None]] = {}
        for node, arg in readings:
            g = coarse.group_of[node]
            if g >= 0:
                after = node > fullest and not facts.is_view[node]
                readers.setdefault(g, {})[coarse.slot_of[node], arg, after] = None
        type = facts.graph.tensors[name].type
        made = facts.producer.get(name)
        if made is None and name not in residents:
            role = facts.graph.tensors[name].role
            for number, (g, own) in enumerate(readers.items()):
                item = Given(
                    type=type,
                    batch=role is Role.INPUT,
                    readers=tuple(own),
                    first=number == 0,
                )
                given.setdefault(g, Counter())[item] += 1
            continue
        if made is not None and coarse.group_of[made[0]] < 0:
            continue
        if made is None:
            maker, slot, output = residents[name][0], None, residents[name][1]
        else:
            maker, slot, output = coarse.group_of[made[0]], coarse.slot_of[made[0]], made[1]
        held_as = facts.root[name]
        there = (made is None or made[0] <= fullest) and held_as not in counted
        late = [g for g, own in readers.items() if any(r[2] for r in own)]
        if there and late and made is not None:
            counted.add(held_as)
        owner = next((g for g in late if g != maker), maker)
        for g, own in readers.items():
            holds = there and g in late
            flow = Flow(
                type=type,
                slot=slot,
                output=output,
                readers=tuple(own),
                held=holds,
                owner=holds and made is not None and g == owner,
                kept=holds and made is not None and maker in late,
            )
            between.setdefault((maker, g), Counter())[flow] += 1
            if holds and maker != g:
                held.setdefault((maker, g), []).append(name)
    return Flows(between=between, given=given, held=held)


def fullest_moment(facts: GraphFacts) -> int:
    """The node after which the most bytes are held, in the graph's own order on one device."""
    last: dict[str, int] = {}
    birth: dict[str, int] = {}
    for i, node in enumerate(facts.graph.nodes):
        for name in node.inputs:
            if name is not None:
                last[facts.root[name]] = i
        for name in node.outputs:
            if not facts.is_view[i]:
                birth[name] = i
    change = [0] * (len(facts.graph.nodes) + 1)
    for name, i in birth.items():
        nbytes = facts.graph.tensors[name].type.nbytes
        change[i] += nbytes
        change[max(i, last.get(name, i)) + 1] -= nbytes
    most = total = where = 0
    for i, delta in enumerate(change[:-1]):
        total += delta
        if total > most:
            most, where = total, i
    return where
