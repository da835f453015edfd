"""Large matrices, block by block. A call of LAPACK takes its matrix whole; a stack of them splits.

QR of a tall matrix (`tall_qr`), from which its other factorisations follow:

    Q1 R1 = each block of rows      Q2 R = the stack of all R1      Q = Q1 Q2

Only the small triangles R1 leave their workers. Signs of columns may be others than LAPACK's.

Cholesky (`panels`), a panel of columns at a time:

    A = [A11 A21']    L11 = cholesky(A11)    L21 = A21 inv(L11)'    go on with A22 - L21 L21'
        [A21 A22 ]

Panels go to all workers, and the rest, which is where the work is, is shared. Blocks follow from
shapes, so numbers do not depend on the workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from graphwright.arrays.array import Array, make_all
from graphwright.arrays.evaluate import SETTINGS
from graphwright.arrays.namespace.elementwise import apply
from graphwright.arrays.namespace.linalg.products import matmul
from graphwright.arrays.namespace.shapes import concat, matrix_transpose, pad, reshape, take_slice
from graphwright.ir import Attr

MOST_BLOCKS = 64
"""In how many blocks of rows a tall matrix is factored at most."""
BLOCK_SHAPE = 16
"""How many times taller than wide a block is at least: the triangles are no more than so small a
part of the matrix."""
PANEL = 256
"""How many columns a panel has at least."""
MOST_PANELS = 16


class QRResult(NamedTuple):
    """Orthonormal columns and an upper triangle."""

    Q: Array
    R: Array


class Panel(NamedTuple):
    """Columns of a Cholesky factor: the triangle on the diagonal, its inverse, what is below."""

    corner: Array
    inverse: Array
    below: Array


def factor(
    function: str,
    inputs: Sequence[Array],
    shapes: Sequence[Any],
    dtypes: Sequence[Any],
    **options: Attr,
) -> tuple[Array, ...]:
    """A function of each matrix of a stack, whole."""
    lead = inputs[0].shape[:-2]
    attrs: dict[str, Attr] = {"function": function, "dims": len(lead)}
    attrs["options"] = tuple(options.items())
    types = [((*lead, *s), d) for s, d in zip(shapes, dtypes, strict=True)]
    return make_all("array.batch", inputs, attrs, types)


def num_blocks(x: Array) -> int:
    """In how many blocks of rows a matrix is factored, 0 if as a whole."""
    rows, columns = x.shape[-2:]
    small = x.size * x.dtype.itemsize < SETTINGS.least_bytes
    if SETTINGS.distribute is None or small or x.ndim != 2 or not columns or x.dtype.kind == "c":
        return 0
    blocks = min(MOST_BLOCKS, rows // (BLOCK_SHAPE * columns))
    return blocks if blocks > 1 else 0


def tall_qr(x: Array, blocks: int) -> QRResult:
    """The factors of a tall matrix, from those of blocks of its rows."""
    rows, n = x.shape
    height = -(-rows // blocks)
    filled = pad(x, ((0, blocks * height - rows), (0, 0)))  # rows of zeros: they add nothing to R
    inner = factor(
        "numpy.linalg.qr", [reshape(filled, (blocks, height, n))], [(height, n), (n, n)],
        [x.dtype] * 2, mode="reduced",
    )  # fmt: skip
    outer = factor(
        "numpy.linalg.qr", [reshape(inner[1], (blocks * n, n))], [(blocks * n, n), (n, n)],
        [x.dtype] * 2, mode="reduced",
    )  # fmt: skip
    q = matmul(inner[0], reshape(outer[0], (blocks, n, n)))
    return QRResult(take_slice(reshape(q, (blocks * height, n)), 0, 0, rows), outer[1])


def is_large(x: Array) -> bool:
    """Whether workers share the factorisation of a matrix."""
    nbytes = x.size * x.dtype.itemsize
    known = SETTINGS.distribute is not None and x.ndim == 2 and x.dtype.kind == "f"
    return known and nbytes >= SETTINGS.least_bytes and x.shape[0] >= 2 * PANEL


def panels(x: Array) -> list[Panel]:
    """The Cholesky factor of a positive definite matrix, from left to right."""
    n = x.shape[0]
    width = -(-n // min(MOST_PANELS, n // PANEL))
    made: list[Panel] = []
    rest = x
    for first in range(0, n, width):
        size = min(width, n - first)
        column = take_slice(rest, 1, 0, size)
        (corner,) = _whole("numpy.linalg.cholesky", take_slice(column, 0, 0, size))
        (inverse,) = _whole("numpy.linalg.inv", corner)
        below = matmul(take_slice(column, 0, size, n - first), matrix_transpose(inverse))
        made.append(Panel(corner, inverse, below))
        after = take_slice(take_slice(rest, 0, size, n - first), 1, size, n - first)
        rest = apply("subtract", after, matmul(below, matrix_transpose(below)))
    return made


def _whole(function: str, x: Array) -> tuple[Array, ...]:
    return factor(function, [x], [x.shape], [x.dtype])


def blocked_cholesky(x: Array) -> Array:
    """The lower triangle, put together from its panels."""
    columns = []
    above = 0
    for panel in panels(x):
        column = concat([panel.corner, panel.below], axis=0)
        columns.append(pad(column, ((above, 0), (0, 0))))
        above += panel.corner.shape[0]
    return concat(columns, axis=1)


def solve_positive(x: Array, right: Array) -> Array:
    """What a positive definite matrix has to be multiplied with to make `right`, a matrix."""
    factored = panels(x)
    forward = []
    for corner, inverse, below in factored:  # L y = right
        size = corner.shape[0]
        forward.append(matmul(inverse, take_slice(right, 0, 0, size)))
        right = take_slice(right, 0, size, right.shape[0])
        right = apply("subtract", right, matmul(below, forward[-1]))
    made = right  # no rows
    for (_, inverse, below), y in zip(reversed(factored), reversed(forward), strict=True):
        known = matmul(matrix_transpose(below), made)  # L' made = y
        part = matmul(matrix_transpose(inverse), apply("subtract", y, known))
        made = concat([part, made], axis=0)
    return made
