"""Lookups by an index tensor, and scatters, which are their gradients.

A lookup has an index that is itself a read: ``w[idx[i], j]``. In a scatter, an output element
collects every source element whose index refers to it. Both split over the rows of the table, by a
mask. If the kernel keeps an arbitrary one of several source elements, the description holds only
for indices without repetition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from graphwright.describe.language import (
    Any,
    ArgMax,
    Expr,
    Int,
    Max,
    Min,
    Opaque,
    Prod,
    Sum,
    Tensor,
    constant,
    describe,
    equal,
    function,
    leave_undescribed,
    where,
    whole,
)
from graphwright.describe.library.advanced_indexing import from_start
from graphwright.describe.library.shape import at

maximum, minimum, differs, floored = map(function, ("maximum", "minimum", "ne", "floordiv"))

Index = Sequence[Int]

leave_undescribed("the shape of its result depends on values", "aten.masked_select")


# -- tables --------------------------------------------------------------------------------------


@describe("aten.embedding")
def embedding(w: Tensor, index: Tensor):
    return lambda *i: w[index[i[:-1]], i[-1]]


@describe("aten.embedding_dense_backward", num_weights=lambda out: out.shape[0])
def embedding_dense_backward(
    g: Tensor, index: Tensor, *, padding_idx: Int, scale_grad_by_freq: bool
):
    def row(v: Int, j: Int) -> Expr:
        total = Sum(lambda *p: where(equal(v, index[p]), g[(*p, j)], 0), over=index.shape)
        if scale_grad_by_freq:
            total = total / maximum(
                Sum(lambda *p: where(equal(v, index[p]), 1, 0), over=index.shape), 1
            )
        return where(equal(v, padding_idx), 0, total)

    return row


@describe("aten._embedding_bag")
def embedding_bag(
    w: Tensor, index: Tensor, offsets: Tensor, weights: Tensor | None, *, mode: Int,
    include_last_offset: bool, padding_idx: Int, outs: Sequence[Tensor],
):  # fmt: skip
    num_bags, num_indices = outs[0].shape[0], index.shape[0]
    for out in outs:  # the first offset must be 0, so a part cannot begin with another bag
        whole(out.shape[0])

    def held(b: Int, p: Int) -> Expr:
        end = (
            offsets[b + 1]
            if include_last_offset
            else where(b + 1 < num_bags, offsets[b + 1], num_indices)
        )
        return (offsets[b] <= p) & (end > p) & differs(index[p], padding_idx)

    def count(b: Int) -> Expr:
        return Sum(lambda p: where(held(b, p), 1, 0), over=num_indices)

    def row(p: Int, j: Int) -> Expr:
        return w[index[p], j] if weights is None else w[index[p], j] * weights[p]

    def total(b: Int, j: Int) -> Expr:
        return Sum(lambda p: where(held(b, p), row(p, j), 0), over=num_indices)

    def largest(reduce: Callable[..., Expr], b: Int, j: Int) -> Expr:
        return reduce(lambda p: where(held(b, p), w[index[p], j], -inf), over=num_indices)

    def bag_of(p: Int) -> Expr:
        return Sum(lambda b: where(offsets[b] <= p, 1, 0), over=offsets.shape[0]) - 1

    bags = bag_of if outs[1].shape[0] != 0 else lambda p: constant(0)
    match int(mode):
        case 0:
            return total, bags, lambda b: constant(0), lambda b: constant(0)
        case 1:
            return lambda b, j: total(b, j) / maximum(count(b), 1), bags, count, count
        case _:
            return (
                lambda b, j: where(count(b) > 0, largest(Max, b, j), 0),
                bags,
                count,
                lambda b, j: where(count(b) > 0, index[largest(ArgMax, b, j)], 0),
            )


@describe("aten._embedding_bag_backward", num_weights=lambda out: out.shape[0])
def embedding_bag_backward(
    g: Tensor, index: Tensor, offsets: Tensor, bag: Tensor, bag_size: Tensor, largest: Tensor,
    weights: Tensor | None, *, mode: Int, scale_grad_by_freq: bool, padding_idx: Int,
):  # fmt: skip
    if bag.shape[0] == 0 and index.shape[0] != 0:  # the forward kernel did not save it
        bag_of = lambda p: Sum(lambda b: where(offsets[b] <= p, 1, 0), over=offsets.shape[0]) - 1
    else:
        bag_of = lambda p: bag[p]
    whole(index.shape[0])  # the offsets determine the number of indices
    return bag_gradient(
        g, index, bag_of, bag_size, largest, weights, mode, scale_grad_by_freq, padding_idx
    )


@describe("aten._embedding_bag_dense_backward", num_weights=lambda out: out.shape[0])
def embedding_bag_dense_backward(
    g: Tensor, index: Tensor, bag: Tensor, bag_size: Tensor, largest: Tensor,
    weights: Tensor | None, *, mode: Int, scale_grad_by_freq: bool, padding_idx: Int,
):  # fmt: skip
    bag_of = lambda p: bag[p]
    return bag_gradient(
        g, index, bag_of, bag_size, largest, weights, mode, scale_grad_by_freq, padding_idx
    )


def bag_gradient(
    g: Tensor, index: Tensor, bag_of: Callable[[Int], Expr], bag_size: Tensor, largest: Tensor,
    weights: Tensor | None, mode: Int, scale_grad_by_freq: bool, padding_idx: Int,
):  # fmt: skip
    """The gradient of a table's rows: the sum over the bags that contain them."""
    if scale_grad_by_freq:  # the CPU kernel does not divide by the count of the row
        made = Opaque("scaled_bag_gradient")
        return lambda v, j: made(g[:, j], index[:], bag_size[:])[v]

    def term(p: Int, j: Int) -> Expr:
        value: Expr = g[bag_of(p), j]
        if mode == 1:
            value = value / maximum(bag_size[bag_of(p)], 1)  # a bag with only padding has size 0
        return value if weights is None else value * weights[p]

    def row(v: Int, j: Int) -> Expr:
        if mode == 2:
            return Sum(lambda b: where(equal(v, largest[b, j]) & (bag_size[b] > 0), g[b, j], 0))
        total = Sum(lambda p: where(equal(v, index[p]), term(p, j), 0))
        return where(equal(v, padding_idx), 0, total)

    return row


@describe("aten.one_hot", num_classes=lambda out: out.shape[-1])
def one_hot(x: Tensor):
    return lambda *i: where(equal(i[-1], x[i[:-1]]), 1, 0)


# -- along one dim -------------------------------------------------------------------------------


@describe("aten.index_select")
def index_select(x: Tensor, index: Tensor, *, dim: Int):
    d = dim_of(x, dim)
    return lambda *i: x[at(i, d, index[(place(i, d),)])]


@describe("aten.gather")
def gather(x: Tensor, index: Tensor, *, dim: Int):
    d = dim_of(x, dim)
    return lambda *i: x[at(i, d, index[i])]


@describe("aten.index_add")
def index_add(x: Tensor, index: Tensor, source: Tensor, *, dim: Int, alpha: Int):
    arriving, _ = arriving_rows(x, index, dim)
    return lambda *i: x[i] + alpha * arriving(source, i)


@describe("aten.index_copy")
def index_copy(x: Tensor, index: Tensor, source: Tensor, *, dim: Int):
    arriving, arrives = arriving_rows(x, index, dim)
    return lambda *i: where(arrives(i), arriving(source, i), x[i])


@describe("aten.index_fill.int_Scalar")
def index_fill(x: Tensor, index: Tensor, *, dim: Int, value: float):
    return lambda *i: where(is_named(x, index, dim, i), value, x[i])


@describe("aten.index_fill.int_Tensor")
def index_fill_tensor(x: Tensor, index: Tensor, value: Tensor, *, dim: Int):
    return lambda *i: where(is_named(x, index, dim, i), value[()], x[i])


def is_named(x: Tensor, index: Tensor, dim: Int, i: Index) -> Expr:
    """Whether an index, which may count from the end, refers to the row of element i."""
    d = dim_of(x, dim)
    size = x.shape[d] if x.rank else 1
    return Any(lambda p: equal(place(i, d), from_start(index[p], size)), over=length(index))


def arriving_rows(x: Tensor, index: Tensor, dim: Int):
    """The sum of the source rows with the index of a row of x, and whether there are any."""
    d = dim_of(x, dim)

    def arriving(source: Tensor, i: Index) -> Expr:
        return Sum(
            lambda p: where(equal(place(i, d), index[p]), source[at(i, d, p)], 0),
            over=length(index),
        )

    def arrives(i: Index) -> Expr:
        return Any(lambda p: equal(place(i, d), index[p]), over=length(index))

    return arriving, arrives


@describe("aten.scatter.src")
def scatter(x: Tensor, index: Tensor, src: Tensor, *, dim: Int):
    arriving, arrives = scattered(x, index, src, dim)
    return lambda *i: where(arrives(i), arriving(Sum, 0, i), x[i])


@describe("aten.scatter.value")
def scatter_value(x: Tensor, index: Tensor, *, dim: Int, value: float):
    _, arrives = scattered(x, index, None, dim)
    return lambda *i: where(arrives(i), value, x[i])


@describe("aten.scatter_add")
def scatter_add(x: Tensor, index: Tensor, src: Tensor, *, dim: Int):
    arriving, _ = scattered(x, index, src, dim)
    return lambda *i: x[i] + arriving(Sum, 0, i)


@describe("aten.scatter_reduce.two")
def scatter_reduce(
    x: Tensor, index: Tensor, src: Tensor, *, dim: Int, reduce: str, include_self: bool
):
    arriving, arrives = scattered(x, index, src, dim)
    ones, _ = scattered(x, index, None, dim)

    def element(*i: Int) -> Expr:
        if reduce == "mean":
            total, count = arriving(Sum, 0, i), ones(Sum, 0, i)
            if include_self:
                total, count = x[i] + total, count + 1
            divided = total / maximum(count, 1) if "float" in x.dtype else floored(total, count)
            return where(arrives(i), divided, x[i])
        fold, neutral, join = FOLDS[reduce]
        value = arriving(fold, neutral, i)
        return join(x[i], value) if include_self else where(arrives(i), value, x[i])

    return element


FOLDS: dict[str, tuple[Callable[..., Expr], float, Callable[..., Expr]]] = {
    "sum": (Sum, 0, function("add")),
    "prod": (Prod, 1, function("mul")),
    "amax": (Max, -inf, maximum),
    "amin": (Min, inf, minimum),
}


def scattered(x: Tensor, index: Tensor, src: Tensor | None, dim: Int):
    """The fold, along `dim`, of the source elements of an element of x, and whether there are any.

    The index may be smaller than x: the rest of x receives nothing, and that dim does not split.
    """
    d = dim_of(x, dim)
    smaller = [e for e in range(x.rank) if e != d and index.shape[e] != x.shape[e]]
    for e in smaller:
        whole(x.shape[e])
    if x.rank and src is not None and not same_shape(index, src):
        whole(x.shape[d])  # a mask over the index would not fit the source
    names = index.pad(-1) if smaller else index

    def arriving(fold: Callable[..., Expr], neutral: float, i: Index) -> Expr:
        def one(p: Int) -> Expr:
            value = 1 if src is None else src[at(i, d, p)]
            return where(equal(place(i, d), names[at(i, d, p)]), value, neutral)

        return fold(one, over=length(index, d))

    def arrives(i: Index) -> Expr:
        return Any(lambda p: equal(place(i, d), names[at(i, d, p)]), over=length(index, d))

    return arriving, arrives


# -- a scalar counts as a vector of one element --------------------------------------------------


def dim_of(x: Tensor, dim: Int) -> int:
    """The dim, counted from the front."""
    return int(dim) % max(x.rank, 1)


def place(i: Index, dim: int) -> Int | int:
    """The index in `dim`."""
    return i[dim] if i else 0


def length(x: Tensor, dim: int = 0) -> Int | int:
    """The size of `dim`."""
    return x.shape[dim] if x.rank else 1


def same_shape(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors have the same shape."""
    return a.rank == b.rank and all(n == m for n, m in zip(a.shape, b.shape, strict=True))
