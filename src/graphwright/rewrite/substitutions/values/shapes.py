"""Which shapes may the inputs and constants of a substitution have?

A leaf's kind follows from the operators that use it: weights of convolutions, scalars, images,
matrices, batches of matrices. `fits` decides about a whole choice, `is_possible` about a part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphwright.rewrite.substitutions.graphs import (
    CONSTANTS,
    Expression,
    Guard,
    Input,
    Shape,
    Substitution,
    Term,
    program_of,
    sizes_of,
    subterms,
)

Given = Mapping[Expression, Shape]

RANKS = {"scalar": 0, "matrix": 2, "matrices": 3, "image": 4, "weight": 4}
"""The kinds of tensors, and the number of dims of each."""

_IMAGE_OPS = {"conv", "pool_avg", "pool_max", "enlarge"}
_MATRIX_OPS = {"matmul", "transpose", "I_matmul"}


def shapes_of(outputs: Sequence[Expression], given: Given) -> dict[Expression, Shape] | None:
    """The shape of every subterm, from those of inputs and constants; None if one has none."""
    shapes = _known_shapes(outputs, given)
    return shapes if shapes is not None and all(e in shapes for e in outputs) else None


def is_possible(outputs: Sequence[Expression], given: Given) -> bool:
    """Whether every term whose leaves are all given has a shape."""
    return _known_shapes(outputs, given) is not None


def _known_shapes(outputs: Sequence[Expression], given: Given) -> dict[Expression, Shape] | None:
    shapes: dict[Expression, Shape] = {}
    for e in subterms(*outputs):
        if isinstance(e, Input) or e.op in CONSTANTS:
            if e in given:
                shapes[e] = given[e]
                if isinstance(e, Term) and program_of(e.op, e.params, (given[e],)) is None:
                    return None
        elif all(arg in shapes for arg in e.args):
            program = program_of(e.op, e.params, [shapes[arg] for arg in e.args])
            if program is None:
                return None
            shapes[e] = program.shape
    return shapes


def have_shapes(item: Substitution, given: Given) -> bool:
    """Whether both graphs have shapes, and the guards hold."""
    shaped = shapes_of([*item.source, *item.target], given) is not None
    return shaped and all(holds(guard, given) for guard in item.guards)


def fits(item: Substitution, given: Given) -> bool:
    """Whether both graphs have shapes, the same for each output, and the guards hold."""
    if not have_shapes(item, given):
        return False
    shapes = shapes_of([*item.source, *item.target], given)
    assert shapes is not None
    pairs = zip(item.source, item.target, strict=True)
    return all(sizes_of(shapes[a]) == sizes_of(shapes[b]) for a, b in pairs)


def holds(guard: Guard, given: Given) -> bool:
    """Whether a guard holds for these shapes."""
    shapes = shapes_of(guard.args, given)
    return shapes is not None and holds_for(guard.name, [sizes_of(shapes[e]) for e in guard.args])


def holds_for(guard: str, sizes: Sequence[tuple[int, ...]]) -> bool:
    """Whether a guard holds for tensors of these sizes, data and weights of convolutions."""
    if guard == "ungrouped":  # the weight is as deep as the data has channels
        x, w = sizes
        return x[1] == w[1]
    x, v, y, w = sizes  # outputs over groups; groups are channels over depth
    return v[0] * v[1] * y[1] == w[0] * w[1] * x[1]


def kinds_of(leaf: Expression, *outputs: Expression) -> tuple[str, ...]:
    """The kinds that an input or a constant may be of, by the operators of the graphs."""
    users = [e for e in subterms(*outputs) if isinstance(e, Term)]
    ops = {u.op for u in users}
    if any(leaf in subterms(u.args[1]) for u in users if u.op == "smul"):
        return ("scalar",)
    weights = [e for u in users if u.op == "conv" for e in subterms(u.args[1])]
    weights += [e for u in users if u.op == "enlarge" for e in subterms(u)]
    kernels = ops & {"C_pool", "I_conv"} and not ops & {"conv", "pool_avg", "pool_max"}
    if kernels or leaf in weights:
        return ("weight",)
    axes = [p for u in users if u.op in ("concat", "split0", "split1") for p in u.params]
    images = bool(ops & _IMAGE_OPS) or any(_from_front(axis) for axis in axes)
    matrices = bool(ops & _MATRIX_OPS) or any(not _from_front(axis) for axis in axes)
    if images == matrices:
        return ("matrix", "matrices", "image")
    return ("image",) if images else ("matrix", "matrices")


def _from_front(axis: object) -> bool:
    return isinstance(axis, int) and axis >= 0
