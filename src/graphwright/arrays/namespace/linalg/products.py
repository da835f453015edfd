"""Products of matrices, and sums of products by named indices: they split along any index."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from graphwright.arrays.array import Array, asarray, cast, make
from graphwright.arrays.errors import ShapeMismatch
from graphwright.arrays.namespace.elementwise import apply, broadcast_shapes
from graphwright.arrays.namespace.reductions import sum as sum_of
from graphwright.arrays.namespace.shapes import (
    axes_of,
    axis_of,
    broadcast_to,
    diagonal,
    moveaxis,
    reshape,
    stack,
    take_slice,
)
from graphwright.ir import Attr


def together(*arrays: Any) -> list[Array]:
    """Arrays in the dtype that they have in common."""
    given = [asarray(x) for x in arrays]
    dtype = np.result_type(*(x.dtype for x in given))
    return [cast(x, dtype) for x in given]


def matmul(x1: Any, x2: Any, /) -> Array:
    """The product of matrices; a line is a row on the left and a column on the right."""
    a, b = together(x1, x2)
    if not a.ndim or not b.ndim:
        raise ShapeMismatch(f"matmul of {a.shape} and {b.shape}: one has no dims; use multiply")
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        raise ShapeMismatch(f"matmul of {a.shape} and {b.shape}: the inner sizes differ")
    lead = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    shape = (*lead, *a.shape[-2:-1], *(b.shape[-1:] if b.ndim > 1 else ()))
    if not a.shape[-1]:  # sums of nothing
        return broadcast_to(asarray(np.zeros((), a.dtype)), shape)
    return make("aten.matmul", [a, b], {}, shape, a.dtype)


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Array:
    """Products summed over dims of one array and as many of the other."""
    a, b = together(x1, x2)
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
    a, b = together(x1, x2)
    d = index(axis)
    if a.shape[d] != b.shape[d] and 1 not in (a.shape[d], b.shape[d]):
        raise ShapeMismatch(f"{a.shape} and {b.shape} differ along {axis}")
    conjugated = apply("conjugate", a) if a.dtype.kind == "c" else a
    product = apply("multiply", conjugated, b)
    return sum_of(product, axis=d, dtype=a.dtype)


def dot(a: Any, b: Any, /) -> Array:
    """NumPy's dot: a product of matrices, or along the last dim of `a` and last but one of `b`."""
    x, y = together(a, b)
    if not x.ndim or not y.ndim:
        return apply("multiply", x, y)
    return tensordot(x, y, axes=((x.ndim - 1,), (max(0, y.ndim - 2),)))


def outer(x1: Any, x2: Any, /) -> Array:
    """All products of an element of one line and one of another."""
    return apply("multiply", reshape(x1, (-1, 1)), reshape(x2, (1, -1)))


def inner(a: Any, b: Any, /) -> Array:
    """Products summed over the last dims."""
    x, y = together(a, b)
    if not x.ndim or not y.ndim:
        return apply("multiply", x, y)
    return tensordot(x, y, axes=((x.ndim - 1,), (y.ndim - 1,)))


def einsum(subscripts: str, /, *operands: Any) -> Array:
    """Sums of products by named indices, as `numpy.einsum`."""
    given = together(*operands)
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
    a, b = together(x1, x2)
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


def kron(a: Any, b: Any, /) -> Array:
    """Every element of one array times all of another."""
    x, y = together(a, b)
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
