"""What the additive model thinks of each configuration of a group, the neighbours being as they are
now.

    estimate[c] = unary[g][c]
      + sum over updates u of g:      (1 - hidden) * min over c' of pair[g, u][c, c'] + unary[u][c']
      + sum over other neighbours v:  pair[g, v][c, configuration of v now]

Reading one row of a table for each neighbour is thousands of times cheaper than a simulation, so a
search that draws configurations by their rank in this estimate wastes few simulations on hopeless
ones. It only says what to try: whether that is taken is for the simulator to say, which knows what
overlaps. As the model does not, gradients' movements are counted in full or mostly `hidden`, in
turns.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from graphwright.partition.estimate import Estimate
from graphwright.partition.search.narrow import narrow
from graphwright.partition.space import Weight, typical
from graphwright.plans import Strategy

Floats = NDArray[np.float64]
HIDDEN = (0.0, 0.9)
"""The shares of what moves for parameters and gradients that are taken to be hidden."""


class Hints:
    """What an estimate says, narrowed to the configurations that may be worth something."""

    def __init__(self, estimate: Estimate) -> None:
        self.narrowed = narrow(estimate, estimate.space.width)
        problem = self.narrowed.problem()
        groups = estimate.coarse.groups
        update = [group.weight is Weight.UPDATE for group in groups]
        self.own: list[list[Floats]] = []
        self.pairs: list[list[tuple[int, Floats]]] = [[] for _ in groups]
        following: list[Floats] = [np.zeros(len(t.time)) for t in problem.unary]
        for (u, v), table in problem.pairs.items():
            time = table.time.min(axis=2)
            if update[u] != update[v]:
                g, other, time = (u, v, time) if update[v] else (v, u, time.T)
                following[g] += (time + problem.unary[other].time.min(axis=1)).min(axis=1)
            elif not update[u]:
                self.pairs[u].append((v, time))
                self.pairs[v].append((u, time.T))
        for table, more in zip(problem.unary, following, strict=True):
            self.own.append([table.time.min(axis=1) + (1 - share) * more for share in HIDDEN])
        nodes = estimate.coarse.facts.graph.nodes
        self._names = [[nodes[typical(slot)].name for slot in group.slots] for group in groups]
        self._numbers: dict[int, dict[tuple[Strategy, ...], int]] = {}

    def now(self, g: int, strategies: Mapping[str, Strategy]) -> int | None:
        """The configuration that a group has, None if it is none of those narrowed down to."""
        own = self.narrowed.configurations[g]
        numbers = self._numbers.get(id(own))
        if numbers is None:
            slots = range(own.choice.shape[1])
            numbers = self._numbers[id(own)] = {
                tuple(own.strategy(c, slot) for slot in slots): c for c in range(len(own))
            }
        return numbers.get(tuple(strategies[name] for name in self._names[g]))

    def estimate(self, g: int, strategies: Mapping[str, Strategy], variant: int) -> Floats:
        """Seconds for each configuration, as far as they depend on it."""
        total = self.own[g][variant].copy()
        for other, time in self.pairs[g]:
            c = self.now(other, strategies)
            if c is not None:
                total += time[:, c]
        return total
