"""Operators that only move elements."""

import torch
from hypothesis import assume
from hypothesis import strategies as st

from cases import Call, Draw, broadcastable, case, real, shape, size, some_dim, table
from graphwright.aten.invoke import call_kernel


def signed(draw: Draw, rank: int) -> int:
    """A dim, sometimes counted from the end; a scalar has a dim 0 for this purpose."""
    return draw(st.integers(-max(rank, 1), max(rank, 1) - 1))


def some(draw: Draw, dims: tuple[int, ...]) -> torch.Tensor:
    """A tensor of any dtype that is moved about in models."""
    return table(draw, *dims)


def some_dims(draw: Draw, rank: int) -> tuple[int, ...]:
    top = max(rank, 1)
    return tuple(draw(st.lists(st.integers(0, top - 1), unique=True, min_size=1, max_size=top)))


FACTORED = [
    [(4, 6), (24,)], [(2, 3, 4), (6, 4)], [(2, 3, 4), (2, 12)], [(4, 6), (2, 2, 6)], [(6, 4), (3, 2, 2, 2)],
    [(4, 6), (6, 4)], [(1, 4, 6), (4, 6, 1)], [(2, 1, 3), (3, 2)], [(), (1, 1)], [(3, 8), (3, 2, 1, 4)],
    [(2, 3, 4, 5), (6, 20)], [(2, 6, 2), (4, 3, 2)], [(2, 3, 4), (24,)], [(5, 2, 3, 4), (5, 24)], [(0, 4), (0, 2, 2)],
]  # fmt: skip


def reshaped(draw: Draw) -> tuple[torch.Tensor, tuple[int, ...]]:
    one, other = draw(st.sampled_from(FACTORED))
    one, other = draw(st.sampled_from([(one, other), (other, one)]))
    return some(draw, one), other


@case("aten.view", "aten._unsafe_view")
def view(draw: Draw) -> Call:
    x, target = reshaped(draw)
    return {"size": target}, [x]


@case("aten.reshape")
def reshape(draw: Draw) -> Call:
    x, target = reshaped(draw)
    return {"shape": target}, [x]


@case("aten.alias", "aten.detach", "aten.squeeze")
def unary(draw: Draw) -> Call:
    return {}, [some(draw, shape(draw, high=3))]


@case("aten.expand", "aten.broadcast_to")
def expand(draw: Draw) -> Call:
    target = shape(draw, max_rank=4)
    return {"size": target}, [some(draw, broadcastable(draw, target))]


@case("aten.permute")
def permute(draw: Draw) -> Call:
    dims = shape(draw, 0, 4)
    order = draw(st.permutations(range(len(dims))))
    return {"dims": tuple(d - draw(st.sampled_from([0, len(dims)])) for d in order)}, [
        some(draw, dims)
    ]


@case("aten.t")
def t(draw: Draw) -> Call:
    return {}, [some(draw, shape(draw, 0, 2))]


@case("aten.transpose.int")
def transpose(draw: Draw) -> Call:
    dims = shape(draw, 0, 4)
    return {"dim0": signed(draw, len(dims)), "dim1": signed(draw, len(dims))}, [some(draw, dims)]


@case("aten.unsqueeze")
def unsqueeze(draw: Draw) -> Call:
    dims = shape(draw)
    return {"dim": signed(draw, len(dims) + 1)}, [some(draw, dims)]


@case("aten.squeeze.dim")
def squeeze_dim(draw: Draw) -> Call:
    dims = shape(draw, 0, 4, high=3)
    return {"dim": signed(draw, len(dims))}, [some(draw, dims)]


@case("aten.squeeze.dims")
def squeeze_dims(draw: Draw) -> Call:
    dims = shape(draw, 0, 4, high=3)
    return {"dim": some_dims(draw, len(dims))}, [some(draw, dims)]


@case("aten.as_strided")
def as_strided(draw: Draw) -> Call:
    x = real(draw, *shape(draw, 1, 3))
    target = shape(draw, 1, 2, high=4)
    stride = tuple(draw(st.integers(0, 3)) for _ in target)
    room = x.numel() - 1 - sum((n - 1) * s for n, s in zip(target, stride, strict=True))
    assume(room >= 0)
    offset = draw(st.one_of(st.none(), st.integers(0, room)))
    return {"size": target, "stride": stride, "storage_offset": offset}, [x]


def slicing(draw: Draw) -> tuple[tuple[int, ...], dict[str, object]]:
    dims = shape(draw, 1, 3, high=7)
    dim = some_dim(draw, len(dims))
    start, end = sorted(draw(st.tuples(*[st.integers(0, dims[dim])] * 2)))
    assume(end > start)
    if draw(st.integers(0, 2)) == 0:  # from the end, and beyond the edges
        start -= dims[dim] + (draw(st.integers(0, 2)) if start == 0 else 0)
        beyond = draw(st.sampled_from([1, 2**63 - 1 - end]))
        end += beyond if end == dims[dim] else -dims[dim]
    return dims, {
        "dim": draw(st.sampled_from([dim, dim - len(dims)])),
        "start": start,
        "end": end,
        "step": draw(st.sampled_from([1, 1, 2, 3])),
    }


@case("aten.slice.Tensor")
def slice_tensor(draw: Draw) -> Call:
    dims, attrs = slicing(draw)
    if draw(st.booleans()):
        attrs |= {"start": None}
    return attrs, [some(draw, dims)]


@case("aten.slice_backward")
def slice_backward(draw: Draw) -> Call:
    dims, attrs = slicing(draw)
    g = call_kernel("aten.slice.Tensor", [real(draw, *dims)], attrs)[0]
    return {**attrs, "input_sizes": dims}, [g]


@case("aten.slice_scatter")
def slice_scatter(draw: Draw) -> Call:
    dims, attrs = slicing(draw)
    src = call_kernel("aten.slice.Tensor", [real(draw, *dims)], attrs)[0]
    return attrs, [real(draw, *dims), src]


@case("aten.narrow")
def narrow(draw: Draw) -> Call:
    dims = shape(draw, 1, 3, high=7)
    dim = signed(draw, len(dims))
    start = draw(st.integers(-dims[dim], dims[dim] - 1))
    length = draw(st.integers(1, dims[dim] - start % dims[dim]))
    return {"dim": dim, "start": start, "length": length}, [some(draw, dims)]


def selecting(draw: Draw) -> tuple[tuple[int, ...], dict[str, object]]:
    dims = shape(draw, 1, 4)
    dim = some_dim(draw, len(dims))
    return dims, {"dim": dim, "index": draw(st.integers(-dims[dim], dims[dim] - 1))}


@case("aten.select.int")
def select(draw: Draw) -> Call:
    dims, attrs = selecting(draw)
    return attrs, [some(draw, dims)]


@case("aten.select_backward")
def select_backward(draw: Draw) -> Call:
    dims, attrs = selecting(draw)
    return {**attrs, "input_sizes": dims}, [
        real(draw, *dims[: attrs["dim"]], *dims[attrs["dim"] + 1 :])
    ]


@case("aten.select_scatter")
def select_scatter(draw: Draw) -> Call:
    dims, attrs = selecting(draw)
    return attrs, [real(draw, *dims), real(draw, *dims[: attrs["dim"]], *dims[attrs["dim"] + 1 :])]


@case("aten.split_with_sizes")
def split_with_sizes(draw: Draw) -> Call:
    dims = shape(draw, 1, 3)
    dim = some_dim(draw, len(dims))
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    x = some(draw, (*dims[:dim], sum(sizes), *dims[dim + 1 :]))
    return {"split_sizes": sizes, "dim": dim}, [x]


@case("aten.split.Tensor")
def split(draw: Draw) -> Call:
    dims = shape(draw, 1, 3, high=7)
    return {"split_size": size(draw, 1, 4), "dim": some_dim(draw, len(dims))}, [some(draw, dims)]


@case("aten.unbind.int")
def unbind(draw: Draw) -> Call:
    dims = shape(draw, 1, 3)
    return {"dim": signed(draw, len(dims))}, [some(draw, dims)]


def diagonals(draw: Draw) -> tuple[tuple[int, ...], dict[str, object]]:
    dims = shape(draw, 2, 4)
    one, other = draw(st.permutations(range(len(dims))))[:2]
    return dims, {
        "offset": draw(st.integers(1 - dims[one], dims[other] - 1)),
        "dim1": one,
        "dim2": other,
    }


@case("aten.diagonal")
def diagonal(draw: Draw) -> Call:
    dims, attrs = diagonals(draw)
    return attrs, [some(draw, dims)]


@case("aten.diagonal_backward")
def diagonal_backward(draw: Draw) -> Call:
    dims, attrs = diagonals(draw)
    g = call_kernel("aten.diagonal", [real(draw, *dims)], attrs)[0]
    return {**attrs, "input_sizes": dims}, [g]


@case("aten.diagonal_scatter")
def diagonal_scatter(draw: Draw) -> Call:
    dims, attrs = diagonals(draw)
    return attrs, [real(draw, *dims), call_kernel("aten.diagonal", [real(draw, *dims)], attrs)[0]]


@case("aten.diag_embed")
def diag_embed(draw: Draw) -> Call:
    dims = shape(draw, 1, 3)
    one, other = draw(st.permutations(range(len(dims) + 1)))[:2]
    return {"offset": draw(st.integers(-2, 2)), "dim1": one, "dim2": other}, [real(draw, *dims)]


@case("aten.tril", "aten.triu")
def triangle(draw: Draw) -> Call:
    return {"diagonal": draw(st.integers(-4, 4))}, [some(draw, shape(draw, 2, 4))]


def windows(draw: Draw) -> tuple[tuple[int, ...], int, int, int]:
    dims = shape(draw, 0, 3, high=8)
    dim = some_dim(draw, len(dims))
    return dims, dim, draw(st.integers(1, dims[dim] if dims else 1)), draw(st.integers(1, 3))


@case("aten.unfold")
def unfold(draw: Draw) -> Call:
    dims, dim, width, step = windows(draw)
    return {"dimension": dim, "size": width, "step": step}, [some(draw, dims)]


@case("aten.unfold_backward")
def unfold_backward(draw: Draw) -> Call:
    dims, dim, width, step = windows(draw)
    g = real(draw, *dims).unfold(dim, width, step).contiguous()
    return {"input_sizes": dims, "dim": dim, "size": width, "step": step}, [g]


@case("aten.flip")
def flip(draw: Draw) -> Call:
    dims = shape(draw, 0, 4)
    return {"dims": some_dims(draw, len(dims))}, [some(draw, dims)]


@case("aten.rot90")
def rot90(draw: Draw) -> Call:
    dims = shape(draw, 2, 4)
    return {
        "k": draw(st.integers(-5, 5)),
        "dims": tuple(draw(st.permutations(range(len(dims))))[:2]),
    }, [some(draw, dims)]


@case("aten.roll")
def roll(draw: Draw) -> Call:
    dims = shape(draw, 1, 3)
    which = draw(st.one_of(st.just(()), st.just(some_dims(draw, len(dims)))))
    shifts = tuple(draw(st.integers(-7, 7)) for _ in which) or (draw(st.integers(-7, 7)),)
    return {"shifts": shifts, "dims": which}, [some(draw, dims)]


@case("aten.repeat")
def repeat(draw: Draw) -> Call:
    dims = shape(draw, 0, 3, high=4)
    extra = draw(st.integers(0, 1))
    return {"repeats": tuple(draw(st.integers(1, 3)) for _ in range(len(dims) + extra))}, [
        some(draw, dims)
    ]


@case("aten.repeat_interleave.self_int")
def repeat_interleave(draw: Draw) -> Call:
    dims = shape(draw, 0, 3)
    dim = draw(st.one_of(st.none(), st.just(some_dim(draw, len(dims))))) if dims else None
    return {"repeats": size(draw, 1, 3), "dim": dim}, [some(draw, dims)]


@case("aten.pixel_shuffle")
def pixel_shuffle(draw: Draw) -> Call:
    r, (c, h, w) = size(draw, 1, 3), (size(draw, 1, 4) for _ in range(3))
    return {"upscale_factor": r}, [real(draw, *shape(draw, 0, 2, high=3), c * r * r, h, w)]


@case("aten.pixel_unshuffle")
def pixel_unshuffle(draw: Draw) -> Call:
    r, (c, h, w) = size(draw, 1, 3), (size(draw, 1, 4) for _ in range(3))
    return {"downscale_factor": r}, [real(draw, *shape(draw, 0, 2, high=3), c, h * r, w * r)]


@case("aten.channel_shuffle", "aten.native_channel_shuffle")
def channel_shuffle(draw: Draw) -> Call:
    groups = size(draw, 1, 4)
    x = real(draw, size(draw, 1, 3), groups * size(draw, 1, 3), size(draw, 1, 4), size(draw, 1, 4))
    return {"groups": groups}, [x]


@case("aten.cat")
def cat(draw: Draw) -> Call:
    dims = shape(draw, 1, 3)
    dim = some_dim(draw, len(dims))
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    assume(sum(sizes))
    xs = [real(draw, *dims[:dim], n, *dims[dim + 1 :]) for n in sizes]
    if draw(st.integers(0, 4)) == 0:
        xs.insert(1, real(draw, 0))
    return {"dim": dim}, xs


@case("aten.stack")
def stack(draw: Draw) -> Call:
    dims = shape(draw)
    xs = [real(draw, *dims) for _ in range(draw(st.integers(1, 4)))]
    return {"dim": signed(draw, len(dims) + 1)}, xs
