"""Fused message passing on a GPU, in Triton: what `kernels.cpu` does, on CUDA tensors.

    _sum_parts     a program sums the entries of one part of a row, for a block of columns
    _each_edge     a lane computes one number of one edge
    _extremes      a program finds the extremes of one row, for a block of columns

Rows of a skewed graph are split into parts of at most PART entries, so that a hub occupies many
programs; parts are summed by a second call of the same kernel, not by atomic additions, which would
make results depend on timing. A result that is narrower than its operands (u_dot_v, the gradient of
what was broadcast) adds `reduced` products for each number; tables say which ones.

Sums are in float32, of doubles in float64. Triton comes with PyTorch for GPUs; where it is missing,
the general operators of `kernels.eager` do.
"""

from __future__ import annotations

from math import prod
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from graphwright.gnn.kernels.broadcast import Shape, reduction_tables
from graphwright.gnn.storage import Compressed, Relation

PART = 256
"""The most entries of a row that one program sums."""
_OPS = {"copy": 0, "add": 1, "sub": 2, "mul": 3, "dot": 3, "div": 4}


@triton.jit
def _message(
    a, b, a_row, b_row, a_tab, b_tab, column, mask, reduced, wide, dtype: tl.constexpr,
    op: tl.constexpr,
):  # fmt: skip
    """The sum of `reduced` messages for each column."""
    total = tl.zeros(column.shape, dtype)
    for r in range(reduced):
        at = column * reduced + r
        x = tl.load(a + a_row + tl.load(a_tab + at, mask=mask, other=0), mask=mask, other=0)
        x = x.to(dtype)
        if op != 0:
            y = tl.load(b + b_row + tl.load(b_tab + at, mask=mask, other=0), mask=mask, other=1)
            y = y.to(dtype)
            if op == 1:
                x = x + y
            elif op == 2:
                x = x - y
            elif op == 3:
                x = x * y
            else:
                x = x / y
        total += x
    return total


@triton.jit
def _pick(end: tl.constexpr, other, row, edge):
    if end == 0:
        return other
    elif end == 1:
        return row
    else:
        return edge


@triton.jit
def _sum_parts(
    rows, starts, stops, indices, edges, a, b, out, a_tab, b_tab, a_wide, b_wide, wide, reduced,
    op: tl.constexpr, a_end: tl.constexpr, b_end: tl.constexpr, numbered: tl.constexpr,
    dtype: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    part = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * block + tl.arange(0, block)
    mask = column < wide
    row = tl.load(rows + part).to(tl.int64)
    total = tl.zeros([block], dtype)
    for p in range(tl.load(starts + part), tl.load(stops + part)):
        other = tl.load(indices + p).to(tl.int64)
        if numbered:
            edge = tl.load(edges + p).to(tl.int64)
        else:
            edge = other * 0 + p
        a_row = _pick(a_end, other, row, edge) * a_wide
        b_row = _pick(b_end, other, row, edge) * b_wide
        total += _message(a, b, a_row, b_row, a_tab, b_tab, column, mask, reduced, wide, dtype, op)
    tl.store(out + part * wide + column, total.to(out.dtype.element_ty), mask=mask)


@triton.jit
def _each_edge(
    src, dst, a, b, out, a_tab, b_tab, a_wide, b_wide, wide, reduced, count,
    op: tl.constexpr, a_end: tl.constexpr, b_end: tl.constexpr, dtype: tl.constexpr,
    block: tl.constexpr,
):  # fmt: skip
    lane = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    mask = lane < count
    edge, column = lane // wide, lane % wide
    source = tl.load(src + edge, mask=mask, other=0).to(tl.int64)
    target = tl.load(dst + edge, mask=mask, other=0).to(tl.int64)
    a_row = _pick(a_end, source, target, edge) * a_wide
    b_row = _pick(b_end, source, target, edge) * b_wide
    total = _message(a, b, a_row, b_row, a_tab, b_tab, column, mask, reduced, wide, dtype, op)
    tl.store(out + lane, total.to(out.dtype.element_ty), mask=mask)


@triton.jit
def _extremes(
    indptr, indices, edges, a, b, out, chosen, a_tab, b_tab, a_wide, b_wide, wide, reduced,
    op: tl.constexpr, a_end: tl.constexpr, b_end: tl.constexpr, numbered: tl.constexpr,
    least: tl.constexpr, dtype: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * block + tl.arange(0, block)
    mask = column < wide
    best = tl.zeros([block], dtype)
    winner = tl.zeros([block], tl.int64) - 1
    for p in range(tl.load(indptr + row), tl.load(indptr + row + 1)):
        other = tl.load(indices + p).to(tl.int64)
        if numbered:
            edge = tl.load(edges + p).to(tl.int64)
        else:
            edge = other * 0 + p
        a_row = _pick(a_end, other, row, edge) * a_wide
        b_row = _pick(b_end, other, row, edge) * b_wide
        value = _message(a, b, a_row, b_row, a_tab, b_tab, column, mask, reduced, wide, dtype, op)
        if least:
            better = value < best
        else:
            better = value > best
        better = better | (winner < 0) | (value != value)
        best = tl.where(better, value, best)
        winner = tl.where(better, edge, winner)
    tl.store(out + row * wide + column, best.to(out.dtype.element_ty), mask=mask)
    tl.store(chosen + row * wide + column, winner, mask=mask)


def contract(
    relation: Relation, op: str, a: Tensor, a_end: str, b: Tensor | None, b_end: str,
    out_end: str, out_shape: Shape,
) -> Tensor:  # fmt: skip
    """Sum over edges at a node, or one result for each edge."""
    rows = {"u": relation.num_src, "v": relation.num_dst, "e": relation.num_edges}[out_end]
    work = _Work(op, a, b, out_shape)
    if not relation.num_edges or not work.wide or not rows:
        return a.new_zeros((rows, *out_shape))
    if out_end == "e":
        out = a.new_empty((rows, *out_shape))
        src, dst = relation.coo
        count, block = rows * work.wide, 256
        kernel: Any = _each_edge[(triton.cdiv(count, block),)]
        ends = {"u": 0, "v": 1, "e": 2}
        kernel(
            src, dst, work.a, work.b, out, *work.tables, *work.sizes, count,
            op=work.op, a_end=ends[a_end], b_end=ends[b_end], dtype=work.dtype, block=block,
        )  # fmt: skip
        return out
    form = relation.csr if out_end == "u" else relation.csc
    ends = {out_end: 1, "v" if out_end == "u" else "u": 0, "e": 2}
    parts, starts, stops, firsts = _parts(form)
    partial = a.new_empty((len(parts), *out_shape), dtype=work.torch_dtype)
    _launch_sum(form, work, parts, starts, stops, partial, ends[a_end], ends[b_end])
    return _sum_of_parts(partial, firsts, rows, out_shape).to(a.dtype)


def extreme(
    relation: Relation, op: str, a: Tensor, a_end: str, b: Tensor | None, b_end: str,
    least: bool, out_shape: Shape,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The largest or least message into each destination, and its edge; 0 and -1 without edges."""
    out = a.new_zeros((relation.num_dst, *out_shape))
    chosen = torch.full(out.shape, -1, dtype=torch.int64, device=a.device)
    work = _Work(op, a, b, out_shape)
    if relation.num_edges and out.numel():
        form, ends, block = relation.csc, {"u": 0, "v": 1, "e": 2}, _block(work.wide)
        kernel: Any = _extremes[(relation.num_dst, triton.cdiv(work.wide, block))]
        edges = form.indices if form.edge_ids is None else form.edge_ids
        kernel(
            form.indptr, form.indices, edges, work.a, work.b, out, chosen, *work.tables,
            *work.sizes, op=work.op, a_end=ends[a_end], b_end=ends[b_end],
            numbered=form.edge_ids is not None, least=least, dtype=work.dtype, block=block,
        )  # fmt: skip
    return out, chosen


class _Work:
    """The operands of a kernel, and the tables of what meets where."""

    def __init__(self, op: str, a: Tensor, b: Tensor | None, out_shape: Shape) -> None:
        self.op = _OPS[op]
        self.a = a.contiguous()
        self.b = self.a if b is None else b.contiguous()
        self.wide = prod(out_shape)
        shapes = tuple(self.a.shape[1:]), tuple(self.b.shape[1:])
        first, second, self.reduced = reduction_tables(*shapes, out_shape)
        self.tables = tuple(torch.from_numpy(t).to(a.device) for t in (first, second))
        self.sizes = (prod(shapes[0]), prod(shapes[1]), self.wide, self.reduced)
        double = a.dtype == torch.float64
        self.dtype = tl.float64 if double else tl.float32
        self.torch_dtype = torch.float64 if double else torch.float32


def _parts(form: Compressed) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rows in parts: each part's row, first and last entry, and where each row's parts begin."""
    degrees = form.indptr.diff().long()
    counts = (degrees + PART - 1) // PART
    firsts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    rows = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
    within = torch.arange(len(rows), device=counts.device) - firsts[rows]
    starts = form.indptr.long()[rows] + within * PART
    stops = torch.minimum(starts + PART, form.indptr.long()[rows + 1])
    return rows, starts, stops, firsts


def _sum_of_parts(partial: Tensor, firsts: Tensor, rows: int, shape: Shape) -> Tensor:
    """Parts of each row added up, in their order."""
    out = partial.new_empty((rows, *shape))
    work = _Work("copy", partial, None, shape)
    places = torch.arange(len(partial), device=partial.device)
    form = Compressed(firsts, places)
    every = torch.arange(rows, device=partial.device)
    _launch_sum(form, work, every, firsts[:-1], firsts[1:], out, 0, 0)
    return out


def _launch_sum(
    form: Compressed, work: _Work, rows: Tensor, starts: Tensor, stops: Tensor, out: Tensor,
    a_end: int, b_end: int,
) -> None:  # fmt: skip
    if not len(rows):
        return
    block = _block(work.wide)
    kernel: Any = _sum_parts[(len(rows), triton.cdiv(work.wide, block))]
    edges = form.indices if form.edge_ids is None else form.edge_ids
    kernel(
        rows, starts.contiguous(), stops.contiguous(), form.indices, edges, work.a, work.b, out,
        *work.tables, *work.sizes, op=work.op, a_end=a_end, b_end=b_end,
        numbered=form.edge_ids is not None, dtype=work.dtype, block=block,
    )  # fmt: skip


def _block(wide: int) -> int:
    return min(128, max(16, int(triton.next_power_of_2(wide))))
