"""Reductions: over one dim, several or all, kept or dropped; scans."""

import torch
from hypothesis import strategies as st

from cases import Call, Draw, boolean, broadcastable, case, integer, last_or_some_dim, real, shape


def tensor(draw: Draw, dims: tuple[int, ...]) -> torch.Tensor:
    return draw(st.sampled_from([real, real, integer, boolean]))(draw, *dims)


def some_dims(draw: Draw, rank: int) -> tuple[int, ...]:
    chosen = [d for d in range(max(rank, 1)) if draw(st.booleans())]
    return tuple(draw(st.permutations(chosen)))


def floating(draw: Draw) -> tuple[tuple[int, ...], torch.Tensor]:
    dims = shape(draw, 0, 4, high=4)
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
    dims = shape(draw, 0, 4, high=5)
    dim = draw(st.sampled_from([None, some_dims(draw, len(dims)), some_dims(draw, len(dims))]))
    dtype = draw(st.sampled_from([None, None, "float64", "int64"]))
    return {"dim": dim, "keepdim": draw(st.booleans()), "dtype": dtype}, [tensor(draw, dims)]


@case("aten.any.dims", "aten.all.dims")
def any_dims(draw: Draw) -> Call:
    dims = shape(draw, 0, 4, high=5)
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
    if draw(st.booleans()):
        x = torch.where(boolean(draw, *dims), x, draw(st.sampled_from([-torch.inf, torch.inf])))
    return {"dim": dim, "keepdim": draw(st.booleans())}, [x]


@case("aten.prod.dim_int", "aten.any.dim", "aten.all.dim")
def one_dim(draw: Draw) -> Call:
    dims = shape(draw, 0, 4, high=5)
    return {"dim": last_or_some_dim(draw, len(dims)), "keepdim": draw(st.booleans())}, [
        tensor(draw, dims)
    ]


@case("aten.max.dim", "aten.min.dim")
def one_dim_of_floats(draw: Draw) -> Call:
    dims, x = floating(draw)
    return {"dim": last_or_some_dim(draw, len(dims)), "keepdim": draw(st.booleans())}, [x]


@case("aten.argmax", "aten.argmin", "aten.aminmax")
def one_dim_or_all(draw: Draw) -> Call:
    attrs, inputs = one_dim_of_floats(draw)
    return ({"dim": None} if draw(st.booleans()) else attrs), inputs


@case("aten.count_nonzero")
def count_nonzero(draw: Draw) -> Call:
    dims = shape(draw, 0, 4, high=5)
    return {"dim": draw(st.sampled_from([None, 0, max(len(dims), 1) - 1]))}, [
        integer(draw, *dims, high=2)
    ]


@case("aten.count_nonzero.dim_IntList")
def count_nonzero_dims(draw: Draw) -> Call:
    dims = shape(draw, 0, 4, high=5)
    return {"dim": some_dims(draw, len(dims)) or (0,)}, [integer(draw, *dims, high=2)]


@case(
    "aten.var.correction",
    "aten.std.correction",
    "aten.var_mean.correction",
    "aten.std_mean.correction",
)
def variance(draw: Draw) -> Call:
    if draw(st.integers(0, 4)) == 0:
        attrs = {"dim": draw(st.sampled_from([None, (), (0,)])), "correction": 0}
        return {**attrs, "keepdim": draw(st.booleans())}, [real(draw)]
    dims = shape(draw, 2, 4, low=2, high=4)
    dim = draw(st.sampled_from([None, (), (0,), (1,), (0, 1)]))
    correction = draw(st.sampled_from([None, 0, 1, 0.5]))
    return {"dim": dim, "correction": correction, "keepdim": draw(st.booleans())}, [
        real(draw, *dims)
    ]


@case("aten.var.dim")
def variance_of_dims(draw: Draw) -> Call:
    attrs, (x,) = variance(draw)
    assert x is not None
    unbiased = x.ndim > 0 and draw(st.booleans())
    return {"dim": attrs["dim"], "keepdim": attrs["keepdim"], "unbiased": unbiased}, [x]


@case("aten.linalg_vector_norm")
def vector_norm(draw: Draw) -> Call:
    dims, x = floating(draw)
    order = draw(ORDER)
    dim = draw(st.sampled_from([None, some_dims(draw, len(dims)) or (0,)]))
    return {"ord": order, "dim": dim, "keepdim": draw(st.booleans())}, [x]


ORDER = st.sampled_from([0, 1, 2, 3, 0.0, 1.0, 2.0, 2.5, float("inf"), float("-inf")])


@case("aten.norm.Scalar")
def norm(draw: Draw) -> Call:
    return {"p": draw(ORDER)}, [floating(draw)[1]]


@case("aten.norm.ScalarOpt_dtype")
def norm_dtype(draw: Draw) -> Call:
    return {"p": draw(st.none() | ORDER), "dtype": "float64"}, [floating(draw)[1]]


@case("aten.norm.ScalarOpt_dim")
def norm_dims(draw: Draw) -> Call:
    dims, x = floating(draw)
    attrs = {"dim": some_dims(draw, len(dims)), "keepdim": draw(st.booleans())}
    return {"p": draw(st.none() | ORDER), **attrs}, [x]


@case("aten.norm.ScalarOpt_dim_dtype")
def norm_dims_dtype(draw: Draw) -> Call:
    attrs, inputs = norm_dims(draw)
    return {**attrs, "dtype": "float64"}, inputs


@case("aten.dist")
def dist(draw: Draw) -> Call:
    dims = shape(draw, 0, 3, high=4)
    pair = [real(draw, *dims), real(draw, *broadcastable(draw, dims))]
    return {"p": draw(ORDER)}, pair if draw(st.booleans()) else pair[::-1]


@case("aten.renorm")
def renorm(draw: Draw) -> Call:
    dims = shape(draw, 2, 3, high=4)
    attrs = {"p": draw(st.sampled_from([1, 2, 2.5])), "maxnorm": draw(st.sampled_from([1, 2.5]))}
    return {**attrs, "dim": last_or_some_dim(draw, len(dims))}, [real(draw, *dims)]


@case("aten.trace")
def trace(draw: Draw) -> Call:
    return {}, [real(draw, *shape(draw, 2, 2))]


@case("aten.cumsum", "aten.cumprod")
def scan(draw: Draw) -> Call:
    dims = shape(draw, 0, 3)
    return {"dim": last_or_some_dim(draw, len(dims))}, [tensor(draw, dims)]


@case("aten.cummax", "aten.cummin", "aten.logcumsumexp")
def scan_of_floats(draw: Draw) -> Call:
    dims, x = floating(draw)
    return {"dim": last_or_some_dim(draw, len(dims))}, [x]
