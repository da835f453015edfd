"""Products of matrices and factorisations.

Products are described sums, which split along any index. A factorisation takes each matrix whole:
a stack of matrices splits, one matrix does not. But one that is large and much taller than wide is
a stack of blocks of rows (`_tall_qr`), and its other factorisations follow from that:

    Q1 R1 = each block        Q2 R = the stack of all R1        Q = Q1 Q2

Only the small triangles R1 leave their workers. The blocks follow from the shape, so the numbers do
not depend on the workers; signs of columns may be others than LAPACK's.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, NamedTuple

import numpy as np

from graphwright.arrays.array import Array, asarray, cast, make, make_all, wrap
from graphwright.arrays.errors import ShapeMismatch
from graphwright.arrays.evaluate import SETTINGS
from graphwright.arrays.namespace.elementwise import apply, broadcast_shapes
from graphwright.arrays.namespace.reductions import max as greatest
from graphwright.arrays.namespace.reductions import min as least
from graphwright.arrays.namespace.reductions import sum as sum_of
from graphwright.arrays.namespace.shapes import (
    axes_of,
    axis_of,
    broadcast_to,
    diagonal,
    expand_dims,
    matrix_transpose,
    moveaxis,
    pad,
    reshape,
    stack,
    take_slice,
)
from graphwright.ir import Attr

MOST_BLOCKS = 64
"""In how many blocks of rows a tall matrix is factored at most."""
BLOCK_SHAPE = 16
"""How many times taller than wide a block is at least: the triangles are no more than so small a
part of the matrix."""


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and the vectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """Orthonormal columns and an upper triangle."""

    Q: Array
    R: Array


class SlogdetResult(NamedTuple):
    """The sign of a determinant and the logarithm of its size."""

    sign: Array
    logabsdet: Array


class SVDResult(NamedTuple):
    """Left vectors as columns, singular values in descending order, right vectors as rows."""

    U: Array
    S: Array
    Vh: Array


def _together(*arrays: Any) -> list[Array]:
    given = [asarray(x) for x in arrays]
    dtype = np.result_type(*(x.dtype for x in given))
    return [cast(x, dtype) for x in given]


def matmul(x1: Any, x2: Any, /) -> Array:
    """The product of matrices; a line is a row on the left and a column on the right."""
    a, b = _together(x1, x2)
    if not a.ndim or not b.ndim:
        raise ShapeMismatch(f"matmul of {a.shape} and {b.shape}: one has no dims; use multiply")
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        raise ShapeMismatch(f"matmul of {a.shape} and {b.shape}: the inner sizes differ")
    lead = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    shape = (*lead, *a.shape[-2:-1], *(b.shape[-1:] if b.ndim > 1 else ()))
    return make("aten.matmul", [a, b], {}, shape, a.dtype)


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Array:
    """Products summed over dims of one array and as many of the other."""
    a, b = _together(x1, x2)
    if isinstance(axes, int | np.integer):
        count = index(axes)
        first = tuple(range(a.ndim - count, a.ndim))
        second = tuple(range(count))
    else:
        first, second = (
            axes_of(tuple(np.atleast_1d(n).tolist()), x.ndim)
            for n, x in zip(axes, (a, b), strict=True)
        )
    if [a.shape[d] for d in first] != [b.shape[d] for d in second]:
        raise ShapeMismatch(f"{a.shape} and {b.shape} differ along {first} and {second}")
    shape = [n for d, n in enumerate(a.shape) if d not in first]
    shape += [n for d, n in enumerate(b.shape) if d not in second]
    attrs: dict[str, Attr] = {"dims_self": first, "dims_other": second}
    return make("aten.tensordot", [a, b], attrs, shape, a.dtype)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """The products of elements along a dim, summed; the first array is conjugated."""
    a, b = _together(x1, x2)
    d = index(axis)
    if a.shape[d] != b.shape[d] and 1 not in (a.shape[d], b.shape[d]):
        raise ShapeMismatch(f"{a.shape} and {b.shape} differ along {axis}")
    conjugated = apply("conjugate", a) if a.dtype.kind == "c" else a
    product = apply("multiply", conjugated, b)
    return sum_of(product, axis=d, dtype=a.dtype)


def dot(a: Any, b: Any, /) -> Array:
    """NumPy's dot: a product of matrices, or along the last dim of `a` and last but one of `b`."""
    x, y = _together(a, b)
    if not x.ndim or not y.ndim:
        return apply("multiply", x, y)
    return tensordot(x, y, axes=((x.ndim - 1,), (max(0, y.ndim - 2),)))


def outer(x1: Any, x2: Any, /) -> Array:
    """All products of an element of one line and one of another."""
    return apply("multiply", reshape(x1, (-1, 1)), reshape(x2, (1, -1)))


def inner(a: Any, b: Any, /) -> Array:
    """Products summed over the last dims."""
    x, y = _together(a, b)
    if not x.ndim or not y.ndim:
        return apply("multiply", x, y)
    return tensordot(x, y, axes=((x.ndim - 1,), (y.ndim - 1,)))


def einsum(subscripts: str, /, *operands: Any) -> Array:
    """Sums of products by named indices, as `numpy.einsum`."""
    given = _together(*operands)
    terms = subscripts.partition("->")[0].split(",")
    if len(terms) != len(given):
        raise ShapeMismatch(f"{subscripts!r} is for {len(terms)} arrays, not for {len(given)}")
    spelled = _spell_out(subscripts.replace(" ", ""), [x.ndim for x in given])
    named_terms, result = spelled.split("->")
    arrays, letters = [], []
    for x, term in zip(given, named_terms.split(","), strict=True):
        if len(term) != x.ndim:
            raise ShapeMismatch(f"{term!r} names {len(term)} dims of an array of {x.ndim}")
        taken, named = _diagonals(x, term)
        arrays.append(taken)
        letters.append(named)
    sizes: dict[str, int] = {}
    for x, term in zip(arrays, letters, strict=True):
        for letter, size in zip(term, x.shape, strict=True):
            if sizes.setdefault(letter, size) != size and 1 not in (sizes[letter], size):
                raise ShapeMismatch(f"index {letter} is both {sizes[letter]} and {size} long")
            sizes[letter] = max(sizes[letter], size)
    unknown = sorted(set(result) - sizes.keys())
    if unknown:
        raise ShapeMismatch(f"{subscripts!r}: no array has an index {', '.join(unknown)}")
    attrs = {"subscripts": f"{','.join(letters)}->{result}"}
    shape = [sizes[letter] for letter in result]
    return make("array.einsum", arrays, attrs, shape, given[0].dtype)


def _spell_out(subscripts: str, ranks: Sequence[int]) -> str:
    """Subscripts with letters in the place of dots, and a result."""
    terms, arrow, result = subscripts.partition("->")
    parts = terms.split(",")
    free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in subscripts]
    dots = [rank - len(t.replace("...", "")) for t, rank in zip(parts, ranks, strict=True)]
    most = max((n for t, n in zip(parts, dots, strict=True) if "..." in t), default=0)
    lead = "".join(free[:most])
    parts = [
        t.replace("...", lead[most - n :]) if "..." in t else t
        for t, n in zip(parts, dots, strict=True)
    ]
    if arrow:
        return f"{','.join(parts)}->{result.replace('...', lead)}"
    named = "".join(parts)
    once = sorted(c for c in set(named) if named.count(c) == 1 and c not in lead)
    return f"{','.join(parts)}->{lead}{''.join(once)}"


def _diagonals(x: Array, term: str) -> tuple[Array, str]:
    """The array without dims that share a letter: their diagonal."""
    for letter in term:
        while term.count(letter) > 1:
            first = term.index(letter)
            second = term.index(letter, first + 1)
            x = diagonal(x, axis1=first, axis2=second)
            term = term.replace(letter, "", 2) + letter
    return x, term


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """The vector products of triples along a dim."""
    a, b = _together(x1, x2)
    if a.shape[axis] != 3 or b.shape[axis] != 3:
        raise ShapeMismatch(f"vector products are of triples, not of {a.shape} and {b.shape}")
    d = axis_of(axis, max(a.ndim, b.ndim))
    a, b = moveaxis(a, axis, -1), moveaxis(b, axis, -1)

    def part(x: Array, n: int) -> Array:
        return reshape(take_slice(x, x.ndim - 1, n, n + 1), x.shape[:-1])

    def turn(n: int, m: int) -> Array:
        return apply(
            "subtract",
            apply("multiply", part(a, n), part(b, m)),
            apply("multiply", part(a, m), part(b, n)),
        )

    return moveaxis(stack([turn(1, 2), turn(2, 0), turn(0, 1)], axis=-1), -1, d)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The sum of the diagonal of the last two dims."""
    line = diagonal(x, offset=offset, axis1=-2, axis2=-1)
    return sum_of(line, axis=-1, dtype=dtype)


def linalg_diagonal(x: Any, /, *, offset: int = 0) -> Array:
    """The diagonal of the last two dims."""
    return diagonal(x, offset=offset, axis1=-2, axis2=-1)


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


def _factor(
    function: str,
    inputs: Sequence[Array],
    shapes: Sequence[Any],
    dtypes: Sequence[Any],
    **options: Attr,
) -> tuple[Array, ...]:
    lead = inputs[0].shape[:-2]
    attrs: dict[str, Attr] = {"function": function, "dims": len(lead)}
    attrs["options"] = tuple(options.items())
    types = [((*lead, *s), d) for s, d in zip(shapes, dtypes, strict=True)]
    return make_all("array.batch", inputs, attrs, types)


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
    (made,) = _factor("numpy.linalg.cholesky", [given], [given.shape[-2:]], [given.dtype])
    if not upper:
        return made
    turned = matrix_transpose(made)
    return apply("conjugate", turned) if made.dtype.kind == "c" else turned


def qr(x: Any, /, *, mode: str = "reduced") -> QRResult:
    """Orthonormal columns and the upper triangle that make the matrix."""
    given = _matrix(x)
    rows, columns = given.shape[-2:]
    if mode == "reduced" and (blocks := _blocks(given)):
        return _tall_qr(given, blocks)
    k = rows if mode == "complete" else min(rows, columns)
    shapes = [(rows, k), (k, columns)]
    return QRResult(*_factor("numpy.linalg.qr", [given], shapes, [given.dtype] * 2, mode=mode))


def svd(x: Any, /, *, full_matrices: bool = True) -> SVDResult:
    """The singular values of each matrix and their vectors."""
    given = _matrix(x)
    rows, columns = given.shape[-2:]
    if not full_matrices and (blocks := _blocks(given)):
        made = _tall_qr(given, blocks)
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
        *_factor("numpy.linalg.svd", [given], shapes, dtypes, full_matrices=full_matrices)
    )


def svdvals(x: Any, /) -> Array:
    """The singular values of each matrix, in descending order."""
    given = _matrix(x)
    if blocks := _blocks(given):
        given = _tall_qr(given, blocks).R
    (made,) = _factor(
        "numpy.linalg.svd", [given], [(min(given.shape[-2:]),)], [_real(given)], compute_uv=False
    )
    return made


def eigh(x: Any, /) -> EighResult:
    """The eigenvalues of each Hermitian matrix and their vectors."""
    given = _matrix(x, square=True)
    shapes, dtypes = [given.shape[-1:], given.shape[-2:]], [_real(given), given.dtype]
    return EighResult(*_factor("numpy.linalg.eigh", [given], shapes, dtypes))


def eigvalsh(x: Any, /) -> Array:
    """The eigenvalues of each Hermitian matrix, in ascending order."""
    given = _matrix(x, square=True)
    return _factor("numpy.linalg.eigvalsh", [given], [given.shape[-1:]], [_real(given)])[0]


def inv(x: Any, /) -> Array:
    """The inverse of each matrix."""
    given = _matrix(x, square=True)
    return _factor("numpy.linalg.inv", [given], [given.shape[-2:]], [given.dtype])[0]


def det(x: Any, /) -> Array:
    """The determinant of each matrix."""
    given = _matrix(x, square=True)
    return _factor("numpy.linalg.det", [given], [()], [given.dtype])[0]


def slogdet(x: Any, /) -> SlogdetResult:
    """The sign of each determinant and the logarithm of its size."""
    given = _matrix(x, square=True)
    dtypes = [given.dtype, _real(given)]
    return SlogdetResult(*_factor("numpy.linalg.slogdet", [given], [(), ()], dtypes))


def pinv(x: Any, /, *, rtol: Any = None) -> Array:
    """The pseudo-inverse of each matrix."""
    given = _matrix(x)
    limit = None if rtol is None else float(rtol)
    name = "graphwright.arrays.operators.special.pinv"
    return _factor(name, [given], [given.shape[:-3:-1]], [given.dtype], rtol=limit)[0]


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Array:
    """The rank of each matrix: the singular values that are not taken for zero."""
    given = _matrix(x)
    limit = None if rtol is None else float(rtol)
    name = "graphwright.arrays.operators.special.matrix_rank"
    return _factor(name, [given], [()], [np.int64], rtol=limit)[0]


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


def solve(x1: Any, x2: Any, /) -> Array:
    """What a matrix has to be multiplied with to make `x2`."""
    a, b = _together(_matrix(x1, square=True), _inexact(x2))
    column = b.ndim == 1
    right = expand_dims(b, 1) if column else b
    if right.shape[-2] != a.shape[-1]:
        raise ShapeMismatch(f"{a.shape} has {a.shape[-1]} unknowns, {b.shape} does not fit")
    lead = broadcast_shapes(a.shape[:-2], right.shape[:-2])
    a = broadcast_to(a, (*lead, *a.shape[-2:]))
    right = broadcast_to(right, (*lead, *right.shape[-2:]))
    (made,) = _factor("numpy.linalg.solve", [a, right], [right.shape[-2:]], [a.dtype])
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
    x, y = _together(_matrix(a), _inexact(b))
    if (blocks := _blocks(x)) and y.ndim in (1, 2) and y.shape[0] == x.shape[0]:
        return _tall_lstsq(x, y, blocks, rcond)
    solution, residuals, rank, values = np.linalg.lstsq(x.compute(), y.compute(), rcond=rcond)
    return LstsqResult(wrap(solution), wrap(residuals), rank, wrap(values))


def _blocks(x: Array) -> int:
    """In how many blocks of rows a matrix is factored, 0 if as a whole."""
    rows, columns = x.shape[-2:]
    small = x.size * x.dtype.itemsize < SETTINGS.least_bytes
    if SETTINGS.distribute is None or small or x.ndim != 2 or not columns or x.dtype.kind == "c":
        return 0
    blocks = min(MOST_BLOCKS, rows // (BLOCK_SHAPE * columns))
    return blocks if blocks > 1 else 0


def _tall_qr(x: Array, blocks: int) -> QRResult:
    rows, n = x.shape
    height = -(-rows // blocks)
    filled = pad(x, ((0, blocks * height - rows), (0, 0)))  # rows of zeros: they add nothing to R
    inner = _factor(
        "numpy.linalg.qr", [reshape(filled, (blocks, height, n))], [(height, n), (n, n)],
        [x.dtype] * 2, mode="reduced",
    )  # fmt: skip
    outer = _factor(
        "numpy.linalg.qr", [reshape(inner[1], (blocks * n, n))], [(blocks * n, n), (n, n)],
        [x.dtype] * 2, mode="reduced",
    )  # fmt: skip
    q = matmul(inner[0], reshape(outer[0], (blocks, n, n)))
    return QRResult(take_slice(reshape(q, (blocks * height, n)), 0, 0, rows), outer[1])


def _tall_lstsq(a: Array, b: Array, blocks: int, rcond: float | None) -> LstsqResult:
    q, r = _tall_qr(a, blocks)
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


def kron(a: Any, b: Any, /) -> Array:
    """Every element of one array times all of another."""
    x, y = _together(a, b)
    rank = max(x.ndim, y.ndim)
    x = reshape(x, (1,) * (rank - x.ndim) + x.shape)
    y = reshape(y, (1,) * (rank - y.ndim) + y.shape)
    first = reshape(x, tuple(n for size in x.shape for n in (size, 1)))
    second = reshape(y, tuple(n for size in y.shape for n in (1, size)))
    shape = tuple(n * m for n, m in zip(x.shape, y.shape, strict=True))
    return reshape(apply("multiply", first, second), shape)


def multi_dot(arrays: Sequence[Any], /) -> Array:
    """The product of several matrices, from the left."""
    made = asarray(arrays[0])
    for x in arrays[1:]:
        made = matmul(made, x)
    return made


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
