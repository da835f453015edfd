"""May a substitution be applied at a match: do shapes, guards and constants fit there?

The target may have constants that the graph has not. Their shapes follow from where they are used:
of the shapes that tensors of the graph suggest, the one is taken under which the target has the
shapes of the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from graphwright.rewrite.substitutions.graphs import (
    CONSTANTS,
    Expression,
    Guard,
    Input,
    Match,
    Shape,
    Term,
    leaves_of,
    program_of,
    sizes_of,
    substitute,
)
from graphwright.rewrite.substitutions.values.shapes import Given, holds, shapes_of


def place(match: Match, given: Given) -> Given | None:
    """The shapes of leaves with which the target fits at a match; None where it does not.

    `given` has the shapes of the graph's inputs and constants, and so has the outcome, with those
    of new constants.
    """
    targets = match.targets()
    before = shapes_of(match.places, given)
    if before is None or not all(holds(_bound(g, match), given) for g in match.substitution.guards):
        return None
    new = [leaf for leaf in leaves_of(*targets) if leaf not in given]
    for shapes in product(*(suggested_shapes(leaf, before.values()) for leaf in new)):
        more = {**given, **dict(zip(new, shapes, strict=True))}
        after = shapes_of(targets, more)
        if after is not None and all(
            sizes_of(after[b]) == sizes_of(before[a])
            for a, b in zip(match.places, targets, strict=True)
        ):
            return more
    return None


def _bound(guard: Guard, match: Match) -> Guard:
    """A guard about the terms that the inputs of a substitution are at a match."""
    values: dict[Expression, Expression] = {Input(n): e for n, e in match.binding.items()}
    return Guard(guard.name, tuple(substitute(arg, values) for arg in guard.args))


def suggested_shapes(leaf: Expression, shapes: Iterable[Shape]) -> Iterator[Shape]:
    """Shapes for a constant, made of the sizes of tensors that are there."""
    assert isinstance(leaf, Term) and leaf.op in CONSTANTS
    known = dict.fromkeys(map(sizes_of, shapes))
    sizes = sorted({size for shape in known for size in shape})
    match leaf.op:
        case "C_pool":
            every = [(n, 1, *leaf.params * 2) for n in sizes]
        case "I_conv":
            every = [(n, n, *leaf.params * 2) for n in sizes]
        case "I_matmul":
            batches = {shape[:-2] for shape in known if len(shape) in (2, 3)}
            every = [(*batch, n, n) for batch in sorted(batches) for n in sizes]
        case _:
            every = list(known)
    for shape in every:
        if program_of(leaf.op, leaf.params, (shape,)) is not None:  # type: ignore[arg-type]
            yield shape  # type: ignore[misc]
