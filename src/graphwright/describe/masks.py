"""What a mask over positions hides, so that no kernel computes it.

    where(m - l <= 0, score, -inf)        is -inf for keys m behind query l
    exp(that - top)                       is 0 there, and so is its product with anything

A mask is a polynomial p over index variables: what it hides is where p > 0.

    hidden_in(expr)       masks under which `expr` is a constant: zero, or never a maximum
    hidden_as(expr, n)    masks under which the n-th subexpression is not asked for
    num_left(masks, ...)  how many combinations of variables no mask hides
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, prod

import numpy as np

from graphwright.describe.language import Call, Const, Expr, IndexValue, Reduce
from graphwright.symbolic import Poly, Symbol

Masks = tuple[Poly, ...]


def hidden_in(expr: Expr) -> Masks:
    """The masks under which an expression needs no computing."""
    match expr:
        case Reduce("sum", _, _, body):
            return _zero(body)
        case Reduce("max", _, _, body):
            return _infinite(body)
        case _:
            return _zero(expr)


def hidden_as(expr: Expr, number: int) -> Masks:
    """The masks under which a subexpression is not used: the other branch of a `where` is."""
    match expr:
        case Call("where", (condition, *_)) if number == 1:
            return _masks(condition)
        case _:
            return ()


def _masks(condition: Expr) -> Masks:
    match condition:
        case Call("le", (IndexValue(index), Const(0))) if _is_linear(index):
            return (index,)
        case _:
            return ()


def _zero(expr: Expr) -> Masks:
    """Where an expression is 0."""
    match expr:
        case Call("exp", (power,)):
            return _infinite(power)
        case Call("mul", (a, b)):
            return (*_zero(a), *_zero(b))
        case Call("cast" | "neg", (a,)) | Call("div", (a, _)):
            return _zero(a)
        case Call("where", (condition, value, Const(0))):
            return (*_masks(condition), *_zero(value))
        case _:
            return ()


def _infinite(expr: Expr) -> Masks:
    """Where an expression is -inf."""
    match expr:
        case Call("where", (condition, value, Const(value=other))) if other == -inf:
            return (*_masks(condition), *_infinite(value))
        case Call("add", (a, b)):
            return (*_infinite(a), *_infinite(b))
        case Call("sub", (a, _)) | Call("cast", (a,)):
            return _infinite(a)
        case _:
            return ()


def _is_linear(index: Poly) -> bool:
    """Whether it is a sum of index variables, each times a number, and what has none of them."""
    return all(
        len(monomial) == 1 and isinstance(monomial[0], Symbol)
        for monomial, _ in index.terms
        if Poly({monomial: 1}).indices
    )


def num_left(
    masks: Masks,
    variables: Sequence[Symbol],
    extents: Mapping[Symbol, int],
    values: Mapping[Symbol, int],
) -> int:
    """How many combinations of variables are not hidden; of several masks the strictest counts."""
    total = prod(extents[v] for v in variables)
    return min([total, *(_left(mask, total, extents, values) for mask in masks)])


def _left(
    mask: Poly, total: int, extents: Mapping[Symbol, int], values: Mapping[Symbol, int]
) -> int:
    """Of `total` combinations those where a mask over two variables is at most 0."""
    if len(mask.indices) != 2 or total == 0:
        return total
    one, other = sorted(mask.indices, key=repr)
    start = {**values, one: 0, other: 0}
    base = int(mask.evaluate(start))
    slope, other_slope = (int(mask.evaluate({**start, v: 1})) - base for v in (one, other))
    room = -(base + slope * np.arange(extents[one], dtype=np.int64))  # other_slope * other <= room
    size = extents[other]
    if other_slope > 0:
        counts = np.clip(room // other_slope + 1, 0, size)
    else:
        counts = size - np.clip(-(room // -other_slope), 0, size)
    return total * int(counts.sum()) // (extents[one] * size)
