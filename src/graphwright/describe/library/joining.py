"""Concatenation, writing one tensor into a region of another, and the gradients of views.

The gradient of a view has the shape of its input, and is zero where the view does not read. An
offset that may lie in another part (a selected index) is `fixed`, so that dim does not split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphwright.describe.language import (
    Expr,
    Int,
    Sum,
    Tensor,
    describe,
    equal,
    expect,
    fixed,
    where,
    whole,
)
from graphwright.describe.library.shape import at, first_of, without

# -- side by side, and one written into another --------------------------------------------------


@describe("aten.cat")
def cat(*xs: Tensor, dim: Int, out: Tensor):
    d = int(dim) % out.rank
    held = [x for x in xs if x.rank == out.rank]  # an empty vector may precede or follow any tensor

    whole(out.shape[d])

    def element(*i: Int) -> Expr:
        parts: list[tuple[Int | int, Expr]] = []
        start: Int | int = 0
        for x in held:
            parts.append((start, x[at(i, d, i[d] - start)]))
            start = start + x.shape[d]
        return choose(i[d], parts)

    return element


@describe("aten.stack")
def stack(*xs: Tensor, dim: Int, out: Tensor):
    d = int(dim) % out.rank

    return lambda *i: choose(i[d], [(n, x[without(i, d)]) for n, x in enumerate(xs)])


@describe("aten.slice_scatter")
def slice_scatter(x: Tensor, src: Tensor, *, dim: Int, start: Int | None, step: Int):
    d = int(dim) % x.rank
    first = fixed(first_of(start, x.shape[d]))

    def element(*i: Int) -> Expr:
        place = (i[d] - first) // step
        met = (i[d] >= first) & (place < src.shape[d]) & equal((i[d] - first) % step, 0)
        return where(met, src[at(i, d, place)], x[i])

    return element


@describe("aten.select_scatter")
def select_scatter(x: Tensor, src: Tensor, *, dim: Int, index: Int):
    d = int(dim) % x.rank
    row = fixed(first_of(index, x.shape[d]))
    return lambda *i: where(equal(i[d], row), src[without(i, d)], x[i])


@describe("aten.diagonal_scatter")
def diagonal_scatter(x: Tensor, src: Tensor, *, offset: Int, dim1: Int, dim2: Int):
    met, place = on_diagonal(offset, dim1, dim2, x.rank)
    return lambda *i: where(met(i), src[place(i)], x[i])


# -- gradients of views --------------------------------------------------------------------------


@describe(
    "aten.slice_backward",
    input_sizes=lambda out: out.shape,
    end=lambda g, out, dim, start, step: first_of(start, out.shape[dim]) + g.shape[dim] * step,
)
def slice_backward(g: Tensor, *, dim: Int, start: Int, step: Int, out: Tensor):
    d = int(dim) % g.rank
    first = first_of(start, out.shape[d])
    if step == 1:
        return lambda *i: g.pad(0)[at(i, d, i[d] - first)]
    first = fixed(first)
    return lambda *i: where(
        equal((i[d] - first) % step, 0), g.pad(0)[at(i, d, (i[d] - first) // step)], 0
    )


@describe("aten.select_backward", input_sizes=lambda out: out.shape)
def select_backward(g: Tensor, *, dim: Int, index: Int, out: Tensor):
    d = int(dim) % out.rank
    row = fixed(first_of(index, out.shape[d]))
    return lambda *i: where(equal(i[d], row), g[without(i, d)], 0)


@describe("aten.diagonal_backward", input_sizes=lambda out: out.shape)
@describe("aten.diag_embed")
def diagonal_backward(g: Tensor, *, offset: Int, dim1: Int, dim2: Int, out: Tensor):
    met, place = on_diagonal(offset, dim1, dim2, out.rank)
    return lambda *i: where(met(i), g[place(i)], 0)


@describe("aten.unfold_backward", input_sizes=lambda out: out.shape)
def unfold_backward(g: Tensor, *, dim: Int, size: Int, step: Int, out: Tensor):
    if not out.rank:
        return lambda: g[0]
    d = int(dim) % out.rank
    expect(g.shape[d], (out.shape[d] - size) // step + 1)
    return lambda *i: Sum(
        lambda k: where(
            equal((i[d] - k) % step, 0), g.pad(0)[(*at(i, d, (i[d] - k) // step), k)], 0
        ),
        over=size,
    )


# -- helpers -------------------------------------------------------------------------


def choose(place: Int, parts: Sequence[tuple[Int | int, Expr]]) -> Expr:
    """The value of the part that contains `place`, by bisection; parts are (start, value)."""
    if len(parts) == 1:
        return parts[0][1]
    middle = len(parts) // 2
    return where(
        place < parts[middle][0], choose(place, parts[:middle]), choose(place, parts[middle:])
    )


def on_diagonal(
    offset: Int, dim1: Int, dim2: Int, rank: int
) -> tuple[Callable[[Sequence[Int]], Expr], Callable[[Sequence[Int]], tuple[Int, ...]]]:
    """Whether an index is on a diagonal, and its index in the tensor of diagonals."""
    a, b, shift = int(dim1) % rank, int(dim2) % rank, fixed(offset)
    along = a if offset >= 0 else b
    rest = [d for d in range(rank) if d not in (a, b)]
    return (
        lambda i: equal(i[b] - i[a], shift),
        lambda i: (*(i[d] for d in rest), i[along]),
    )
