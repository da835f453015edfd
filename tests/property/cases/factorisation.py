"""Factorisations and solvers over batches of well-conditioned matrices."""

import torch
from hypothesis import strategies as st

from cases import Call, Draw, case, real, shape, size


def regular(draw: Draw) -> torch.Tensor:
    lead, n = shape(draw, 0, 2, high=4), size(draw, high=4)
    return real(draw, *lead, n, n) + 6 * torch.eye(n, dtype=torch.float64)


@case("aten.linalg_cholesky_ex")
def cholesky(draw: Draw) -> Call:
    a = regular(draw)
    return {"upper": draw(st.booleans())}, [a @ a.mT]


@case("aten.linalg_inv_ex")
def inverse(draw: Draw) -> Call:
    return {}, [regular(draw)]


@case("aten.linalg_solve_triangular")
def solve_triangular(draw: Draw) -> Call:
    a, left, count = regular(draw), draw(st.booleans()), size(draw)
    n = a.shape[-1]
    b = real(draw, *a.shape[:-2], *((n, count) if left else (count, n)))
    attrs = {"left": left, "upper": draw(st.booleans()), "unitriangular": draw(st.booleans())}
    return attrs, [a, b]
