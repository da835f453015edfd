"""Linear algebra: norms and factorisations.

A factorisation takes each matrix whole: a stack of matrices splits, one matrix does not. Large ones
are factored block by block (`blocked`) where that is possible.
"""

from __future__ import annotations

from operator import index
from typing import Any, NamedTuple

import numpy as np

from graphwright.arrays.array import Array, asarray, cast, wrap
from graphwright.arrays.errors import InvalidArgument, ShapeMismatch
from graphwright.arrays.namespace.elementwise import apply, broadcast_shapes
from graphwright.arrays.namespace.linalg.blocked import (
    QRResult,
    blocked_cholesky,
    factor,
    is_large,
    num_blocks,
    solve_positive,
    tall_qr,
)
from graphwright.arrays.namespace.linalg.products import (
    cross,
    dot,
    einsum,
    inner,
    kron,
    linalg_diagonal,
    matmul,
    multi_dot,
    outer,
    tensordot,
    together,
    trace,
    vecdot,
)
from graphwright.arrays.namespace.reductions import max as greatest
from graphwright.arrays.namespace.reductions import min as least
from graphwright.arrays.namespace.reductions import sum as sum_of
from graphwright.arrays.namespace.shapes import (
    broadcast_to,
    expand_dims,
    matrix_transpose,
    moveaxis,
    reshape,
)


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and the vectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class SlogdetResult(NamedTuple):
    """The sign of a determinant and the logarithm of its size."""

    sign: Array
    logabsdet: Array


class SVDResult(NamedTuple):
    """Left vectors as columns, singular values in descending order, right vectors as rows."""

    U: Array
    S: Array
    Vh: Array


# -- norms -----------------------------------------------------------------------------------------


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Array:
    """The length of what lies along some dims."""
    given = _inexact(x)
    sizes = apply("absolute", given)
    if ord == np.inf:
        return greatest(sizes, axis=axis, keepdims=keepdims)
    if ord == -np.inf:
        return least(sizes, axis=axis, keepdims=keepdims)
    if ord == 0:
        return cast(sum_of(apply("not_equal", sizes, 0), axis=axis, keepdims=keepdims), sizes.dtype)
    powers = apply("multiply", sizes, sizes) if ord == 2 else apply("power", sizes, float(ord))
    powers = sizes if ord == 1 else powers
    total = sum_of(powers, axis=axis, keepdims=keepdims)
    if ord == 1:
        return total
    return apply("sqrt", total) if ord == 2 else apply("power", total, 1 / float(ord))


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """The size of each matrix."""
    given = _inexact(x)
    if ord == "fro":
        return vector_norm(given, axis=(-2, -1), keepdims=keepdims)
    if ord in (1, -1, np.inf, -np.inf):
        inner_axis, outer_axis = (-2, -1) if abs(ord) == 1 else (-1, -2)
        sums = sum_of(apply("absolute", given), axis=inner_axis, keepdims=True)
        extremum = greatest if ord > 0 else least
        made = extremum(sums, axis=outer_axis, keepdims=True)
    else:
        values = svdvals(given)
        if ord == "nuc":
            made = sum_of(values, axis=-1)
        elif ord in (2, -2):
            made = (greatest if ord > 0 else least)(values, axis=-1)
        else:
            raise ShapeMismatch(f"no norm {ord!r}; one of fro, nuc, 1, -1, 2, -2, inf, -inf")
        made = expand_dims(made, (-2, -1))
    return made if keepdims else reshape(made, given.shape[:-2])


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """NumPy's name for both norms."""
    given = asarray(x)
    if axis is None and ord is None:
        return vector_norm(given, axis=None, keepdims=keepdims)
    if (isinstance(axis, tuple) and len(axis) == 2) or (axis is None and given.ndim == 2):
        turned = given if axis is None else moveaxis(given, axis, (-2, -1))
        return matrix_norm(turned, ord="fro" if ord is None else ord, keepdims=keepdims)
    return vector_norm(given, axis=axis, keepdims=keepdims, ord=2 if ord is None else ord)


# -- factorisations --------------------------------------------------------------------------------


def _inexact(x: Any) -> Array:
    given = asarray(x)
    return cast(given, np.float64) if given.dtype.kind in "iub" else given


def _matrix(x: Any, square: bool = False) -> Array:
    given = _inexact(x)
    if given.ndim < 2 or (square and given.shape[-1] != given.shape[-2]):
        kind = "square matrices" if square else "matrices"
        raise ShapeMismatch(f"{kind} in the last two dims are needed, not {given.shape}")
    return given


def _real(x: Array) -> np.dtype[Any]:
    return np.empty(0, x.dtype).real.dtype


def cholesky(x: Any, /, *, upper: bool = False) -> Array:
    """The triangle whose product with its own transpose is a positive definite matrix."""
    given = _matrix(x, square=True)
    if is_large(given):
        made = blocked_cholesky(given)
    else:
        (made,) = factor("numpy.linalg.cholesky", [given], [given.shape[-2:]], [given.dtype])
    if not upper:
        return made
    turned = matrix_transpose(made)
    return apply("conjugate", turned) if made.dtype.kind == "c" else turned


def qr(x: Any, /, *, mode: str = "reduced") -> QRResult:
    """Orthonormal columns and the upper triangle that make the matrix."""
    given = _matrix(x)
    rows, columns = given.shape[-2:]
    if mode == "reduced" and (blocks := num_blocks(given)):
        return tall_qr(given, blocks)
    k = rows if mode == "complete" else min(rows, columns)
    shapes = [(rows, k), (k, columns)]
    return QRResult(*factor("numpy.linalg.qr", [given], shapes, [given.dtype] * 2, mode=mode))


def svd(x: Any, /, *, full_matrices: bool = True) -> SVDResult:
    """The singular values of each matrix and their vectors."""
    given = _matrix(x)
    rows, columns = given.shape[-2:]
    if not full_matrices and (blocks := num_blocks(given)):
        made = tall_qr(given, blocks)
        left, values, right = svd(made.R, full_matrices=False)
        return SVDResult(matmul(made.Q, left), values, right)
    k = min(rows, columns)
    shapes = [
        (rows, rows if full_matrices else k),
        (k,),
        (columns if full_matrices else k, columns),
    ]
    dtypes = [given.dtype, _real(given), given.dtype]
    return SVDResult(
        *factor("numpy.linalg.svd", [given], shapes, dtypes, full_matrices=full_matrices)
    )


def svdvals(x: Any, /) -> Array:
    """The singular values of each matrix, in descending order."""
    given = _matrix(x)
    if blocks := num_blocks(given):
        given = tall_qr(given, blocks).R
    (made,) = factor(
        "numpy.linalg.svd", [given], [(min(given.shape[-2:]),)], [_real(given)], compute_uv=False
    )
    return made


def eigh(x: Any, /) -> EighResult:
    """The eigenvalues of each Hermitian matrix and their vectors."""
    given = _matrix(x, square=True)
    shapes, dtypes = [given.shape[-1:], given.shape[-2:]], [_real(given), given.dtype]
    return EighResult(*factor("numpy.linalg.eigh", [given], shapes, dtypes))


def eigvalsh(x: Any, /) -> Array:
    """The eigenvalues of each Hermitian matrix, in ascending order."""
    given = _matrix(x, square=True)
    return factor("numpy.linalg.eigvalsh", [given], [given.shape[-1:]], [_real(given)])[0]


def inv(x: Any, /) -> Array:
    """The inverse of each matrix."""
    given = _matrix(x, square=True)
    return factor("numpy.linalg.inv", [given], [given.shape[-2:]], [given.dtype])[0]


def det(x: Any, /) -> Array:
    """The determinant of each matrix."""
    given = _matrix(x, square=True)
    return factor("numpy.linalg.det", [given], [()], [given.dtype])[0]


def slogdet(x: Any, /) -> SlogdetResult:
    """The sign of each determinant and the logarithm of its size."""
    given = _matrix(x, square=True)
    dtypes = [given.dtype, _real(given)]
    return SlogdetResult(*factor("numpy.linalg.slogdet", [given], [(), ()], dtypes))


def pinv(x: Any, /, *, rtol: Any = None) -> Array:
    """The pseudo-inverse of each matrix."""
    given = _matrix(x)
    name = "graphwright.arrays.operators.special.pinv"
    return factor(name, _with_limits(given, rtol), [given.shape[:-3:-1]], [given.dtype])[0]


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Array:
    """The rank of each matrix: the singular values that are not taken for zero."""
    given = _matrix(x)
    name = "graphwright.arrays.operators.special.matrix_rank"
    return factor(name, _with_limits(given, rtol), [()], [np.int64])[0]


def _with_limits(x: Array, rtol: Any) -> list[Array]:
    """Matrices, and for each the part of its largest singular value that counts as zero."""
    return [x] if rtol is None else [x, broadcast_to(rtol, x.shape[:-2])]


def matrix_power(x: Any, n: int, /) -> Array:
    """Each matrix multiplied with itself; negative powers are of the inverse."""
    given = asarray(x) if n >= 0 else inv(x)
    if given.ndim < 2 or given.shape[-1] != given.shape[-2]:
        raise ShapeMismatch(f"square matrices in the last two dims are needed, not {given.shape}")
    power, square = None, given
    left = abs(index(n))
    if not left:
        unit = asarray(np.eye(given.shape[-1], dtype=given.dtype))
        return broadcast_to(unit, given.shape)
    while left:
        if left & 1:
            power = square if power is None else matmul(power, square)
        left >>= 1
        square = matmul(square, square) if left else square
    assert power is not None
    return power


def solve(x1: Any, x2: Any, /, *, assume_a: str = "gen") -> Array:
    """What a matrix has to be multiplied with to make `x2`.

    `assume_a="pos"` says, as in SciPy, that the matrix is positive definite: a large one is then
    factored by all workers together.
    """
    a, b = together(_matrix(x1, square=True), _inexact(x2))
    column = b.ndim == 1
    right = expand_dims(b, 1) if column else b
    if right.shape[-2] != a.shape[-1]:
        raise ShapeMismatch(f"{a.shape} has {a.shape[-1]} unknowns, {b.shape} does not fit")
    if assume_a not in ("gen", "pos"):
        raise InvalidArgument(f"assume_a={assume_a!r}; one of 'gen' and 'pos'")
    if assume_a == "pos" and right.ndim == 2 and is_large(a):
        made = solve_positive(a, right)
        return reshape(made, (-1,)) if column else made
    lead = broadcast_shapes(a.shape[:-2], right.shape[:-2])
    a = broadcast_to(a, (*lead, *a.shape[-2:]))
    right = broadcast_to(right, (*lead, *right.shape[-2:]))
    (made,) = factor("numpy.linalg.solve", [a, right], [right.shape[-2:]], [a.dtype])
    return reshape(made, (*lead, a.shape[-1])) if column else made


class LstsqResult(NamedTuple):
    """A least-squares solution, the sums of its squared errors, the rank, the singular values."""

    x: Array
    residuals: Array
    rank: np.int32
    s: Array


def lstsq(a: Any, b: Any, rcond: float | None = None) -> LstsqResult:
    """The shortest least-squares solution, of any shape and rank; computed at once.

    Of a tall matrix the workers make a triangle with the same solutions; any other one is gathered.
    """
    x, y = together(_matrix(a), _inexact(b))
    if (blocks := num_blocks(x)) and y.ndim in (1, 2) and y.shape[0] == x.shape[0]:
        return _tall_lstsq(x, y, blocks, rcond)
    solution, residuals, rank, values = np.linalg.lstsq(x.compute(), y.compute(), rcond=rcond)
    return LstsqResult(wrap(solution), wrap(residuals), rank, wrap(values))


def _tall_lstsq(a: Array, b: Array, blocks: int, rcond: float | None) -> LstsqResult:
    q, r = tall_qr(a, blocks)
    projected = matmul(apply("conj", matrix_transpose(q)), b)
    if rcond is None:
        rcond = float(np.finfo(a.dtype).eps) * max(a.shape)
    solution, _, rank, values = np.linalg.lstsq(r.compute(), projected.compute(), rcond=rcond)
    residuals = wrap(np.empty(0, _real(a)))
    if rank == a.shape[1]:
        apart = apply("subtract", b, matmul(a, wrap(solution)))
        size = apply("abs", apart)
        residuals = sum_of(apply("multiply", size, size), axis=0)
        residuals = residuals if b.ndim == 2 else reshape(residuals, (1,))
    return LstsqResult(wrap(solution), residuals, rank, wrap(values))


PRODUCTS = {
    "matmul": matmul, "matrix_transpose": matrix_transpose, "tensordot": tensordot,
    "vecdot": vecdot, "outer": outer,
}  # fmt: skip
LINALG: dict[str, Any] = PRODUCTS | {
    "cholesky": cholesky, "cross": cross, "det": det, "diagonal": linalg_diagonal, "eigh": eigh,
    "eigvalsh": eigvalsh, "inv": inv, "matrix_norm": matrix_norm, "matrix_power": matrix_power,
    "matrix_rank": matrix_rank, "pinv": pinv, "qr": qr, "slogdet": slogdet, "solve": solve,
    "svd": svd, "svdvals": svdvals, "trace": trace, "vector_norm": vector_norm, "norm": norm,
    "lstsq": lstsq, "multi_dot": multi_dot,
}  # fmt: skip
FUNCTIONS: dict[str, Any] = PRODUCTS | {
    "dot": dot, "inner": inner, "einsum": einsum, "cross": cross, "trace": trace, "kron": kron,
}  # fmt: skip
