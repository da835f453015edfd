"""Tofu's recursion: split everything in two (or three, ...) along one axis, then split what is left along the next (section 5.2).

    axis 1    choose a split for every operator, least bytes moved        delta_1
    axis 2    the same for one half of the graph, the other follows       delta_2 >= delta_1
    ...

At each step a group has the joint choices of its operators along one axis, and the forward and backward operators of a heavy group may
also choose differently from each other (the paper's brute force inside of a group). Every tensor is split along every axis: nothing
is replicated that could be split. Bytes are those of moving along one axis after the other (`stepwise`), so that theorem 1 holds: what one step
moves is never more than what the next one moves. It is asserted for axes of one size, as long as every group still has something to split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from graphwright.machine import Cluster
from graphwright.partition.estimate import Assignment, Model, Stepwise
from graphwright.partition.search.elimination import least
from graphwright.partition.space import (
    REPLICATED,
    Coarse,
    Codes,
    Configurations,
    Group,
    Space,
    Weight,
)
from graphwright.plans import Plan
from graphwright.tasks import Costs

_PRODUCT = 4
"""Up to so many heavy operators in a group choose independently of each other; of more, one at a time differs."""
TOFU = Space(replication=False, reuse=False, loader=False, width=None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recursion:
    """A plan, and the bytes that each step moves, of all devices together, axis after axis.

    `complete`: what could be split along the first axis could be along all.
    """

    plan: Plan
    steps: tuple[float, ...]
    exact: bool
    complete: bool


def recursive(coarse: Coarse, cluster: Cluster, costs: Costs, *, space: Space = TOFU) -> Recursion:
    """Tofu's plan for a cluster of any number of devices; its axes are the factors, the outermost level first."""
    few = replace(space, single_split=True)  # configurations come axis by axis
    model = Model(coarse, cluster, costs, few, measure="bytes", prices=Stepwise(cluster))
    walk = _Walk(model)
    steps: list[float] = []
    exact = complete = True
    if not cluster.axes:
        walk.stay()
        found = least(model.problem())
    for axis in range(len(cluster.axes)):
        complete &= walk.open(axis)
        found = least(model.problem())
        exact &= found.exact
        walk.fix(found)
        steps.append(found.time - sum(steps))
        if axis and exact and complete:
            _assert_theorem_1(cluster, axis, steps)
    return Recursion(
        plan=model.plan(found, "recursive"), steps=tuple(steps), exact=exact, complete=complete
    )


def _assert_theorem_1(cluster: Cluster, axis: int, steps: Sequence[float]) -> None:
    before, now = cluster.axes[axis - 1 : axis + 1]
    assert before.size != now.size or steps[-2] <= steps[-1] * (1 + 1e-9), (
        f"a step moves {steps[-1]:,.0f} bytes, the one before it {steps[-2]:,.0f}"
    )


class _Walk:
    """The configurations of all groups as far as they are decided."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.num_axes = len(model.cluster.axes)
        self.base: list[Configurations] = list(model.all)
        self.choice: list[NDArray[np.int16]] = []
        self.rest: list[Codes] = []
        self.moves: list[tuple[NDArray[np.int16], Codes]] = []
        self.whole: set[int] = set()
        known: dict[object, tuple[NDArray[np.int16], Codes]] = {}
        for g, group in enumerate(model.coarse.groups):
            found = self.base[g]
            self.choice.append(np.zeros((found.choice.shape[1], self.num_axes), dtype=np.int16))
            self.rest.append(np.full((found.rest.shape[1], self.num_axes), -1, dtype=np.int8))
            key = (model.signature(g), found.key)
            if key not in known:
                known[key] = self._moves(g, group, found)
            self.moves.append(known[key])

    def _moves(
        self, g: int, group: Group, found: Configurations
    ) -> tuple[NDArray[np.int16], Codes]:
        """What a group may do along one axis: one row of options, one of resident layouts, for each joint choice."""
        rows = self.model.joints(g)
        choice, rest = rows.choice, rows.rest
        kinds = found.kinds
        good = [n for n, kind in enumerate(kinds) if kind is not None]
        if good:
            choice, rest = choice[good], rest[good]
        if group.weight is Weight.HEAVY and good:
            choice = _mixtures(found, choice)
            rest = np.zeros((len(choice), 0), dtype=np.int8)
        split = [i for i in range(len(rest)) if not (rest[i] == REPLICATED).any()]
        if split:
            choice, rest = choice[split], rest[split]
        return choice, rest

    def open(self, axis: int) -> bool:
        """Offer every group all that it may do along an axis, beyond which everything is replicated; says whether none has run out of parts."""
        model = self.model
        sizes = np.array([a.size for a in model.cluster.axes], dtype=np.int64)
        known: dict[object, Configurations] = {}
        complete = True
        for g, found in enumerate(self.base):
            options, layouts = self.moves[g]
            key = (id(options), self.choice[g].tobytes(), self.rest[g].tobytes())
            if key in known:
                model.configurations[g] = known[key]
                continue
            choice = np.repeat(self.choice[g][None], len(options), axis=0)
            rest = np.repeat(self.rest[g][None], len(options), axis=0)
            choice[:, :, axis], rest[:, :, axis] = options, layouts
            good = _possible(found, choice, sizes)
            if not good.any():
                if axis == 0:
                    self.whole.add(id(options))
                complete &= id(options) in self.whole
                choice, rest = self.choice[g][None].copy(), self.rest[g][None].copy()
                good = np.ones(1, dtype=bool)
            mix = np.zeros((int(good.sum()), found.mix.shape[1]), dtype=np.int8)
            model.configurations[g] = known[key] = found.having(
                choice[good], rest[good], mix
            ).distinct()
        return complete

    def stay(self) -> None:
        """Offer every group nothing but what is decided."""
        known: dict[int, Configurations] = {}
        for g, found in enumerate(self.base):
            key = self.model.signature(g)
            if key not in known:
                mix = np.zeros((1, found.mix.shape[1]), dtype=np.int8)
                known[key] = found.having(self.choice[g][None], self.rest[g][None], mix)
            self.model.configurations[g] = known[key]

    def fix(self, found: Assignment) -> None:
        """Go on from what was chosen."""
        for g, configurations in enumerate(self.model.configurations):
            c = int(found.choices[g])
            self.choice[g], self.rest[g] = configurations.choice[c], configurations.rest[c]


def _mixtures(found: Configurations, tied: NDArray[np.int16]) -> NDArray[np.int16]:
    """Joint choices in which the heavy operators of a group, forward and backward, do not follow each other."""
    heavy = [
        s
        for s, options in enumerate(found.options)
        if sum(options.reduces) and len(options.choices) > 2
    ]
    splits = {s: [o for o, units in enumerate(found.options[s].units) if units >= 2] for s in heavy}
    rows = [tied]
    for row in tied:
        if len(heavy) <= _PRODUCT:
            changes = [dict(zip(heavy, c, strict=True)) for c in product(*splits.values())]
        else:
            changes = [{s: o} for s in heavy for o in splits[s]]
        more = np.repeat(row[None], len(changes), axis=0)
        for k, change in enumerate(changes):
            for slot, option in change.items():
                more[k, slot] = option
        rows.append(more)
    return np.unique(np.concatenate(rows), axis=0)


def _possible(
    found: Configurations, choice: NDArray[np.int16], sizes: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Where every operator has enough parts; nothing is cut along one dim by two of its indices."""
    good = np.ones(len(choice), dtype=bool)
    for slot, options in enumerate(found.options):
        chosen = choice[:, slot]
        for option, units in enumerate(options.units):
            if units:
                ways = np.where(chosen == option, sizes, 1).prod(axis=1)
                good &= (ways <= units) & ((ways == 1) | (units % ways == 0) | (units >= 16 * ways))
        for a, b in options.clashes:
            good &= ~((chosen == a).any(axis=1) & (chosen == b).any(axis=1))
    return good
