"""Factorisations and solvers, each a whole matrix at a time; they split along the batch, and along right-hand sides."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphwright.describe.expression import Expr
from graphwright.describe.language import Int, Opaque, Tensor
from graphwright.describe.registry import describe
from graphwright.describe.scalar import Array

Element = Callable[..., Expr]


def of_matrix(name: str, numpy: Callable[..., object], a: Tensor) -> Element:
    """A function from a matrix to a matrix, for every matrix of a batch."""
    return lambda *i: Opaque(name, numpy)(a[(*i[:-2], slice(None), slice(None))])[i[-2:]]


def status(name: str, succeeds: Callable[[Array], bool], a: Tensor) -> Element:
    """Zero for every matrix that could be factorised."""
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
    def regular(matrix: Array) -> bool:
        return bool(np.linalg.matrix_rank(matrix) == len(matrix))

    return of_matrix("inverse", np.linalg.inv, a), status("inverse", regular, a)


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
