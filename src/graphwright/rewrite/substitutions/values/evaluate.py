"""Evaluate terms from the descriptions of their operators, over numbers of any kind.

`RESIDUES` are integers modulo a prime: exact, so that equal graphs have equal fingerprints.
Division multiplies by an inverse. ReLU's maximum becomes a nonlinear function, as in TASO section
2.3.2: the order of residues means nothing. The maximum of a window stays one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

import numpy as np

from graphwright.describe import FLOATS, Array, NumberSystem, Types, evaluate_stacked
from graphwright.ir import TensorType
from graphwright.rewrite.substitutions.graphs import (
    CONSTANTS,
    Expression,
    Input,
    Program,
    Shape,
    program_of,
    sizes_of,
    subterms,
)

PRIME = 2**31 - 1


def run_program(
    program: Program, inputs: Sequence[Array], arithmetic: NumberSystem = FLOATS
) -> Array:
    """The result of a program on stacked inputs: many calls at once, along a first axis."""
    values = list(inputs)
    for call in program.calls:
        given = [None if i is None else values[i] for i in call.inputs]
        types = Types(
            tuple(None if v is None else TensorType(v.shape[1:], "float64") for v in given),
            tuple(TensorType(shape, "float64") for shape in call.shapes),
        )
        values.append(
            evaluate_stacked(
                call.description, call.attrs, given, types, arithmetic, output=call.output
            )
        )
    return values[-1]


def evaluate(
    outputs: Sequence[Expression],
    values: Mapping[Expression, Array],
    shapes: Mapping[Expression, Shape],
    arithmetic: NumberSystem = FLOATS,
) -> tuple[Array, ...]:
    """The values of `outputs`; `values` has those of the inputs, `shapes` all (`shapes_of`)."""
    known: dict[Expression, Array] = {}
    for e in subterms(*outputs):
        if isinstance(e, Input):
            known[e] = values[e][None]
            continue
        given = [shapes[e]] if e.op in CONSTANTS else [shapes[arg] for arg in e.args]
        program = program_of(e.op, e.params, given)
        assert program is not None
        known[e] = run_program(program, [known[arg] for arg in e.args], arithmetic)
    return tuple(known[output][0] for output in outputs)


def constant_value(e: Expression, shape: Shape, arithmetic: NumberSystem = FLOATS) -> Array:
    """The entries of a constant."""
    return evaluate([e], {}, {e: shape}, arithmetic)[0]


def random_values(
    shapes: Mapping[Expression, Shape], rng: np.random.Generator
) -> dict[Expression, Array]:
    """A residue for every entry of every input."""
    return {
        e: rng.integers(1, PRIME, sizes_of(shape))
        for e, shape in shapes.items()
        if isinstance(e, Input)
    }


# -- residues ------------------------------------------------------------------------------------


def _inverse(value: Array) -> Array:
    flat = [pow(int(v), -1, PRIME) for v in np.asarray(value).flat]
    return np.asarray(flat, np.int64).reshape(np.shape(value))


def _nonlinear(a: Array, b: Array) -> Array:
    """Stands in for the maximum of two numbers: symmetric, and linear in neither."""
    square = (a * a + b * b) % PRIME
    return np.asarray((square * 1_234_577 + a + b + 76_543) % PRIME)


RESIDUES = NumberSystem(
    functions={
        "add": lambda a, b: (a + b) % PRIME,
        "sub": lambda a, b: (a - b) % PRIME,
        "mul": lambda a, b: (a * b) % PRIME,
        "div": lambda a, b: (a * _inverse(b)) % PRIME,
        "maximum": _nonlinear,
    },
    folds={"sum": lambda values, axis, keepdims: values.sum(axis=axis, keepdims=keepdims) % PRIME},
    constant=lambda value: -1 if value == -inf else int(value),
)
"""Integers modulo a prime."""
