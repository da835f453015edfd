"""Learn what parts cost while a model trains, and cut the graph again when that pays (ROC, 4.4).

    epochs on the present cut  ->  one sample for each part  ->  cost model  ->  a better cut?

The first epoch on a cut is not counted: it sets up. Parts of one cut are much alike, so in a long
training another one is tried first, by equal vertices: then vertices and edges can be told apart.
Next comes one of equal predicted totals, which asks less of the model than one that looks at layers
one by one. From then on a new cut has to save more in the epochs that are left than the move takes,
and more than noise. Where a cut turns out to be slower than one before, that one comes back:
predictions choose what is tried, measurements what is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphwright.gnn.distributed.balance.cost import CostModel, Sample
from graphwright.gnn.distributed.balance.features import VertexFeatures
from graphwright.gnn.distributed.balance.ranges import Bounds, balanced, refined

FIRST_CHECK = 3
"""Epochs on a cut before the next is considered; twice as many after each that is kept."""
NOISE = 0.03
"""The share of an epoch that a new cut has to save."""
PROBE_SHARE = 0.05
"""The share of the time that is left which may be spent on a cut to learn from."""


@dataclass(slots=True, kw_only=True)
class OnlinePartitioner:
    """Where the graph is cut at present, and all that was measured."""

    features: VertexFeatures
    bounds: Bounds
    probe: Bounds | None = None
    """A cut to learn from, tried once if that takes a small share of the time that is left."""
    model: CostModel | None = None
    samples: list[Sample] = field(default_factory=list)
    tried: dict[Bounds, float] = field(default_factory=dict)
    """The measured time of an epoch on each cut: the sum over layers of the slowest part's."""
    _seen: list[Any] = field(default_factory=list)
    _wait: int = FIRST_CHECK
    _tried_even: bool = False

    def observe(self, seconds: Any) -> None:
        """The times of an epoch: a row for each part, a column for each layer."""
        self._seen.append(np.asarray(seconds))

    @property
    def is_due(self) -> bool:
        """Whether there is enough to consider another cut."""
        return len(self._seen) >= self._wait

    def consider(
        self, widths: Sequence[int], epochs_left: int, move_seconds: float
    ) -> Bounds | None:
        """Learn from the epochs on the present cut; another cut, if it pays."""
        taken = np.median(np.stack(self._seen[1:] or self._seen), 0)
        self._seen.clear()
        self.tried[self.bounds] = float(taken.max(0).sum())
        pairs = zip(self.bounds[:-1], self.bounds[1:], strict=True)
        for (low, high), row in zip(pairs, taken, strict=True):
            x = tuple(tuple(map(float, self.features.sums(low, high, w))) for w in widths)
            self.samples.append(Sample(features=x, seconds=tuple(map(float, row))))
        self.model = model = CostModel.learn(widths, self.samples)
        probe = self._next_probe(model)
        ahead = epochs_left * self.tried[self.bounds]
        if probe is not None and move_seconds < PROBE_SHARE * ahead:
            return self._move(probe)
        found = self.cut(model, len(self.bounds) - 1)
        now, then = (model.epoch_seconds(self.features, b) for b in (self.bounds, found))
        pays = (now - then) * epochs_left > move_seconds and then < now * (1 - NOISE)
        if pays and found not in self.tried:
            return self._move(found)
        best = min(self.tried, key=lambda bounds: self.tried[bounds])
        lost = self.tried[self.bounds] - self.tried[best]
        if lost > NOISE * self.tried[best] and lost * epochs_left > move_seconds:
            return self._move(best)
        self._wait *= 2
        return None

    def _next_probe(self, model: CostModel) -> Bounds | None:
        """The cut that is tried whatever is predicted of it: what was given, then equal totals."""
        if self.probe is not None:
            probe, self.probe = self.probe, None
        elif not self._tried_even:
            probe, self._tried_even = self.even(model, len(self.bounds) - 1), True
        else:
            return None
        return None if probe in self.tried else probe

    def even(self, model: CostModel, workers: int) -> Bounds:
        """Ranges of the same predicted time, of all layers together."""
        cost = lambda vertex: model.before(self.features, vertex)
        return balanced(cost, self.features.num_nodes, workers)

    def cut(self, model: CostModel, workers: int) -> Bounds:
        """The same, shifted where layers differ."""
        seconds = lambda bounds: model.epoch_seconds(self.features, bounds)
        return refined(seconds, self.even(model, workers))

    def _move(self, bounds: Bounds) -> Bounds:
        self.bounds, self._wait = bounds, FIRST_CHECK
        return bounds


def imbalance(seconds: Sequence[float]) -> float:
    """The slowest worker's time over the mean: 1 is balanced, the number of workers the worst."""
    mean = sum(seconds) / len(seconds)
    return max(seconds) / mean if mean > 0 else 1.0
