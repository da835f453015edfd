"""Products of matrices and vectors, distances."""

import torch
from hypothesis import strategies as st

from cases import Call, Draw, boolean, broadcastable, case, real, shape, size
from graphwright.aten.invoke import call_kernel


def scalars(draw: Draw) -> dict[str, object]:
    return {
        "beta": draw(st.sampled_from([1, 0.5, 0])),
        "alpha": draw(st.sampled_from([1, 2, -0.5])),
    }


def added(draw: Draw, *dims: int) -> torch.Tensor:
    """What is added to a product, perhaps with NaN, which a factor of 0 hides."""
    c = real(draw, *broadcastable(draw, dims))
    return torch.where(boolean(draw, *c.shape), c, torch.nan) if draw(st.booleans()) else c


@case("aten.mm")
def mm(draw: Draw) -> Call:
    m, n, k = (size(draw) for _ in range(3))
    return {}, [real(draw, m, k), real(draw, k, n)]


@case("aten.bmm")
def bmm(draw: Draw) -> Call:
    b, m, n, k = (size(draw) for _ in range(4))
    return {}, [real(draw, b, m, k), real(draw, b, k, n)]


@case("aten.matmul")
def matmul(draw: Draw) -> Call:
    m, n, k = (size(draw) for _ in range(3))
    lead = shape(draw, 0, 2, high=4)
    a = draw(st.sampled_from([(k,), (m, k), (*lead, m, k)]))
    other = broadcastable(draw, lead) if draw(st.booleans()) else lead
    b = draw(st.sampled_from([(k,), (k, n), (*other, k, n)]))
    return {}, [real(draw, *a), real(draw, *b)]


@case("aten.tensordot")
def tensordot(draw: Draw) -> Call:
    summed = shape(draw, 0, 2, high=4)
    a = [*summed, *shape(draw, 0, 2, high=4)]
    b = [*summed, *shape(draw, 0, 2, high=4)]
    of_a = draw(st.permutations(range(len(a))))  # where each dim goes
    of_b = draw(st.permutations(range(len(b))))
    dims = range(len(summed))
    sign = draw(st.sampled_from([0, 1]))
    attrs = {
        "dims_self": tuple(of_a[d] - sign * len(a) for d in dims),
        "dims_other": tuple(of_b[d] for d in dims),
    }
    sizes = [[s[order.index(d)] for d in range(len(s))] for s, order in ((a, of_a), (b, of_b))]
    return attrs, [real(draw, *s) for s in sizes]


@case("aten.mv")
def mv(draw: Draw) -> Call:
    m, k = size(draw), size(draw)
    return {}, [real(draw, m, k), real(draw, k)]


@case("aten.dot", "aten.vdot")
def dot(draw: Draw) -> Call:
    k = size(draw)
    return {}, [real(draw, k), real(draw, k)]


@case("aten.outer", "aten.ger")
def outer(draw: Draw) -> Call:
    return {}, [real(draw, size(draw)), real(draw, size(draw))]


@case("aten.linear")
def linear(draw: Draw) -> Call:
    lead, n, k = shape(draw, 0, 3, high=4), size(draw), size(draw)
    return {}, [
        real(draw, *lead, k),
        real(draw, n, k),
        real(draw, n) if draw(st.booleans()) else None,
    ]


@case("aten.addmm")
def addmm(draw: Draw) -> Call:
    m, n, k = (size(draw) for _ in range(3))
    c = added(draw, m, n)
    return scalars(draw), [c, real(draw, m, k), real(draw, k, n)]


@case("aten._scaled_mm")
def scaled_mm(draw: Draw) -> Call:
    m, n, k = size(draw), draw(st.sampled_from([3, 16, 40])), draw(st.sampled_from([5, 16, 48]))
    dtype = draw(st.sampled_from([torch.float8_e4m3fn, torch.float8_e5m2]))
    a, b = real(draw, m, k).to(dtype), real(draw, n, k).to(dtype).t()
    by_row = draw(st.booleans())
    shapes = [(m, 1), (1, n)] if by_row else [draw(st.sampled_from([(), (1,)]))] * 2
    scales = [real(draw, *s, low=0.5).float() for s in shapes]
    out = draw(st.sampled_from(["bfloat16", "float32", None if not by_row else "bfloat16"]))
    bias = real(draw, n).to(getattr(torch, out)) if out and draw(st.booleans()) else None
    return {"out_dtype": out, "use_fast_accum": False}, [a, b, *scales, bias, None]


@case("aten.baddbmm")
def baddbmm(draw: Draw) -> Call:
    _, (a, b) = bmm(draw)
    c = added(draw, a.shape[0], a.shape[1], b.shape[2])
    return scalars(draw), [c, a, b]


@case("aten.addbmm")
def addbmm(draw: Draw) -> Call:
    _, (a, b) = bmm(draw)
    return scalars(draw), [added(draw, a.shape[1], b.shape[2]), a, b]


@case("aten.addmv")
def addmv(draw: Draw) -> Call:
    _, (a, b) = mv(draw)
    return scalars(draw), [added(draw, a.shape[0]), a, b]


@case("aten.addr")
def addr(draw: Draw) -> Call:
    _, (a, b) = outer(draw)
    return scalars(draw), [added(draw, len(a), len(b)), a, b]


@case("aten.linalg_cross")
def cross(draw: Draw) -> Call:
    dims = shape(draw, 0, 2)
    dim = draw(st.integers(0, len(dims)))
    dims = (*dims[:dim], 3, *dims[dim:])
    return {"dim": dim}, [real(draw, *dims), real(draw, *dims)]


@case("aten._cdist_forward")
def cdist(draw: Draw) -> Call:
    lead, m, n, k = shape(draw, 0, 2, high=3), size(draw), size(draw), size(draw, high=4)
    p = draw(st.sampled_from([0.0, 1.0, 2.0, 3.0, float("inf")]))
    return {"p": p, "compute_mode": None}, [real(draw, *lead, m, k), real(draw, *lead, n, k)]


@case("aten._cdist_backward")
def cdist_backward(draw: Draw) -> Call:
    attrs, inputs = cdist(draw)
    (out,) = call_kernel("aten._cdist_forward", inputs, attrs)
    return {"p": attrs["p"]}, [real(draw, *out.shape), *inputs, out]


@case("aten._pdist_forward")
def pdist(draw: Draw) -> Call:
    p = draw(st.sampled_from([1.0, 2.0, 3.0, float("inf")]))
    return {"p": p}, [real(draw, size(draw, low=2), size(draw))]


@case("aten._pdist_backward")
def pdist_backward(draw: Draw) -> Call:
    attrs, (x,) = pdist(draw)
    (out,) = call_kernel("aten._pdist_forward", [x], attrs)
    return attrs, [real(draw, *out.shape), x, out]


@case("aten._trilinear")
def trilinear(draw: Draw) -> Call:
    if draw(st.booleans()):  # as nn.Bilinear has it: rows by features, a weight, rows by features
        rows, outs, a, b = (size(draw, high=4) for _ in range(4))
        dims = {"expand1": (1, 3), "expand2": (0,), "expand3": (1, 2), "sumdim": (2, 3)}
        return dims, [real(draw, rows, a), real(draw, outs, a, b), real(draw, rows, b)]
    sizes = [size(draw, high=4) for _ in range(3)]
    held = [draw(st.sampled_from([(0, 1), (1, 2), (0, 2), (0, 1, 2)])) for _ in range(2)]
    held.append(draw(st.just((0, 1, 2))))
    attrs = {
        f"expand{n + 1}": tuple(d for d in range(3) if d not in dims) for n, dims in enumerate(held)
    }
    sumdim = draw(st.sampled_from([(0,), (1, 2), (2,)]))
    return {**attrs, "sumdim": sumdim}, [real(draw, *(sizes[d] for d in dims)) for dims in held]
