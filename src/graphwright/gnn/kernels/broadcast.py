"""How two operands and a result meet: groups of runs, so that loops need no general indexing.

Trailing dimensions are broadcast by NumPy's rules. Neighbouring dimensions in which every operand
does the same (all of it, or one number again and again) are merged; the last merged dimension is
the *run*, what is before it the *groups*. For u_mul_e with attention, (8, 16) by (8, 1):

    groups 8, run 16      a: at 0, 16, 32.., step 1     b: at 0, 1, 2.., step 0     out: like a

`dot` is `mul` whose result has a last dimension of 1: its step is 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from graphwright.gnn.storage import FeatureMismatch

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """For each of a, b and out: where each group begins, and the step within its run."""

    run: int
    at: tuple[Any, Any, Any]
    steps: tuple[int, int, int]


def broadcast_shapes(a: Shape, b: Shape, names: str = "the operands") -> Shape:
    """The shape that two trailing shapes have together."""
    try:
        return tuple(np.broadcast_shapes(a, b))
    except ValueError:
        raise FeatureMismatch(
            f"The feature shapes of {names} cannot be broadcast: {list(a)} and {list(b)}."
        ) from None


def result_shape(op: str, a: Shape, b: Shape, names: str = "the operands") -> Shape:
    """The trailing shape of a message."""
    if op == "copy":
        return a
    shape = broadcast_shapes(a, b, names)
    if op == "dot" and shape:
        if a[-1:] != b[-1:]:
            raise FeatureMismatch(
                f"The last dimension of {names} has to be the same for a dot product: {list(a)} "
                f"and {list(b)}."
            )
        return (*shape[:-1], 1)
    return shape


@lru_cache(maxsize=1024)
def layout(a: Shape, b: Shape, out: Shape) -> Layout:
    """The groups and runs of these trailing shapes; `a` has step 1 if it or `b` can."""
    space = tuple(np.broadcast_shapes(a, b, out))
    rank = len(space)
    shapes = [(1,) * (rank - len(shape)) + shape for shape in (a, b, out)]
    dims = [dim for dim in range(rank) if space[dim] != 1]
    tail: list[int] = []
    for dim in reversed(dims):
        if tail and any(_same(s, dim) != _same(s, tail[0]) for s in shapes):
            break
        tail.insert(0, dim)
    run = prod(space[dim] for dim in tail)
    steps = [int(not tail or _same(shape, tail[0])) for shape in shapes]
    if not steps[0] and not steps[1]:
        tail, run, steps = [], 1, [1, 1, 1]
    groups = [dim for dim in dims if dim not in tail]
    at = tuple(_offsets(shape, space, groups) for shape in shapes)
    return Layout(run, (at[0], at[1], at[2]), (steps[0], steps[1], steps[2]))


def flat_index(shape: Shape, space: Shape) -> Any:
    """For each element of the space, the place of the operand's element in its flat row."""
    padded = (1,) * (len(space) - len(shape)) + shape
    numbers = np.arange(prod(shape)).reshape(padded)
    return np.broadcast_to(numbers, space).reshape(-1).copy()


@lru_cache(maxsize=256)
def reduction_tables(a: Shape, b: Shape, out: Shape) -> tuple[Any, Any, int]:
    """For each number of a result, the places of the numbers that are added up in it.

    Two tables [result x reduced] of places in rows of a and b, flat, and how many are reduced.
    """
    space = tuple(np.broadcast_shapes(a, b, out))
    order = np.argsort(flat_index(out, space), kind="stable")
    reduced = prod(space) // max(prod(out), 1)
    first, second = (flat_index(shape, space)[order].astype(np.int32) for shape in (a, b))
    return first, second, max(reduced, 1)


def _same(shape: Shape, dim: int) -> bool:
    return shape[dim] != 1


def _offsets(shape: Shape, space: Shape, groups: list[int]) -> Any:
    at = np.zeros(1, np.int64)
    for dim in groups:
        stride = prod(shape[dim + 1 :]) if _same(shape, dim) else 0
        at = (at[:, None] + np.arange(space[dim]) * stride).reshape(-1)
    return at.astype(np.uint64)
