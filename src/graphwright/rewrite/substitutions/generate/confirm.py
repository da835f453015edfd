"""Test whether terms over a family's inputs are equal, by their values at a seed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from graphwright.rewrite.substitutions.generate.families import Family
from graphwright.rewrite.substitutions.graphs import Expression, Shape, sizes_of
from graphwright.rewrite.substitutions.prune import FRESH
from graphwright.rewrite.substitutions.values import (
    PRIME,
    RESIDUES,
    evaluate,
    random_values,
    shapes_of,
)


@dataclass(slots=True)
class Values:
    """Values for a family's inputs, other ones than those that the enumeration drew."""

    family: Family
    seed: int
    _known: dict[object, bool] = field(default_factory=dict)

    def equal(self, a: Expression, b: Expression, place: Expression | None = None) -> bool:
        """Whether two terms have equal values, where a new input may be in the place of a term."""
        key = (a, b)
        if key not in self._known:
            self._known[key] = self._test(a, b, place)
        return self._known[key]

    def _test(self, a: Expression, b: Expression, place: Expression | None) -> bool:
        given: dict[Expression, Shape] = {
            leaf.expression: leaf.shape for leaf in self.family.leaves
        }
        rng = np.random.default_rng(self.seed)
        values = random_values(given, rng)
        if place is not None:
            inner = shapes_of([place], given)
            assert inner is not None
            given[FRESH] = inner[place]
            values[FRESH] = rng.integers(1, PRIME, sizes_of(inner[place]))
        shapes = shapes_of([a, b], given)
        if shapes is None or sizes_of(shapes[a]) != sizes_of(shapes[b]):
            return False
        left, right = evaluate([a, b], values, shapes, RESIDUES)
        return bool(np.array_equal(left, right))
