"""Which of several timed turns count: those in which ranks had a core whenever they could go on.

    turn 1   waited 0%     counts           until there are enough, or three times as many
    turn 2   waited 31%    is made again    were made: then the calmest count
    turn 3   waited 1%     counts

What other programs do is no part of a machine, and no prediction knows of it. Turns are chosen by
how long a rank waited for a core (Linux counts it) beyond what its own threads computed, never by
how long they took, and nothing is taken off what they took. Where the system does not say, the
first turns count.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from statistics import fmean
from time import perf_counter, process_time, thread_time
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
        """Make a turn, and note for how much of it other programs kept a rank from its core."""
        began, waited, helped = perf_counter(), seconds_without_core(), _seconds_of_helpers()
        found = turn()
        elapsed = perf_counter() - began
        waited, helped = seconds_without_core() - waited, _seconds_of_helpers() - helped
        share = waited / elapsed if isfinite(waited) else 0.0
        self.made.append((_of_others(share, helped / elapsed), found))

    @property
    def that_count(self) -> list[T]:
        """What the calmest turns returned, in their order."""
        return [found for _, found in self._counted()]

    @property
    def waited(self) -> float:
        """For which share of the turns that count other programs kept a rank from its core."""
        return fmean(share for share, _ in self._counted())

    def _counted(self) -> list[tuple[float, T]]:
        numbers = sorted(range(len(self.made)), key=lambda n: max(self.made[n][0], CALM))
        return [self.made[n] for n in sorted(numbers[: self.wanted])]


def _seconds_of_helpers() -> float:
    """What other threads of this process have computed so far."""
    return process_time() - thread_time()


def _of_others(waited: float, helped: float) -> float:
    """The share of waiting that other programs are to blame for.

    Ranks wait for the slowest of them, and on a calm machine as well for what their own threads
    compute, those of Gloo.
    """
    import torch.distributed as dist

    if dist.is_initialized():
        longest, all_helped = torch.tensor([[waited], [helped]], dtype=torch.float64)
        dist.all_reduce(longest, dist.ReduceOp.MAX)
        dist.all_reduce(all_helped)
        waited, helped = float(longest), float(all_helped)
    return max(0.0, waited - helped)
