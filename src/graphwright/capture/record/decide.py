"""Questions about values that have one answer in every step that goes well.

    torch.rand([]) < 0                            no: a number of [0, 1) (layer drop that is off)
    torch.isfinite(x).all(), isnan(x).any()       yes, no: x is finite                (warned of)
    assert (ids >= 0).all()                       yes: a check passes                 (warned of)
    if (ids < 0).any(): raise ...                 no: a check passes                  (warned of)

Any other question is an error: a graph is one list of operators for all values.
"""

from __future__ import annotations

import ast
import linecache
import math
import sys
import warnings
from functools import cache
from types import FrameType

from graphwright.capture.record.tape import Entry, Value
from graphwright.user_code import is_users


class AssumedValues(UserWarning):
    """The step looks at values before it goes on: capture takes it that its checks pass.

    ``assert (ids >= 0).all()`` and ``if not mask.any(): raise ...`` are left out of a graph, and
    ``if torch.isfinite(x).all()`` goes the way of finite numbers. Eager code may raise, or do
    something else, where the captured step does neither.
    """


def answer(question: Value) -> bool | None:
    """What the step is told when it asks for a truth value, None where that depends on values."""
    entry = question.producer
    if entry is None or question.type.dtype != "bool":
        return None
    drawn = _of_draw(entry)
    if drawn is not None:
        return drawn
    told, what = _checked_as(), "passes a check of values"
    if told is None:
        told, what = _if_finite(entry), "has finite numbers"
    if told is not None:
        warnings.warn(
            f"capture takes it that the step {what}, at {_line()}: a graph does not look at values",
            AssumedValues,
            stacklevel=2,
        )
    return told


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


def _checked_as() -> bool | None:
    """The answer that lets the statement that asks, an assertion or a reason to raise, pass."""
    where = _asking()
    if where is None:
        return None
    for first, last, test, passes in _checks(where[0]):
        if first <= where[1] <= last:
            nots = [isinstance(node, ast.Not) for node in ast.walk(test)]
            if isinstance(test, ast.BoolOp) and any(nots):
                return None  # which of its parts asks is not known
            return passes if sum(nots) % 2 == 0 else not passes
    return None


@cache
def _checks(file: str) -> list[tuple[int, int, ast.expr, bool]]:
    """The lines of each check of a file, what it tests, and with which result it passes."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return []
    checks: list[tuple[int, int, ast.expr, bool]] = []
    for node in ast.walk(tree):
        raises = isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise)
        if isinstance(node, ast.Assert) or (isinstance(node, ast.If) and raises):
            last = node.test.end_lineno or node.lineno
            checks.append((node.lineno, last, node.test, isinstance(node, ast.Assert)))
    return checks


def _asking() -> tuple[str, int] | None:
    """The file and line of the model that asks."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None


def _line() -> str:
    where = _asking()
    return "an unknown line" if where is None else f"{where[0]}:{where[1]}"
