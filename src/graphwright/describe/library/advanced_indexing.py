"""Reads and writes with several index tensors at once: ``x[:, rows, columns]``.

The index tensors broadcast to a block. If they are adjacent, the block replaces the first of them
in the result, otherwise it comes first; the other dims follow in order. Negative indices count from
the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from graphwright.describe.language import (
    Any,
    Array,
    Expr,
    Int,
    Opaque,
    Sum,
    Tensor,
    describe,
    equal,
    where,
)

Index = Sequence[Int]


@describe("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(x: Tensor, *indices: Tensor | None):
    if mask_position(indices) is not None:
        known = [n is not None for n in indices]
        held = [t for t in indices if t is not None]
        picked = Opaque("masked_index", lambda a, *t: a[spread(known, t)])(
            *map(everything, [x, *held])
        )
        return lambda *i: picked[i]
    block = IndexBlock(x, indices)

    def element(*i: Int) -> Expr:
        position, others = block.split_index(i)
        rest = iter(others)
        return x[
            tuple(next(rest) if t is None else from_start(t[position], n) for t, n in block.dims)
        ]

    return element


@describe("aten.index_put", "aten._unsafe_index_put")
def index_put(x: Tensor, *given: Tensor | None, accumulate: bool):
    *indices, values = given
    assert values is not None
    mask_at = mask_position(indices)
    if mask_at is not None:
        return put_masked(x, indices, mask_at, values, accumulate)
    block = IndexBlock(x, indices)

    def element(*i: Int) -> Expr:
        others = [k for k, (t, _) in zip(i, block.dims, strict=True) if t is None]

        def met(position: Index) -> Expr:
            tests = [
                equal(k, from_start(t[position], n))
                for k, (t, n) in zip(i, block.dims, strict=True)
                if t is not None
            ]
            return reduce(Expr.__and__, tests)

        def arriving(*position: Int) -> Expr:
            return where(met(position), values[block.join_index(position, others)], 0)

        total = Sum(arriving, over=block.shape)
        if accumulate:
            return x[i] + total
        return where(Any(lambda *position: met(position), over=block.shape), total, x[i])

    return element


@describe("aten.masked_scatter")
def masked_scatter(x: Tensor, mask: Tensor, source: Tensor):
    filled = Opaque("masked_scatter", fill_masked)(*map(everything, (x, mask, source)))
    return lambda *i: filled[i]


@describe("aten.masked_scatter_backward")
def masked_scatter_backward(g: Tensor, mask: Tensor, *, out: Tensor):
    picked = Opaque("masked_scatter_backward", pick_masked)
    sizes = tuple(int(n) for n in out.shape)
    return lambda *i: picked(everything(g), everything(mask), *sizes)[i]


class IndexBlock:
    """Maps between the dims of x, the block of its index tensors, and the result."""

    def __init__(self, x: Tensor, indices: Sequence[Tensor | None]) -> None:
        given = [*indices, *[None] * (x.rank - len(indices))]
        self.dims = list(zip(given, x.shape, strict=True))
        held = [t for t in given if t is not None]
        at = [d for d, t in enumerate(given) if t is not None]
        self.first = at[0] if at == list(range(at[0], at[-1] + 1)) else 0
        self.rank = max(t.rank for t in held)
        self.shape = [
            broadcast([t.shape[t.rank - k] for t in held if t.rank >= k])
            for k in range(self.rank, 0, -1)
        ]

    def split_index(self, i: Index) -> tuple[Index, Index]:
        """Split an index of the result into the position in the block and the other indices."""
        end = self.first + self.rank
        return i[self.first : end], (*i[: self.first], *i[end:])

    def join_index(self, position: Index, others: Index) -> tuple[Int, ...]:
        """Combine them into an index of the result."""
        return (*others[: self.first], *position, *others[self.first :])


def broadcast(sizes: Sequence[Int]) -> Int:
    """The size that dims of these sizes broadcast to."""
    return next((n for n in sizes if n != 1), sizes[0])


def from_start(place: Expr, size: Int) -> Expr:
    """Convert a negative index, which counts from the end."""
    return where(place < 0, place + size, place)


# -- masks ---------------------------------------------------------------------------------------


def mask_position(indices: Sequence[Tensor | None]) -> int | None:
    """The position of the first boolean index tensor, or None."""
    return next((n for n, t in enumerate(indices) if t is not None and t.dtype == "bool"), None)


def put_masked(
    x: Tensor, indices: Sequence[Tensor | None], at: int, values: Tensor, accumulate: bool
):
    """Put one value where a mask is true; any other case depends on preceding elements."""
    mask = indices[at]
    assert mask is not None
    held = [t for t in indices if t is not None]
    if held == [mask] and all(n == 1 for n in values.shape):
        value = values[(0,) * values.rank]
        return lambda *i: where(
            mask[i[at : at + mask.rank]], x[i] + value if accumulate else value, x[i]
        )
    known = [t is not None for t in indices]

    def put(a: Array, *rest: Array) -> Array:
        made = a.copy()
        key = spread(known, rest[:-1])
        if accumulate:
            np.add.at(made, key, rest[-1])
        else:
            made[key] = rest[-1]
        return made

    whole_result = Opaque("masked_put", put)(*map(everything, [x, *held, values]))
    return lambda *i: whole_result[i]


def spread(known: Sequence[bool], tensors: Sequence[Array]) -> tuple[Array | slice, ...]:
    """The index tensors, with a full slice for each missing one."""
    rest = iter(tensors)
    return tuple(next(rest) if there else slice(None) for there in known)


def fill_masked(x: Array, mask: Array, source: Array) -> Array:
    """Replace the masked elements of x by those of source, in order."""
    made, chosen = (a.copy() for a in np.broadcast_arrays(x, mask))
    made[chosen] = source.ravel()[: int(chosen.sum())]
    return made


def pick_masked(g: Array, mask: Array, *sizes: int) -> Array:
    """The masked elements of g in order, followed by zeros for the rest of the source."""
    gradient = np.zeros(int(np.prod(sizes)), g.dtype)
    chosen = g[np.broadcast_to(mask, g.shape)]
    gradient[: len(chosen)] = chosen
    return gradient.reshape([int(n) for n in sizes])


def everything(x: Tensor) -> Expr:
    """The whole tensor, for an opaque function."""
    return x[(slice(None),) * x.rank]
