"""What a layer takes on a part of a graph, learned from the times of parts (ROC, section 4.4.1).

    t(l, part) = w_0(l) + sum over i of  w_i(l) * x_i(part)      equation 4.6
    w(l) = argmin over w >= 0 of the mean of (t - y)^2           equation 4.7

The features x are `features.VertexFeatures`. The constant is not the paper's: calling a layer takes
time, however small its part; where to cut does not depend on it. Weights are not negative, so that
a larger part never seems cheaper and cuts can be found by bisection. With P parts an epoch gives P
samples of each layer; until there are enough of them, a little ridge chooses the smallest weights.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphwright.gnn.distributed.balance.features import NUM_FEATURES, VertexFeatures
from graphwright.gnn.storage import DGLError

_RIDGE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One part of a graph in one pass: its features for each layer, and each layer's seconds."""

    features: tuple[tuple[float, ...], ...]
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """The constant and the weights of each layer, and how many numbers a row of its halo has."""

    widths: tuple[int, ...]
    weights: tuple[tuple[float, ...], ...]

    @staticmethod
    def learn(widths: Sequence[int], samples: Sequence[Sample]) -> CostModel:
        """The weights that explain all samples best, for each layer by itself."""
        weights = []
        for layer in range(len(widths)):
            x = np.array([(1.0, *sample.features[layer]) for sample in samples])
            y = np.array([sample.seconds[layer] for sample in samples])
            weights.append(tuple(map(float, _least_squares(x, y))))
        return CostModel(widths=tuple(widths), weights=tuple(weights))

    def layer_seconds(self, features: VertexFeatures, low: int, high: int) -> tuple[float, ...]:
        """The predicted time of each layer on a range of vertices."""
        return tuple(
            weight[0] + float(np.dot(weight[1:], features.sums(low, high, width)))
            for weight, width in zip(self.weights, self.widths, strict=True)
        )

    def before(self, features: VertexFeatures, vertex: int) -> float:
        """The predicted time of all layers on all vertices before one, without the constant."""
        return sum(
            float(np.dot(weight[1:], features.partial_sums(width)[vertex]))
            for weight, width in zip(self.weights, self.widths, strict=True)
        )

    def epoch_seconds(self, features: VertexFeatures, bounds: Sequence[int]) -> float:
        """Workers wait for the slowest at every exchange: the sum over layers of the longest."""
        pairs = itertools.pairwise(bounds)
        parts = [self.layer_seconds(features, low, high) for low, high in pairs]
        return sum((max(times) for times in zip(*parts, strict=True)), 0.0)

    def to_dict(self) -> dict[str, Any]:
        """The same as data for JSON."""
        return {"widths": list(self.widths), "weights": [list(layer) for layer in self.weights]}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> CostModel:
        """A model of `to_dict`."""
        match data:
            case {"widths": list(widths), "weights": list(weights)} if len(widths) == len(weights):
                rows = [tuple(map(float, layer)) for layer in weights]
                if all(len(row) == 1 + NUM_FEATURES and min(row) >= 0 for row in rows):
                    return CostModel(widths=tuple(map(int, widths)), weights=tuple(rows))
        raise DGLError(
            f"this is no cost model: {data!s:.100}; it has widths, a number for each layer, and "
            f"weights, {1 + NUM_FEATURES} numbers from 0 upwards for each layer"
        )


def _least_squares(x: Any, y: Any) -> Any:
    from scipy.optimize import nnls

    scale, size = np.maximum(x.max(0), 1e-300), max(y.max(), 1e-300)
    ridge = np.sqrt(_RIDGE * len(x)) * np.eye(x.shape[1])
    found, _ = nnls(np.vstack([x / scale, ridge]), np.concatenate([y / size, np.zeros(len(ridge))]))
    return found * size / scale
