"""Tofu's recursion: split everything in two (or three, ...) along one axis, then split what is left
along the next (section 5.2).

    axis 1    choose a split for every operator, least bytes moved        delta_1
    axis 2    the same for one half of the graph, the other follows       delta_2 >= delta_1
    ...

At each step a group has the joint choices of its operators along one axis, and the forward and
backward operators of a heavy group may also choose differently from each other (the paper's brute
force inside of a group). Every tensor is split along every axis: nothing is replicated that could
be split. Bytes are those of moving along one axis after the other (`stepwise`), so that theorem 1
holds: what one step moves is never more than what the next one moves. It is asserted for axes of
one size, as long as every group still has something to split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from graphwright.machine import Cluster
from graphwright.partition.estimate import Assignment, Estimate, Stepwise, make_estimate
from graphwright.partition.search.elimination import least
from graphwright.partition.space import REPLICATED, Coarse, Codes, Configurations, Space, Weight
from graphwright.plans import Plan
from graphwright.tasks import Costs

_PRODUCT = 4
"""Up to so many heavy operators in a group choose independently of each other; of more, one at a
time differs."""
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
    """Tofu's plan for a cluster of any size; its axes are its factors, outermost first."""
    few = replace(space, single_split=True)  # configurations come axis by axis
    whole = make_estimate(coarse, cluster, costs, few, measure="bytes", prices=Stepwise(cluster))
    walk = _Walk(whole)
    steps: list[float] = []
    exact = complete = True
    if not cluster.axes:
        estimate = whole.having(walk.stay())
        best = least(estimate.problem())
    for axis in range(len(cluster.axes)):
        offered, can_split = walk.offer(axis)
        estimate, complete = whole.having(offered), complete and can_split
        best = least(estimate.problem())
        exact &= best.exact
        walk.fix(offered, best)
        steps.append(best.time - sum(steps))
        if axis and exact and complete:
            _assert_theorem_1(cluster, axis, steps)
    return Recursion(
        plan=estimate.plan(best, "recursive"), steps=tuple(steps), exact=exact, complete=complete
    )


def _assert_theorem_1(cluster: Cluster, axis: int, steps: Sequence[float]) -> None:
    before, now = cluster.axes[axis - 1 : axis + 1]
    assert before.size != now.size or steps[-2] <= steps[-1] * (1 + 1e-9), (
        f"a step moves {steps[-1]:,.0f} bytes, the one before it {steps[-2]:,.0f}"
    )


class _Walk:
    """What each group has decided so far, axis by axis, and what it may do along the next."""

    def __init__(self, estimate: Estimate) -> None:
        self.estimate = estimate
        self.sizes = np.array([a.size for a in estimate.cluster.axes], dtype=np.int64)
        self.choice: list[NDArray[np.int16]] = []
        self.rest: list[Codes] = []
        self.moves: list[tuple[NDArray[np.int16], Codes]] = []
        self.whole: set[int] = set()
        known: dict[object, tuple[NDArray[np.int16], Codes]] = {}
        for g, every in enumerate(estimate.all):
            num_axes = len(self.sizes)
            self.choice.append(np.zeros((every.choice.shape[1], num_axes), dtype=np.int16))
            self.rest.append(np.full((every.rest.shape[1], num_axes), REPLICATED, dtype=np.int8))
            key = estimate.key(g)
            if key not in known:
                known[key] = self._moves(g, every)
            self.moves.append(known[key])

    def _moves(self, g: int, every: Configurations) -> tuple[NDArray[np.int16], Codes]:
        """What a group may do along one axis: options and resident layouts, row by row."""
        joint = self.estimate.group_choices[g]
        choice, rest = joint.choice, joint.rest
        good = [n for n, kind in enumerate(every.kinds) if kind is not None]
        if good:
            choice, rest = choice[good], rest[good]
        if self.estimate.coarse.groups[g].weight is Weight.HEAVY and good:
            choice = _mixtures(every, choice)
            rest = np.zeros((len(choice), 0), dtype=np.int8)
        split = [i for i in range(len(rest)) if not (rest[i] == REPLICATED).any()]
        if split:
            choice, rest = choice[split], rest[split]
        return choice, rest

    def offer(self, axis: int) -> tuple[list[Configurations], bool]:
        """All that every group may do along an axis, beyond which everything is replicated; and
        whether none has run out of parts."""
        known: dict[object, Configurations] = {}
        offered: list[Configurations] = []
        complete = True
        for g, every in enumerate(self.estimate.all):
            options, layouts = self.moves[g]
            key = (id(options), self.choice[g].tobytes(), self.rest[g].tobytes())
            if key not in known:
                choice = np.repeat(self.choice[g][None], len(options), axis=0)
                rest = np.repeat(self.rest[g][None], len(options), axis=0)
                choice[:, :, axis], rest[:, :, axis] = options, layouts
                good = _possible(every, choice, self.sizes)
                if not good.any():
                    if axis == 0:
                        self.whole.add(id(options))
                    complete &= id(options) in self.whole
                    choice, rest = self.choice[g][None].copy(), self.rest[g][None].copy()
                    good = np.ones(1, dtype=bool)
                known[key] = _having(every, choice[good], rest[good]).distinct()
            offered.append(known[key])
        return offered, complete

    def stay(self) -> list[Configurations]:
        """For every group nothing but what is decided."""
        return [
            _having(every, self.choice[g][None], self.rest[g][None])
            for g, every in enumerate(self.estimate.all)
        ]

    def fix(self, offered: Sequence[Configurations], best: Assignment) -> None:
        """Go on from what was chosen."""
        for g, configurations in enumerate(offered):
            c = int(best.choices[g])
            self.choice[g], self.rest[g] = configurations.choice[c], configurations.rest[c]


def _having(every: Configurations, choice: NDArray[np.int16], rest: Codes) -> Configurations:
    """Configurations that no mix of joint choices describes."""
    return every.having(choice, rest, np.zeros((len(choice), every.mix.shape[1]), dtype=np.int8))


def _mixtures(every: Configurations, tied: NDArray[np.int16]) -> NDArray[np.int16]:
    """Joint choices in which a group's heavy operators do not follow each other."""
    heavy = [
        s
        for s, options in enumerate(every.options)
        if sum(options.reduces) and len(options.choices) > 2
    ]
    splits = {s: [o for o, units in enumerate(every.options[s].units) if units >= 2] for s in heavy}
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
    every: Configurations, choice: NDArray[np.int16], sizes: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Where every operator has enough parts; nothing is cut along one dim by two of its indices."""
    good = np.ones(len(choice), dtype=bool)
    for slot, options in enumerate(every.options):
        chosen = choice[:, slot]
        for option, units in enumerate(options.units):
            if units:
                ways = np.where(chosen == option, sizes, 1).prod(axis=1)
                good &= (ways <= units) & ((ways == 1) | (units % ways == 0) | (units >= 16 * ways))
        for a, b in options.clashes:
            good &= ~((chosen == a).any(axis=1) & (chosen == b).any(axis=1))
    return good
