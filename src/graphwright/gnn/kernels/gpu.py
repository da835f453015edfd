"""Fused message passing on a GPU, in Triton: what `kernels.cpu` does, on CUDA tensors.

    _sum_parts     a program sums the entries of one part of a row, for a block of columns
    _each_edge     a program computes a block of columns of some edges
    _dot_edges     a program adds up what one number of each of some edges is the sum of
    _extremes      a program finds the extremes of one part of a row, for a block of columns

A program takes entries several at a time, so that as many rows of features are under way, and adds
up what each of these lanes has at the end. Rows of a skewed graph are split into parts of at most
PART entries, so that a hub occupies many programs. Rows of one part are written at once; the parts
of others are put together by a second call of the same kernel, not by atomic operations, which
would make results depend on timing.

    row 0    part 0 (300 -> 256 + 44: partial 0)  part 1 (partial 1)      out[0] = partial 0 + 1
    row 1    part 2                                                       out[1]

Operands that are broadcast are read in their place: number `k` of a message is number k of an
operand of the same shape (_SAME), the only one (_ONE), number k // div of one that is repeated in
runs (_RUNS), or what a table says. A result that is narrower than its operands (u_dot_v, the
gradient of what was broadcast) adds `reduced` products for each number.

Sums are in float32, of doubles in float64. Triton comes with PyTorch for GPUs; where it is missing,
the general operators of `kernels.eager` do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from graphwright.gnn.kernels.broadcast import Shape, reduction_tables
from graphwright.gnn.storage import Compressed, Relation

PART = 256
"""The most entries of a row that one program takes."""
_TILE = 1024
"""The numbers that a program has under way."""
_OPS = {"copy": 0, "add": 1, "sub": 2, "mul": 3, "dot": 3, "div": 4}
_SAME, _RUNS, _TABLE, _ONE = range(4)


@triton.jit
def _read(
    x, rows, table, columns, mask, live, div, other, how: tl.constexpr, dtype: tl.constexpr
):  # fmt: skip
    """The operand's numbers that belong to some columns of messages."""
    if how == 3:
        places = rows + tl.zeros(live.shape, tl.int64)
        return tl.load(x + places, mask=live, other=other).to(dtype)
    elif how == 0:
        return tl.load(x + rows + columns, mask=mask, other=other).to(dtype)
    elif how == 1:
        return tl.load(x + rows + columns // div, mask=mask, other=other).to(dtype)
    else:
        places = tl.load(table + columns, mask=mask, other=0)
        return tl.load(x + rows + places, mask=mask, other=other).to(dtype)


@triton.jit
def _combined(x, y, op: tl.constexpr):
    if op == 1:
        return x + y
    elif op == 2:
        return x - y
    elif op == 3:
        return x * y
    else:
        return x / y


@triton.jit
def _pick(end: tl.constexpr, other, row, edge):
    if end == 0:
        return other
    elif end == 1:
        return row
    else:
        return edge


@triton.jit
def _message(
    a, b, a_rows, b_rows, a_table, b_table, columns, mask, live, a_div, b_div, op: tl.constexpr,
    a_how: tl.constexpr, b_how: tl.constexpr, dtype: tl.constexpr,
):  # fmt: skip
    x = _read(a, a_rows, a_table, columns, mask, live, a_div, 0, a_how, dtype)
    if op != 0:
        y = _read(b, b_rows, b_table, columns, mask, live, b_div, 1, b_how, dtype)
        x = _combined(x, y, op)
    return x


@triton.jit
def _messages(
    a, b, a_rows, b_rows, a_table, b_table, columns, mask, live, reduced, a_div, b_div,
    op: tl.constexpr, summed: tl.constexpr, a_how: tl.constexpr, b_how: tl.constexpr,
    dtype: tl.constexpr,
):  # fmt: skip
    """The messages [lanes, columns] of the rows that are given as [lanes, 1]."""
    if summed:
        total = tl.zeros(mask.shape, dtype)
        r = reduced * 0
        while r < reduced:
            total += _message(
                a, b, a_rows, b_rows, a_table, b_table, columns * reduced + r, mask, live, a_div,
                b_div, op, a_how, b_how, dtype,
            )  # fmt: skip
            r += 1
        return total
    else:
        return _message(
            a, b, a_rows, b_rows, a_table, b_table, columns, mask, live, a_div, b_div, op, a_how,
            b_how, dtype,
        )  # fmt: skip


@triton.jit
def _sum_parts(
    rows, starts, stops, slots, indices, edges, a, b, out, partial, a_table, b_table, a_wide,
    b_wide, wide, reduced, a_div, b_div, op: tl.constexpr, a_end: tl.constexpr,
    b_end: tl.constexpr, numbered: tl.constexpr, summed: tl.constexpr, a_how: tl.constexpr,
    b_how: tl.constexpr, dtype: tl.constexpr, lanes: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    part = tl.program_id(0).to(tl.int64)
    columns = (tl.program_id(1) * block + tl.arange(0, block))[None, :]
    inside = columns < wide
    row, slot = tl.load(rows + part).to(tl.int64), tl.load(slots + part).to(tl.int64)
    p, stop = tl.load(starts + part).to(tl.int64), tl.load(stops + part).to(tl.int64)
    total = tl.zeros([lanes, block], dtype)
    while p < stop:
        entry = p + tl.arange(0, lanes)[:, None]
        live = entry < stop
        other = tl.load(indices + entry, mask=live, other=0).to(tl.int64)
        if numbered:
            edge = tl.load(edges + entry, mask=live, other=0).to(tl.int64)
        else:
            edge = tl.where(live, entry, 0)
        mask = live & inside
        value = _messages(
            a, b, _pick(a_end, other, row, edge) * a_wide, _pick(b_end, other, row, edge) * b_wide,
            a_table, b_table, columns, mask, live, reduced, a_div, b_div, op, summed, a_how, b_how,
            dtype,
        )  # fmt: skip
        total += tl.where(mask, value, 0)
        p += lanes
    result = tl.sum(total, 0)[None, :]
    whole = inside & (slot < 0)
    tl.store(out + row * wide + columns, result.to(out.dtype.element_ty), mask=whole)
    tl.store(partial + slot * wide + columns, result, mask=inside & (slot >= 0))


@triton.jit
def _each_edge(
    src, dst, a, b, out, a_table, b_table, a_wide, b_wide, wide, reduced, a_div, b_div, count,
    op: tl.constexpr, a_end: tl.constexpr, b_end: tl.constexpr, summed: tl.constexpr,
    a_how: tl.constexpr, b_how: tl.constexpr, dtype: tl.constexpr, lanes: tl.constexpr,
    block: tl.constexpr,
):  # fmt: skip
    edge = tl.program_id(0).to(tl.int64) * lanes + tl.arange(0, lanes)[:, None]
    columns = (tl.program_id(1) * block + tl.arange(0, block))[None, :]
    live = edge < count
    mask = live & (columns < wide)
    source, target = edge, edge
    if a_end == 0 or b_end == 0:
        source = tl.load(src + edge, mask=live, other=0).to(tl.int64)
    if a_end == 1 or b_end == 1:
        target = tl.load(dst + edge, mask=live, other=0).to(tl.int64)
    value = _messages(
        a, b, _pick(a_end, source, target, edge) * a_wide,
        _pick(b_end, source, target, edge) * b_wide, a_table, b_table, columns, mask, live, reduced,
        a_div, b_div, op, summed, a_how, b_how, dtype,
    )  # fmt: skip
    tl.store(out + edge * wide + columns, value.to(out.dtype.element_ty), mask=mask)


@triton.jit
def _dot_edges(
    src, dst, a, b, out, a_table, b_table, a_wide, b_wide, wide, reduced, a_div, b_div, count,
    op: tl.constexpr, a_end: tl.constexpr, b_end: tl.constexpr, a_how: tl.constexpr,
    b_how: tl.constexpr, dtype: tl.constexpr, lanes: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    edge = tl.program_id(0).to(tl.int64) * lanes + tl.arange(0, lanes)
    column, live = tl.program_id(1), edge < count
    source, target = edge, edge
    if a_end == 0 or b_end == 0:
        source = tl.load(src + edge, mask=live, other=0).to(tl.int64)
    if a_end == 1 or b_end == 1:
        target = tl.load(dst + edge, mask=live, other=0).to(tl.int64)
    a_rows = (_pick(a_end, source, target, edge) * a_wide)[:, None]
    b_rows = (_pick(b_end, source, target, edge) * b_wide)[:, None]
    total = tl.zeros([lanes, block], dtype)
    first = reduced * 0
    while first < reduced:
        within = (first + tl.arange(0, block))[None, :]
        mask = live[:, None] & (within < reduced)
        value = _message(
            a, b, a_rows, b_rows, a_table, b_table, column * reduced + within, mask,
            live[:, None], a_div, b_div, op, a_how, b_how, dtype,
        )  # fmt: skip
        total += tl.where(mask, value, 0)
        first += block
    result = tl.sum(total, 1)
    tl.store(out + edge * wide + column, result.to(out.dtype.element_ty), mask=live)


@triton.jit
def _extremes(
    rows, starts, stops, slots, indices, edges, a, b, found, out, chosen, partial, entries,
    a_table, b_table, a_wide, b_wide, wide, reduced, a_div, b_div, op: tl.constexpr,
    a_end: tl.constexpr, b_end: tl.constexpr, numbered: tl.constexpr, summed: tl.constexpr,
    a_how: tl.constexpr, b_how: tl.constexpr, least: tl.constexpr, is_second: tl.constexpr,
    dtype: tl.constexpr, lanes: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    part = tl.program_id(0).to(tl.int64)
    columns = (tl.program_id(1) * block + tl.arange(0, block))[None, :]
    inside = columns < wide
    row, slot = tl.load(rows + part).to(tl.int64), tl.load(slots + part).to(tl.int64)
    p, stop = tl.load(starts + part).to(tl.int64), tl.load(stops + part).to(tl.int64)
    # Winners are numbers of entries within the part. Where all are the worst there is, the first
    # wins, which is entry 0; a message that is not a number beats all, and the last of these wins.
    first = p
    worst = float("inf") if least else float("-inf")
    best = tl.full([lanes, block], worst, dtype)
    winner = tl.full([lanes, block], -1, tl.int32)
    while p < stop:
        entry = p + tl.arange(0, lanes)[:, None]
        live = entry < stop
        mask = live & inside
        if is_second:  # the extremes of parts
            value = tl.load(a + entry * wide + columns, mask=mask, other=0)
        else:
            other = tl.load(indices + entry, mask=live, other=0).to(tl.int64)
            if numbered:
                edge = tl.load(edges + entry, mask=live, other=0).to(tl.int64)
            else:
                edge = tl.where(live, entry, 0)
            value = _messages(
                a, b, _pick(a_end, other, row, edge) * a_wide,
                _pick(b_end, other, row, edge) * b_wide, a_table, b_table, columns, mask, live,
                reduced, a_div, b_div, op, summed, a_how, b_how, dtype,
            )  # fmt: skip
        value = tl.where(mask, value, worst)
        if least:
            better = (value < best) | (value != value)
        else:
            better = (value > best) | (value != value)
        best = tl.where(better, value, best)
        winner = tl.where(better, (entry - first).to(tl.int32), winner)
        p += lanes
    is_none = best != best
    if least:
        extreme = tl.min(tl.where(is_none, worst, best), 0)[None, :]
    else:
        extreme = tl.max(tl.where(is_none, worst, best), 0)[None, :]
    far = 2147483647
    last_none = tl.max(tl.where(is_none, winner, -1), 0)[None, :]
    first_best = tl.min(tl.where((winner >= 0) & (best == extreme), winner, far), 0)[None, :]
    within = tl.where(last_none >= 0, last_none, tl.where(first_best == far, 0, first_best))
    value = tl.where(last_none >= 0, float("nan"), extreme)
    is_empty = first == stop
    value = tl.where(is_empty, 0, value).to(dtype)
    whole = inside & (slot < 0)
    taken = first + within
    if is_second:  # the entry that the part's extreme came from
        taken = tl.load(found + taken * wide + columns, mask=inside, other=0)
    edge = taken
    if numbered:
        edge = tl.load(edges + taken, mask=whole & (first < stop), other=0).to(tl.int64)
    edge = tl.where(is_empty, -1, edge)
    tl.store(out + row * wide + columns, value.to(out.dtype.element_ty), mask=whole)
    tl.store(chosen + row * wide + columns, edge, mask=whole)
    tl.store(partial + slot * wide + columns, value, mask=inside & (slot >= 0))
    tl.store(entries + slot * wide + columns, taken, mask=inside & (slot >= 0))


def contract(
    relation: Relation, op: str, a: Tensor, a_end: str, b: Tensor | None, b_end: str,
    out_end: str, out_shape: Shape,
) -> Tensor:  # fmt: skip
    """Sum over edges at a node, or one result for each edge."""
    rows = {"u": relation.num_src, "v": relation.num_dst, "e": relation.num_edges}[out_end]
    work = _Work(op, a, b, out_shape)
    if not relation.num_edges or not work.wide or not rows:
        return a.new_zeros((rows, *out_shape))
    out = a.new_empty((rows, *out_shape))
    if out_end == "e":
        _launch_edges(relation, work, a_end, b_end, out)
        return out
    form = relation.csr if out_end == "u" else relation.csc
    ends = {out_end: 1, "v" if out_end == "u" else "u": 0, "e": 2}
    parts = _parts(form)
    partial = out.new_empty((max(parts.num_partial, 1), work.wide), dtype=work.torch_dtype)
    _launch_sum(form, parts.first, work, out, partial, ends[a_end], ends[b_end])
    if parts.second is not None:
        again = _Work("copy", partial, None, (work.wide,))
        form = Compressed(parts.second.starts, parts.order)
        _launch_sum(form, parts.second, again, out, partial, 0, 0)
    return out


def extreme(
    relation: Relation, op: str, a: Tensor, a_end: str, b: Tensor | None, b_end: str,
    least: bool, out_shape: Shape,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The largest or least message into each destination, and its edge; 0 and -1 without edges."""
    work = _Work(op, a, b, out_shape)
    if not relation.num_edges or not work.wide or not relation.num_dst:
        none = a.new_zeros((relation.num_dst, *out_shape))
        return none, torch.full(none.shape, -1, dtype=torch.int64, device=a.device)
    out = a.new_empty((relation.num_dst, *out_shape))
    chosen = torch.empty(out.shape, dtype=torch.int64, device=a.device)
    form, ends, parts = relation.csc, {"u": 0, "v": 1, "e": 2}, _parts(relation.csc)
    size = (max(parts.num_partial, 1), work.wide)
    partial = out.new_empty(size, dtype=work.torch_dtype)
    entries = torch.empty(size, dtype=torch.int64, device=a.device)
    edges = form.indices if form.edge_ids is None else form.edge_ids

    def go(spans: _Spans, work: _Work, is_second: bool) -> None:
        lanes, block = _tile(work.wide, spans.entries_each)
        kernel: Any = _extremes[(len(spans.rows), triton.cdiv(work.wide, block))]
        kernel(
            spans.rows, spans.starts, spans.stops, spans.slots, form.indices, edges, work.a,
            work.b, entries, out, chosen, partial, entries, *work.places, **work.how,
            a_end=ends[a_end], b_end=ends[b_end], numbered=form.edge_ids is not None, least=least,
            is_second=is_second, lanes=lanes, block=block, num_warps=_warps(lanes * block),
            summed=work.reduced > 1,
        )  # fmt: skip

    go(parts.first, work, False)
    if parts.second is not None:
        go(parts.second, _Work("copy", partial, None, (work.wide,)), True)
    return out, chosen


class _Work:
    """The operands of a kernel, and what meets where."""

    def __init__(self, op: str, a: Tensor, b: Tensor | None, out_shape: Shape) -> None:
        self.a = a.contiguous()
        self.b = self.a if b is None else b.contiguous()
        self.wide = prod(out_shape)
        shapes = tuple(self.a.shape[1:]), tuple(self.b.shape[1:])
        met = _meeting(*shapes, out_shape, a.device)
        self.reduced = met.reduced
        sizes = (prod(shapes[0]), prod(shapes[1]), self.wide, self.reduced)
        self.places = (*met.tables, *sizes, *met.divs)
        double = a.dtype == torch.float64
        self.torch_dtype = torch.float64 if double else torch.float32
        self.how = {
            "op": _OPS[op], "a_how": met.hows[0], "b_how": met.hows[1],
            "dtype": tl.float64 if double else tl.float32,
        }  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Meeting:
    """For each operand how its numbers are found: `how`, the divisor, the table."""

    reduced: int
    hows: tuple[int, int]
    divs: tuple[int, int]
    tables: tuple[Tensor, Tensor]


@lru_cache(maxsize=256)
def _meeting(a: Shape, b: Shape, out: Shape, device: torch.device) -> _Meeting:
    first, second, reduced = reduction_tables(a, b, out)
    hows, divs, tables = [], [], []
    for table, shape in ((first, a), (second, b)):
        every, div = np.arange(len(table)), max(len(table) // max(prod(shape), 1), 1)
        same, runs = bool((table == every).all()), bool((table == every // div).all())
        one = prod(shape) == 1
        hows.append(_ONE if one else _SAME if same else _RUNS if runs else _TABLE)
        divs.append(div)
        is_needed = hows[-1] == _TABLE
        tables.append(torch.from_numpy(table if is_needed else table[:1].copy()).to(device))
    return _Meeting(reduced, (hows[0], hows[1]), (divs[0], divs[1]), (tables[0], tables[1]))


@dataclass(frozen=True, slots=True, eq=False)
class _Spans:
    """Entries for each program: its row, first and last entry, and where its result goes.

    That is row `rows` of the result or, from 0 upwards, `slots` of the partial results.
    """

    rows: Tensor
    starts: Tensor
    stops: Tensor
    slots: Tensor
    entries_each: float


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """Rows in parts; the second spans add up the partial results of rows that have several."""

    size: int
    first: _Spans
    second: _Spans | None
    num_partial: int
    order: Tensor


_KEPT: WeakKeyDictionary[Compressed, _Parts] = WeakKeyDictionary()


def _parts(form: Compressed) -> _Parts:
    """The parts of a form's rows, kept as long as it is."""
    kept = _KEPT.get(form)
    if kept is not None and kept.size == PART:
        return kept
    begins, device = form.indptr.long(), form.indptr.device
    counts = ((begins.diff() + PART - 1) // PART).clamp(min=1)
    firsts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    rows = torch.repeat_interleave(torch.arange(len(counts), device=device), counts)
    starts = begins[rows] + (torch.arange(len(rows), device=device) - firsts[rows]) * PART
    stops = torch.minimum(starts + PART, begins[rows + 1])
    shared = counts[rows] > 1
    slots = torch.where(shared, shared.cumsum(0) - 1, -1)
    num_partial = int(shared.sum())
    first = _Spans(rows, starts, stops, slots, len(form.indices) / len(rows))
    second = None
    if num_partial:
        hubs = (counts > 1).nonzero().flatten()
        ends = counts[hubs].cumsum(0)
        begin = ends - counts[hubs]
        second = _Spans(hubs, begin, ends, torch.full_like(hubs, -1), num_partial / len(hubs))
    order = torch.arange(num_partial, device=device)
    made = _KEPT[form] = _Parts(PART, first, second, num_partial, order)
    return made


def _launch_sum(
    form: Compressed, spans: _Spans, work: _Work, out: Tensor, partial: Tensor, a_end: int,
    b_end: int,
) -> None:  # fmt: skip
    lanes, block = _tile(work.wide, spans.entries_each)
    kernel: Any = _sum_parts[(len(spans.rows), triton.cdiv(work.wide, block))]
    edges = form.indices if form.edge_ids is None else form.edge_ids
    kernel(
        spans.rows, spans.starts, spans.stops, spans.slots, form.indices, edges, work.a, work.b,
        out, partial, *work.places, **work.how, a_end=a_end, b_end=b_end,
        numbered=form.edge_ids is not None, summed=work.reduced > 1, lanes=lanes, block=block,
        num_warps=_warps(lanes * block),
    )  # fmt: skip


def _launch_edges(relation: Relation, work: _Work, a_end: str, b_end: str, out: Tensor) -> None:
    (src, dst), count, ends = relation.coo, len(out), {"u": 0, "v": 1, "e": 2}
    common = {**work.how, "a_end": ends[a_end], "b_end": ends[b_end]}
    if work.reduced >= 4:
        lanes, block = _tile(work.reduced, _TILE)
        dots: Any = _dot_edges[(triton.cdiv(count, lanes), work.wide)]
        dots(
            src, dst, work.a, work.b, out, *work.places, count, **common, lanes=lanes,
            block=block, num_warps=_warps(lanes * block),
        )  # fmt: skip
        return
    lanes, block = _tile(work.wide, _TILE)
    kernel: Any = _each_edge[(triton.cdiv(count, lanes), triton.cdiv(work.wide, block))]
    kernel(
        src, dst, work.a, work.b, out, *work.places, count, **common, summed=work.reduced > 1,
        lanes=lanes, block=block, num_warps=_warps(lanes * block),
    )  # fmt: skip


def _tile(wide: int, entries: float) -> tuple[int, int]:
    """Lanes and columns of a program: as many lanes as there are entries, and as fit."""
    block = min(128, max(4, int(triton.next_power_of_2(wide))))
    wanted = int(triton.next_power_of_2(max(int(entries), 1)))
    return min(_TILE // block, max(wanted, 4)), block


def _warps(numbers: int) -> int:
    return max(1, min(4, numbers // 256))
