"""Draw shapes at random under which a substitution's graphs fit, and confirm that they are equal.

Leaves get shapes one after the other, from a shuffled list; a choice is taken back where some term
has no shape. Sizes of images, weights and matrices are drawn from `SIZES`: groups of convolutions,
batches and kernels that are not square all come up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np

from graphwright.rewrite.substitutions.graphs import (
    Expression,
    Input,
    Shape,
    Substitution,
    Term,
    leaves_of,
    program_of,
)
from graphwright.rewrite.substitutions.values.evaluate import RESIDUES, evaluate, random_values
from graphwright.rewrite.substitutions.values.shapes import (
    fits,
    is_possible,
    kinds_of,
    shapes_of,
)

Sizes = Mapping[str, Sequence[Sequence[int]]]

SIZES: Sizes = {
    "scalar": (),
    "image": ((1, 2), (1, 2, 3, 4), (5, 7, 8), (5, 6, 9)),
    "weight": ((1, 2, 4), (1, 2, 3, 4), (1, 2, 3), (1, 2, 3)),
    "matrix": ((1, 2, 3, 4), (1, 2, 3, 4)),
    "matrices": ((1, 2), (1, 2, 3), (1, 2, 3)),
}
"""The sizes of each dim that a leaf of a kind may have."""

TRIES = 3000
"""Shapes that are tried for leaves before a draw is given up."""


def draw_shapes(
    item: Substitution, rng: np.random.Generator, sizes: Sizes = SIZES
) -> dict[Expression, Shape] | None:
    """Shapes for inputs and constants under which both graphs fit and the guards hold."""
    outputs = (*item.source, *item.target)
    leaves = sorted(leaves_of(*outputs), key=lambda e: not isinstance(e, Input))
    kinds = {leaf: kinds_of(leaf, *outputs) for leaf in leaves}
    family = max(kinds.values(), key=len, default=())
    only = None if len(family) < 2 else family[rng.integers(len(family))]
    left = TRIES

    def extend(given: dict[Expression, Shape]) -> bool:
        nonlocal left
        if len(given) == len(leaves):
            return fits(item, given)
        leaf = leaves[len(given)]
        kind = kinds[leaf][0] if len(kinds[leaf]) < 2 else only
        assert kind is not None
        for shape in _shuffled(leaf, sizes[kind], list(given.values()), rng):
            left -= 1
            if left < 0:
                return False
            given[leaf] = shape
            if is_possible(outputs, given) and extend(given):
                return True
            del given[leaf]
        return False

    given: dict[Expression, Shape] = {}
    return given if extend(given) else None


def _shuffled(
    leaf: Expression,
    sizes: Sequence[Sequence[int]],
    before: Sequence[Shape],
    rng: np.random.Generator,
) -> list[Shape]:
    """Shapes for a leaf, those that other leaves have among the first."""
    every: list[Shape] = list(product(*sizes))
    if isinstance(leaf, Term):
        every = [shape for shape in every if program_of(leaf.op, leaf.params, (shape,))]
    every = [every[i] for i in rng.permutation(len(every))]
    known = dict.fromkeys(shape for shape in before if shape in set(every))
    likely = [*known, *every[: 1 + len(every) // 8]]
    return list(dict.fromkeys([*(likely[i] for i in rng.permutation(len(likely))), *every]))


def counterexamples(
    item: Substitution, rng: np.random.Generator, draws: int
) -> Iterator[dict[Expression, Shape] | None]:
    """For every draw of shapes and residues under which the graphs differ, those shapes.

    None stands for a draw that found no shapes.
    """
    for _ in range(draws):
        given = draw_shapes(item, rng)
        if given is None:
            yield None
            continue
        outputs = (*item.source, *item.target)
        shapes = shapes_of(outputs, given)
        assert shapes is not None
        results = evaluate(outputs, random_values(given, rng), shapes, RESIDUES)
        count = len(item.source)
        for a, b in zip(results[:count], results[count:], strict=True):
            if not np.array_equal(a, b):
                yield given
                break
