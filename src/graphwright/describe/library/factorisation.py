"""Matrix factorisations and solvers; they split along the batch and along right-hand sides.

The determinants also return an LU factorisation, which is that of the transpose, since the tensors
of a graph are row-major.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from graphwright.describe.language import Array, Expr, Int, Opaque, Tensor, constant, describe

Element = Callable[..., Expr]


def of_matrix(name: str, numpy: Callable[..., object], a: Tensor) -> Element:
    """A function from a matrix to a matrix, for every matrix of a batch."""
    return lambda *i: Opaque(name, numpy)(a[(*i[:-2], slice(None), slice(None))])[i[-2:]]


def status(name: str, succeeds: Callable[[Array], bool], a: Tensor) -> Element:
    """0 for every matrix that can be factorised, else 1."""
    answer = Opaque(f"{name} status", lambda matrix: 0 if succeeds(matrix) else 1)
    return lambda *b: answer(a[(*b, slice(None), slice(None))])[()]


@describe("aten.linalg_cholesky_ex")
def cholesky(a: Tensor, *, upper: bool):
    def factor(matrix: Array) -> Array:
        return np.linalg.cholesky(matrix).T if upper else np.linalg.cholesky(matrix)

    def positive(matrix: Array) -> bool:
        return bool(np.all(np.linalg.eigvalsh(matrix) > 0))

    return of_matrix("cholesky", factor, a), status("cholesky", positive, a)


@describe("aten.linalg_inv_ex")
def inverse(a: Tensor):
    return of_matrix("inverse", np.linalg.inv, a), status("inverse", regular, a)


def of_vector(name: str, numpy: Callable[..., object], a: Tensor) -> Element:
    """A function from a matrix to a vector, for every matrix of a batch."""
    return lambda *i: Opaque(name, numpy)(a[(*i[:-1], slice(None), slice(None))])[i[-1]]


def of_number(name: str, numpy: Callable[..., object], a: Tensor) -> Element:
    """A function from a matrix to a number, for every matrix of a batch."""
    return lambda *i: Opaque(name, numpy)(a[(*i, slice(None), slice(None))])[()]


def regular(matrix: Array) -> bool:
    """Whether a matrix has an inverse."""
    return bool(np.linalg.matrix_rank(matrix) == min(matrix.shape))


# -- LU ------------------------------------------------------------------------------------------


def lu(matrix: Array, pivot: bool = True) -> tuple[Array, Array]:
    """Both triangles in one matrix, and the pivots: the row swapped with each row, from 1."""
    work = np.array(matrix, dtype=float)
    rows, columns = work.shape
    pivots = np.arange(1, min(rows, columns) + 1)
    for k in range(min(rows, columns)):
        largest = k + int(np.argmax(np.abs(work[k:, k]))) if pivot else k
        pivots[k] = largest + 1
        work[[k, largest]] = work[[largest, k]]
        if work[k, k] != 0:
            work[k + 1 :, k] /= work[k, k]
        work[k + 1 :, k + 1 :] -= np.outer(work[k + 1 :, k], work[k, k + 1 :])
    return work, pivots


def unpacked(factors: Array, pivots: Array) -> Array:
    """The original matrix."""
    matrix = (np.tril(factors, -1) + np.eye(len(factors))) @ np.triu(factors)
    for k in reversed(range(len(pivots))):
        matrix[[k, pivots[k] - 1]] = matrix[[pivots[k] - 1, k]]
    return matrix


def lu_results(a: Tensor, transposed: bool, pivot: bool = True) -> tuple[Element, Element]:
    """The factors and the pivots of every matrix, or of its transpose."""
    turned = (lambda matrix: matrix.T) if transposed else (lambda matrix: matrix)
    return (
        of_matrix("lu", lambda matrix: lu(turned(matrix), pivot)[0], a),
        of_vector("pivots", lambda matrix: lu(turned(matrix), pivot)[1], a),
    )


@describe("aten.linalg_lu_factor_ex")
def lu_factor(a: Tensor, *, pivot: bool):
    return (*lu_results(a, False, pivot), status("lu", regular, a))


@describe("aten.linalg_lu_solve")
def lu_solve(factors: Tensor, pivots: Tensor, b: Tensor, *, left: bool, adjoint: bool, out: Tensor):
    def solve(factors: Array, pivots: Array, side: Array) -> Array:
        matrix = unpacked(factors, pivots)
        return np.linalg.solve(matrix if left != adjoint else matrix.T, side)

    def element(*i: Int) -> Expr:
        *n, row, column = i
        along, at = ((slice(None), column), row) if left else ((row, slice(None)), column)
        given = (slice(None), slice(None))
        return Opaque("lu solve", solve)(
            batch_slice(factors, n, given),
            batch_slice(pivots, n, given[:1]),
            batch_slice(b, n, along),
        )[at]

    return element


def batch_slice(x: Tensor, batch: Sequence[Int], rest: Sequence[object]) -> Expr:
    """Slices of x for one member of a batch that x broadcasts to."""
    own = list(batch)[len(batch) - (x.rank - len(rest)) :]
    return x[(*own, *rest)]


@describe("aten._linalg_solve_ex")
def solve_ex(a: Tensor, b: Tensor, *, left: bool):
    vector = b.rank == 1 or (
        b.rank == a.rank - 1 and all(n == m for n, m in zip(b.shape, a.shape[:-1], strict=True))
    )

    def solve(matrix: Array, side: Array) -> Array:
        return np.linalg.solve(matrix if left else matrix.T, side)

    def element(*i: Int) -> Expr:
        if vector:
            n, along, at = i[:-1], [slice(None)], i[-1]
        elif left:
            n, along, at = i[:-2], [slice(None), i[-1]], i[-2]
        else:
            n, along, at = i[:-2], [i[-2], slice(None)], i[-1]
        matrix = batch_slice(a, n, (slice(None), slice(None)))
        return Opaque("solve", solve)(matrix, batch_slice(b, n, along))[at]

    return (element, *lu_results(a, False), status("solve", regular, a))


@describe("aten._linalg_det")
def det(a: Tensor):
    return (of_number("determinant", np.linalg.det, a), *lu_results(a, True))


@describe("aten._linalg_slogdet")
def slogdet(a: Tensor):
    return (
        of_number("sign", lambda matrix: np.linalg.slogdet(matrix)[0], a),
        of_number("logarithm", lambda matrix: np.linalg.slogdet(matrix)[1], a),
        *lu_results(a, True),
    )


# -- others --------------------------------------------------------------------------------------


@describe("aten.linalg_qr")
def qr(a: Tensor, *, mode: str):
    if mode == "r":
        return lambda i: constant(0), of_matrix("r", lambda matrix: np.linalg.qr(matrix, "r"), a)
    factors = lambda matrix: np.linalg.qr(matrix, mode)  # type: ignore[call-overload]
    return (
        of_matrix("q", lambda matrix: factors(matrix)[0], a),
        of_matrix("r", lambda matrix: factors(matrix)[1], a),
    )


@describe("aten.linalg_matrix_exp")
def matrix_exp(a: Tensor):
    def exponential(matrix: Array) -> Array:
        from scipy.linalg import expm

        value: Array = expm(matrix)
        return value

    return of_matrix("matrix exponential", exponential, a)


@describe("aten.linalg_pinv.atol_rtol_tensor")
def pseudo_inverse(a: Tensor, atol: Tensor | None, rtol: Tensor | None, *, hermitian: bool):
    def inverse(matrix: Array, *limits: Array) -> Array:
        given = iter(limits)
        least = 0.0 if atol is None else float(next(given))
        if rtol is not None:
            share = float(next(given))
        else:
            share = 0.0 if least > 0 else max(matrix.shape) * float(np.finfo(matrix.dtype).eps)
        u, values, v = np.linalg.svd(matrix, full_matrices=False)
        kept = values > max(least, share * values.max())
        return (v.T * np.where(kept, 1 / np.where(kept, values, 1), 0)) @ u.T

    def element(*i: Int) -> Expr:
        limits = [x[i[:-2]] for x in (atol, rtol) if x is not None]
        matrix = a[(*i[:-2], slice(None), slice(None))]
        return Opaque("pseudo-inverse", inverse)(matrix, *limits)[i[-2:]]

    return element


# -- triangles -----------------------------------------------------------------------------------


@describe("aten.linalg_solve_triangular")
def solve_triangular(a: Tensor, b: Tensor, *, upper: bool, left: bool, unitriangular: bool):
    def solve(matrix: Array, side: Array) -> Array:
        triangle = np.triu(matrix) if upper else np.tril(matrix)
        if unitriangular:
            triangle = triangle - np.diag(np.diag(triangle)) + np.eye(len(triangle))
        return np.linalg.solve(triangle if left else triangle.T, side)

    def element(*i: Int) -> Expr:
        *n, row, column = i
        along, at = ((slice(None), column), row) if left else ((row, slice(None)), column)
        return Opaque("triangular solve", solve)(
            a[(*n, slice(None), slice(None))], b[(*n, *along)]
        )[at]

    return element
