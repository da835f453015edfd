"""The sets of layouts in which an array may be needed by all of its readers together.

    readers of one kind       what one of them may need, and how many there are
    mm(x, x)   once           {S0 R, R S1}, {S0 S0, R R}, ...
    x + y      three times    {S0 S0}, {S0 S1}, {S1 S1}, ...

A set is a union of what readers need: of each kind at least one choice, and at most as many as it
has readers. It costs what bringing the array to all of its layouts takes, which does not fall as a
set grows: so what costs more than a bound is left out before anything is added to it. Of more than
`MOST_SETS` sets the cheapest are kept, and `beyond` says what those that were left out cost at
least, with all that could have been made of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isinf

import numpy as np
from numpy.typing import NDArray

from graphwright.partition.estimate import Floats

Sets = NDArray[np.bool_]
"""[set, layout]: which layouts a set has."""
Kind = tuple[Sets, int]
"""What a reader may need, and how many readers may need the same."""
MOST_COPIES = 3
MOST_SETS = 1500


@dataclass(frozen=True, slots=True, eq=False)
class LayoutSets:
    """Sets of layouts; what those that are not here take at least, for every source of the array,
    None if all are here."""

    has: Sets
    beyond: Floats | None


def layout_sets(
    kinds: Sequence[Kind], costs: Floats, bound: float, required: Sets | None = None
) -> LayoutSets:
    """The sets that take no more than `bound`, and a required one in any case; `costs` are of
    [source, layout]."""
    return _Growing(costs, bound).grow(kinds, required)


class _Growing:
    def __init__(self, costs: Floats, bound: float) -> None:
        self.costs, self.bound = costs.T, bound
        self.copies = MOST_COPIES if isinf(bound) else 2 * MOST_COPIES
        self.left_out = np.full(costs.shape[0], np.inf)

    def grow(self, kinds: Sequence[Kind], required: Sets | None) -> LayoutSets:
        sets = np.zeros((1, self.costs.shape[0]), dtype=bool)
        for choices, count in kinds:
            sets = self._with_kind(sets, choices, count)
        if required is not None:
            sets = _distinct(np.vstack([sets, required[None]]))
        return LayoutSets(sets, None if np.isinf(self.left_out).all() else self.left_out)

    def _with_kind(self, sets: Sets, choices: Sets, count: int) -> Sets:
        """The sets with what one to `count` readers of a kind need."""
        made = last = self._kept(_united(sets, choices))
        for copies in range(2, min(count, len(choices)) + 1):
            both = _distinct(np.vstack([made, _united(last, choices)]))
            last = both[len(made) :]
            if not len(last):
                break
            if copies > self.copies:
                self._leave_out(last)
                break
            made = self._kept(both)
            if len(made) < len(both):  # in another order: go on from all
                last = made
        return made

    def _kept(self, sets: Sets) -> Sets:
        """The sets within the bound, no more than there may be."""
        least = (sets @ self.costs).min(axis=1)
        sets, least = sets[least <= self.bound], least[least <= self.bound]
        if len(sets) <= MOST_SETS:
            return sets
        order = np.argsort(least, kind="stable")
        self._leave_out(sets[order[MOST_SETS:]])
        return sets[np.sort(order[:MOST_SETS])]

    def _leave_out(self, sets: Sets) -> None:
        self.left_out = np.minimum(self.left_out, (sets @ self.costs).min(axis=0))


def _united(sets: Sets, choices: Sets) -> Sets:
    """Every set with every choice."""
    united = sets[:, None] | choices[None]
    return _distinct(united.reshape(len(sets) * len(choices), sets.shape[1]))


def _distinct(sets: Sets) -> Sets:
    """Every set once, in the order in which they come first."""
    if not sets.shape[1]:
        return sets[:1]
    packed = np.packbits(sets, axis=1)
    rows = np.ascontiguousarray(packed).view(f"V{packed.shape[1]}").ravel()
    _, first = np.unique(rows, return_index=True)
    return sets[np.sort(first)]
