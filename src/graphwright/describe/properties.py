"""Properties of an operator: element-wise, a view, linear in which arguments.

`degree` is the degree of an expression as a polynomial in the elements of some tensors, if that is
0 or 1. A Partial(sum) passes through a linear operator: op(a1 + a2) = op(a1) + op(a2).
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations

from graphwright.describe.language import (
    Access,
    Call,
    Const,
    Expr,
    IndexValue,
    OpaqueCall,
    Random,
    Reduce,
    Scalar,
    Trace,
    distinct,
    size_symbol,
)
from graphwright.symbolic import Kind, Poly, Quotient, Remainder

_ZERO = "zero"


def degree(expr: Expr, tensors: Collection[int]) -> int | None:
    """0: independent of `tensors`; 1: jointly linear in them; None: neither."""
    value = _degree(expr, tensors)
    return 0 if value == _ZERO else value  # type: ignore[return-value]


def _degree(expr: Expr, tensors: Collection[int]) -> int | str | None:
    match expr:
        case Const(value):
            return _ZERO if value == 0 else 0
        case IndexValue() | Scalar() | Random():
            return 0
        case Access(tensor, index, fill):
            if any(_degree(i, tensors) != 0 for i in index if isinstance(i, Expr)):
                return None
            if tensor in tensors:
                return None if fill else 1
            return 0
        case Reduce(reducer, _, _, body):
            inner = _degree(body, tensors)
            return inner if reducer == "sum" or inner == 0 else None
        case Call("ignored", (a,)):
            return _ZERO
        case Call("neg" | "cast", (a,)):
            return _degree(a, tensors)
        case Call("add" | "sub", (a, b)):
            return _same(_degree(a, tensors), _degree(b, tensors))
        case Call("mul", (a, b)):
            return _product(_degree(a, tensors), _degree(b, tensors))
        case Call("div", (a, b)):
            return _degree(a, tensors) if _degree(b, tensors) == 0 else None
        case Call("where", (condition, a, b)):
            if _degree(condition, tensors) not in (0, _ZERO):
                return None
            return _same(_degree(a, tensors), _degree(b, tensors))
        case Call(_, args) | OpaqueCall(_, args, _):
            return 0 if all(_degree(a, tensors) in (0, _ZERO) for a in args) else None
        case _:
            return None


def _same(a: int | str | None, b: int | str | None) -> int | str | None:
    if a == _ZERO:
        return b
    if b == _ZERO or a == b:
        return a
    return None


def _product(a: int | str | None, b: int | str | None) -> int | str | None:
    if a is None or b is None:
        return None
    if _ZERO in (a, b):
        return _ZERO
    total = int(a) + int(b)
    return total if total <= 1 else None


def linear_sets(trace: Trace) -> tuple[frozenset[int], ...]:
    """The sets of arguments in which every output is jointly linear, smallest first.

    ``a * b`` gives {a} and {b}; ``a + b`` gives {a, b}: both must be partial, or neither. Truth
    values do not add up: True + True is True, and 2 after a conversion; nor do 8-bit floats, or
    whole numbers that were rounded.
    """
    outputs = range(len(trace.outputs))
    if not all(map(_adds_up, trace.output_dtypes)) or any(rounds(trace, n) for n in outputs):
        return ()
    used = sorted(
        {e.tensor for o in trace.outputs for e in distinct(o.body) if isinstance(e, Access)}
        - {n for n, dtype in enumerate(trace.input_dtypes) if dtype and not _adds_up(dtype)}
    )
    sizes = range(1, len(used) + 1) if len(used) <= 4 else (1, len(used))
    groups = (frozenset(group) for size in sizes for group in combinations(used, size))
    return tuple(g for g in groups if all(degree(o.body, g) == 1 for o in trace.outputs))


def rounds(trace: Trace, number: int) -> bool:
    """Whether an output of whole numbers is computed from fractions, and so is not additive."""
    if not trace.output_dtypes[number].startswith(("int", "uint")):
        return False
    for expr in distinct(trace.outputs[number].body):
        match expr:
            case Call("div", _) | Scalar():
                return True
            case Const(float() as value) if not value.is_integer():
                return True
            case _:
                pass
    return False


def _adds_up(dtype: str) -> bool:
    return dtype != "bool" and not dtype.startswith("float8")


def is_elementwise(trace: Trace) -> bool:
    """Whether one function maps the input elements at a position to the output element there.

    Inputs may broadcast. The function must not depend on the position (``tril``) or on a size.
    """
    ones = {poly + 1 for name, poly, answer in trace.guards if name == "eq" and answer}
    for output in trace.outputs:
        for expr in distinct(output.body):
            match expr:
                case Reduce() | OpaqueCall():
                    return False
                case IndexValue(index) if any(s.kind is not Kind.ATTR for s in index.symbols):
                    return False
                case Access(index=index, name=name):
                    rank = len(index)
                    aligned = output.variables[len(output.variables) - rank :]
                    if len(aligned) != rank:
                        return False
                    for dim, (i, variable) in enumerate(zip(index, aligned, strict=True)):
                        broadcast = i == 0 and Poly.of(size_symbol(name, dim)) in ones
                        if not isinstance(i, Poly) or not (i.atom == variable or broadcast):
                            return False
                case _:
                    pass
    return True


def is_view(trace: Trace) -> bool:
    """Whether strides can express every output as a view of one input.

    Permutations, slices, expansions and reshapes are views. A flip, which needs a negative stride,
    and a repetition, which reads elements repeatedly, are copies.
    """
    return all(
        isinstance(output.body, Access)
        and output.body.fill is None
        and all(isinstance(i, Poly) and _strided(i) for i in output.body.index)
        and not _repeats(output.body)
        for output in trace.outputs
    )


def _strided(index: Poly) -> bool:
    return all(c > 0 for monomial, c in index.terms if Poly({monomial: 1}).indices)


def _repeats(access: Access) -> bool:
    """Whether a remainder occurs without the quotient of the same index, so that it repeats."""
    atoms = [a for i in access.index if isinstance(i, Poly) for m, _ in i.terms for a in m]
    quotients = {(a.numerator, a.denominator) for a in atoms if isinstance(a, Quotient)}
    return any(
        isinstance(a, Remainder) and (a.numerator, a.denominator) not in quotients for a in atoms
    )
