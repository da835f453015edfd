"""Lookups and scatters. Where a kernel keeps any one of several arrivals, indices are drawn without repetition."""

import torch
from hypothesis import assume
from hypothesis import strategies as st

from cases import (
    Call,
    Draw,
    boolean,
    broadcastable,
    case,
    integer,
    like,
    real,
    shape,
    size,
    some_dim,
    table,
)
from graphwright.aten.invoke import call_kernel


def distinct(draw: Draw, count: int, high: int) -> torch.Tensor:
    """`count` different numbers below `high`."""
    return torch.tensor(draw(st.permutations(range(high)))[:count], dtype=torch.int64)


@case("aten.embedding")
def embedding(draw: Draw) -> Call:
    rows = size(draw, 1, 8)
    w, index = table(draw, rows, size(draw)), integer(draw, *shape(draw), high=rows)
    return {"padding_idx": draw(st.integers(-1, rows - 1))}, [w, index]


@case("aten.embedding_dense_backward")
def embedding_dense_backward(draw: Draw) -> Call:
    rows = size(draw, 1, 8)
    index = integer(draw, *shape(draw, 1), high=rows)
    attrs = {
        "num_weights": rows,
        "padding_idx": draw(st.integers(-1, rows - 1)),
        "scale_grad_by_freq": draw(st.sampled_from([False, False, True])),
    }
    return attrs, [real(draw, *index.shape, size(draw)), index]


def bags(draw: Draw) -> tuple[dict[str, object], list[torch.Tensor | None]]:
    rows, mode = size(draw, 2, 8), draw(st.integers(0, 2))
    lengths = draw(st.lists(st.integers(0, 3), min_size=1, max_size=5))
    assume(sum(lengths))
    ends = torch.tensor([0, *lengths]).cumsum(0)
    closed = draw(st.booleans())
    weights = real(draw, sum(lengths)) if mode == 0 and draw(st.booleans()) else None
    attrs = {
        "mode": mode,
        "include_last_offset": closed,
        "padding_idx": draw(st.integers(-1, rows - 1)),
    }
    index = integer(draw, sum(lengths), high=rows)
    return attrs, [real(draw, rows, size(draw)), index, ends if closed else ends[:-1], weights]


@case("aten._embedding_bag")
def embedding_bag(draw: Draw) -> Call:
    return bags(draw)


@case("aten._embedding_bag_dense_backward")
def embedding_bag_dense_backward(draw: Draw) -> Call:
    attrs, (w, index, offsets, weights) = bags(draw)
    full = {"scale_grad_by_freq": False, "sparse": False, **attrs}
    out, bag, bag_size, largest = call_kernel(
        "aten._embedding_bag", [w, index, offsets, weights], full
    )
    kept = {
        "num_weights": w.shape[0],
        "mode": attrs["mode"],
        "padding_idx": attrs["padding_idx"],
        "scale_grad_by_freq": False,
    }
    return kept, [torch.randn_like(out), index, bag, bag_size, largest, weights]


@case("aten._embedding_bag_backward")
def embedding_bag_backward(draw: Draw) -> Call:
    attrs, (w, index, offsets, weights) = bags(draw)
    full = {"scale_grad_by_freq": False, "sparse": False, **attrs}
    kept = draw(st.sampled_from(["aten._embedding_bag", "aten._embedding_bag_forward_only"]))
    if attrs["mode"] == 2:
        kept = "aten._embedding_bag"
    out, *others = call_kernel(kept, [w, index, offsets, weights], full)
    full.pop("include_last_offset")
    return {"num_weights": w.shape[0], **full}, [
        real(draw, *out.shape),
        index,
        offsets,
        *others,
        weights,
    ]


@case("aten.one_hot")
def one_hot(draw: Draw) -> Call:
    classes = size(draw, 1, 6)
    return {"num_classes": classes}, [integer(draw, *shape(draw), high=classes)]


# -- along one dim -------------------------------------------------------------------------------


@case("aten.index_select")
def index_select(draw: Draw) -> Call:
    dims = shape(draw, 0, 3)
    dim = some_dim(draw, len(dims))
    which = () if draw(st.integers(0, 4)) == 0 else (size(draw) if dims else 1,)
    return {"dim": dim}, [table(draw, *dims), integer(draw, *which, high=(*dims, 1)[dim])]


@case("aten.gather")
def gather(draw: Draw) -> Call:
    if draw(st.integers(0, 9)) == 0:  # scalars and vectors together
        x, which = (table(draw, *shape(draw, 0, 1, high=1)), shape(draw, 0, 1))
        return {"dim": 0}, [x, integer(draw, *which, high=1)]
    dims = shape(draw, 1, 3)
    dim = some_dim(draw, len(dims))
    smaller = [draw(st.integers(1, n)) if draw(st.booleans()) else n for n in dims]
    smaller[dim] = size(draw)
    return {"dim": dim}, [table(draw, *dims), integer(draw, *smaller, high=dims[dim])]


def scattering(draw: Draw, unique: bool) -> tuple[int, torch.Tensor, torch.Tensor, torch.Tensor]:
    """A dim, a target, an index that may be smaller than it, and a source that may be larger than the index."""
    if draw(st.integers(0, 9)) == 0:  # scalars and vectors together
        x, index, src = (shape(draw, 0, 1, high=1) for _ in range(3))
        target = table(draw, *x)
        return 0, target, integer(draw, *index, high=1), like(draw, target, *src)
    dims = shape(draw, 1, 3)
    dim = some_dim(draw, len(dims))
    full = draw(st.booleans())
    count = draw(st.integers(1, dims[dim])) if unique else size(draw)
    held = [n if full else draw(st.integers(1, n)) for n in dims]
    held[dim] = count
    if unique:
        rows = [distinct(draw, count, dims[dim]) for _ in range(torch.Size(held).numel() // count)]
        moved = [n for d, n in enumerate(held) if d != dim]
        index = torch.stack(rows).reshape(*moved, count).movedim(-1, dim).contiguous()
    else:
        index = integer(draw, *held, high=dims[dim])
    larger = held if draw(st.booleans()) else [n + draw(st.integers(0, 2)) for n in held]
    target = table(draw, *dims)
    return dim, target, index, like(draw, target, *larger)


@case("aten.scatter.src")
def scatter(draw: Draw) -> Call:
    dim, x, index, src = scattering(draw, unique=True)
    return {"dim": dim}, [x, index, src]


@case("aten.scatter.value")
def scatter_value(draw: Draw) -> Call:
    dim, x, index, _ = scattering(draw, unique=False)
    return {"dim": dim, "value": draw(st.sampled_from([0, 1.5, -2]))}, [x, index]


@case("aten.scatter_add")
def scatter_add(draw: Draw) -> Call:
    dim, x, index, src = scattering(draw, unique=False)
    return {"dim": dim}, [x, index, src]


@case("aten.scatter_reduce.two")
def scatter_reduce(draw: Draw) -> Call:
    dim, x, index, src = scattering(draw, unique=False)
    kind = draw(st.sampled_from(["sum", "prod", "mean", "amax", "amin"]))
    assume(kind != "mean" or x.dtype != torch.bool)  # which has no kernel
    return {"dim": dim, "reduce": kind, "include_self": draw(st.booleans())}, [x, index, src]


def rows(draw: Draw, unique: bool) -> tuple[int, torch.Tensor, torch.Tensor, torch.Tensor]:
    dims = shape(draw, 0, 3)
    if not dims:
        x = table(draw)
        return 0, x, integer(draw, *shape(draw, 0, 1, high=1), high=1), like(draw, x)
    dim = some_dim(draw, len(dims))
    count = draw(st.integers(1, dims[dim])) if unique else size(draw)
    index = distinct(draw, count, dims[dim]) if unique else integer(draw, count, high=dims[dim])
    x = table(draw, *dims)
    return dim, x, index, like(draw, x, *dims[:dim], count, *dims[dim + 1 :])


def from_the_end(
    draw: Draw, x: torch.Tensor, dim: int, index: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Some of the indices, or a single one as a scalar, counted from the end of dim."""
    size = x.shape[dim] if x.ndim else 1
    index = torch.where(boolean(draw, *index.shape), index, index - size)
    return x, index[0] if index.ndim and draw(st.integers(0, 4)) == 0 else index


@case("aten.index_add")
def index_add(draw: Draw) -> Call:
    dim, x, index, source = rows(draw, unique=False)
    alpha = draw(st.sampled_from([1, 2, -0.5 if x.is_floating_point() else -3]))
    return {"dim": dim, "alpha": alpha}, [x, index, source]


@case("aten.index_copy")
def index_copy(draw: Draw) -> Call:
    dim, x, index, source = rows(draw, unique=True)
    return {"dim": dim}, [x, index, source]


@case("aten.index_fill.int_Scalar")
def index_fill(draw: Draw) -> Call:
    dim, x, index, _ = rows(draw, unique=False)
    attrs = {"dim": dim, "value": draw(st.sampled_from([0, 1.5, -2]))}
    return attrs, [*from_the_end(draw, x, dim, index)]


@case("aten.index_fill.int_Tensor")
def index_fill_tensor(draw: Draw) -> Call:
    dim, x, index, _ = rows(draw, unique=False)
    return {"dim": dim}, [*from_the_end(draw, x, dim, index), like(draw, x)]


# -- several index tensors -----------------------------------------------------------------------


def indices(draw: Draw, dims: tuple[int, ...]) -> list[torch.Tensor | None]:
    """Index tensors for some of `dims`, neighbours or not, broadcast against each other, some from the end."""
    chosen = draw(st.lists(st.booleans(), min_size=1, max_size=len(dims)))
    assume(any(chosen))
    block = shape(draw, 0, 2, high=4)
    return [
        integer(draw, *broadcastable(draw, block), low=draw(st.sampled_from([0, 0, -n])), high=n)
        if here
        else None
        for n, here in zip(dims, chosen, strict=False)
    ]


@case("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(draw: Draw) -> Call:
    dims = shape(draw, 1, 4, high=5)
    return {}, [table(draw, *dims), *indices(draw, dims)]


def putting(draw: Draw, accumulate: bool) -> tuple[torch.Tensor, list[torch.Tensor | None]]:
    dims = shape(draw, 1, 4, high=5)
    x = table(draw, *dims)
    if accumulate:
        return x, indices(draw, dims)
    given = indices(draw, dims)
    places = torch.arange(x.numel()).reshape(x.shape)
    read = call_kernel("aten.index.Tensor", [places, *given], {})[0]
    assume(read.unique().numel() == read.numel())
    return x, given


@case("aten.index_put", "aten._unsafe_index_put")
def index_put(draw: Draw) -> Call:
    accumulate = draw(st.booleans())
    if draw(st.integers(0, 4)) == 0:
        dims = shape(draw, 1, 3)
        mask = boolean(draw, *dims[: draw(st.integers(1, len(dims)))])
        assume(mask.any())
        x = table(draw, *dims)
        return {"accumulate": accumulate}, [x, mask, like(draw, x)]
    x, given = putting(draw, accumulate)
    target = call_kernel("aten.index.Tensor", [x, *given], {})[0].shape
    return {"accumulate": accumulate}, [
        x,
        *given,
        like(draw, x, *broadcastable(draw, tuple(target))),
    ]


@case("aten.masked_scatter")
def masked_scatter(draw: Draw) -> Call:
    dims = shape(draw, 1, 3)
    mask = boolean(draw, *broadcastable(draw, dims))
    x = table(draw, *dims)
    return {}, [x, mask, like(draw, x, x.numel() + draw(st.integers(0, 2)))]


@case("aten.masked_scatter_backward")
def masked_scatter_backward(draw: Draw) -> Call:
    _, (x, mask, source) = masked_scatter(draw)
    assert x is not None
    assert mask is not None
    assert source is not None
    return {"sizes": tuple(source.shape)}, [x, mask.expand(x.shape).contiguous()]
