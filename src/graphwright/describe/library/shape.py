"""Views and other operators that move elements: an output element is one input element.

A reshape uses `regroup`: a dim that it keeps splits anywhere, merged dims split between their rows.
Offsets (``start``, ``diagonal``) are plain terms of an index; if the kernel cannot accept a shifted
offset, `fixed` keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod

from graphwright.describe.language import (
    Expr,
    Int,
    Tensor,
    constant,
    describe,
    leave_undescribed,
    regroup,
    where,
    whole,
)

Ints = Sequence[Int]

leave_undescribed("changes a tensor in place; the tensors of a graph are values", "aten.resize_")
leave_undescribed("queries a layout, which a graph does not have", "aten.sym_is_contiguous")


# -- the same elements under another shape -------------------------------------------------------


@describe("aten.view", "aten._unsafe_view", size=lambda out: out.shape)
@describe("aten.reshape", shape=lambda out: out.shape)
def view(x: Tensor, *, out: Tensor):
    if any(n == 0 for n in x.shape):
        return lambda *i: constant(0)
    return lambda *i: x[regroup(i, out.shape, x.shape)]


@describe("aten.alias", "aten.detach")
def alias(x: Tensor):
    return lambda *i: x[i]


@describe("aten.expand", "aten.broadcast_to", size=lambda out: out.shape)
def expand(x: Tensor):
    return lambda *i: x[i]


@describe("aten.permute")
def permute(x: Tensor, *, dims: Ints):
    order = [int(d) % x.rank for d in dims]
    return lambda *i: x[tuple(i[order.index(d)] for d in range(x.rank))]


@describe("aten.t")
def t(x: Tensor):
    return lambda *i: x[i[::-1]]


@describe("aten.transpose.int")
def transpose(x: Tensor, *, dim0: Int, dim1: Int):
    order = list(range(x.rank))
    if order:
        a, b = int(dim0) % x.rank, int(dim1) % x.rank
        order[a], order[b] = b, a
    return lambda *i: x[tuple(i[d] for d in order)]


@describe("aten.unsqueeze")
def unsqueeze(x: Tensor, *, dim: Int):
    return lambda *i: x[without(i, int(dim) % (x.rank + 1))]


@describe("aten.squeeze", "aten.squeeze.dim", "aten.squeeze.dims")
def squeeze(x: Tensor, *, dim: Int | Ints | None = None):
    named = range(x.rank) if dim is None else dim if isinstance(dim, tuple) else (dim,)
    dims = sorted({int(d) % x.rank for d in named if x.rank})  # type: ignore[arg-type]
    for d in dims:  # if a named dim had size 1 only in a part, the kernel would drop it there
        if x.shape[d] != 1:
            whole(x.shape[d])
    dropped = [d for d in dims if x.shape[d] == 1]
    return lambda *i: x[reduce(lambda index, d: within(index, d, 0), dropped, i)]


@describe("aten.as_strided", size=lambda out: out.shape)
def as_strided(x: Tensor, *, stride: Ints, storage_offset: Int | None, out: Tensor):
    for n in out.shape:  # the strides refer to the memory of the whole x
        whole(n)
    first = 0 if storage_offset is None else storage_offset
    return lambda *i: x[
        unflatten(sum((n * s for n, s in zip(i, stride, strict=True)), first), x.shape)
    ]


# -- some of the elements ------------------------------------------------------------------------


@describe(
    "aten.slice.Tensor",
    end=lambda x, out, dim, start, step: first_of(start, x.shape[dim]) + out.shape[dim] * step,
)
def slice_tensor(x: Tensor, *, dim: Int, start: Int | None, step: Int):
    d = int(dim) % x.rank
    first = first_of(start, x.shape[d])
    return lambda *i: x[at(i, d, i[d] * step + first)]


@describe("aten.narrow", length=lambda out, dim: out.shape[dim])
def narrow(x: Tensor, *, dim: Int, start: Int):
    d = int(dim) % x.rank
    first = first_of(start, x.shape[d])
    return lambda *i: x[at(i, d, i[d] + first)]


@describe("aten.select.int")
def select(x: Tensor, *, dim: Int, index: Int):
    d = int(dim) % x.rank
    return lambda *i: x[within(i, d, first_of(index, x.shape[d]))]


@describe("aten.split_with_sizes", split_sizes=lambda outs, dim: [o.shape[dim] for o in outs])
def split_with_sizes(x: Tensor, *, dim: Int, outs: Sequence[Tensor]):
    d = int(dim) % x.rank
    starts = [sum(o.shape[d] for o in outs[:n]) for n in range(len(outs))]
    return [lambda *i, s=start: x[at(i, d, i[d] + s)] for start in starts]


@describe("aten.split.Tensor")
def split(x: Tensor, *, split_size: Int, dim: Int, outs: Sequence[Tensor]):
    d = int(dim) % x.rank
    return [lambda *i, n=n: x[at(i, d, i[d] + n * split_size)] for n in range(len(outs))]


@describe("aten.unbind.int")
def unbind(x: Tensor, *, dim: Int, outs: Sequence[Tensor]):
    return [lambda *i, n=n: x[within(i, int(dim) % x.rank, n)] for n in range(len(outs))]


@describe("aten.diagonal")
def diagonal(x: Tensor, *, offset: Int, dim1: Int, dim2: Int):
    down, right = (0, offset) if offset >= 0 else (-offset, 0)
    return lambda *i: x[square(i[:-1], dim1, i[-1] + down, dim2, i[-1] + right)]


@describe("aten.unfold", size=lambda out: out.shape[-1])
def unfold(x: Tensor, *, dimension: Int, step: Int):
    d = int(dimension) % max(x.rank, 1)
    return lambda *i: x[at(i[:-1], d, i[d] * step + i[-1])]


# -- elements moved or repeated ------------------------------------------------------------------


@describe("aten.flip")
def flip(x: Tensor, *, dims: Ints):
    flipped = {int(d) % x.rank for d in dims if x.rank}
    return lambda *i: x[
        tuple(
            n - 1 - k if d in flipped else k
            for d, (k, n) in enumerate(zip(i, x.shape, strict=True))
        )
    ]


@describe("aten.rot90")
def rot90(x: Tensor, *, k: Int, dims: Ints):
    a, b = (int(d) % x.rank for d in dims)

    def element(*i: Int) -> Expr:
        down, right = i[a], i[b]
        for _ in range(int(k) % 4):  # undo one turn
            down, right = right, -down
        turned = [(a, down), (b, right)]
        flipped = {1: [b], 2: [a, b], 3: [a]}.get(int(k) % 4, [])
        index = dict(enumerate(i)) | {
            d: n + x.shape[d] - 1 if d in flipped else n for d, n in turned
        }
        return x[tuple(index[d] for d in range(x.rank))]

    return element


@describe("aten.roll")
def roll(x: Tensor, *, shifts: Ints, dims: Ints):
    if not dims:
        total = prod(x.shape)
        return lambda *i: x[unflatten((flatten(i, x.shape) - shifts[0]) % total, x.shape)]

    def rolled(index: Sequence[Int], move: tuple[Int, Int]) -> Sequence[Int]:
        d = int(move[0]) % x.rank
        return at(index, d, (index[d] - move[1]) % x.shape[d])

    return lambda *i: x[reduce(rolled, zip(dims, shifts, strict=True), i)]


@describe("aten.repeat", repeats=lambda x, out: times(x, out))
def repeat(x: Tensor, *, out: Tensor):
    kept = out.shape[len(out.shape) - x.rank :]
    return lambda *i: x[
        tuple(
            k if n == m else k % n
            for k, n, m in zip(i[len(i) - x.rank :], x.shape, kept, strict=True)
        )
    ]


@describe(
    "aten.repeat_interleave.self_int",
    output_size=lambda out, dim: out.shape[0 if dim is None else dim],
)
def repeat_interleave(x: Tensor, *, repeats: Int, dim: Int | None, out: Tensor):
    if not x.rank:  # a scalar cannot be cut
        whole(out.shape[0])
    if dim is None:
        return lambda i: x[unflatten(i // repeats, x.shape)]
    d = int(dim) % x.rank
    return lambda *i: x[at(i, d, i[d] // repeats)]


@describe("aten.pixel_shuffle")
def pixel_shuffle(x: Tensor, *, upscale_factor: Int):
    r = upscale_factor
    return lambda *i: x[
        (*i[:-3], i[-3] * r * r + i[-2] % r * r + i[-1] % r, i[-2] // r, i[-1] // r)
    ]


@describe("aten.pixel_unshuffle")
def pixel_unshuffle(x: Tensor, *, downscale_factor: Int):
    r = downscale_factor
    return lambda *i: x[
        (*i[:-3], i[-3] // (r * r), i[-2] * r + i[-3] // r % r, i[-1] * r + i[-3] % r)
    ]


@describe("aten.channel_shuffle", "aten.native_channel_shuffle")
def channel_shuffle(x: Tensor, *, groups: Int):
    return lambda b, c, *i: x[(b, c % groups * (x.shape[1] // groups) + c // groups, *i)]


# -- triangles -----------------------------------------------------------------------------------


@describe("aten.tril")
def tril(x: Tensor, *, diagonal: Int):
    return lambda *i: where(i[-1] - i[-2] <= diagonal, x[i], 0)


@describe("aten.triu")
def triu(x: Tensor, *, diagonal: Int):
    return lambda *i: where(i[-1] - i[-2] >= diagonal, x[i], 0)


# -- helpers -------------------------------------------------------------------------


def at(index: Sequence[Int], dim: int, value: Int | int) -> tuple[Int | int, ...]:
    """`index` with its entry in `dim` replaced."""
    return (*index[:dim], value, *index[dim + 1 :])


def first_of(start: Int | int | None, size: Int) -> Int | int:
    """Where a slice begins: a negative start counts from the end, and none is beyond an edge."""
    if start is None:
        return 0
    first = start + size if start < 0 else start
    if first < 0:
        return 0
    return size if first > size else first


def without(index: Sequence[Int], dim: int) -> tuple[Int, ...]:
    """`index` without its entry in `dim`."""
    return (*index[:dim], *index[dim + 1 :])


def within(index: Sequence[Int | int], dim: int, value: Int | int) -> tuple[Int | int, ...]:
    """`index` with an entry inserted at `dim`."""
    return (*index[:dim], value, *index[dim:])


def square(rest: Sequence[Int], dim1: Int, a: Int, dim2: Int, b: Int) -> tuple[Int | int, ...]:
    """`rest` with two entries inserted: a at dim1, b at dim2."""
    rank = len(rest) + 2
    (low, x), (high, y) = sorted([(int(dim1) % rank, a), (int(dim2) % rank, b)], key=lambda p: p[0])
    return within(within(rest, low, x), high, y)


def flatten(index: Sequence[Int], shape: Ints) -> Int:
    """The position of an element in row-major order."""
    return reduce(lambda flat, step: flat * step[1] + step[0], zip(index, shape, strict=True), 0)


def unflatten(flat: Int, shape: Ints) -> tuple[Int, ...]:
    """The index of the element at a row-major position."""
    result: list[Int] = []
    for n in reversed(shape[1:]):
        result.append(flat % n)
        flat = flat // n
    return (flat, *reversed(result)) if shape else ()


def times(x: Tensor, out: Tensor) -> list[Int | int]:
    """The number of repetitions of each dim of x in out."""
    extra = len(out.shape) - len(x.shape)
    return [
        *out.shape[:extra],
        *(m // n if n != 0 else 1 for m, n in zip(out.shape[extra:], x.shape, strict=True)),
    ]
