"""x[key] = value and x += y: the arrays that share memory in NumPy get other values together.

    a = x[1:];  b = x.T        a family: x, and how a and b are made of it
    a[0] = 5                   x = update(x, ...);  a = x[1:];  b = x.T

Nothing is written anywhere: each array shows another expression. A value that nobody shows or still
reads is let go, so a loop that assigns holds no more than it would in NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphwright.arrays.array import Array, Family, Step, cast, make
from graphwright.arrays.errors import ImmutableArray, ShapeMismatch, UnsupportedDtype
from graphwright.arrays.namespace.indexing import update
from graphwright.arrays.namespace.shapes import flip, permute_dims, reshape


def assign_at(self: Array, key: Any, value: Any) -> None:
    """`self[key] = value`."""
    assign(self, update(self, key, value))


def take_over(self: Array, made: Array) -> Array:
    """`self += y`, where `made` is `self + y`: an array of the same shape and dtype."""
    if made.shape != self.shape:
        raise ShapeMismatch(f"a result of shape {made.shape} does not fit into {self.shape}")
    if not np.can_cast(made.dtype, self.dtype, "same_kind"):
        raise UnsupportedDtype(
            f"a result of {made.dtype} does not fit into an array of {self.dtype}; write x = x + y "
            "instead of x += y, or cast first"
        )
    assign(self, cast(made, self.dtype))
    return self


def assign(self: Array, made: Array) -> None:
    """Give an array another value, and with it all that share its memory."""
    family = self._family
    members = [] if family is None else family.members()
    if len(members) < 2:
        self._family = None
        self.show(made._output)
        return
    assert family is not None
    root = _written(Array(*family.root), family.steps_to(self), made)
    renewed = Family(root._output)
    for member, steps in members:
        value = root
        for step in steps:
            value = _made_by(step, value)
        member.show(value._output)
        renewed.add(member, steps)


def _made_by(step: Step, base: Array) -> Array:
    return make(step.op, [base], step.attrs, step.shape, base.dtype)


def _written(base: Array, steps: tuple[Step, ...], made: Array) -> Array:
    """The base of a view that has a new value."""
    if not steps:
        return made
    step, *rest = steps
    new = _written(_made_by(step, base), tuple(rest), made)
    attrs: Any = step.attrs
    match step.op:
        case "aten.slice.Tensor":
            part = slice(attrs["start"], attrs["end"], attrs["step"])
            return update(base, (*(slice(None),) * attrs["dim"], part), new)
        case "aten.select.int":
            return update(base, (*(slice(None),) * attrs["dim"], attrs["index"]), new)
        case "aten.permute":
            return permute_dims(new, tuple(np.argsort(attrs["dims"]).tolist()))
        case "aten.reshape":
            return reshape(new, base.shape)
        case "aten.flip":
            return flip(new, axis=tuple(attrs["dims"]))
    raise ImmutableArray(
        f"an array of shape {made.shape} is one of {base.shape}, broadcast: its elements are the "
        "same ones, as in NumPy, and cannot be changed one by one; change a copy, x = x.copy()"
    )
