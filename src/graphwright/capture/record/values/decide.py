"""Questions about values that have one answer in every step that goes well.

    ones(n).sum(), eye(n).any()                   what it is: nothing decides it         (known)
    max(self.stride, 2)                           what it is: the model's settings do    (known)
    torch.rand([]) < 0                            no: a number of [0, 1) (layer drop that is off)
    torch.isfinite(x).all(), isnan(x).any()       yes, no: x is finite                (warned of)
    assert (ids >= 0).all()                       yes: a check passes                 (warned of)
    if (ids < 0).any(): raise ...                 no: a check passes                  (warned of)
    assert lengths.max().item() <= n              n: a number that passes the check   (warned of)
    Normal(mean, scale)                           its arguments are valid             (warned of)

Any other question is an error: a graph is one list of operators for all values.
"""

from __future__ import annotations

import ast
import linecache
import math
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import FrameType

import torch.distributions

from graphwright.capture.record.tape import Entry, Value
from graphwright.capture.record.values.known import known_value
from graphwright.user_code import is_users


class AssumedValues(UserWarning):
    """The step looks at values before it goes on: capture takes it that its checks pass.

    ``assert (ids >= 0).all()`` and ``if not mask.any(): raise ...`` are left out of a graph, and
    ``if torch.isfinite(x).all()`` goes the way of finite numbers. Eager code may raise, or do
    something else, where the captured step does neither.
    """


def answer(question: Value) -> bool | float | None:
    """What the step is told when it asks for a value, None where that depends on values."""
    entry = question.producer
    known = known_value(question, by_settings=True)
    if known is not None and known.numel() == 1:  # a complex number is two
        return known.item()
    told: bool | float | None
    if question.type.dtype != "bool":
        told, what = _passing_number(whole=question.type.dtype in _WHOLE), _PASSES
    elif entry is None:
        return None
    else:
        drawn = _of_draw(entry)
        if drawn is not None:
            return drawn
        told, what = _checked_as(), _PASSES
        if told is None:
            told, what = _if_finite(entry), "has finite numbers"
    if told is not None:
        warnings.warn(
            f"capture takes it that the step {what}, at {_line()}: a graph does not look at values",
            AssumedValues,
            stacklevel=2,
        )
    return told


_PASSES = "passes a check of values"
_WHOLE = frozenset({"uint8", "int8", "int16", "int32", "int64"})
_UNIFORM = frozenset({"aten.rand", "aten.rand_like", "aten.uniform"})
_BELOW = {"aten.lt.Scalar": True, "aten.ge.Scalar": False}


def _of_draw(entry: Entry) -> bool | None:
    """What a comparison of a number of [0, 1) with one outside of it gives."""
    draw = _producer(entry) if entry.op in _BELOW else None
    if draw is None or draw.op not in _UNIFORM:
        return None
    limit = entry.attrs["other"]
    assert isinstance(limit, (int, float))
    if (draw.attrs.get("from", 0), draw.attrs.get("to", 1)) != (0, 1) or 0 < limit < 1:
        return None
    return (limit >= 1) is _BELOW[entry.op]


_SAME = frozenset({"aten.all", "aten.any", "aten.all.dim", "aten.any.dim", "aten.view"})
_NOT = frozenset({"aten.logical_not", "aten.bitwise_not"})
_BOTH = frozenset({"aten.mul.Tensor", "aten.logical_and", "aten.bitwise_and.Tensor"})
_EITHER = frozenset({"aten.logical_or", "aten.bitwise_or.Tensor"})


def _if_finite(entry: Entry) -> bool | None:
    """What a formula about finite numbers gives, None where it is about something else."""
    if entry.op in ("aten.isnan", "aten.isinf"):
        return False
    if entry.op in ("aten.eq.Tensor", "aten.ne.Tensor") and entry.inputs[0] is entry.inputs[1]:
        return entry.op == "aten.eq.Tensor"
    if entry.op in ("aten.eq.Scalar", "aten.ne.Scalar"):
        other = entry.attrs["other"]
        is_infinite = isinstance(other, float) and math.isinf(other)
        return entry.op == "aten.ne.Scalar" if is_infinite else None
    if entry.op not in _SAME | _NOT | _BOTH | _EITHER:
        return None
    sides = [v and v.producer and _if_finite(v.producer) for v in entry.inputs]
    if any(side is None for side in sides):
        return None
    if entry.op in _NOT:
        return not sides[0]
    return any(sides) if entry.op in _EITHER else all(sides)


def _producer(entry: Entry) -> Entry | None:
    return None if entry.inputs[0] is None else entry.inputs[0].producer


# -- checks ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Check:
    """The lines of a statement that asserts or raises, what it tests, and when that passes."""

    first: int
    last: int
    test: ast.expr
    passes: bool


def _checked_as() -> bool | None:
    """The answer that lets the statement that asks, an assertion or a reason to raise, pass."""
    check, _ = _check_that_asks()
    if check is None:
        return None
    nots = [isinstance(node, ast.Not) for node in ast.walk(check.test)]
    if isinstance(check.test, ast.BoolOp) and any(nots):
        return None  # which of its parts asks is not known
    return check.passes if sum(nots) % 2 == 0 else not check.passes


_FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
}
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
_WHOLE_PASSING: dict[type[ast.cmpop], Callable[[float], int]] = {
    ast.Lt: lambda limit: math.ceil(limit) - 1,
    ast.LtE: math.floor,
    ast.Gt: lambda limit: math.floor(limit) + 1,
    ast.GtE: math.ceil,
    ast.Eq: math.floor,
    ast.NotEq: lambda limit: math.floor(limit) + 1,
}
_BEYOND = {ast.Lt: -math.inf, ast.Gt: math.inf, ast.NotEq: math.inf}


def _passing_number(*, whole: bool) -> float | None:
    """A number that passes the check that compares it with another, None for any other question."""
    check, frame = _check_that_asks()
    if check is None or frame is None:
        return None
    match check.test:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _FLIPPED:
            how = type(op)
        case _:
            return None
    if _reads_value(right):
        left, right, how = right, left, _FLIPPED[how]
    limit = _plain_number(right, frame)
    if not _reads_value(left) or limit is None:
        return None
    needed = how if check.passes else _OPPOSITE[how]
    if whole:
        return _WHOLE_PASSING[needed](limit)
    return math.nextafter(limit, _BEYOND[needed]) if needed in _BEYOND else float(limit)


def _reads_value(side: ast.expr) -> bool:
    """Whether it is `x.item()`, `int(x)` or `float(x)`, and no formula of such a number."""
    match side:
        case ast.Call(func=ast.Attribute(attr="item"), args=[]):
            return True
        case ast.Call(func=ast.Name(id="int" | "float"), args=[inner]):
            return not any(
                map(_reads_value, (n for n in ast.walk(inner) if isinstance(n, ast.Call)))
            )
    return False


_PLAIN = (
    ast.Name,
    ast.Attribute,
    ast.Constant,
    ast.Subscript,
    ast.UnaryOp,
    ast.BinOp,
    ast.operator,
    ast.unaryop,
    ast.expr_context,
)


def _plain_number(side: ast.expr, frame: FrameType) -> float | None:
    """The value of an expression of names and numbers that calls nothing."""
    if not all(isinstance(node, _PLAIN) for node in ast.walk(side)):
        return None
    try:
        value = eval(  # the step itself evaluates it next
            compile(ast.Expression(side), "<check>", "eval"), frame.f_globals, frame.f_locals
        )
    except Exception:
        return None
    return value if type(value) in (int, float) else None


def _check_that_asks() -> tuple[_Check | None, FrameType | None]:
    """The check that waits for an answer, and the frame that it is in."""
    frame = _asking()
    if frame is None:
        return None, None
    for check in _checks(frame.f_code.co_filename):
        if check.first <= frame.f_lineno <= check.last:
            return check, frame
    return None, None


@cache
def _checks(file: str) -> list[_Check]:
    """Every check of a file."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return []
    checks: list[_Check] = []
    for node in ast.walk(tree):
        match node:
            case ast.Assert():
                passes = True
            case ast.If(body=[*_, ast.Raise()]):
                passes = False
            case ast.If(orelse=[*_, ast.Raise()]):
                passes = True
            case _:
                continue
        last = node.test.end_lineno or node.lineno
        checks.append(_Check(node.lineno, last, node.test, passes))
    return checks


_DISTRIBUTIONS = os.path.dirname(torch.distributions.__file__) + os.sep


def _asking(within: str = _DISTRIBUTIONS) -> FrameType | None:
    """The frame of the model, or of a distribution that it makes, that asks."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if is_users(file) or (within and file.startswith(within)):
            return frame
        frame = frame.f_back
    return None


def _line() -> str:
    """The line of the model that asks, or makes what asks."""
    frame = _asking(within="")
    return "an unknown line" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
