"""The sets of layouts in which an array may be needed by all of its readers together.

    readers of one kind       what one of them may need, and how many there are
    mm(x, x)   once           {S0 R, R S1}, {S0 S0, R R}, ...
    x + y      three times    {S0 S0}, {S0 S1}, {S1 S1}, ...

A set is a union of what readers need: of each kind at most as many choices as it has readers, and
no more than `MOST_COPIES`, or fewer where there would be more than `MOST_SETS` sets.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

from graphwright.plans import Sharding

Layouts = frozenset[Sharding]
Kind = tuple[tuple[Layouts, ...], int]
"""What a reader may need, and how many readers may need the same."""
MOST_COPIES = 3
MOST_SETS = 1500


@lru_cache(maxsize=1024)
def layout_sets(kinds: tuple[Kind, ...]) -> tuple[tuple[Layouts, ...], tuple[int, ...]]:
    """The sets, and of how many choices of each kind they are made at most."""
    most = [min(count, MOST_COPIES, len(choices)) for choices, count in kinds]
    while True:
        sets = _unions(kinds, most)
        if sets is not None or max(most) == 1:
            break
        largest = max(range(len(most)), key=lambda k: (most[k], len(kinds[k][0])))
        most[largest] -= 1
    if sets is None:
        return _few(kinds), (0,) * len(kinds)
    return sets, tuple(most)


def _unions(kinds: tuple[Kind, ...], most: list[int]) -> tuple[Layouts, ...] | None:
    """Every union of at most so many choices of each kind; None if there are too many."""
    unions: dict[Layouts, None] = {frozenset(): None}
    for (choices, _), limit in zip(kinds, most, strict=True):
        own = dict.fromkeys(
            some[0].union(*some[1:])
            for count in range(1, limit + 1)
            for some in combinations(choices, count)
        )
        if len(own) > MOST_SETS:
            return None
        unions = dict.fromkeys(before | more for before in unions for more in own)
        if len(unions) > MOST_SETS:
            return None
    return tuple(unions)


def _few(kinds: tuple[Kind, ...]) -> tuple[Layouts, ...]:
    """The smallest sets that serve all kinds, where even those with one choice each are many."""
    choices = tuple(dict.fromkeys(one for own, _ in kinds for one in own))
    sets: dict[Layouts, None] = {}
    for count in range(1, len(kinds) + 1):
        for some in combinations(choices, count):
            union = some[0].union(*some[1:])
            if all(any(one <= union for one in own) for own, _ in kinds):
                sets[union] = None
                if len(sets) >= MOST_SETS:
                    return tuple(sets)
        if sets:
            break
    return tuple(sets)
