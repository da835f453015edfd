"""Reductions: over one dim, several or all, kept or dropped; scans."""

import torch
from hypothesis import strategies as st

from cases import Call, Draw, boolean, case, integer, real, shape


def tensor(draw: Draw, dims: tuple[int, ...]) -> torch.Tensor:
    return draw(st.sampled_from([real, real, integer, boolean]))(draw, *dims)


def some_dims(draw: Draw, rank: int) -> tuple[int, ...]:
    chosen = [d for d in range(rank) if draw(st.booleans())]
    return tuple(draw(st.permutations(chosen)))


def floating(draw: Draw) -> tuple[tuple[int, ...], torch.Tensor]:
    dims = shape(draw, 1, 4, high=4)
    return dims, real(draw, *dims)


@case("aten.sum", "aten.prod", "aten.any", "aten.all")
def everything(draw: Draw) -> Call:
    return {}, [tensor(draw, shape(draw))]


@case("aten.max", "aten.min")
def extreme(draw: Draw) -> Call:
    return {}, [draw(st.sampled_from([real, integer]))(draw, *shape(draw))]


@case("aten.mean")
def mean(draw: Draw) -> Call:
    return {}, [real(draw, *shape(draw))]


@case("aten.sum.dim_IntList")
def sum_dims(draw: Draw) -> Call:
    dims = shape(draw, 1, 4, high=5)
    dim = draw(st.sampled_from([None, some_dims(draw, len(dims)), some_dims(draw, len(dims))]))
    dtype = draw(st.sampled_from([None, None, "float64", "int64"]))
    return {"dim": dim, "keepdim": draw(st.booleans()), "dtype": dtype}, [tensor(draw, dims)]


@case("aten.any.dims", "aten.all.dims")
def any_dims(draw: Draw) -> Call:
    dims = shape(draw, 1, 4, high=5)
    return {"dim": some_dims(draw, len(dims)) or (0,), "keepdim": draw(st.booleans())}, [
        tensor(draw, dims)
    ]


@case("aten.mean.dim", "aten.amax", "aten.amin", "aten.nansum")
def dims_of_floats(draw: Draw) -> Call:
    dims, x = floating(draw)
    return {"dim": some_dims(draw, len(dims)), "keepdim": draw(st.booleans())}, [x]


@case("aten.logsumexp")
def logsumexp(draw: Draw) -> Call:
    dims, x = floating(draw)
    dim = some_dims(draw, len(dims)) or (0,)
    return {"dim": dim, "keepdim": draw(st.booleans())}, [x]


@case("aten.prod.dim_int", "aten.any.dim", "aten.all.dim")
def one_dim(draw: Draw) -> Call:
    dims = shape(draw, 1, 4, high=5)
    return {"dim": draw(st.integers(-1, len(dims) - 1)), "keepdim": draw(st.booleans())}, [
        tensor(draw, dims)
    ]


@case("aten.max.dim", "aten.min.dim")
def one_dim_of_floats(draw: Draw) -> Call:
    dims, x = floating(draw)
    return {"dim": draw(st.integers(-1, len(dims) - 1)), "keepdim": draw(st.booleans())}, [x]


@case("aten.argmax", "aten.argmin", "aten.aminmax")
def one_dim_or_all(draw: Draw) -> Call:
    attrs, inputs = one_dim_of_floats(draw)
    return ({"dim": None} if draw(st.booleans()) else attrs), inputs


@case("aten.count_nonzero")
def count_nonzero(draw: Draw) -> Call:
    dims = shape(draw, 1, 4, high=5)
    return {"dim": draw(st.sampled_from([None, 0, len(dims) - 1]))}, [integer(draw, *dims, high=2)]


@case("aten.count_nonzero.dim_IntList")
def count_nonzero_dims(draw: Draw) -> Call:
    dims = shape(draw, 1, 4, high=5)
    return {"dim": some_dims(draw, len(dims)) or (0,)}, [integer(draw, *dims, high=2)]


@case(
    "aten.var.correction",
    "aten.std.correction",
    "aten.var_mean.correction",
    "aten.std_mean.correction",
)
def variance(draw: Draw) -> Call:
    dims = shape(draw, 2, 4, low=2, high=4)
    dim = draw(st.sampled_from([None, (), (0,), (1,), (0, 1)]))
    correction = draw(st.sampled_from([None, 0, 1, 0.5]))
    return {"dim": dim, "correction": correction, "keepdim": draw(st.booleans())}, [
        real(draw, *dims)
    ]


@case("aten.var.dim")
def variance_of_dims(draw: Draw) -> Call:
    attrs, inputs = variance(draw)
    return {
        "dim": attrs["dim"],
        "keepdim": attrs["keepdim"],
        "unbiased": draw(st.booleans()),
    }, inputs


@case("aten.linalg_vector_norm")
def vector_norm(draw: Draw) -> Call:
    dims, x = floating(draw)
    order = draw(st.sampled_from([0, 1, 2, 3, 0.0, 1.0, 2.0, 2.5, float("inf"), float("-inf")]))
    dim = draw(st.sampled_from([None, some_dims(draw, len(dims)) or (0,)]))
    return {"ord": order, "dim": dim, "keepdim": draw(st.booleans())}, [x]


@case("aten.cumsum", "aten.cumprod")
def scan(draw: Draw) -> Call:
    dims = shape(draw, 1, 3)
    return {"dim": draw(st.integers(-1, len(dims) - 1))}, [tensor(draw, dims)]


@case("aten.cummax", "aten.cummin", "aten.logcumsumexp")
def scan_of_floats(draw: Draw) -> Call:
    dims, x = floating(draw)
    return {"dim": draw(st.integers(-1, len(dims) - 1))}, [x]
