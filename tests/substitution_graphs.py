"""Graphs of substitutions run by PyTorch's kernels, and random graphs around a term."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from graphwright.aten import call_kernel
from graphwright.rewrite.substitutions.graphs import (
    CONSTANTS,
    Expression,
    Input,
    Shape,
    Term,
    program_of,
    sizes_of,
    subterms,
)
from graphwright.rewrite.substitutions.values import constant_value, shapes_of


def run_kernels(
    outputs: Sequence[Expression],
    values: Mapping[Expression, torch.Tensor],
    given: Mapping[Expression, Shape],
) -> list[torch.Tensor]:
    """The outputs of a graph, every ATen call by the kernel that PyTorch has for it."""
    shapes = shapes_of(outputs, given)
    assert shapes is not None
    known: dict[Expression, torch.Tensor] = {}
    for e in subterms(*outputs):
        if isinstance(e, Input):
            known[e] = values[e]
        elif e.op in CONSTANTS:
            known[e] = torch.tensor(np.asarray(constant_value(e, shapes[e]), np.float64))
        else:
            program = program_of(e.op, e.params, [shapes[arg] for arg in e.args])
            assert program is not None
            made = [known[arg] for arg in e.args]
            for call in program.calls:
                inputs = [None if i is None else made[i] for i in call.inputs]
                made.append(call_kernel(call.op, inputs, call.attrs)[call.output])
            known[e] = made[-1]
    return [known[output] for output in outputs]


def random_tensors(
    given: Mapping[Expression, Shape], rng: np.random.Generator
) -> dict[Expression, torch.Tensor]:
    """Numbers of either sign for every input."""
    return {
        e: torch.tensor(rng.uniform(-1, 1, sizes_of(shape)))
        for e, shape in given.items()
        if isinstance(e, Input)
    }


def dressed(
    e: Expression, given: dict[Expression, Shape], shape: Shape, rng: np.random.Generator
) -> Expression:
    """A term of the same shape that has `e` in it, perhaps `e` itself; it may need new inputs."""
    while rng.random() < 0.4:
        other = Input(f"y{len(given)}")
        match rng.integers(5):
            case 0:
                e = Term("relu", (), (e,))
            case 1:
                given[other] = sizes_of(shape)
                e = Term("ewadd", (), (e, other))
            case 2:
                given[other] = sizes_of(shape)
                e = Term("ewmul", (), (other, e))
            case 3:
                given[other] = ()
                e = Term("smul", (), (e, other))
            case _:
                e = Term("ewadd", (), (e, e))
    return e
