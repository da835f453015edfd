"""Factorisations and solvers over batches of well-conditioned matrices."""

import torch
from hypothesis import strategies as st

from cases import Call, Draw, case, real, shape, size
from graphwright.aten.invoke import call_kernel


def regular(draw: Draw) -> torch.Tensor:
    lead, n = shape(draw, 0, 2, high=4), size(draw, high=4)
    return real(draw, *lead, n, n) + 6 * torch.eye(n, dtype=torch.float64)


def turned(draw: Draw) -> torch.Tensor:
    """The rows of a well-conditioned matrix in another order, so that a factorisation has to exchange some."""
    a = regular(draw)
    return a[..., draw(st.permutations(range(a.shape[-1]))), :].contiguous()


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


def any_matrix(draw: Draw) -> torch.Tensor:
    return real(draw, *shape(draw, 0, 2, high=3), size(draw, high=4), size(draw, high=4))


@case("aten.linalg_lu_factor_ex")
def lu_factor(draw: Draw) -> Call:
    return {"pivot": True}, [any_matrix(draw)]


@case("aten.linalg_lu_solve")
def lu_solve(draw: Draw) -> Call:
    a, left, count = turned(draw), draw(st.booleans()), size(draw)
    factors, pivots, _ = call_kernel(
        "aten.linalg_lu_factor_ex", [a], {"pivot": True, "check_errors": False}
    )
    n = a.shape[-1]
    b = real(draw, *a.shape[:-2], *((n, count) if left else (count, n)))
    return {"left": left, "adjoint": draw(st.booleans())}, [factors.contiguous(), pivots, b]


@case("aten._linalg_solve_ex")
def solve_ex(draw: Draw) -> Call:
    a, left, count = turned(draw), draw(st.booleans()), size(draw)
    n = a.shape[-1]
    if left and draw(st.integers(0, 2)) == 0:
        return {"left": True}, [a, real(draw, *a.shape[:-1])]
    return {"left": left}, [a, real(draw, *a.shape[:-2], *((n, count) if left else (count, n)))]


@case("aten._linalg_det", "aten._linalg_slogdet")
def determinant(draw: Draw) -> Call:
    return {}, [turned(draw)]


@case("aten.linalg_qr")
def qr(draw: Draw) -> Call:
    return {"mode": draw(st.sampled_from(["reduced", "complete", "r"]))}, [any_matrix(draw)]


@case("aten.linalg_matrix_exp")
def matrix_exp(draw: Draw) -> Call:
    n = size(draw, high=4)
    return {}, [real(draw, *shape(draw, 0, 2, high=4), n, n)]


@case("aten.linalg_pinv.atol_rtol_tensor")
def pseudo_inverse(draw: Draw) -> Call:
    a = any_matrix(draw)
    limit = torch.tensor(0.3, dtype=torch.float64)
    return {}, [a, *(limit if draw(st.integers(0, 3)) == 0 else None for _ in range(2))]
