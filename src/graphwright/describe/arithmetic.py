"""What kind of arithmetic a call does, and in which dtype, from its description.

    product       a sum of products that needs more combinations of indices than either factor has
                  elements: Sum(k: a[i, k] * b[k, j]). Matrix units do it.
    convolution   the same where a factor is read in windows: x[y + d] * w[d]
    attention     a product of which a factor is made from another product
    cast          every element in another dtype, no arithmetic
    elementwise   everything else: memory bounds it

The rate of a product goes by the dtype of its factors: a logsumexp in float32 beside queries, keys
and values in bfloat16 does not slow them down, and int8 multiplies at its own rate. A product is
aligned where the rows of what it reads and writes begin at multiples of 16 bytes, which is what
matrix units load at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from graphwright.describe.language import (
    Access,
    Call,
    Const,
    Expr,
    Reduce,
    Trace,
    Types,
    distinct,
    find,
    free_indices,
    trace,
)
from graphwright.ir import DTYPE_BYTES, Attr, TensorType
from graphwright.symbolic import Poly

Kind = Literal["product", "convolution", "attention", "cast", "elementwise"]
KINDS: tuple[Kind, ...] = ("product", "convolution", "attention", "cast", "elementwise")
PRODUCTS: frozenset[Kind] = frozenset({"product", "convolution", "attention"})
"""What matrix units do."""
ROW_BYTES = 16


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The kind of a call, the dtype whose rate counts, and whether rows are aligned."""

    kind: Kind
    dtype: str
    aligned: bool = True


def arithmetic(op: str, attrs: Mapping[str, Attr], types: Types) -> Arithmetic:
    """What a call does; an operator without a description is element-wise."""
    description = find(op)
    if description is None:
        return Arithmetic("elementwise", widest(types.inputs, types.outputs))
    kind, factors = _kind(trace(description, attrs, types))
    multiplied = tuple(types.inputs[n] for n in factors if n < len(types.inputs))
    if kind in PRODUCTS:
        aligned = kind != "product" or all(map(_is_aligned, (*multiplied, *types.outputs)))
        return Arithmetic(kind, _multiplied_in(multiplied), aligned)
    return Arithmetic(kind, widest(types.inputs, types.outputs))


def _multiplied_in(factors: tuple[TensorType | None, ...]) -> str:
    """The dtype whose rate a product has: its widest float, the widest integer of integers."""
    given = [type.dtype for type in factors if type is not None]
    if not given or any(map(_is_float, given)):
        return widest(factors)
    return max(given, key=DTYPE_BYTES.__getitem__)


def widest(*groups: tuple[TensorType | None, ...]) -> str:
    """The widest float among some tensors, float32 where there is none.

    A tensor without dims does not count beside one that has some, as it does not in PyTorch's
    promotion of types.
    """
    floats = [t for group in groups for t in group if t is not None and _is_float(t.dtype)]
    wide = [t for t in floats if t.shape] or floats
    dtype = max((t.dtype for t in wide), key=DTYPE_BYTES.__getitem__, default="float32")
    return {"complex128": "float64", "complex64": "float32", "complex32": "float16"}.get(
        dtype, dtype
    )


def _is_aligned(type: TensorType | None) -> bool:
    """Whether all rows of a contiguous tensor begin at multiples of 16 bytes."""
    if type is None or type.rank < 2 or type.shape[-1] == 1:
        return True
    return type.shape[-1] * DTYPE_BYTES[type.dtype] % ROW_BYTES == 0


def _is_float(dtype: str) -> bool:
    return "float" in dtype or "complex" in dtype


@cache
def _kind(traced: Trace) -> tuple[Kind, tuple[int, ...]]:
    """The kind, and the arguments that are multiplied."""
    found = [
        (expr, factors)
        for output in traced.outputs
        for expr in distinct(output.body)
        if isinstance(expr, Reduce) and (factors := _contracted(expr))
    ]
    if not found:
        return ("cast" if _only_casts(traced) else "elementwise"), ()
    read = {f.tensor for _, factors in found for f in factors if isinstance(f, Access)}
    sums = {expr for expr, _ in found}
    kind: Kind = "product"
    for _, factors in found:
        for factor in factors:
            if isinstance(factor, Access) and any(map(_is_window, factor.index)):
                kind = "convolution"
            elif not isinstance(factor, Access) and any(e in sums for e in distinct(factor)):
                return "attention", tuple(sorted(read))
    return kind, tuple(sorted(read))


def _contracted(expr: Reduce) -> tuple[Expr, ...]:
    """The factors of a sum of products that is more than a weighted sum; none otherwise."""
    if expr.reducer != "sum":
        return ()
    factors = tuple(f for f in _factors(expr.body) if any(_reads(e) for e in distinct(f)))
    every = free_indices(expr.body)
    if len(factors) < 2 or not any(isinstance(f, Access) for f in factors):
        return ()
    return factors if all(free_indices(factor) < every for factor in factors) else ()


def _factors(expr: Expr) -> Iterator[Expr]:
    match expr:
        case Call("mul", (a, b)):
            yield from _factors(a)
            yield from _factors(b)
        case Call("cast" | "neg", (a,)) | Call("where", (_, a, Const(0))):
            yield from _factors(a)
        case _:
            yield expr


def _reads(expr: Expr) -> bool:
    return isinstance(expr, Access)


def _is_window(index: Poly | Expr | None) -> bool:
    """Whether a position is made of several index variables."""
    return isinstance(index, Poly) and len(index.indices) > 1


def _only_casts(traced: Trace) -> bool:
    """Whether all outputs are elements in another dtype."""
    return all(
        isinstance(output.body, Call)
        and output.body.function == "cast"
        and isinstance(output.body.args[0], Access)
        for output in traced.outputs
    )
