"""NumPy: the compiled loops themselves, without gradients. For inference and for tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from graphwright.gnn.kernels import cpu
from graphwright.gnn.kernels.broadcast import Shape, result_shape
from graphwright.gnn.storage import Relation

Operand = tuple[Any, str]


def sum_messages(
    relation: Relation, op: str, a: Operand, b: Operand | None, out_end: str, out_shape: Shape
) -> Any:
    """Sums at an end, or a value for each edge."""
    x, y = _wide(a[0]), None if b is None else _wide(b[0])
    end = "e" if b is None else b[1]
    return cpu.contract(relation, op, x, a[1], y, end, out_end, out_shape).astype(a[0].dtype)


def extreme_message(relation: Relation, op: str, a: Operand, b: Operand | None, least: bool) -> Any:
    """The largest or least message into each destination."""
    x, y = _wide(a[0]), None if b is None else _wide(b[0])
    shape = result_shape(op, x.shape[1:], () if y is None else y.shape[1:])
    end = "e" if b is None else b[1]
    out, _ = cpu.extreme(relation, op, x, a[1], y, end, least, shape)
    return out.astype(a[0].dtype)


def edge_softmax(relation: Relation, scores: Any) -> Any:
    """Softmax over the edges into each destination."""
    shape = scores.shape[1:]
    most = extreme_message(relation, "copy", (scores, "e"), None, False)
    raised = np.exp(sum_messages(relation, "sub", (scores, "e"), (most, "v"), "e", shape))
    total = sum_messages(relation, "copy", (raised, "e"), None, "v", shape)
    return sum_messages(relation, "div", (raised, "e"), (total, "v"), "e", shape)


def scale(values: Any, factors: Tensor) -> Any:
    """Rows times numbers."""
    numbers = factors.numpy().astype(values.dtype)
    return values * numbers.reshape(-1, *[1] * (values.ndim - 1))


def _wide(x: Any) -> Any:
    return x.astype(np.float32) if x.dtype == np.float16 else x
