"""Indexing with several index tensors at once, reading and writing: ``x[:, rows, columns]``.

The index tensors are broadcast against each other to a block. In the result the block stands where the first of them
was, if they are neighbours, otherwise in front; dims without an index tensor follow in their order. Indices below 0
count from the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from graphwright.describe.expression import Expr
from graphwright.describe.language import Any, Int, Opaque, Sum, Tensor, equal, where
from graphwright.describe.registry import describe
from graphwright.describe.scalar import Array

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
    block = Block(x, indices)

    def element(*i: Int) -> Expr:
        position, others = block.take_apart(i)
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
    block = Block(x, indices)

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
            return where(met(position), values[block.put_together(position, others)], 0)

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


class Block:
    """How the dims of x, the block of its index tensors and the result belong together."""

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

    def take_apart(self, i: Index) -> tuple[Index, Index]:
        """A result's index as the position in the block, and the indices of x that have no tensor."""
        end = self.first + self.rank
        return i[self.first : end], (*i[: self.first], *i[end:])

    def put_together(self, position: Index, others: Index) -> tuple[Int, ...]:
        """The index of the result, from the same."""
        return (*others[: self.first], *position, *others[self.first :])


def broadcast(sizes: Sequence[Int]) -> Int:
    """The size that dims of these sizes are broadcast to."""
    return next((n for n in sizes if n != 1), sizes[0])


def from_start(place: Expr, size: Int) -> Expr:
    """An index that may count from the end, as one that does not."""
    return where(place < 0, place + size, place)


# -- masks ------------------------------------------------------------------------------------------


def mask_position(indices: Sequence[Tensor | None]) -> int | None:
    """Which of the index tensors is a mask."""
    return next((n for n, t in enumerate(indices) if t is not None and t.dtype == "bool"), None)


def put_masked(
    x: Tensor, indices: Sequence[Tensor | None], at: int, values: Tensor, accumulate: bool
):
    """One value put wherever a mask says; anything else depends on how many elements come before."""
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
    """Index tensors with a full slice in each hole."""
    rest = iter(tensors)
    return tuple(next(rest) if there else slice(None) for there in known)


def fill_masked(x: Array, mask: Array, source: Array) -> Array:
    """The masked elements of x taken from source, in order."""
    made, chosen = (a.copy() for a in np.broadcast_arrays(x, mask))
    made[chosen] = source.ravel()[: int(chosen.sum())]
    return made


def pick_masked(g: Array, mask: Array, *sizes: int) -> Array:
    """The masked elements of g in order, and zeros for what the source had in excess."""
    found = np.zeros(int(np.prod(sizes)), g.dtype)
    chosen = g[np.broadcast_to(mask, g.shape)]
    found[: len(chosen)] = chosen
    return found.reshape([int(n) for n in sizes])


def everything(x: Tensor) -> Expr:
    """All of a tensor, for an opaque function."""
    return x[(slice(None),) * x.rank]
