"""The configurations of a group: a joint choice for every axis of the cluster.

    cluster of 2 nodes x 8 devices         axes   2 | 2 2 2
    a linear layer                                b | b b j      the batch 8 ways, columns 2 ways
                                                  b | b j b      the same again: left out

Axes of one level and size are interchangeable: of all orders one is listed, samples outermost,
replication innermost, so that groups agree on which axis is whose. A level of many axes (128 nodes
are 7) gets at most `distinct` different joint choices. Where an operator that follows has fewer
parts to give than its lead, it is replicated along the axes that are left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from itertools import combinations_with_replacement, groupby, product

import numpy as np
from numpy.typing import NDArray

from graphwright.describe import Soap, soap, splits
from graphwright.ir import Role
from graphwright.machine import Cluster
from graphwright.partition.space.coarsen import Coarse, Group, Weight
from graphwright.partition.space.group_choices import GroupChoices, typical
from graphwright.partition.space.options import Codes, Options, can_tile, options
from graphwright.partition.space.strategies import Space
from graphwright.plans import Along, Plan, Strategy
from graphwright.tasks import GraphFacts

_ORDER = {Soap.SAMPLE: 0, Soap.ATTRIBUTE: 1, Soap.PARAMETER: 2}
_MANY = 3
"""From so many axes on, a level gets few different joint choices."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Configurations:
    """`choice[configuration, slot, axis]` numbers an option, `rest[configuration, resident, axis]`
    is a layout; `key` hashes both.

    `mix[configuration, :]` counts, level by level, how many axes each joint choice has; negative
    where a plan brought the configuration. `kinds` are the classes of the joint choices, None for
    replication, `reduces` whether the lead's result is then a sum of terms.
    """

    options: tuple[Options, ...]
    choice: NDArray[np.int16]
    rest: Codes
    mix: NDArray[np.int8]
    kinds: tuple[Soap | None, ...]
    reduces: tuple[bool, ...]
    key: bytes

    def __len__(self) -> int:
        return len(self.choice)

    def need(self, slot: int, argument: int) -> Codes:
        """The layouts in which a slot needs an argument, one row for each configuration."""
        return np.asarray(self.options[slot].need[self.choice[:, slot], argument])

    def made(self, slot: int, output: int) -> Codes:
        """The layouts in which a slot makes an output."""
        return np.asarray(self.options[slot].made[self.choice[:, slot], output])

    def strategy(self, configuration: int, slot: int) -> Strategy:
        """What a configuration says for a slot."""
        return self.options[slot].strategy(tuple(self.choice[configuration, slot].tolist()))

    def strategies(self, configuration: int) -> tuple[Strategy, ...]:
        """What a configuration says for every slot."""
        rows = self.choice[configuration].tolist()
        return tuple(own.strategy(tuple(row)) for own, row in zip(self.options, rows, strict=True))

    def only(self, kept: NDArray[np.int64]) -> Configurations:
        """Some of the configurations."""
        return self.having(self.choice[kept], self.rest[kept], self.mix[kept])

    def having(
        self, choice: NDArray[np.int16], rest: Codes, mix: NDArray[np.int8]
    ) -> Configurations:
        """Other configurations of the same group."""
        choice, rest = np.ascontiguousarray(choice), np.ascontiguousarray(rest)
        digest = blake2b(repr((choice.shape, rest.shape)).encode(), digest_size=16)
        digest.update(choice.tobytes())
        digest.update(rest.tobytes())
        return replace(self, choice=choice, rest=rest, mix=mix, key=digest.digest())

    def distinct(self) -> Configurations:
        """Each configuration once, in the order of their first appearance."""
        flat = np.concatenate(
            [
                self.choice.reshape(len(self), -1),
                self.rest.reshape(len(self), -1).astype(np.int16),
            ],
            axis=1,
        )
        _, first = np.unique(flat, axis=0, return_index=True)
        return self.only(np.sort(first))

    def uniform(self) -> NDArray[np.int64]:
        """The configurations in which every level has one joint choice, and those of plans."""
        used, of_plans = (self.mix > 0).sum(axis=1), (self.mix < 0).any(axis=1)
        fewest = int(used[~of_plans].min(initial=used.max()))
        return np.flatnonzero((used <= max(1, fewest)) | of_plans)

    def near(self, some: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those that differ from one of `some` in the joint choice of at most one axis."""
        is_near = np.zeros(len(self), dtype=bool)
        is_near[some] = True
        for row in self.mix[some].astype(np.int16):
            is_near |= np.abs(self.mix.astype(np.int16) - row).sum(axis=1) <= 2
        return np.flatnonzero(is_near | (self.mix < 0).any(axis=1))


def configure(
    coarse: Coarse,
    group: Group,
    joint: GroupChoices,
    cluster: Cluster,
    space: Space,
    samples: Mapping[str, frozenset[int]],
) -> Configurations:
    """All configurations of a group in a space; where nothing is possible without replication,
    those with the most parts that are."""
    kinds = _kinds(coarse, group, joint, samples)
    rows = _rows(joint, kinds, cluster, space)
    choice = joint.choice[rows].swapaxes(1, 2)
    rest = joint.rest[rows].swapaxes(1, 2)
    choice, rest, good = _feasible(coarse, group, joint, cluster, choice, rest)
    mix = _mix(rows[good], len(joint.choice), cluster)
    if len(choice) == 0 and not space.replication:
        most = configure(coarse, group, joint, cluster, replace(space, replication=True), samples)
        return most.only(_most_parts(most, group, cluster))
    if len(choice) == 0:
        choice = np.zeros((1, len(group.slots), len(cluster.axes)), dtype=np.int16)
        rest = np.full((1, joint.rest.shape[1], len(cluster.axes)), -1, dtype=np.int8)
        mix = np.zeros((1, mix.shape[1]), dtype=np.int8)
    empty = Configurations(
        options=joint.options,
        choice=choice,
        rest=rest,
        mix=mix,
        kinds=tuple(kinds),
        reduces=tuple(joint.options[joint.lead].reduces[option] for option in joint.lead_option),
        key=b"",
    )
    return empty.distinct()


def _mix(rows: NDArray[np.int64], count: int, cluster: Cluster) -> NDArray[np.int8]:
    """How many axes of each level have each joint choice."""
    levels = [axis.level for axis in cluster.axes]
    mix = np.zeros((len(rows), len(cluster.levels), count), dtype=np.int8)
    for axis, level in enumerate(levels):
        mix[np.arange(len(rows)), level, rows[:, axis]] += 1
    return mix.reshape(len(rows), len(cluster.levels) * count)


def _most_parts(every: Configurations, group: Group, cluster: Cluster) -> NDArray[np.int64]:
    """The configurations in which the lead has the most parts."""
    sizes = np.array([axis.size for axis in cluster.axes], dtype=np.int64)
    units = np.array(every.options[group.lead].units)
    parts = np.where(units[every.choice[:, group.lead]] > 0, sizes, 1).prod(axis=1)
    return np.flatnonzero(parts == parts.max())


def add_plans(
    coarse: Coarse, group: Group, known: Configurations, plans: Sequence[Plan]
) -> tuple[Configurations, list[int | None]]:
    """The configurations with those of some plans, and the number of each plan's, or None."""
    numbers, where = _numbers(known), list[int | None]()
    added: dict[bytes, tuple[NDArray[np.int16], Codes]] = {}
    for plan in plans:
        own = _from_plan(coarse, group, known, plan)
        if own is None:
            where.append(None)
            continue
        row = _row(*own)
        if row not in numbers:
            added.setdefault(row, own)
        where.append(numbers[row] if row in numbers else len(known) + list(added).index(row))
    if not added:
        return known, where
    choice, rest = (np.stack(rows) for rows in zip(*added.values(), strict=True))
    mix = np.full((len(added), known.mix.shape[1]), -1, dtype=np.int8)
    united = known.having(
        np.concatenate([known.choice, choice]),
        np.concatenate([known.rest, rest]),
        np.concatenate([known.mix, mix]),
    )
    return united, where


@lru_cache(maxsize=64)
def _numbers(known: Configurations) -> dict[bytes, int]:
    """The number of each configuration; groups that are alike share theirs."""
    return {_row(c, r): k for k, (c, r) in enumerate(zip(known.choice, known.rest, strict=True))}


def _row(choice: NDArray[np.int16], rest: Codes) -> bytes:
    return choice.tobytes() + rest.tobytes()


def _kinds(
    coarse: Coarse, group: Group, joint: GroupChoices, samples: Mapping[str, frozenset[int]]
) -> list[Soap | None]:
    """The class of each joint choice's split of the lead; None for replication."""
    facts = coarse.facts
    i = typical(group.slots[group.lead])
    node = facts.graph.nodes[i]
    by_index = {s.index: s for s in splits(node.op, facts.attrs[i], facts.types[i])}
    kinds: list[Soap | None] = []
    for option in joint.lead_option:
        choice = joint.options[group.lead].choices[option]
        if not isinstance(choice, Along):
            kinds.append(None)
        elif group.weight is Weight.UPDATE:
            kinds.append(Soap.PARAMETER)
        else:
            split = by_index[choice.index]
            kind = soap(split, node, facts.graph, samples)
            cut = {node.inputs[arg] for arg, _ in split.cut_dims}
            if kind is Soap.ATTRIBUTE and any(
                n is not None and _is_parameter(facts, n) for n in cut
            ):
                kind = Soap.PARAMETER
            kinds.append(kind)
    return kinds


def _is_parameter(facts: GraphFacts, name: str) -> bool:
    """Whether a tensor is a view of a parameter."""
    return facts.graph.tensors[facts.root[name]].role is Role.PARAMETER


def _rows(
    joint: GroupChoices, kinds: list[Soap | None], cluster: Cluster, space: Space
) -> NDArray[np.int64]:
    """Numbers of joint choices, [configuration, axis]."""
    sizes = [axis.size for axis in cluster.axes]
    if not sizes:
        return np.zeros((1, 0), dtype=np.int64)
    reduces = [int(joint.options[joint.lead].reduces[option]) for option in joint.lead_option]
    rank = {
        number: (9 if kind is None else _ORDER[kind] + 3 * reduces[number], number)
        for number, kind in enumerate(kinds)
    }
    level = [
        (key, len(list(axes)))
        for key, axes in groupby(
            range(len(sizes)),
            key=lambda a: (cluster.axes[a].level, sizes[a], space.roles and space.roles[a]),
        )
    ]
    blocks: list[list[tuple[int, ...]]] = []
    first = 0
    for _, count in level:
        allowed = [
            number
            for number, kind in enumerate(kinds)
            if all(space.allows(kind, axis) for axis in range(first, first + count))
        ] or [0]
        if not space.replication and len(allowed) > 1:
            allowed = [n for n in allowed if kinds[n] is not None] or [0]
        allowed.sort(key=rank.__getitem__)
        distinct = space.distinct if count >= _MANY else count
        blocks.append(
            [c for c in combinations_with_replacement(allowed, count) if len(set(c)) <= distinct]
        )
        first += count
    rows = [tuple(n for block in combination for n in block) for combination in product(*blocks)]
    if space.single_split:
        rows = [row for row in rows if len({n for n in row if kinds[n] is not None}) <= 1]
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(sizes))


def _feasible(
    coarse: Coarse,
    group: Group,
    joint: GroupChoices,
    cluster: Cluster,
    choice: NDArray[np.int16],
    rest: Codes,
) -> tuple[NDArray[np.int16], Codes, NDArray[np.bool_]]:
    """Leave out what the lead has too few parts for, replicate others that have too few."""
    sizes = np.array([axis.size for axis in cluster.axes], dtype=np.int64)
    choice, good = choice.copy(), np.ones(len(choice), dtype=bool)
    for slot, own in enumerate(joint.options):
        chosen = choice[:, slot]
        for option, units in enumerate(own.units):
            if units == 0:
                continue
            used = chosen == option
            ways = np.cumprod(np.where(used, sizes, 1), axis=1)
            beyond = used & (ways > units)
            if slot == group.lead:
                good &= ~beyond.any(axis=1)
            else:
                chosen[beyond] = 0
        for a, b in own.clashes:
            both = (chosen == a).any(axis=1) & (chosen == b).any(axis=1)
            if slot == group.lead:
                good &= ~both
            else:
                chosen[both[:, None] & (chosen == b)] = 0
    for slot, nodes in enumerate(group.slots):
        uneven = _uneven(coarse, typical(nodes), joint.options[slot], choice[:, slot], sizes)
        if slot == group.lead:
            good &= ~uneven
        else:
            choice[uneven, slot] = 0
    return choice[good], rest[good], good


def _uneven(
    coarse: Coarse, i: int, own: Options, chosen: NDArray[np.int16], sizes: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Where an operator cannot be cut so: asked by index, where parts are not equal."""
    facts, bad = coarse.facts, np.zeros(len(chosen), dtype=bool)
    node = facts.graph.nodes[i]
    for option, units in enumerate(own.units):
        choice = own.choices[option]
        if not isinstance(choice, Along):
            continue
        ways = np.where(chosen == option, sizes, 1).prod(axis=1)
        for count in np.unique(ways).tolist():
            if units % count and not can_tile(
                node.op, facts.attrs[i], facts.types[i], ((choice.index, count),)
            ):
                bad |= ways == count
    return bad


def _from_plan(
    coarse: Coarse, group: Group, every: Configurations, plan: Plan
) -> tuple[NDArray[np.int16], Codes] | None:
    """The configuration that a plan gives a group; None where it uses some of the devices only, or
    splits time steps differently."""
    nodes, axes = coarse.facts.graph.nodes, every.choice.shape[2]
    choice = np.zeros((len(group.slots), axes), dtype=np.int16)
    for slot, members in enumerate(group.slots):
        strategy = plan.strategy(nodes[typical(members)].name)
        if strategy.mesh is not None:
            return None
        numbers = every.options[slot].numbers(strategy)
        if numbers is None:
            return None
        choice[slot] = numbers
    rest = np.full((every.rest.shape[1], axes), -1, dtype=np.int8)
    for r, name in enumerate(group.inputs[: len(rest)]):
        layout = _resident(coarse, group, every, choice, plan, name)
        if layout is None:
            return None
        rest[r] = layout
    return choice, rest


def _resident(
    coarse: Coarse,
    group: Group,
    every: Configurations,
    choice: NDArray[np.int16],
    plan: Plan,
    name: str,
) -> list[int] | None:
    """Where an input lives under a plan: as it says, or as its first reader needs it."""
    if name in plan.inputs:
        return [getattr(p, "dim", -1) for p in plan.inputs[name].placements]
    reader, arg = coarse.facts.readers[name][0]
    strategy = plan.strategy(coarse.facts.graph.nodes[reader].name)
    if strategy.mesh is not None:
        return None
    if coarse.group_of[reader] >= 0 and reader in group.nodes:
        slot = coarse.slot_of[reader]
        needed = every.options[slot].need[choice[slot], arg]
    else:
        needed = _needed(coarse, reader, arg, strategy)
        if needed is None:
            return None
    return [int(code) if code >= 0 else -1 for code in needed]


def _needed(coarse: Coarse, reader: int, arg: int, strategy: Strategy) -> Codes | None:
    facts = coarse.facts
    own = options(facts.graph.nodes[reader].op, facts.attrs[reader], facts.types[reader])
    numbers = own.numbers(strategy)
    return None if numbers is None else own.need[np.array(numbers, dtype=np.int64), arg]
