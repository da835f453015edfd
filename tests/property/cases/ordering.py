"""Sorting, selecting and searching along one dim."""

from hypothesis import strategies as st

from cases import Call, Draw, case, integer, last_or_some_dim, real, shape, size


@case("aten.sort", "aten.argsort")
def sort(draw: Draw) -> Call:
    dims = shape(draw, 0, 3)
    dim, descending = last_or_some_dim(draw, len(dims)), draw(st.booleans())
    return {"dim": dim, "descending": descending}, [real(draw, *dims)]


@case("aten.sort.stable")
def stable_sort(draw: Draw) -> Call:
    attrs, (x,) = sort(draw)
    assert x is not None
    ties = draw(st.booleans())
    return {**attrs, "stable": ties or None}, [integer(draw, *x.shape) if ties else x]


@case("aten.msort", "aten.median")
def whole(draw: Draw) -> Call:
    return {}, [real(draw, *shape(draw, 0, 3))]


@case("aten.topk")
def topk(draw: Draw) -> Call:
    dims = shape(draw, 0, 3)
    dim = last_or_some_dim(draw, len(dims))
    k = draw(st.integers(1, dims[dim] if dims else 1))
    return {"k": k, "dim": dim, "largest": draw(st.booleans())}, [real(draw, *dims)]


@case("aten.kthvalue")
def kthvalue(draw: Draw) -> Call:
    attrs, inputs = topk(draw)
    return {"k": attrs["k"], "dim": attrs["dim"], "keepdim": draw(st.booleans())}, inputs


@case("aten.median.dim")
def median(draw: Draw) -> Call:
    dims = shape(draw, 0, 3)
    dim = last_or_some_dim(draw, len(dims))
    return {"dim": dim, "keepdim": draw(st.booleans())}, [real(draw, *dims)]


@case("aten.mode")
def mode(draw: Draw) -> Call:
    dims = shape(draw, 0, 3)
    dim = last_or_some_dim(draw, len(dims))
    return {"dim": dim, "keepdim": draw(st.booleans())}, [integer(draw, *dims, high=3)]


@case("aten.bucketize.Tensor")
def bucketize(draw: Draw) -> Call:
    boundaries = integer(draw, size(draw), high=6).sort().values
    return {"right": draw(st.booleans())}, [integer(draw, *shape(draw), high=7), boundaries]


@case("aten.searchsorted.Tensor")
def searchsorted(draw: Draw) -> Call:
    lead = shape(draw, 0, 2, high=4)
    line = integer(draw, *lead, size(draw), high=6)
    order = line.argsort(dim=-1)
    given = draw(st.booleans())
    values = integer(draw, *lead, size(draw), high=7)
    attrs = {"right": draw(st.booleans())}
    return attrs, [line if given else line.sort(-1).values, values, order if given else None]


@case("aten.histc")
def histc(draw: Draw) -> Call:
    low, high = draw(st.sampled_from([(0, 0), (-1, 1), (-1.5, 2.0), (-4, 4)]))
    return {"bins": size(draw), "min": low, "max": high}, [real(draw, *shape(draw))]
