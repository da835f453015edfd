"""Which of several timed turns count: those in which ranks had a core whenever they could go on.

    turn 1   waited 0%     counts           until there are enough, or three times as many
    turn 2   waited 31%    is made again    were made: then the calmest count
    turn 3   waited 1%     counts

What other programs do is no part of a machine, and no prediction knows of it. Turns are chosen by
how long a rank waited for a core (Linux counts it), never by how long they took, and nothing is
taken off what they took. Where the system does not say, the first turns count.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from statistics import fmean
from time import perf_counter
from typing import Generic, TypeVar

import torch

from graphwright.run.measure.timing import seconds_without_core

CALM = 0.02
"""The share of a calm turn in which some rank waits for a core, at most."""
PATIENCE = 3
"""How many times as many turns are made as are wanted, at most."""

T = TypeVar("T")


class Turns(Generic[T]):
    """Turns of one kind; all ranks make them together, and agree on which count."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.made: list[tuple[float, T]] = []

    @property
    def are_enough(self) -> bool:
        """Whether no further turn is needed; the same on all ranks."""
        calm = sum(share <= CALM for share, _ in self.made)
        return calm >= self.wanted or len(self.made) >= PATIENCE * self.wanted

    def take(self, turn: Callable[[], T]) -> None:
        """Make a turn, and note for how much of it a rank was without a core."""
        began, waited = perf_counter(), seconds_without_core()
        found = turn()
        elapsed, waited = perf_counter() - began, seconds_without_core() - waited
        self.made.append((_of_all_ranks(waited / elapsed if isfinite(waited) else 0.0), found))

    @property
    def that_count(self) -> list[T]:
        """What the calmest turns returned, in their order."""
        return [found for _, found in self._counted()]

    @property
    def waited(self) -> float:
        """For which share of the turns that count a rank waited for a core."""
        return fmean(share for share, _ in self._counted())

    def _counted(self) -> list[tuple[float, T]]:
        numbers = sorted(range(len(self.made)), key=lambda n: max(self.made[n][0], CALM))
        return [self.made[n] for n in sorted(numbers[: self.wanted])]


def _of_all_ranks(share: float) -> float:
    """The largest share of any rank: the others wait for that one."""
    import torch.distributed as dist

    if not dist.is_initialized():
        return share
    largest = torch.tensor([share], dtype=torch.float64)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    return float(largest)
