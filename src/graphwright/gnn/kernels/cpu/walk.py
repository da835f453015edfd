"""Fused message passing on NumPy arrays: what PyTorch, NumPy and JAX share on a CPU.

    contract    out[c(e)] += op(a[a_end(e)], b[b_end(e)])   for every edge e
    extreme     out[v] = max or min over edges into v of op(...), and the edge of each

Ends are "u" (source), "v" (destination) and "e" (edge). A result at "v" walks the CSC form, one at
"u" the CSR form, one at "e" either.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphwright.gnn.kernels.broadcast import Layout, Shape, layout
from graphwright.gnn.kernels.cpu.loops import (
    EDGE,
    OTHER,
    ROW,
    edge_rows,
    extreme_rows,
    route_rows,
    sum_rows,
)
from graphwright.gnn.kernels.cpu.threads import over_rows, over_spans
from graphwright.gnn.storage import Compressed, Relation

Array = NDArray[Any]
OPS = {"copy": 0, "add": 1, "sub": 2, "mul": 3, "dot": 3, "div": 4}
_SWAPPED = {0: 0, 1: 1, 2: 5, 3: 3, 4: 6}


def contract(
    relation: Relation, op: str, a: Array, a_end: str, b: Array | None, b_end: str,
    out_end: str, out_shape: Shape,
) -> Array:  # fmt: skip
    """Sum over edges at a node, or one result for each edge; nothing else is stored."""
    rows = {"u": relation.num_src, "v": relation.num_dst, "e": relation.num_edges}[out_end]
    out = np.zeros((rows, *out_shape), a.dtype)
    if relation.num_edges and out.size and a.size and (b is None or b.size):
        by = "u" if out_end == "u" or (out_end == "e" and relation.created == ["csr"]) else "v"
        work = _Work(relation, by, OPS[op], a, a_end, b, b_end, out_shape)
        over_rows(
            sum_rows, work.indptr, work.wide, *work.args,
            out.reshape(-1), np.uint64(prod(out_shape)), work.end(out_end), work.at[2],
            np.uint64(work.steps[2]),
        )  # fmt: skip
    return out


def extreme(
    relation: Relation, op: str, a: Array, a_end: str, b: Array | None, b_end: str,
    least: bool, out_shape: Shape, numbers: str = "edges",
) -> tuple[Array, Array]:  # fmt: skip
    """The largest or least message into each destination, and its edge; 0 and -1 without edges.

    `numbers` may also be "sources" instead of edges, where no operand is of edges, or "none".
    """
    small = relation.num_edges < 2**31
    out = np.zeros((relation.num_dst, *out_shape), a.dtype)
    asked = (0,) if numbers == "none" else out.shape
    chosen = np.full(asked, -1, np.int32 if small else np.int64)
    if relation.num_edges and out.size:
        work = _Work(relation, "v", OPS[op], a, a_end, b, b_end, out_shape)
        indices, edges, *rest = work.args
        over_rows(
            extreme_rows, work.indptr, work.wide, indices,
            indices if numbers == "sources" else edges, *rest,
            out.reshape(-1), np.uint64(prod(out_shape)), least, work.at[2],
            np.uint64(work.steps[2]), chosen.reshape(-1),
        )  # fmt: skip
    return out, chosen


def route(
    relation: Relation, chosen: Array, grad: Array, shape: Shape, end: str,
    factor: Array | None, factor_end: str, numbers: str = "edges",
) -> Array:  # fmt: skip
    """The gradient of an extreme for the operand of `shape` at `end`, times a factor of the edge.

    `numbers` says what `extreme` has chosen; if it is sources, `end` is "u".
    Elements of several rows may have come from one source. So for sources threads divide the
    numbers of a run between them, if they go to different places, and otherwise the rows.
    """
    rows = {"u": relation.num_src, "v": relation.num_dst, "e": relation.num_edges}[end]
    out = np.zeros((rows, *shape), grad.dtype)
    if not relation.num_edges or not grad.size:
        return out
    scale = grad if factor is None else np.ascontiguousarray(factor)
    scale_shape = grad.shape[1:] if factor is None else scale.shape[1:]
    made = layout(shape, scale_shape, grad.shape[1:])
    at, steps = made.at, [np.uint64(step) for step in made.steps]
    places = {"u": OTHER, "v": ROW, "e": EDGE}
    by_rows = end != "u" or not made.steps[0]
    is_one_threads = end == "u" and by_rows  # a run goes to one place
    over_spans(
        route_rows, len(grad) if by_rows else made.run, 0 if is_one_threads else 4 * grad.size,
        by_rows, np.uint64(len(grad)), relation.coo[0].numpy(), chosen.reshape(-1),
        np.ascontiguousarray(grad).reshape(-1), np.uint64(prod(grad.shape[1:])), at[2], steps[2],
        np.uint64(made.run), out.reshape(-1), np.uint64(prod(shape)),
        EDGE if numbers == "sources" else places[end], at[0], steps[0],
        factor is not None, scale.reshape(-1), np.uint64(prod(scale_shape)), places[factor_end],
        at[1], steps[1],
    )  # fmt: skip
    return out


def edge_values(relation: Relation, op: str, a: Array, a_end: str, b: Array, b_end: str) -> Array:
    """The messages themselves, of floating-point operands of one shape with few numbers."""
    out = np.empty((relation.num_edges, *a.shape[1:]), a.dtype)
    src, dst = (np.ascontiguousarray(ends.numpy()) for ends in relation.coo)
    wide = prod(a.shape[1:])
    place = {"u": OTHER, "v": ROW, "e": EDGE}
    over_spans(
        edge_rows, relation.num_edges, out.size, src, dst, OPS[op],
        np.uint64(wide), a.reshape(-1), place[a_end], b.reshape(-1), place[b_end], out.reshape(-1),
    )  # fmt: skip
    return out


class _Work:
    """The arguments of a loop."""

    def __init__(
        self, relation: Relation, by: str, op: int, a: Array, a_end: str, b: Array | None,
        b_end: str, out_shape: Shape,
    ) -> None:  # fmt: skip
        form: Compressed = relation.csr if by == "u" else relation.csc
        self.by = by
        if b is None:
            b, b_end = a, a_end
        made: Layout = layout(a.shape[1:], b.shape[1:], out_shape)
        at, steps = made.at, made.steps
        if not steps[0]:
            a, a_end, b, b_end, op = b, b_end, a, a_end, _SWAPPED[op]
            at, steps = (at[1], at[0], at[2]), (steps[1], steps[0], steps[2])
        self.at, self.steps = at, steps
        self.indptr = form.indptr.numpy()
        indices = form.indices.numpy()
        edges = indices[:0] if form.edge_ids is None else form.edge_ids.numpy()
        self.wide = max(len(at[2]) * made.run, 1)
        a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
        self.args = (
            indices, edges, op, np.uint64(made.run),
            a.reshape(-1), np.uint64(prod(a.shape[1:])), self.end(a_end), at[0],
            b.reshape(-1), np.uint64(prod(b.shape[1:])), self.end(b_end), at[1],
            np.uint64(steps[1]),
        )  # fmt: skip

    def end(self, end: str) -> int:
        if end == "e":
            return EDGE
        return ROW if end == self.by else OTHER
